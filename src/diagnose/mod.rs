//! From a playbook and a scope to a diagnosis: plan ─▶ observe ─▶ judge.
//!
//! `plan` and `judge` are pure; [`observe`] talks to Prometheus, and `direct` to exporters where that cannot tell. The types here are the
//! documented output, `--output json`: plain values that are stored, printed, and put into messages.

mod against;
mod answer_cache;
mod batch;
mod begun;
mod blame;
mod config;
mod degree;
mod detection;
mod direct;
mod elsewhere;
mod evidence;
mod excluded;
mod fleet;
mod gateway;
mod gather;
mod impact;
mod judge;
mod kept;
mod logs;
mod names;
mod observation;
mod observe;
mod onset;
mod parts;
mod past;
mod picture;
mod placeholders;
mod plan;
mod pool;
mod probability;
mod recorded;
mod rule;
mod scope;
mod screen;
mod shown;
mod signals;
mod steps;
mod times;
mod typed;
mod who;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::alert::Labels;
use crate::playbook::Promise;
use crate::signal::Unit;

pub use batch::{Answer, queries};
pub use begun::{Begun, Beside, begin, diagnose, diagnose_with};
pub use config::{Config, moment};
pub use detection::{detection, last_day, newest};
pub use direct::{Because, DirectRead, Exporters, Remark, learn, look, targets};
pub use elsewhere::{DataSpan, data_elsewhere};
pub(crate) use evidence::{evaluate, holds};
pub use excluded::{NotLookedAt, RuledOut, Unchecked};
pub use fleet::{Hit, Place, fleet, hits, places};
pub use impact::impact;
pub use judge::{Judged, NOTICED_LATE, judge};
pub use kept::Kept;
pub use logs::{LogError, LogRead, LogSources, LogsRead, NoCluster, Told, told};
pub(crate) use observation::reduce;
pub use observation::{Observation, Observations, Replica, Source};
pub use observe::{Observed, observe};
pub use parts::{LatencyPart, LatencyParts, LatencyRest};
pub use past::{ComparedWith, PastKind};
pub use picture::{Frame, picture};
pub(crate) use plan::nobody;
pub use plan::{Ask, Plan, Side, plan};
pub use pool::{Own, Pool};
pub use probability::{FEATURES, PRIOR, features};
pub use scope::{EngineSeen, Found, Scope, orchestrated, read_detection};
pub use screen::Screening;
pub use shown::{gateway_pools, pools};
pub use signals::{observe_signals, verify, verify_all};
pub(crate) use steps::{eased, turned};
pub use times::times;
pub use typed::{Unknown, known_names, known_values, typed_label};

/// The version of the JSON output; a change that breaks readers gives it another name.
pub const SCHEMA: &str = "llm-diagnose/diagnosis/v1";

/// Why a comparison with the past has no data.
pub const NO_PAST: &str = "there is no past to compare with";

/// What to diagnose, for when, compared with what.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The playbook that the chain starts from; empty where what is wrong has to be found out.
    pub playbook: String,
    /// Whether the pool's other symptoms are looked at where that playbook explains nothing.
    pub screen: bool,
    /// Names of alerts that tell no playbook, and whose rules Prometheus may know.
    pub rules: Vec<String>,
    /// Which pool.
    pub scope: Scope,
    /// The moment that is judged.
    pub at: Timestamp,
    /// When the incident began, if known: what lies before it is its normal.
    pub since: Option<Timestamp>,
    /// The rate window.
    pub window: Duration,
    /// How far back the same time of day lies; none compares only with what lies before the incident.
    pub baseline: Baseline,
    /// When to stop waiting for answers.
    pub deadline: Duration,
}

/// What the past is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// The same time so much earlier, else what lies before the incident.
    Earlier(Duration),
    /// No comparison with the past.
    Off,
}

/// Whether evidence holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The condition holds.
    Met,
    /// There is data and the condition does not hold.
    NotMet,
    /// There is no data: neither for nor against.
    NoData,
}

/// How sure a cause is.
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

/// Whether the symptom is there now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SymptomVerdict {
    /// It is there.
    Confirmed,
    /// It is not there (any more).
    Absent,
    /// Nobody can tell.
    NoData,
}

impl SymptomVerdict {
    /// As in the JSON, for metrics.
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
    /// The pod, else the instance, GPU or node.
    pub name: String,
    /// In the signal's unit.
    pub value: f64,
}

/// One check with its data.
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
    /// The value in the past, or of the peers, that it is compared with.
    pub baseline: Option<f64>,
    /// Of two successive windows of the past, the larger value over the smaller: a smaller change says little. None where only
    /// one was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub varies: Option<f64>,
    /// The condition.
    pub when: String,
    /// Whether it holds.
    pub outcome: Outcome,
    /// What it says, by its distance from the threshold: from -1 (clearly against) over 0 (nothing) to 1 (clearly for).
    #[serde(default)]
    pub support: f64,
    /// Since when it holds without an end; none when it held all along or nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// Whether the cause stands and falls with it.
    pub required: bool,
    /// How much it counts.
    pub weight: f64,
    /// The replicas for which it holds, worst first.
    pub replicas: Vec<ReplicaValue>,
    /// Why there is no data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The PromQL that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Where the value comes from; Prometheus unless told.
    #[serde(default, skip_serializing_if = "Source::is_prometheus")]
    pub source: Source,
}

/// Which replicas a finding is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlastRadius {
    /// Names, worst first; empty when the evidence is about the pool as a whole.
    pub affected: Vec<String>,
    /// Replicas of the pool, gone ones of the last hour included; 0 when unknown.
    pub total: usize,
    /// The nodes and GPUs of the affected replicas, by replica; empty when they are many or nobody tells.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub places: BTreeMap<String, Vec<String>>,
    /// The share of the pool's arrivals that the affected replicas get, 0..1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<f64>,
}

/// A node of a chain, or a cause that was ruled out, with what was checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// The playbook's or cause's id.
    pub id: String,
    /// A clause.
    pub title: String,
    /// How sure.
    pub verdict: Verdict,
    /// How much of the evidence speaks for it, 0..1.
    pub score: f64,
    /// Of a direct cause of the entry playbook: which share of its latency it explains, 0..1; none where nobody can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<f64>,
    /// Every check with its data.
    pub evidence: Vec<EvidenceResult>,
}

/// A root cause with the chain that leads to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseFound {
    /// The root's id.
    pub id: String,
    /// The root's clause.
    pub title: String,
    /// What it means, for somebody who has not met it.
    pub meaning: String,
    /// From the entry playbook to the root.
    pub chain: Vec<String>,
    /// The weakest verdict of the chain.
    pub verdict: Verdict,
    /// The weakest score of the chain, 0..1.
    pub score: f64,
    /// How probable it is that this is the cause, 0..1, beside the other causes and what no playbook knows.
    #[serde(default)]
    pub probability: f64,
    /// Which share of the symptom's latency the chain's first link explains, 0..1; none where nobody can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<f64>,
    /// The root's checks.
    pub evidence: Vec<EvidenceResult>,
    /// Which replicas.
    pub replicas: BlastRadius,
    /// The nodes between the entry and the root, with their checks; the root's stand in `evidence`.
    pub via: Vec<Judgement>,
    /// It only says that nothing else was found.
    #[serde(default)]
    pub fallback: bool,
    /// Who takes over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalate: Option<String>,
}

/// When a link of the best chain began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Onset {
    /// The playbook's or cause's id.
    pub id: String,
    /// The check that began to hold first.
    pub evidence: EvidenceResult,
    /// When.
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
    /// Whom it hurts and how.
    pub impact: String,
    /// Whether it is there now.
    pub verdict: SymptomVerdict,
    /// What is promised of the pool about it, by the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
    /// Every check with its data.
    pub evidence: Vec<EvidenceResult>,
}

/// A fix step, ready to be read out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fix {
    /// The instruction.
    #[serde(rename = "do")]
    pub action: String,
    /// The cause it treats.
    pub cause: String,
    /// The check that shows it worked.
    pub verify: Option<FixCheck>,
    /// Where it comes from.
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
    /// The PromQL to look at.
    pub query: Option<String>,
}

/// The fixes of the best chain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fixes {
    /// At once.
    pub now: Vec<Fix>,
    /// So that it does not come back.
    pub lasting: Vec<Fix>,
}

/// The pool that was looked at, as Prometheus knows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScopeFound {
    /// The alert's labels that tell the pool: cluster, namespace, model.
    pub labels: Labels,
    /// The same as matchers in the serving engine's labels.
    pub matchers: String,
    /// The replicas that the alerts name.
    pub named: Vec<String>,
    /// What could not be used of the alert's labels, in sentences.
    pub notes: Vec<String>,
    /// What of the labels no pool has, with the nearest that pools have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<Unknown>,
    /// When the pool has data, where it has none at the moment that was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataSpan>,
}

/// An engine or exporter that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineFound {
    /// Its name.
    pub engine: String,
    /// The lowest version that its series allow.
    pub at_least: Option<String>,
}

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// [`SCHEMA`].
    pub schema: String,
    /// The moment that was judged.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The rate window.
    pub window_seconds: u64,
    /// The pool.
    pub scope: ScopeFound,
    /// What was found to ask.
    pub engines: Vec<EngineFound>,
    /// Which past its values were compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared_with: Option<ComparedWith>,
    /// Is it real?
    pub symptom: SymptomFound,
    /// Which replicas show the symptom, of how many.
    pub replicas: BlastRadius,
    /// The parts of the latency that the symptom is about; none where it is about none, or where engines do not tell them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<LatencyParts>,
    /// Root causes, best first; empty when nothing is likely or possible.
    pub causes: Vec<CauseFound>,
    /// When the links of the best chain began, the root first.
    #[serde(default)]
    pub timeline: Vec<Onset>,
    /// How probable it is that none of the causes is it, 0..1. Causes are taken as independent of each other: their
    /// probabilities and this one need not add up to 1.
    #[serde(default)]
    pub unknown: f64,
    /// Where nothing is likely, what comes nearest, with the check that fails; at most two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<RuledOut>,
    /// What else the pool was looked at for; left out where the alert names no pool or Prometheus was away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screening: Option<Screening>,
    /// What it is not.
    pub ruled_out: Vec<RuledOut>,
    /// What nobody could check.
    pub unchecked: Vec<Unchecked>,
    /// Causes that nothing is known of because Prometheus did not answer in time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_looked_at: Vec<NotLookedAt>,
    /// What to do.
    pub fix: Fixes,
    /// What went wrong on the way, in sentences: Prometheus unreachable, answers late.
    pub problems: Vec<String>,
    /// Whether it should be made again once Prometheus answers.
    pub degraded: bool,
    /// What was read from exporters themselves, because Prometheus could not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<DirectRead>,
    /// The logs that were read; none where nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<LogsRead>,
    /// How many queries were asked; does not grow with the number of replicas.
    pub queries: usize,
    /// How long it took.
    pub took_seconds: f64,
}

impl Diagnosis {
    /// Whether a newer diagnosis of the same incident should take this one's place.
    ///
    /// While things get better the evidence fades and what remains explains nothing, so a cause that was likely stands
    /// until another one is likely, and for good once alerts begin to end.
    pub fn gives_way_to(&self, newer: &Self, recovering: bool) -> bool {
        let settled = |d: &Self| d.root().is_some_and(|root| root.verdict == Verdict::Likely && !root.fallback);
        if newer.degraded && !self.degraded {
            return false;
        }
        !settled(self) || (settled(newer) && !recovering)
    }

    /// The best chain's root, if anything is at least possible.
    pub fn root(&self) -> Option<&CauseFound> {
        self.causes.first()
    }
}

/// What was asked to tell the symptom and the best chain: title and query, each query once.
pub fn asked(diagnosis: &Diagnosis) -> impl Iterator<Item = (&str, &str)> {
    let root = diagnosis.root();
    let via = root.into_iter().flat_map(|root| root.via.iter().flat_map(|link| &link.evidence).chain(&root.evidence));
    let mut seen = BTreeSet::new();
    let all = diagnosis.symptom.evidence.iter().chain(via);
    let queries = all.filter_map(|e| Some((e.title.as_str(), e.query.as_deref()?)));
    queries.filter(move |(_, query)| seen.insert(*query))
}
