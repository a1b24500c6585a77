//! The diagnosis: the documented output, `--output json`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rollout::Rollout;
use crate::{
    BlastRadius, CauseFound, ComparedWith, ConditionFound, DirectRead, LatencyParts, LogsRead, Onset, RuledOut,
    ScopeFound, Screening, SymptomFound, Unchecked, UnevaluatedCause, Verdict,
};
use knowledge::alert::Labels;
use knowledge::signal::Unit;

/// The version of the JSON output; a breaking change gives it another name.
pub const SCHEMA: &str = "llm-diagnose/diagnosis/v1";

/// Maximum number of replicas that stand out among others.
pub const OUTLIERS: usize = 3;

/// A fix step; placeholders with a known value are filled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fix {
    /// The instruction.
    #[serde(rename = "do")]
    pub action: String,
    /// The cause it treats.
    pub cause: String,
    /// The cost of the restart that it makes, if it makes one and the cost is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<RestartCost>,
    /// The check that shows that it worked.
    pub verify: Option<FixCheck>,
    /// The source of the instruction.
    pub source: Option<String>,
}

/// The cost of a restart at the time of the diagnosis; values without data are `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestartCost {
    /// The replica that is restarted; `None` if all are, one after another.
    pub replica: Option<String>,
    /// The number of replicas of the pool.
    pub of: usize,
    /// The requests that run on that replica, on average of one of them: they end.
    pub running: Option<u64>,
    /// The share of prompt tokens that the pool finds in its prefix caches, 0..1; that of the replica is lost.
    pub hits: Option<f64>,
    /// The share of the KV cache that the other replicas use meanwhile; above 1 they cannot carry the load.
    pub others_kv: Option<f64>,
    /// The replica's node, if it takes no pods already.
    pub closed_node: Option<String>,
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
    /// The unit of its numbers.
    pub unit: Unit,
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

/// A pool in trouble, for an alert that names no pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolInTrouble {
    /// Its labels: cluster, namespace, model.
    pub labels: Labels,
    /// The title of its symptom.
    pub symptom: String,
    /// The titles of the best chain, from the symptom to the root; empty if there is no cause.
    pub causes: Vec<String>,
    /// The root's probability, 0..1.
    pub probability: f64,
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
    pub at: Timestamp,
    /// The rate window.
    pub window_seconds: u64,
    /// The pool.
    pub scope: ScopeFound,
    /// The engines and exporters that were detected.
    pub engines: Vec<EngineFound>,
    /// The names of the pool's kinds, as in `playbooks/kinds.yaml`; its limits are those of such pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// The past that values were compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared_with: Option<ComparedWith>,
    /// If the alert names no pool and Prometheus has several: those in trouble, worst first, each with its own cause. The
    /// rest of the diagnosis is about the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolInTrouble>,
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
    pub timeline: Vec<Onset>,
    /// The probability that none of these causes is the right one, 0..1. Causes are treated as independent of each
    /// other: their probabilities and this one need not add up to 1.
    pub unknown: f64,
    /// The nearest causes where none is likely, with the check that fails; at most two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<RuledOut>,
    /// The answer of Prometheus to the alerts' own expressions; `None` if they have none, or nothing can be said of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionFound>,
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
    /// The server's words about a part of the data that it could not read, as Thanos and VictoriaMetrics say them while a
    /// store is away: the diagnosis is about the part that answered, and rules nothing out by what is not in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// Values read directly from exporters, because Prometheus had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<DirectRead>,
    /// The logs that were read; `None` if none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<LogsRead>,
    /// The changes of the last rollout of the pool's workload; only if a step goes back to the revision before, and the
    /// cluster's API may be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// The number of queries; does not grow with the number of replicas.
    pub queries: usize,
    /// The duration of the diagnosis.
    pub took_seconds: f64,
}

impl Diagnosis {
    /// Returns true if a newer diagnosis of the same incident should replace this one.
    ///
    /// While an incident ends its evidence fades and what remains explains nothing. So a likely cause stays until
    /// another one is likely, and for good once alerts begin to end. One from a part of the data stays only until
    /// all of them answer.
    pub fn gives_way_to(&self, newer: &Self, recovering: bool) -> bool {
        let settled = |d: &Self| d.root().is_some_and(|root| root.verdict == Verdict::Likely && !root.fallback);
        if newer.degraded && !self.degraded {
            return false;
        }
        if self.incomplete.is_some() && newer.incomplete.is_none() && !recovering {
            return true;
        }
        !settled(self) || (settled(newer) && !recovering)
    }

    /// Returns the replicas that the best chain blames, if they are few among others.
    pub fn outliers(&self) -> Vec<&str> {
        let radius = self.root().map(|root| &root.replicas).unwrap_or(&self.replicas);
        let n = radius.affected.len();
        let few = n <= OUTLIERS && n < radius.total && (n == 1 || n * 3 <= radius.total);
        if few { radius.affected.iter().map(String::as_str).collect() } else { Vec::new() }
    }

    /// Describes the diagnosed pool in short.
    pub fn in_short(&self) -> PoolInTrouble {
        let root = self.root();
        let links = root.into_iter().flat_map(|root| root.via.iter().map(|link| link.title.clone()));
        PoolInTrouble {
            labels: self.scope.labels.clone(),
            symptom: self.symptom.title.clone(),
            causes: links.chain(root.map(|root| root.title.clone())).collect(),
            probability: root.map_or(0.0, |root| root.probability),
        }
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
    let mut queries_returned = BTreeSet::new();
    let all = diagnosis.symptom.evidence.iter().chain(via);
    let queries = all.filter_map(|e| Some((e.title.as_str(), e.query.as_deref()?)));
    queries.filter(move |(_, query)| queries_returned.insert(*query))
}
