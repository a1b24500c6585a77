//! The report of an incident or of a pool: everything that a person who was not involved has to know, as one value.
//!
//! `summary.json` of a bundle is this value; the page, `report.md` and the tickets are rendered from it. Pure, except
//! [`facts`], which queries Prometheus. [`weekly`] is the report about a week.

mod answers;
mod build_report;
mod outcome;
mod redaction;
mod timeline;
pub mod weekly;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use findings::Diagnosis;
use knowledge::alert::Alert;
use knowledge::incident::{Acknowledged, Impact, Related};
use redact::RedactionCount;

pub use answers::{changed, moved};
pub use build_report::build;
use findings::facts::{Distribution, GpuInfo, Measured, ReplicaInfo, TimelineEvent, Version, Window};
use findings::{cluster, endpoint, facts};
pub use outcome::{FiringOutcome, MissingData, NamedCause, missing, named_cause, outcome};
pub use redaction::{redaction, redaction_of};
pub use timeline::{Logged, incident_timeline};

/// The version of `summary.json`; an incompatible change gets a new name.
pub const SCHEMA: &str = "llm-diagnose/report/v1";

/// Returns the JSON schema of `summary.json`.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Report)
}

/// The raw findings of all sources, before the report is built.
#[derive(Debug, Clone, Default)]
pub struct SourceFindings {
    /// The findings from Prometheus beyond the diagnosis.
    pub facts: Option<facts::PrometheusFacts>,
    /// The answers of the engines' endpoints, each with the parsed values.
    pub endpoints: Vec<(endpoint::EndpointAnswer, endpoint::EndpointInfo)>,
    /// The findings from the cluster's API.
    pub kubernetes: Option<cluster::ClusterSnapshot>,
    /// The logs, each with its analysis.
    pub logs: Vec<(logs::Log, logs::LogAnalysis)>,
}

/// The report of an incident or a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The time of creation.
    pub made_at: Timestamp,
    /// The version of llm-diagnose.
    pub version: String,
    /// The time window that it covers.
    pub window: Window,
    /// The first sentence: the problem, its impact and its cause.
    pub headline: String,
    /// The incident; `null` for a pool without an incident.
    pub incident: Option<ReportIncident>,
    /// The alerts.
    pub alerts: Vec<Alert>,
    /// The diagnosis with its evidence.
    pub diagnosis: Option<Diagnosis>,
    /// The parameters of the diagnosis request, so that it can be repeated.
    pub asked: DiagnosisParameters,
    /// The answers to the seven questions that serving engineers ask.
    pub answers: Answers,
    /// The events, oldest first.
    pub timeline: Vec<TimelineEvent>,
    /// The logs with their findings.
    pub logs: Vec<AnalyzedLog>,
    /// The replicas with the nodes they run on.
    pub topology: Vec<ReplicaInfo>,
    /// The alerting rules of the pool.
    pub rules: Vec<facts::Rule>,
    /// True if every part is complete.
    pub complete: bool,
    /// The parts, each with its failures.
    pub parts: Vec<ReportPart>,
    /// The redacted secrets, by file.
    pub redacted: Vec<RedactionCount>,
}

/// The subject of a report.
#[derive(Debug, Clone)]
pub struct ReportSubject<'a> {
    /// The first sentence of the report.
    pub headline: &'a str,
    /// The incident.
    pub incident: Option<ReportIncident>,
    /// Its alerts.
    pub alerts: &'a [Alert],
    /// The diagnosis.
    pub diagnosis: Option<&'a Diagnosis>,
    /// The parameters of the diagnosis request.
    pub asked: DiagnosisParameters,
    /// The time window.
    pub window: Window,
    /// Events known from the store.
    pub happened: &'a [TimelineEvent],
}

/// Parameters of a diagnosis request that are not in the diagnosis.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosisParameters {
    /// The start of the incident.
    pub since: Option<Timestamp>,
    /// Offset of the baseline into the past, in seconds; `null` without a comparison with the past.
    pub baseline_seconds: Option<u64>,
}

/// The state and history of an incident.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportIncident {
    /// Its id.
    pub id: String,
    /// Alertmanager's group key.
    pub group_key: String,
    /// True while an alert is firing.
    pub open: bool,
    /// The playbook that its alerts select; `null` if the pool is screened instead.
    pub playbook: Option<String>,
    /// The reason for that playbook, or for the screening; `null` if nothing is diagnosed.
    pub because: Option<String>,
    /// The start of the first alert.
    pub started_at: Timestamp,
    /// The time of the first notification.
    pub opened_at: Timestamp,
    /// The time of its resolution.
    pub resolved_at: Option<Timestamp>,
    /// Number of times that it fired again.
    pub refired: u32,
    /// Number of alerts that Alertmanager omitted.
    pub truncated: u64,
    /// Number of other incidents of the same group within the day before.
    pub seen_before: u32,
    /// The external URL of Alertmanager; may be empty.
    pub external_url: String,
    /// The acknowledgement.
    pub acknowledged: Option<Acknowledged>,
    /// The total impact, once the incident is resolved.
    pub impact: Option<Impact>,
    /// The last time that the same cause hit the same pool, and other open incidents of the pool or its nodes.
    pub related: Related,
}

/// The answers to the seven questions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answers {
    /// The model and the engine's arguments.
    pub model: ModelInfo,
    /// The hardware.
    pub hardware: Hardware,
    /// Metrics before, during and after the incident.
    pub metrics: Vec<Measured>,
    /// The workload.
    pub workload: Workload,
    /// The deployment mode.
    pub deployment: DeploymentInfo,
    /// The versions.
    pub versions: Vec<Version>,
    /// Expected and actual behaviour, since when, and the changes before it.
    pub goal: Goal,
    /// Unanswered questions, each with the way to find the answer, as a sentence.
    pub open: Vec<(Question, String)>,
}

/// One of the seven questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Model and engine arguments.
    Model,
    /// GPU type, count, interconnect.
    Hardware,
    /// Metrics.
    Metrics,
    /// Token lengths and request rates.
    Workload,
    /// Deployment mode.
    Deployment,
    /// Versions.
    Versions,
    /// Expected and actual behaviour.
    Goal,
}

/// The model and its configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelInfo {
    /// The served names.
    pub names: Vec<String>,
    /// The weights: a path or a model hub's id.
    pub weights: Vec<String>,
    /// The distinct command lines, each with the pods that use it and its source.
    pub arguments: Vec<Arguments>,
    /// Settings reported by the engine: `max_model_len`, `block_size`, `gpu_memory_utilization`.
    pub settings: BTreeMap<String, Vec<String>>,
}

/// A command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arguments {
    /// The words.
    pub words: Vec<String>,
    /// The pods that use it.
    pub of: Vec<String>,
    /// The source.
    pub source: String,
}

/// The hardware of the pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hardware {
    /// GPUs by kind.
    pub gpus: Vec<GpuInfo>,
    /// The interconnect between the GPUs.
    pub interconnect: Option<String>,
    /// Nodes, with the known properties of each: machine type, zone, GPUs.
    pub nodes: BTreeMap<String, Vec<String>>,
}

/// The requests that the pool gets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Prompt tokens per request (ISL).
    pub input: Option<Distribution>,
    /// Generated tokens per request (OSL).
    pub output: Option<Distribution>,
    /// The tenants who sent it, the largest first; empty if no gateway tells them apart.
    #[serde(default)]
    pub tenants: Vec<facts::TenantUse>,
    /// Arrival rate, concurrency and other measures of the load.
    pub load: Vec<Measured>,
}

/// The deployment of the pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeploymentInfo {
    /// `Deployment`, `LLMInferenceService`, `llm-d with disaggregated prefill`, `Dynamo graph`, …; empty if unknown.
    pub mode: String,
    /// The evidence for the mode.
    pub because: Vec<String>,
    /// The objects, `kind namespace/name`.
    pub objects: Vec<String>,
    /// The detected engines.
    pub engines: Vec<String>,
    /// Desired and ready replicas, if known.
    pub replicas: Option<(u32, u32)>,
}

/// Expected and actual behaviour.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Goal {
    /// The expectations, each with the actual value.
    pub expected: Vec<Expected>,
    /// The time since which they are not met.
    pub since: Option<Timestamp>,
    /// Changes before that time, as sentences.
    pub changed: Vec<String>,
}

/// An expectation with the actual value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expected {
    /// The title of the quantity.
    pub title: String,
    /// The objective, else the previous value: `promised: TTFT p99 < 1 s`, `before: 0.4 s`; `null` if neither is
    /// known.
    pub expected: Option<String>,
    /// The condition of the alert: `> 2 s`. It is a limit, not an objective.
    pub limit: String,
    /// The actual value.
    pub actual: String,
    /// The source of the threshold: the alert's rule, or a playbook.
    pub source: String,
}

/// A log with its analysis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnalyzedLog {
    /// The log's name.
    pub name: String,
    /// The file in the bundle; empty outside of a bundle.
    pub file: String,
    /// The findings.
    pub report: logs::LogAnalysis,
}

/// A part of a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportPart {
    /// Its name: `metrics`, `series`, `kubernetes`, `logs`.
    pub name: String,
    /// Its stage.
    pub stage: Stage,
    /// Its content, or the reason why it is missing, as a sentence.
    pub note: String,
    /// Its uncompressed size in bytes.
    pub bytes: u64,
    /// The time it took, in seconds.
    pub took_seconds: f64,
}

/// The stage of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Not started.
    Waiting,
    /// In progress.
    Running,
    /// Complete.
    Done,
    /// Incomplete: a limit was reached, or some of it failed.
    Partial,
    /// Failed, although its source is configured.
    Failed,
    /// Its source is not configured, or does not apply.
    Skipped,
}

impl Stage {
    /// Returns true if the stage is final.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }

    /// Returns true if the stage makes a bundle incomplete.
    pub fn is_trouble(self) -> bool {
        matches!(self, Self::Partial | Self::Failed)
    }
}
