//! The tools: one table for their list and for calls.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::arguments::{ExplainArguments, IncidentArguments};
use super::tool_answer::{FULL, ToolAnswer, told};
use super::{McpSources, incidents, resources, said};
use findings::health::Health;
use knowledge::clock;
use knowledge::signal::format_value;
use service::questions::{
    DiagnosisQuestion, HealthDetail, HealthQuestion, IncidentQuestion, PoolQuestion, SignalAnswer, SignalQuestion,
};

/// Maximum number of replicas in the text of a signal.
const REPLICAS: usize = 8;

/// A tool.
pub(super) struct McpTool {
    id: ToolId,
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    arguments: fn() -> Schema,
    needs_store: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolId {
    Diagnose,
    ScreenPool,
    GetHealth,
    QuerySignal,
    Explain,
    ListIncidents,
    GetIncident,
    SummarizeBundle,
}

const TOOLS: [McpTool; 8] = [
    McpTool {
        id: ToolId::Diagnose,
        name: "diagnose",
        title: "Diagnose a pool",
        description: "Why a pool of an LLM serving fleet is slow or failing: the confirmed symptom, the likely root cause with \
                      its evidence, what was ruled out, and what to do now. Takes seconds. Name the pool by a part of its name \
                      or by labels; with `playbook` a named symptom is judged instead of the clearest one.",
        arguments: schema::<DiagnosisQuestion>,
        needs_store: false,
    },
    McpTool {
        id: ToolId::ScreenPool,
        name: "screen_pool",
        title: "Screen a pool",
        description: "All health checks of one pool with their numbers, against the thresholds of the alert rules.",
        arguments: schema::<PoolQuestion>,
        needs_store: false,
    },
    McpTool {
        id: ToolId::GetHealth,
        name: "get_health",
        title: "Health of the fleet",
        description: "Every pool at a glance: healthy, warning, critical or unknown, with the checks that are not well.",
        arguments: schema::<HealthQuestion>,
        needs_store: false,
    },
    McpTool {
        id: ToolId::QuerySignal,
        name: "query_signal",
        title: "Query a signal",
        description: "The value of one signal of a pool and of its replicas, with the PromQL that gave it.",
        arguments: schema::<SignalQuestion>,
        needs_store: false,
    },
    McpTool {
        id: ToolId::Explain,
        name: "explain",
        title: "Explain",
        description: "What a playbook, cause, signal, engine, engine flag, Xid, status of LiteLLM or line of a log means, and \
                      what to do about it.",
        arguments: schema::<ExplainArguments>,
        needs_store: false,
    },
    McpTool {
        id: ToolId::ListIncidents,
        name: "list_incidents",
        title: "List incidents",
        description: "Incidents, newest first, with state, symptom, pool and cause. `next` continues the list.",
        arguments: schema::<IncidentQuestion>,
        needs_store: true,
    },
    McpTool {
        id: ToolId::GetIncident,
        name: "get_incident",
        title: "Get an incident",
        description: "An incident: its alerts and its newest diagnosis.",
        arguments: schema::<IncidentArguments>,
        needs_store: true,
    },
    McpTool {
        id: ToolId::SummarizeBundle,
        name: "summarize_bundle",
        title: "Summarize an incident's bundle",
        description: "The report of an incident for somebody who takes over: answers to the usual questions, timeline, \
                      evidence, what is open; and the bundles that there are.",
        arguments: schema::<IncidentArguments>,
        needs_store: true,
    },
];

/// Returns the JSON schema of arguments, without references: not every client resolves them.
fn schema<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>()
}

fn available(has_store: bool) -> impl Iterator<Item = &'static McpTool> {
    TOOLS.iter().filter(move |tool| has_store || !tool.needs_store)
}

/// Returns the tools for the list.
pub(super) fn listed(has_store: bool) -> Vec<Tool> {
    let listed = available(has_store).map(|tool| {
        let schema = (tool.arguments)().to_value();
        let mut schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            let about = "True for the complete data, up to some hundred kilobytes, instead of an answer of 2 kB.";
            properties.insert(FULL.to_owned(), json!({ "type": "boolean", "default": false, "description": about }));
        }
        let hints = ToolAnnotations::with_title(tool.title).read_only(true).destructive(false).idempotent(true);
        let mut listed =
            Tool::new(tool.name, tool.description, Arc::new(schema)).with_annotations(hints.open_world(false));
        listed.title = Some(tool.title.to_owned());
        listed
    });
    listed.collect()
}

/// Returns the tool with a name.
pub(super) fn named(name: &str, has_store: bool) -> Option<&'static McpTool> {
    available(has_store).find(|tool| tool.name == name)
}

/// Calls a tool; the error is a sentence for the model.
pub(super) async fn call(sources: &McpSources, tool: &McpTool, arguments: JsonObject) -> Result<ToolAnswer, String> {
    let (fleet, now) = (sources.fleet(), clock::now());
    match tool.id {
        ToolId::Diagnose => {
            let answer = fleet.diagnose(&read::<DiagnosisQuestion>(arguments)?, now).await.map_err(said)?;
            let (text, next) = match (&answer.diagnosis, &answer.health) {
                (Some(diagnosis), _) => {
                    let root = diagnosis.root().map(|root| explain(&root.id));
                    told(&render::diagnosis_message(diagnosis, None, fleet.words), root)
                }
                (None, Some(health)) => {
                    (format!("{}\n\n{}", answer.headline, render::health(health, &[], fleet.words)), Vec::new())
                }
                (None, None) => (answer.headline.clone(), Vec::new()),
            };
            Ok(ToolAnswer::new(&text, next, &answer))
        }
        ToolId::ScreenPool => {
            let health = fleet.screen(read(arguments)?, now).await.map_err(said)?;
            let shown = if health.state.is_wrong() { health.summary() } else { health.clone() };
            Ok(ToolAnswer::new(&render::health(&shown, &[], fleet.words), worst(&health), &health))
        }
        ToolId::GetHealth => {
            let question: HealthQuestion = read(arguments)?;
            let health = fleet.health(question.scope(), now).await.map_err(said)?;
            let (text, next) = (render::health(&health, &[], fleet.words), worst(&health));
            Ok(match question.detail {
                HealthDetail::Summary => ToolAnswer::new(&text, next, &health.summary()),
                HealthDetail::Full => ToolAnswer::new(&text, next, &health),
            })
        }
        ToolId::QuerySignal => {
            let answer = fleet.signal(read(arguments)?, now).await.map_err(said)?;
            let next = format!("explain with id `signal` and name `{}` tells what it means", answer.signal);
            Ok(ToolAnswer::new(&values(&answer), vec![next], &answer))
        }
        ToolId::Explain => {
            let ExplainArguments { id, name } = read(arguments)?;
            let (id, name) = (&*id, name.as_deref());
            let text = authoring::explain::explain(fleet.library, id, name)?;
            let whole = anstream::adapter::strip_str(&text).to_string();
            let data = json!({ "id": id, "name": name, "text": whole });
            let mut answer = ToolAnswer::new(&text, Vec::new(), &data);
            answer.resource = fleet.library.playbook(id).map(|playbook| resources::of_playbook(&playbook.playbook));
            Ok(answer)
        }
        ToolId::ListIncidents => incidents::list(sources, &read(arguments)?).await,
        ToolId::GetIncident => incidents::get(sources, read(arguments)?).await,
        ToolId::SummarizeBundle => incidents::summarize(sources, read(arguments)?).await,
    }
}

fn explain(id: &str) -> String {
    format!("explain with id `{id}` tells what it means and every step")
}

/// Returns the call that judges the worst pool.
fn worst(health: &Health) -> Vec<String> {
    let wrong = health.pools.iter().filter(|pool| pool.state.is_wrong());
    let worst = wrong.max_by_key(|pool| pool.state.weight());
    worst.map(|pool| format!("diagnose with labels {}", json!(pool.labels))).into_iter().collect()
}

/// Reads the arguments of a call.
fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, String> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| format!("wrong arguments: {error}"))
}

/// Formats the values of a signal.
fn values(answer: &SignalAnswer) -> String {
    let SignalAnswer { signal, title, unit, bad: _, pool, at, observed, problems } = answer;
    let pool: Vec<&str> = pool.values().map(String::as_str).collect();
    let value = match (observed.value, &observed.why) {
        (Some(value), _) => format_value(value, *unit),
        (None, Some(why)) => format!("no data: {why}"),
        (None, None) => "no data".to_owned(),
    };
    let mut lines = vec![format!("{title} ({signal}) of {} at {at:.0}: {value}", pool.join("/"))];
    lines.extend(observed.enable.iter().map(|enable| format!("to turn it on: {enable}")));
    let replicas = &observed.replicas;
    let shown = replicas.iter().take(REPLICAS).map(|r| format!("  {}: {}", r.name, format_value(r.value, *unit)));
    lines.extend(shown);
    if replicas.len() > REPLICAS {
        lines.push(format!("  and {} more replicas", replicas.len() - REPLICAS));
    }
    lines.extend(observed.query.iter().map(|query| format!("PromQL: {query}")));
    lines.extend(problems.iter().map(|problem| format!("problem: {problem}")));
    lines.join("\n")
}
