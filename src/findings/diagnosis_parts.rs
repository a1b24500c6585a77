//! The parts of a diagnosis beside its causes: its past, its screening, what it read, and what it ruled out or left open.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EvidenceResult, SymptomVerdict, Verdict};
use knowledge::gap::Gap;

/// The past that the values of a diagnosis were compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedWith {
    /// The kind of past.
    pub kind: PastKind,
    /// The end of the past; `None` without a past.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The length of the past.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<u64>,
}

/// The kind of past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PastKind {
    /// The same time of another day: yesterday, else last week.
    SameTime,
    /// The hours before the incident.
    HoursBefore,
    /// Shortly before the incident: the pool has not existed for longer.
    SinceStart,
    /// No past: checks that compare replicas with each other have to suffice.
    Peers,
    /// No past, and too few replicas to compare with each other.
    Nothing,
}

/// A cause that is ruled out or unlikely.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuledOut {
    /// Its id.
    pub id: String,
    /// The title of the cause, a clause.
    pub title: String,
    /// Ruled out or unlikely.
    pub verdict: Verdict,
    /// The check that speaks against it.
    pub because: Option<EvidenceResult>,
    /// The share of the symptom's latency that it explains, 0..1, if that is too little; `None` if its checks
    /// decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<f64>,
}

/// A signal that could not be checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unchecked {
    /// Its name.
    pub signal: String,
    /// Its title.
    pub title: String,
    /// The reason why there is no data.
    pub why: String,
    /// The setting that makes it available.
    pub enable: Option<String>,
    /// The causes that stay undetermined because of it.
    pub causes: Vec<String>,
}

/// A cause that was not evaluated before the deadline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnevaluatedCause {
    /// Its id.
    pub id: String,
    /// The title of the cause, a clause.
    pub title: String,
}

/// A mean latency and its parts, of one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyParts {
    /// The signal of the whole.
    pub signal: String,
    /// The title of the latency.
    pub title: String,
    /// The mean of the whole.
    pub seconds: f64,
    /// The parts that are known, in the order of time.
    pub parts: Vec<LatencyPart>,
    /// The remainder; `None` if a part is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<LatencyRest>,
}

/// One part of a latency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyPart {
    /// Its signal.
    pub signal: String,
    /// The title of the part.
    pub title: String,
    /// The mean.
    pub seconds: f64,
    /// The share of the whole, 0..1.
    pub share: f64,
}

/// The remainder of a latency beside its known parts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyRest {
    /// The mean.
    pub seconds: f64,
    /// The share of the whole, 0..1.
    pub share: f64,
}

/// The logs that were read, and those that could not be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogsRead {
    /// The logs, those with a root error first.
    pub logs: Vec<LogRead>,
    /// Logs that could not be read: name and reason, a sentence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Gap>,
}

/// A log that was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogRead {
    /// The name, `llama-0/vllm (previous)`.
    pub name: String,
    /// The engine that wrote it; `None` if no engine is recognised.
    pub engine: Option<String>,
    /// The number of lines.
    pub lines: u64,
    /// The first timestamp, as it is written.
    pub from: Option<String>,
    /// The last timestamp, as it is written.
    pub to: Option<String>,
    /// The first root error within the incident, else the first error that no finding explains.
    pub root: Option<LogError>,
}

/// An error in a log, without its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogError {
    /// The finding's id in `logs/<engine>.yaml`; `unknown` if no finding explains it.
    pub id: String,
    /// The title, a clause; of an unknown error the exception's class and place.
    pub title: String,
    /// The line number within the part that was read.
    pub line: u64,
    /// The time, as the log writes it.
    pub when: Option<String>,
    /// The recommended action.
    #[serde(rename = "do")]
    pub action: Option<String>,
    /// False if no finding explains the error.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub known: bool,
}

fn yes() -> bool {
    true
}

/// The symptoms that were screened, and those that were found beside the diagnosed one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Screening {
    /// The playbook that the alert's label, name, expression or objective selects; `None` if nothing selects one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_title: Option<String>,
    /// The verdict on its symptom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_verdict: Option<SymptomVerdict>,
    /// The titles of the symptoms that were evaluated.
    pub looked_at: Vec<String>,
    /// The titles of other confirmed symptoms: not the alert's own, and no link of the best chain.
    pub also: Vec<String>,
    /// The titles of symptoms that hold, but not clearly: values slightly beyond a threshold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slight: Vec<String>,
    /// The symptoms of users that could not be measured, where only pages were read: nothing is said of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmeasured: Vec<Unmeasured>,
}

/// A symptom that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unmeasured {
    /// Its title.
    pub title: String,
    /// The reason.
    pub why: String,
}

/// The reason for reading exporters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DirectReadReason {
    /// Only addresses or saved pages were named; no Prometheus was asked.
    NoPrometheus,
    /// Prometheus was unavailable or timed out.
    NoAnswer,
    /// Some queries to Prometheus timed out.
    InPart,
    /// Prometheus answered, but has no current values.
    NoValues,
    /// The user asked for it.
    Asked,
}

impl DirectReadReason {
    /// Returns true if nothing is known from Prometheus.
    pub fn is_without_prometheus(self) -> bool {
        matches!(self, Self::NoPrometheus | Self::NoAnswer)
    }
}

/// A remark on one exporter: the reason why it was not read, or an anomaly.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ExporterRemark {
    /// Its pod; else its host and port.
    pub exporter: String,
    /// A clause about it: `answered HTTP 404`.
    pub what: String,
}

/// The result of reading exporters directly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectRead {
    /// The reason for reading them.
    pub because: DirectReadReason,
    /// Number of serving engines that were read.
    pub engines: usize,
    /// Number of known serving engines.
    pub engines_known: usize,
    /// Number of GPU exporters that were read.
    pub gpu_exporters: usize,
    /// Number of known GPU exporters.
    pub gpu_exporters_known: usize,
    /// Number of exporters that were skipped, because there are too many.
    pub left_out: usize,
    /// Remarks, by exporter.
    pub remarks: Vec<ExporterRemark>,
}
