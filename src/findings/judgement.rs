//! The parts of a diagnosis: outcomes, verdicts, evidence, causes. They are part of the documented output.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error_budget::ErrorBudget;
use knowledge::playbook::{Condition, Promise};
use knowledge::signal::Unit;

/// Maximum delay of a cause after its effect: prompts and answers are counted when requests end.
pub const NOTICED_LATE: Duration = Duration::from_secs(180);

/// The result of evaluating a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The condition is true.
    Met,
    /// There is data and the condition is false.
    NotMet,
    /// There is no data: neither for nor against.
    NoData,
}

/// The certainty of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A required check is clearly not met.
    RuledOut,
    /// A required check has no data.
    Undetermined,
    /// Most of the evidence speaks against it.
    Unlikely,
    /// Its score is at least 0.5.
    Possible,
    /// Its score is at least 0.75; a root cause's probability is at least 0.7 as well.
    Likely,
}

/// The state of the symptom at the time of the evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SymptomVerdict {
    /// The symptom is present.
    Confirmed,
    /// The symptom is absent, or has gone.
    Absent,
    /// There is no data to decide it.
    NoData,
}

impl SymptomVerdict {
    /// Returns the name that the JSON uses, for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Absent => "absent",
            Self::NoData => "no_data",
        }
    }
}

/// A replica with its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicaValue {
    /// The pod; else the instance, GPU or node.
    pub name: String,
    /// In the signal's unit.
    pub value: f64,
}

/// A check with its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvidenceResult {
    /// The signal's name.
    pub signal: String,
    /// The signal's title, for people.
    pub title: String,
    /// The value now: of the pool, or of the worst replica where replicas are compared.
    pub value: Option<f64>,
    /// The value's unit.
    pub unit: Unit,
    /// The reference value: of the past, or of the peers.
    pub baseline: Option<f64>,
    /// The larger over the smaller value of two successive windows of the past: a change smaller than this says
    /// little. `None` where only one window was queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub varies: Option<f64>,
    /// The condition.
    pub when: String,
    /// The result of the check.
    pub outcome: Outcome,
    /// The support for the cause, by the distance from the threshold: from -1 (clearly against) over 0 (nothing) to 1
    /// (clearly for).
    pub support: f64,
    /// The time since which the condition holds without interruption; `None` if it held all along or was not queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// True if the condition held, with about the same value, also in the minutes before the symptom began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_before: bool,
    /// True if the cause requires this check to be met.
    pub required: bool,
    /// The weight of the check in the score.
    pub weight: f64,
    /// True if the server could not read a part of its data: it is about the part that answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// True if it is a guard on a signal that the pool's engine does not have; then the rest of the evidence decides.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsupported: bool,
    /// The replicas for which the condition holds, worst first.
    pub replicas: Vec<ReplicaValue>,
    /// The reason why there is no data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The PromQL of the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The origin of the value; Prometheus if absent.
    #[serde(default, skip_serializing_if = "ValueSource::is_prometheus")]
    pub source: ValueSource,
}

impl EvidenceResult {
    /// Returns true if there is no past value to compare with.
    pub fn lacks_past(&self) -> bool {
        self.why.as_deref() == Some(crate::NO_PAST)
    }

    /// Returns true if the reference value is that of the other replicas, and not of the past.
    pub fn is_of_peers(&self) -> bool {
        self.when.parse::<Condition>().is_ok_and(|when| when.needs_peers())
    }
}

/// The replicas that a finding is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlastRadius {
    /// Names, worst first; empty if the evidence is about the pool as a whole.
    pub affected: Vec<String>,
    /// Replicas of the pool, including those of the last hour that are gone; 0 if unknown.
    pub total: usize,
    /// The nodes and GPUs of the affected replicas, by replica; empty if they are many or unknown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub places: BTreeMap<String, Vec<String>>,
    /// The nodes of the affected replicas, or of the whole pool if the evidence is about it; empty if they are many or
    /// unknown, without a confirmed symptom, and for other causes than the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// The share of the pool's arrivals that the affected replicas receive, 0..1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<f64>,
}

/// A node of a chain, or a cause that was ruled out, with its checks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// The id of the playbook or cause.
    pub id: String,
    /// The title, a clause.
    pub title: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The share of the evidence that speaks for it, 0..1.
    pub score: f64,
    /// The share of the symptom's latency that a direct cause of the entry playbook explains, 0..1; `None` if
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<f64>,
    /// All checks with their data.
    pub evidence: Vec<EvidenceResult>,
}

/// A root cause with its causal chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseFound {
    /// The id of the root cause.
    pub id: String,
    /// The title of the root cause, a clause.
    pub title: String,
    /// The explanation for a reader who has not met this cause.
    pub meaning: String,
    /// The ids from the entry playbook to the root cause.
    pub chain: Vec<String>,
    /// The weakest verdict of the chain.
    pub verdict: Verdict,
    /// The weakest score of the chain, 0..1.
    pub score: f64,
    /// The probability that this is the cause, 0..1, given the other causes and the unknown ones.
    pub probability: f64,
    /// True if the symptom began within the rate window: its values mix times before and after, and the verdict may change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub so_far: bool,
    /// The share of the symptom's latency that the chain's first link explains, 0..1; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<f64>,
    /// The checks of the root cause.
    pub evidence: Vec<EvidenceResult>,
    /// The affected replicas.
    pub replicas: BlastRadius,
    /// The nodes between the entry and the root with their checks; those of the root are in `evidence`.
    pub via: Vec<Judgement>,
    /// True if it only says that nothing else was found.
    pub fallback: bool,
    /// The team or person to escalate to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalate: Option<String>,
}

/// The onset of a link of the best chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Onset {
    /// The id of the playbook or cause.
    pub id: String,
    /// The check that held first.
    pub evidence: EvidenceResult,
    /// The time of the onset.
    pub at: Timestamp,
    /// Distance of the moments that were compared, in seconds, 0 if unknown: onsets closer than two of them have no order.
    #[serde(default, skip_serializing_if = "no_step")]
    pub step_seconds: i64,
}

/// Returns true if the onsets are not from a range of moments.
pub(crate) fn no_step(seconds: &i64) -> bool {
    *seconds == 0
}

/// The symptom, confirmed or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SymptomFound {
    /// The entry playbook.
    pub playbook: String,
    /// Its title.
    pub title: String,
    /// The impact on users.
    pub impact: String,
    /// The state of the symptom now.
    pub verdict: SymptomVerdict,
    /// The configured promise for this pool about the symptom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
    /// The error budget of that promise; `None` without the recorded series of `generate rules --config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_budget: Option<ErrorBudget>,
    /// All checks with their data.
    pub evidence: Vec<EvidenceResult>,
}

/// The origin of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValueSource {
    /// A query to Prometheus.
    #[default]
    Prometheus,
    /// The metrics page of an engine or exporter.
    Exporter,
    /// The log of a replica; the value carries the replica's name.
    Log,
}

impl ValueSource {
    /// Returns true for the default, which needs no mention.
    pub fn is_prometheus(&self) -> bool {
        *self == Self::Prometheus
    }
}

/// The verdicts on everything that can be reached from the entry playbook.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The verdict on the symptom.
    pub symptom: SymptomVerdict,
    /// The symptom's checks.
    pub evidence: Vec<EvidenceResult>,
    /// All reachable causes by id.
    pub causes: BTreeMap<String, Judgement>,
    /// Chains of ids from the entry to a root, best first; only likely and possible ones.
    pub chains: Vec<Vec<String>>,
}

/// Returns the earliest onset of the checks that are met: the first sign of a cause.
pub fn first_sign(evidence: &[EvidenceResult]) -> Option<Timestamp> {
    evidence.iter().filter(|e| e.outcome == Outcome::Met).filter_map(|e| e.since).min()
}
