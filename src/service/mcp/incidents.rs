//! The tools about incidents. Everything of an incident is cleaned before a text is made of it.

use serde_json::json;

use super::arguments::{IncidentArguments, ListArguments};
use super::tools::ToolAnswer;
use super::{McpSources, resources};
use crate::bundle::{Subject, clean};
use crate::chatops::named_id;
use crate::inquiry::{IncidentDetail, IncidentPage, IncidentSummary, cursor_after, read_cursor, read_since, search};
use crate::notify::{cleaned_incident, stored_view};
use knowledge::clock;
use render::IncidentFilter;
use report::SourceFindings;
use store::{Incident, IncidentQuery, Store, StoreError};

/// The number of incidents in a list unless another is asked for, and the largest.
const LISTED: [u32; 2] = [10, 50];
/// Maximum number of log entries of an incident.
const EVENTS: u32 = 500;

fn store(sources: &McpSources) -> Result<&Store, String> {
    sources.store.as_ref().ok_or_else(|| "there is no store of incidents here".to_owned())
}

fn unreadable(error: StoreError) -> String {
    tracing::error!(%error, "cannot read incidents");
    "the store cannot be read".to_owned()
}

/// Lists incidents.
pub(super) async fn list(sources: &McpSources, wanted: ListArguments) -> Result<ToolAnswer, String> {
    let ListArguments { limit, cursor, q, state, severity, since } = wanted;
    let limit = limit.unwrap_or(LISTED[0]);
    if !(1..=LISTED[1]).contains(&limit) {
        return Err(format!("limit: expected a number from 1 to {}", LISTED[1]));
    }
    let before = cursor.as_deref().map(read_cursor).transpose().map_err(|why| format!("cursor: {why}"))?;
    let since = since
        .as_deref()
        .map(|since| read_since(since, clock::now()))
        .transpose()
        .map_err(|why| format!("since: {why}"))?;
    let query = IncidentQuery { state, since, severity, before: before.unwrap_or_default() };
    let find = IncidentFilter { q: q.unwrap_or_default(), ..IncidentFilter::default() };
    let found = search(store(sources)?, &sources.words, &query, &find, limit).await.map_err(unreadable)?;
    let IncidentPage { incidents, next, looked_at } = found;
    let mut summaries = Vec::new();
    for incident in &incidents {
        summaries.push(summary(sources, incident).await.0);
    }
    let next = next.as_deref().map(cursor_after);
    let mut text = match summaries.as_slice() {
        [] => format!("no incident among the {looked_at} that were looked at\n"),
        summaries => summaries.iter().map(line).collect(),
    };
    if let Some(next) = &next {
        text.push_str(&format!("there are more: cursor {next}\n"));
    }
    Ok(ToolAnswer::new(&text, &json!({ "incidents": summaries, "next": next })))
}

/// Returns an incident.
pub(super) async fn get(sources: &McpSources, asked: IncidentArguments) -> Result<ToolAnswer, String> {
    let incident = find(sources, &asked.incident).await?;
    let (summary, incident) = summary(sources, &incident).await;
    let message = render::incident_message(&stored_view(&incident), &sources.words);
    let text = render::terminal(&render::short(&message));
    let id = incident.id.clone();
    let mut answer = ToolAnswer::new(&text, &IncidentDetail::of(summary, incident));
    answer.resource = Some(resources::of_incident(&id));
    Ok(answer)
}

/// Returns the report of an incident, as it stands in its bundles, from what is stored.
pub(super) async fn summarize(sources: &McpSources, asked: IncidentArguments) -> Result<ToolAnswer, String> {
    let incident = find(sources, &asked.incident).await?;
    let events = store(sources)?.events(&incident.id, EVENTS).await.map_err(unreadable)?;
    let (id, now, config) = (incident.id.clone(), clock::now(), &sources.config);
    let redactor = sources.redactor.another(&sources.library.redaction, false);
    let headline = render::incident_message(&stored_view(&incident), &sources.words).headline;
    let subject = Subject::of_incident(incident, headline, &events, &config.diagnose, config.bundle.margin, now);
    let report = report::build(subject.about(), SourceFindings::default(), now);
    redactor.learn_from(&report);
    let report = clean(&report, &redactor).map_err(|error| error.to_string())?;
    let mut text = bundles(sources, &id);
    text.push_str(&render::report_markdown(&report, &sources.words));
    let mut answer = ToolAnswer::new(&text, &report);
    answer.resource = Some(resources::of_incident(&id));
    Ok(answer)
}

/// Names the bundles of an incident that are stored here; who fetches one is authenticated and audited there.
fn bundles(sources: &McpSources, id: &str) -> String {
    let stored = sources.bundles.as_ref().and_then(|bundles| bundles.directory.list(Some(id)).ok()).unwrap_or_default();
    stored.iter().map(|bundle| format!("bundle: /bundles/{} ({} bytes)\n", bundle.name, bundle.bytes)).collect()
}

/// Returns a summary and the incident, both without secrets.
pub(super) async fn summary(sources: &McpSources, incident: &Incident) -> (IncidentSummary, Incident) {
    let redactor = sources.redactor.another(&sources.library.redaction, false);
    let mut incident = cleaned_incident(&redactor, incident).await;
    incident.group_key = redactor.text("incident", &incident.group_key).into_owned();
    let headline = render::incident_message(&stored_view(&incident), &sources.words).headline;
    (IncidentSummary::of(&incident, headline, clock::now()), incident)
}

fn line(summary: &IncidentSummary) -> String {
    let state = if summary.open { "open" } else { "resolved" };
    format!("{}  {state}  {:.0}  {}\n", summary.id, summary.opened_at, summary.headline)
}

/// Finds an incident by its id or a part of it.
async fn find(sources: &McpSources, named: &str) -> Result<Incident, String> {
    let store = store(sources)?;
    let ids = named_id(store, named).await.map_err(unreadable)?;
    let id = match ids.as_slice() {
        [one] => one,
        // Older than what a part of an id finds.
        [] => named,
        several => return Err(format!("`{named}` may be {}: name one of them", several.join(", "))),
    };
    let incident = store.incident(id).await.map_err(unreadable)?;
    incident.ok_or_else(|| format!("there is no incident `{named}`: list_incidents lists them"))
}
