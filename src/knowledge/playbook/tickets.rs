//! Forms for tickets to a vendor or another team: `tickets/<id>.yaml`, the fields and the report sections for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The ticket form of one receiver.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    /// Its id, same as the file name.
    pub ticket: String,
    /// The format's version: 1.
    pub schema: u32,
    /// The receiver: `vLLM, as an issue on GitHub`.
    pub title: String,
    /// The URL for filing; unset if every site has its own.
    pub address: Option<String>,
    /// The engines, one of which must be found; any if empty.
    #[serde(default)]
    pub engines: Vec<String>,
    /// The causes that it is for; any if empty.
    #[serde(default)]
    pub causes: Vec<String>,
    /// True if it is also for incidents without a known cause.
    #[serde(default)]
    pub unknown: bool,
    /// True for a form that stays inside: it shows the notes of colleagues, and no bundle holds it unless it is named.
    #[serde(default)]
    pub internal: bool,
    /// Instructions before it is sent, in sentences.
    #[serde(default)]
    pub before: Vec<String>,
    /// The fields of the form, in its order.
    pub fields: Vec<TicketField>,
    /// Sources of the form.
    pub source: Vec<String>,
}

/// A field of a form.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TicketField {
    /// The name in the form.
    pub name: String,
    /// The sections of the report that fill it.
    #[serde(default)]
    pub holds: Vec<Section>,
    /// Information that only a person on site can add: a command to run, a question.
    pub add: Option<String>,
}

/// A section of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// The summary: symptom, impact, start, cause.
    Summary,
    /// The causal chain with the numbers that decided.
    Chain,
    /// All checks, ruled-out causes, missing data, and the queries.
    Evidence,
    /// The recommended actions.
    Fixes,
    /// Expected and actual behaviour, the start, and changes.
    Goal,
    /// Model and engine arguments.
    Model,
    /// GPUs, interconnect, nodes.
    Hardware,
    /// Metrics before, during and after.
    Metrics,
    /// Lengths of requests and load.
    Workload,
    /// The tenants who sent the load, and whose requests failed.
    Tenants,
    /// The deployment.
    Deployment,
    /// Versions.
    Versions,
    /// The timeline.
    Timeline,
    /// The findings in logs.
    Logs,
    /// Replicas, nodes, GPUs.
    Topology,
    /// The alerts and their rules.
    Alerts,
    /// Open questions, and how to answer them.
    Open,
    /// The parts of the bundle.
    Parts,
    /// The redacted information.
    Redacted,
}
