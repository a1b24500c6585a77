//! The tools about incidents. Everything of an incident is cleaned before a text is made of it.

use serde_json::json;

use super::arguments::IncidentArguments;
use super::tool_answer::{ToolAnswer, told};
use super::{McpSources, resources, said};
use chat::named_id;
use knowledge::clock;
use notify::stored_view;
use report::SourceFindings;
use service::Subject;
use service::questions::{IncidentDetail, IncidentQuestion, IncidentSummaries, IncidentSummary, QuestionError};
use store::{Incident, Store};

/// The number of incidents in a list unless another is asked for.
const LISTED: u32 = 10;
/// Maximum number of log entries of an incident.
const EVENTS: u32 = 500;

fn store(sources: &McpSources) -> Result<&Store, String> {
    sources.store.as_ref().ok_or_else(|| "there is no store of incidents here".to_owned())
}

/// Lists incidents.
pub(super) async fn list(sources: &McpSources, asked: &IncidentQuestion) -> Result<ToolAnswer, String> {
    let listed = sources.fleet().incidents(store(sources)?, asked, LISTED).await.map_err(said)?;
    let IncidentSummaries { incidents, looked_at, next } = listed;
    let mut text = match incidents.as_slice() {
        [] => format!("no incident among the {looked_at} that were looked at\n"),
        incidents => {
            format!("{} incidents, newest first\n", incidents.len()) + &incidents.iter().map(line).collect::<String>()
        }
    };
    if let Some(next) = &next {
        text.push_str(&format!("there are more: cursor {next}\n"));
    }
    let newest = incidents.first().map(|first| format!("get_incident with incident `{}`", first.id));
    let older = next.as_ref().map(|next| format!("list_incidents with cursor `{next}` for older ones"));
    Ok(ToolAnswer::new(
        &text,
        newest.into_iter().chain(older).collect(),
        &json!({ "incidents": incidents, "next": next }),
    ))
}

/// Returns an incident.
pub(super) async fn get(sources: &McpSources, asked: IncidentArguments) -> Result<ToolAnswer, String> {
    let incident = find(sources, &asked.incident).await?;
    let (summary, incident) = sources.fleet().cleaned_incident(&incident).await.map_err(said)?;
    let message = render::incident_message(&stored_view(&incident), &sources.words);
    let (text, next) = told(&message, Some(format!("summarize_bundle with incident `{}`", incident.id)));
    let resource = resources::of_incident(&incident.id);
    let mut answer = ToolAnswer::new(&text, next, &IncidentDetail::of(summary, incident));
    answer.resource = Some(resource);
    Ok(answer)
}

/// Returns the report of an incident from the store, as in its bundles.
pub(super) async fn summarize(sources: &McpSources, asked: IncidentArguments) -> Result<ToolAnswer, String> {
    let incident = find(sources, &asked.incident).await?;
    let events = store(sources)?.events(&incident.id, EVENTS).await.map_err(said)?;
    let (id, now, config) = (incident.id.clone(), clock::now(), &sources.config);
    let redactor = sources.redactor.another(&sources.library.redaction, false);
    let headline = render::incident_message(&stored_view(&incident), &sources.words).headline;
    let subject = Subject::of_incident(
        &sources.library,
        incident,
        headline,
        &events,
        &config.diagnose,
        config.bundle.margin,
        now,
    );
    let report = report::build(subject.about(), SourceFindings::default(), now);
    redactor.learn_from(&report);
    let report = redactor.cleaned("summary.json", &report).map_err(|error| said(QuestionError::unclean(&error)))?;
    let mut text = render::report_markdown(&report, &sources.words);
    text += &bundles(sources, &id);
    let next = vec![format!("get_incident with incident `{id}` tells what to do now")];
    let mut answer = ToolAnswer::new(&text, next, &report);
    answer.resource = Some(resources::of_incident(&id));
    Ok(answer)
}

/// Names the bundles of an incident that are stored here; who fetches one is authenticated and audited there.
fn bundles(sources: &McpSources, id: &str) -> String {
    let stored = sources.bundles.as_ref().and_then(|bundles| bundles.directory.list(Some(id)).ok()).unwrap_or_default();
    stored.iter().map(|bundle| format!("bundle: /bundles/{} ({} bytes)\n", bundle.name, bundle.bytes)).collect()
}

fn line(summary: &IncidentSummary) -> String {
    let state = if summary.open { "open" } else { "resolved" };
    format!("{}  {state}  {:.0}  {}\n", summary.id, summary.opened_at, summary.headline)
}

/// Finds an incident by its id or a part of it.
async fn find(sources: &McpSources, named: &str) -> Result<Incident, String> {
    let store = store(sources)?;
    let ids = named_id(store, named).await.map_err(said)?;
    let id = match ids.as_slice() {
        [one] => one,
        // Older than what a part of an id finds.
        [] => named,
        several => return Err(format!("`{named}` may be {}: name one of them", several.join(", "))),
    };
    let incident = store.incident(id).await.map_err(said)?;
    incident.ok_or_else(|| format!("there is no incident `{named}`: list_incidents lists them"))
}
