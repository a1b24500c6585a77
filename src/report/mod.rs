//! The report of an incident or of a pool: everything that somebody who was not there has to know, as one value.
//!
//! `summary.json` of a bundle is this value; the page, `report.md` and the tickets are made from it. Pure.

mod answers;
mod bucket;
mod build;
mod story;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::alert::{Alert, Labels};
use crate::diagnose::Diagnosis;
use crate::incident::{Acknowledged, Impact};
use crate::redact::Redacted;
use crate::signal::Unit;
use crate::{endpoint, facts, kubernetes, logs};
pub use answers::{changed, failed, moved};
pub use bucket::{Bucket, bucket};
pub use build::{About, build};
pub use story::{Logged, story};

/// The version of `summary.json`; a change that breaks readers gives it another name.
pub const SCHEMA: &str = "llm-diagnose/report/v1";

/// The JSON schema of `summary.json`.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Report)
}

/// From when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// The first moment.
    #[schemars(with = "String")]
    pub from: Timestamp,
    /// The last moment.
    #[schemars(with = "String")]
    pub to: Timestamp,
}

/// What every source saw, before it is put together.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Prometheus, beyond the diagnosis.
    pub facts: Option<facts::Seen>,
    /// The engines themselves, with what each answer tells.
    pub endpoints: Vec<(endpoint::Answer, endpoint::Told)>,
    /// The cluster's API.
    pub kubernetes: Option<kubernetes::Seen>,
    /// Logs, with what they say.
    pub logs: Vec<(logs::Log, logs::Report)>,
}

/// The whole report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// When it was made.
    #[schemars(with = "String")]
    pub made_at: Timestamp,
    /// The version of llm-diagnose.
    pub version: String,
    /// The time that it is about.
    pub window: Window,
    /// The first sentence: what, who is hurt, why.
    pub headline: String,
    /// The incident; none when a pool was looked at without one.
    pub incident: Option<Incident>,
    /// Its alerts.
    pub alerts: Vec<Alert>,
    /// The diagnosis with its evidence.
    pub diagnosis: Option<Diagnosis>,
    /// What was asked when it was made, so that it can be made again.
    #[serde(default)]
    pub asked: Asked,
    /// The seven questions that serving engineers ask.
    pub answers: Answers,
    /// What happened, oldest first.
    pub timeline: Vec<Happened>,
    /// What logs say, one entry for each log.
    pub logs: Vec<LogSeen>,
    /// The replicas and where they run.
    pub topology: Vec<Replica>,
    /// The alerting rules of the pool.
    pub rules: Vec<facts::Rule>,
    /// Whether every part was made.
    pub complete: bool,
    /// The parts, with what failed and why.
    pub parts: Vec<Part>,
    /// What was taken out of which file.
    pub redacted: Vec<Redacted>,
}

/// What a diagnosis does not tell of its request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// When the incident began.
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// How much earlier its normal lies, seconds; none compares with nothing.
    pub baseline_seconds: Option<u64>,
}

/// What is known of an incident's life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Incident {
    /// Its id.
    pub id: String,
    /// Alertmanager's key.
    pub group_key: String,
    /// Something still fires.
    pub open: bool,
    /// The playbook that its alerts select; none where the pool is screened.
    pub playbook: Option<String>,
    /// Why that playbook, or why the pool is screened; none where nothing is diagnosed.
    #[serde(default)]
    pub because: Option<String>,
    /// The first alert's start.
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// When we heard of it.
    #[schemars(with = "String")]
    pub opened_at: Timestamp,
    /// When it was over.
    #[schemars(with = "Option<String>")]
    pub resolved_at: Option<Timestamp>,
    /// How often it fired again.
    pub refired: u32,
    /// Alerts that Alertmanager left out.
    pub truncated: u64,
    /// Other incidents of the same group in the day before.
    pub seen_before: u32,
    /// Where people reach the Alertmanager; may be empty.
    pub external_url: String,
    /// Who is on it.
    #[serde(default)]
    pub acknowledged: Option<Acknowledged>,
    /// What it has cost, once it is over.
    #[serde(default)]
    pub impact: Option<Impact>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Happened {
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Of which kind.
    pub kind: HappenedKind,
    /// A sentence.
    pub what: String,
    /// Where it is from: `prometheus`, `kubernetes`, `alertmanager`, `llm-diagnose`, a person.
    pub source: String,
}

/// Kinds of what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HappenedKind {
    /// An alert fired or ended.
    Alert,
    /// A check of the diagnosis began to hold.
    Onset,
    /// A replica restarted.
    Restart,
    /// A replica began or stopped telling metrics.
    Presence,
    /// Something else was rolled out.
    Rollout,
    /// A silence began or ended.
    Silence,
    /// We said or did something.
    Message,
    /// Somebody did something.
    Act,
    /// A log's root error.
    Log,
    /// A cluster's warning.
    Event,
}

/// The seven questions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answers {
    /// Which model, with which engine arguments?
    pub model: Model,
    /// On which hardware?
    pub hardware: Hardware,
    /// Which numbers, before, during and after?
    pub metrics: Vec<Measured>,
    /// Which workload?
    pub workload: Workload,
    /// How is it deployed?
    pub deployment: Deployment,
    /// Which versions?
    pub versions: Vec<Version>,
    /// What was expected, what came, since when, what changed?
    pub goal: Goal,
    /// What could not be answered: the question, and how to find out, in a sentence.
    pub open: Vec<(Question, String)>,
}

/// One of the seven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Model and engine arguments.
    Model,
    /// GPU type, count, interconnect.
    Hardware,
    /// Numbers.
    Metrics,
    /// Lengths and rates.
    Workload,
    /// Deployment mode.
    Deployment,
    /// Versions.
    Versions,
    /// Expected and actual.
    Goal,
}

/// Which model, and how it is run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// The served names.
    pub names: Vec<String>,
    /// What is loaded: a path or a hub's id.
    pub weights: Vec<String>,
    /// Command lines that differ, each with how many run so and where it was read.
    pub arguments: Vec<Arguments>,
    /// Settings that the engine tells: `max_model_len`, `block_size`, `gpu_memory_utilization`.
    pub settings: BTreeMap<String, Vec<String>>,
}

/// A command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arguments {
    /// The words.
    pub words: Vec<String>,
    /// Whose: pods.
    pub of: Vec<String>,
    /// Where it was read.
    pub source: String,
}

/// What it runs on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hardware {
    /// GPUs by kind.
    pub gpus: Vec<Gpu>,
    /// What connects them.
    pub interconnect: Option<String>,
    /// Machines, with what is known of each: machine type, zone, GPUs.
    pub nodes: BTreeMap<String, Vec<String>>,
}

/// GPUs of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// The product: `NVIDIA H100 80GB HBM3`.
    pub kind: String,
    /// How many.
    pub count: usize,
    /// Where it was read.
    pub source: String,
}

/// A quantity over three windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// The signal's name.
    pub signal: String,
    /// For people.
    pub title: String,
    /// Of the values.
    pub unit: Unit,
    /// Before it began.
    pub before: Option<f64>,
    /// While it lasted.
    pub during: Option<f64>,
    /// After it was over; none while it is not.
    pub after: Option<f64>,
    /// Of a quantile, the finite upper bounds of its histogram's buckets, ascending: it is known no better than they are
    /// narrow. Empty for what is no quantile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<f64>,
    /// The PromQL.
    pub query: Option<String>,
    /// Why there is no value.
    pub why: Option<String>,
}

/// What is asked of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Prompt tokens per request (ISL).
    pub input: Option<Distribution>,
    /// Generated tokens per request (OSL).
    pub output: Option<Distribution>,
    /// Arrivals, concurrency and what else tells the load.
    pub load: Vec<Measured>,
}

/// How something is spread, from a histogram.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// How many requests.
    pub count: f64,
    /// The mean.
    pub mean: f64,
    /// Half lie below.
    pub p50: f64,
    /// Nine of ten lie below.
    pub p90: f64,
    /// 99 of 100 lie below.
    pub p99: f64,
    /// Upper bounds and the share of requests in each bucket, 0..1; the last bound may be infinite (`null`).
    pub buckets: Vec<(Option<f64>, f64)>,
    /// The same, a day or an hour before, for comparison: mean and p50.
    pub earlier: Option<(f64, f64)>,
    /// The metric.
    pub metric: String,
}

impl Distribution {
    /// The bucket that a quantile of it lies in.
    pub fn bucket(&self, quantile: f64) -> Option<Bucket> {
        bucket(quantile, &self.buckets.iter().filter_map(|(bound, _)| *bound).collect::<Vec<_>>())
    }
}

/// How it is deployed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deployment {
    /// `Deployment`, `LLMInferenceService`, `llm-d with disaggregated prefill`, `Dynamo graph`, …; empty when unknown.
    pub mode: String,
    /// What says so.
    pub because: Vec<String>,
    /// The objects, `kind namespace/name`.
    pub objects: Vec<String>,
    /// Engines that were found, with their role.
    pub engines: Vec<String>,
    /// Replicas wanted and ready, where known.
    pub replicas: Option<(u32, u32)>,
}

/// The version of something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// `vllm`, `dcgm-exporter`, `NVIDIA driver`, `CUDA`, `Kubernetes`, `Prometheus`.
    pub what: String,
    /// Its version.
    pub version: String,
    /// Where it was read: `GET /version of llama-0`.
    pub source: String,
}

/// Expected and actual.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Goal {
    /// What the alerts and playbooks ask for, and what was there.
    pub expected: Vec<Expected>,
    /// Since when it is not met.
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// What changed before that, in sentences.
    pub changed: Vec<String>,
}

/// One expectation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expected {
    /// Of what.
    pub title: String,
    /// What was promised, else what it was before: `promised: TTFT p99 < 1 s`, `before: 0.4 s`; none when neither is known.
    #[serde(default)]
    pub expected: Option<String>,
    /// The condition that raises the alarm: `> 2 s`. Nobody promised it.
    pub limit: String,
    /// What was there.
    pub actual: String,
    /// Whose threshold: the alert's rule, a playbook.
    pub source: String,
}

/// A replica and where it stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replica {
    /// The pod, else the instance.
    pub name: String,
    /// The machine.
    pub node: Option<String>,
    /// Its GPUs: index or UUID, and product where known.
    pub gpus: Vec<String>,
    /// Its part: `prefill`, `decode`, `gateway`; empty for a plain replica.
    pub role: String,
    /// How it stands: `up`, `gone`, `restarted 3 times`.
    pub state: String,
    /// Labels that tell more.
    pub labels: Labels,
}

/// A log and what it says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogSeen {
    /// Whose.
    pub name: String,
    /// The file in the bundle; empty outside of one.
    pub file: String,
    /// The findings.
    pub report: logs::Report,
}

/// A part of a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Its name: `metrics`, `series`, `kubernetes`, `logs`.
    pub name: String,
    /// How it went.
    pub stage: Stage,
    /// What it holds, or why it does not, in a sentence.
    pub note: String,
    /// Uncompressed bytes.
    pub bytes: u64,
    /// How long it took, seconds.
    pub took_seconds: f64,
}

/// How far a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Not yet.
    Waiting,
    /// Being made.
    Running,
    /// Whole.
    Done,
    /// There, but a bound was reached or some of it failed.
    Partial,
    /// Not there, though its source is configured.
    Failed,
    /// Its source is not configured, or does not apply.
    Skipped,
}

impl Stage {
    /// Nothing more will come of it.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }

    /// What makes a bundle incomplete.
    pub fn is_trouble(self) -> bool {
        matches!(self, Self::Partial | Self::Failed)
    }
}
