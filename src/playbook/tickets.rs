//! What whoever takes over wants to be told: `tickets/<id>.yaml`, the fields of their form and what of ours fills them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The form of one receiver.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    /// Its id, same as the file name.
    pub ticket: String,
    /// The format's version: 1.
    pub schema: u32,
    /// Whom it goes to: `vLLM, as an issue on GitHub`.
    pub title: String,
    /// Where it is filed; none where every site has its own.
    pub address: Option<String>,
    /// Only when one of these engines was found; whatever was found when empty.
    #[serde(default)]
    pub engines: Vec<String>,
    /// Only when the cause is one of these; whatever it is when empty.
    #[serde(default)]
    pub causes: Vec<String>,
    /// Also when no cause is known.
    #[serde(default)]
    pub unknown: bool,
    /// Before it is sent, in sentences.
    #[serde(default)]
    pub before: Vec<String>,
    /// The form, in its order.
    pub fields: Vec<TicketField>,
    /// Where the form was read.
    pub source: Vec<String>,
}

/// A field of a form.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TicketField {
    /// As the form calls it.
    pub name: String,
    /// What of the report stands there.
    #[serde(default)]
    pub holds: Vec<Section>,
    /// What only somebody there can add: a command to run, a question.
    pub add: Option<String>,
}

/// A section of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// What, who is hurt, since when, why.
    Summary,
    /// The links of the chain with the numbers that decided.
    Chain,
    /// Every check, what was ruled out, what could not be checked, and the queries.
    Evidence,
    /// What to do.
    Fixes,
    /// Expected and actual, since when, what changed.
    Goal,
    /// Model and engine arguments.
    Model,
    /// GPUs, interconnect, nodes.
    Hardware,
    /// Numbers before, during and after.
    Metrics,
    /// Lengths and load.
    Workload,
    /// How it is deployed.
    Deployment,
    /// Versions.
    Versions,
    /// What happened.
    Timeline,
    /// What logs say.
    Logs,
    /// Replicas, nodes, GPUs.
    Topology,
    /// The alerts and their rules.
    Alerts,
    /// What could not be answered, and how to find out.
    Open,
    /// The parts of the bundle.
    Parts,
    /// What was taken out.
    Redacted,
}
