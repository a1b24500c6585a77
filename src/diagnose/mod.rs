//! The diagnosis of one pool: plan ─▶ observe ─▶ judge.
//!
//! `plan` and `judge` are pure; [`observe`] queries Prometheus, and `direct` reads exporters where Prometheus has no
//! data. The types here are the documented output, `--output json`: plain values that are stored, printed, and put
//! into messages.

mod affected_replicas;
mod against;
mod answer_cache;
mod assemble;
mod baseline_windows;
mod batch;
mod chart_lines;
mod config;
mod data_span;
mod degree;
mod detection;
mod direct;
mod evidence;
mod excluded;
mod fleet;
mod gateway;
mod gather;
mod impact;
mod judge;
mod log_cache;
mod logs;
mod names;
mod observation;
mod observe;
mod onset;
mod parts;
mod pending_diagnosis;
mod placeholders;
mod plan;
mod pool;
mod probability;
mod recorded;
mod rule;
mod scope;
mod screen;
mod signals;
mod steps;
mod times;
mod unknown_labels;
mod visible_pools;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::alert::Labels;
use crate::playbook::Promise;
use crate::signal::Unit;

pub use baseline_windows::{ComparedWith, PastKind};
pub use batch::{QueryAnswer, queries};
pub use chart_lines::{Frame, picture};
pub use config::{Config, moment};
pub use data_span::{DataSpan, data_elsewhere};
pub use detection::{detection, last_day, newest};
pub use direct::{
    DirectRead, DirectReadReason, ExporterRemark, Exporters, discover_exporters, observe_with_exporters, targets,
};
pub(crate) use evidence::{evaluate, holds};
pub use excluded::{RuledOut, Unchecked, UnevaluatedCause};
pub use fleet::{FleetPool, PoolMatch, find_pools, fleet, places};
pub use impact::impact;
pub use judge::{Judged, NOTICED_LATE, judge};
pub use log_cache::LogFindingsCache;
pub use logs::{LogError, LogFindings, LogRead, LogSources, LogsRead, NoCluster, log_findings};
pub(crate) use observation::reduce;
pub use observation::{Observation, Observations, Replica, ValueSource};
pub use observe::{ObserveResult, observe};
pub use parts::{LatencyPart, LatencyParts, LatencyRest};
pub use pending_diagnosis::{ExtraSources, PendingDiagnosis, begin, diagnose, diagnose_with};
pub(crate) use plan::no_engine_reason;
pub use plan::{Plan, PlannedQuery, QueryPurpose, plan};
pub use pool::{Pool, RowOwnership};
pub use probability::{FEATURES, PRIOR, features};
pub use scope::{DetectionResult, EngineSeen, Scope, orchestrated, read_detection};
pub use screen::Screening;
pub use signals::{observe_signals, verify, verify_all};
pub(crate) use steps::{invert_condition, inverted_symptom_check};
pub use times::times;
pub use unknown_labels::{UnknownLabelValue, known_names, known_values, typed_label};
pub use visible_pools::{gateway_pools, pools};

/// The version of the JSON output; a breaking change gives it another name.
pub const SCHEMA: &str = "llm-diagnose/diagnosis/v1";

/// The reason that is reported where a comparison with the past has no data.
pub const NO_PAST: &str = "there is no past to compare with";

/// A request for a diagnosis: the pool, the time, and the past to compare with.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The playbook at the start of the chain; empty where the symptom has to be found out.
    pub playbook: String,
    /// True if the pool's other symptoms are screened where that playbook explains nothing.
    pub screen: bool,
    /// Names of alerts that carry neither a playbook nor an expression; Prometheus may know their rules.
    pub rules: Vec<String>,
    /// The pool.
    pub scope: Scope,
    /// The time of the evaluation.
    pub at: Timestamp,
    /// The start of the incident, if known: the time before it counts as normal.
    pub since: Option<Timestamp>,
    /// The rate window.
    pub window: Duration,
    /// The past to compare with.
    pub baseline: Baseline,
    /// The time limit for Prometheus' answers.
    pub deadline: Duration,
}

/// The past that values are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// The same time so much earlier, else the time before the incident.
    Earlier(Duration),
    /// No comparison with the past.
    Off,
}

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
    #[serde(default)]
    pub support: f64,
    /// The time since which the condition holds without interruption; `None` if it held all along or was not queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// True if the cause requires this check to be met.
    pub required: bool,
    /// The weight of the check in the score.
    pub weight: f64,
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
    #[serde(default)]
    pub probability: f64,
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
    #[serde(default)]
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
    #[schemars(with = "String")]
    pub at: Timestamp,
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
    /// All checks with their data.
    pub evidence: Vec<EvidenceResult>,
}

/// A fix step; placeholders with a known value are filled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fix {
    /// The instruction.
    #[serde(rename = "do")]
    pub action: String,
    /// The cause it treats.
    pub cause: String,
    /// The check that shows that it worked.
    pub verify: Option<FixCheck>,
    /// The source of the instruction.
    pub source: Option<String>,
}

/// The check that shows that a fix worked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FixCheck {
    /// The signal.
    pub signal: String,
    /// Its title.
    pub title: String,
    /// The condition that then holds.
    pub when: String,
    /// The query to watch.
    pub query: Option<String>,
}

/// The fix steps for the best chain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fixes {
    /// Steps that relieve at once.
    pub now: Vec<Fix>,
    /// Steps that prevent a recurrence.
    pub lasting: Vec<Fix>,
}

/// The pool as Prometheus knows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScopeFound {
    /// The alert's labels that identify the pool: cluster, namespace, model.
    pub labels: Labels,
    /// The same as matchers on the serving engine's labels.
    pub matchers: String,
    /// The replicas that the alerts name.
    pub named: Vec<String>,
    /// Sentences about alert labels that could not be used.
    pub notes: Vec<String>,
    /// The label value that no pool has, with the most similar values of the pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<UnknownLabelValue>,
    /// The time span in which the pool has data, if it has none at the time of the evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataSpan>,
}

/// A detected engine or exporter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineFound {
    /// Its name.
    pub engine: String,
    /// The lowest version that its series allow.
    pub at_least: Option<String>,
}

/// The complete diagnosis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// [`SCHEMA`].
    pub schema: String,
    /// The time of the evaluation.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The rate window.
    pub window_seconds: u64,
    /// The pool.
    pub scope: ScopeFound,
    /// The engines and exporters that were detected.
    pub engines: Vec<EngineFound>,
    /// The past that values were compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared_with: Option<ComparedWith>,
    /// The symptom and its verdict.
    pub symptom: SymptomFound,
    /// The replicas that show the symptom.
    pub replicas: BlastRadius,
    /// The parts of the latency that the symptom is about; `None` if it is about no latency or the engines do not
    /// report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<LatencyParts>,
    /// Root causes, best first; empty when nothing is likely or possible.
    pub causes: Vec<CauseFound>,
    /// Onsets of the links of the best chain, the root first.
    #[serde(default)]
    pub timeline: Vec<Onset>,
    /// The probability that none of these causes is the right one, 0..1. Causes are treated as independent of each
    /// other: their probabilities and this one need not add up to 1.
    #[serde(default)]
    pub unknown: f64,
    /// The nearest causes where none is likely, with the check that fails; at most two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<RuledOut>,
    /// The other symptoms that were screened; absent if the alert names no pool or Prometheus was unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screening: Option<Screening>,
    /// Causes that are ruled out or unlikely.
    pub ruled_out: Vec<RuledOut>,
    /// Signals without data that leave causes undetermined.
    pub unchecked: Vec<Unchecked>,
    /// Causes that are undetermined because Prometheus did not answer before the deadline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_looked_at: Vec<UnevaluatedCause>,
    /// The fix steps.
    pub fix: Fixes,
    /// Errors on the way, in sentences: Prometheus unreachable, answers after the deadline.
    pub problems: Vec<String>,
    /// True if the diagnosis should be repeated once Prometheus answers.
    pub degraded: bool,
    /// Values read directly from exporters, because Prometheus had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<DirectRead>,
    /// The logs that were read; `None` if none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<LogsRead>,
    /// The number of queries; does not grow with the number of replicas.
    pub queries: usize,
    /// The duration of the diagnosis.
    pub took_seconds: f64,
}

impl Diagnosis {
    /// Returns true if a newer diagnosis of the same incident should replace this one.
    ///
    /// While an incident ends its evidence fades and what remains explains nothing. So a likely cause stands until
    /// another one is likely, and for good once alerts begin to end.
    pub fn gives_way_to(&self, newer: &Self, recovering: bool) -> bool {
        let settled = |d: &Self| d.root().is_some_and(|root| root.verdict == Verdict::Likely && !root.fallback);
        if newer.degraded && !self.degraded {
            return false;
        }
        !settled(self) || (settled(newer) && !recovering)
    }

    /// Returns the root of the best chain; `None` if no cause is at least possible.
    pub fn root(&self) -> Option<&CauseFound> {
        self.causes.first()
    }
}

/// Returns the title and query of the checks of the symptom and the best chain, each query once.
pub fn checked_queries(diagnosis: &Diagnosis) -> impl Iterator<Item = (&str, &str)> {
    let root = diagnosis.root();
    let via = root.into_iter().flat_map(|root| root.via.iter().flat_map(|link| &link.evidence).chain(&root.evidence));
    let mut seen = BTreeSet::new();
    let all = diagnosis.symptom.evidence.iter().chain(via);
    let queries = all.filter_map(|e| Some((e.title.as_str(), e.query.as_deref()?)));
    queries.filter(move |(_, query)| seen.insert(*query))
}
