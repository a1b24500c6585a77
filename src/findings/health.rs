//! The health of a fleet, and which signals a Prometheus has: the documented output of `health`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EngineFound, Outcome, ReplicaValue};
use knowledge::alert::Labels;
use knowledge::playbook::Severity;
use knowledge::signal::Unit;

/// The version of the JSON output; an incompatible change gets a new name.
pub const SCHEMA: &str = "llm-diagnose/health/v1";

/// The state of a check, pool or fleet, as in monitoring plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    /// No alert would fire.
    Healthy,
    /// A warning alert would fire.
    Warning,
    /// A critical alert would fire.
    Critical,
    /// There is not enough data.
    Unknown,
}

impl HealthState {
    /// Returns the exit status of a monitoring plugin.
    pub fn code(self) -> u8 {
        match self {
            Self::Healthy => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
        }
    }

    /// Returns how much attention a state needs: the known problems before what is unknown.
    pub fn weight(self) -> u8 {
        match self {
            Self::Healthy => 0,
            Self::Unknown => 1,
            Self::Warning => 2,
            Self::Critical => 3,
        }
    }

    /// Returns true if an alert would fire.
    pub fn is_wrong(self) -> bool {
        matches!(self, Self::Warning | Self::Critical)
    }

    /// Returns the worst of several states; `None` if there are none.
    pub fn worst(states: impl Iterator<Item = Self>) -> Option<Self> {
        states.max_by_key(|state| state.weight())
    }
}

/// A condition on a check's signal, and its origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Threshold {
    /// The severity if it is met.
    pub severity: Severity,
    /// The condition on the check's own signal, in its unit.
    pub when: String,
    /// Conditions on further signals that must be met too.
    pub with: Vec<ExtraCondition>,
    /// The alert's name, else the playbook with this symptom: `alert LLMHighTTFT`, `symptom of crash-loop`.
    pub source: String,
    /// The result of the evaluation.
    pub outcome: Outcome,
}

/// A condition that must be met beside the check's own; of several with the same `group` one is enough.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExtraCondition {
    /// The index of the entry in the alert's `when`.
    pub group: usize,
    /// The signal.
    pub signal: String,
    /// Its title.
    pub title: String,
    /// Its unit.
    pub unit: Unit,
    /// The condition.
    pub when: String,
}

/// A signal of a pool with its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthCheck {
    /// The heading.
    pub heading: String,
    /// The signal's name.
    pub signal: String,
    /// The signal's title.
    pub title: String,
    /// The state; `null` for an informational number without a threshold.
    pub state: Option<HealthState>,
    /// The pool's current value.
    pub value: Option<f64>,
    /// The value's unit.
    pub unit: Unit,
    /// Warning first; empty for an informational number.
    pub thresholds: Vec<Threshold>,
    /// The playbook to consult.
    pub playbook: Option<String>,
    /// The replicas that meet the condition, worst first, if the signal distinguishes replicas.
    pub replicas: Vec<ReplicaValue>,
    /// The reason why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The configuration that enables it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<String>,
    /// The PromQL of the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

/// Data availability of a pool's checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckCoverage {
    /// Number of checks with a value.
    pub with_data: usize,
    /// Number of checks.
    pub of: usize,
}

/// A pool: the replicas that serve one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolHealth {
    /// `cluster`, `namespace`, `model`, as far as its series have these labels.
    pub labels: Labels,
    /// The configured name of the Prometheus; its address if another one has this name.
    pub prometheus: String,
    /// The engines and exporters with metrics of it.
    pub engines: Vec<EngineFound>,
    /// The names of its kinds, as in `playbooks/kinds.yaml`; its checks are those of such pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Number of replicas within the last hour.
    pub replicas: usize,
    /// The worst state of its checks; unknown if its engines have no data to evaluate, or if it is well as far as it can
    /// be seen and a part of the data is missing.
    pub state: HealthState,
    /// The server's words about a part of the data that it could not read; absent if all answers are complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// True if it gets no requests, so latencies and ratios have no value.
    pub idle: bool,
    /// The checks, in the order of the headings.
    pub checks: Vec<HealthCheck>,
    /// Data availability of its checks.
    pub coverage: CheckCoverage,
}

/// The health of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// [`SCHEMA`].
    pub schema: String,
    /// The evaluation time.
    pub at: Timestamp,
    /// The rate window in seconds.
    pub window_seconds: u64,
    /// The requested filter: dimension to value.
    pub scope: Labels,
    /// The worst state of the pools.
    pub state: HealthState,
    /// The pools, by name.
    pub pools: Vec<PoolHealth>,
    /// The server's words about a part of the data in which more pools may be; absent if all answers are complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// Number of pools beyond the limit.
    pub left_out: usize,
    /// Reasons for missing data, and unusable parts of the filter, as sentences.
    pub notes: Vec<String>,
    /// Errors, as sentences.
    pub problems: Vec<String>,
    /// Number of queries; grows with the pools, not with their replicas.
    pub queries: usize,
    /// The duration in seconds.
    pub took_seconds: f64,
}

/// Maximum number of replicas of a check in a summary.
const SUMMARY_REPLICAS: usize = 5;

impl Health {
    /// Returns the pools, those that need attention first.
    pub fn worst_first(&self) -> Vec<&PoolHealth> {
        let mut pools: Vec<&PoolHealth> = self.pools.iter().collect();
        pools.sort_by_key(|pool| std::cmp::Reverse(pool.state.weight()));
        pools
    }

    /// Returns the name of a pool's Prometheus if another one has a pool of the same labels, so that only it tells them apart.
    pub fn distinguishing_server<'a>(&self, pool: &'a PoolHealth) -> Option<&'a str> {
        let is_twin = |other: &&PoolHealth| other.labels == pool.labels && other.prometheus != pool.prometheus;
        self.pools.iter().find(is_twin).map(|_| pool.prometheus.as_str())
    }

    /// Returns the same health in short: of the checks only those at warning or critical, without their queries and with
    /// the worst replicas alone.
    #[must_use]
    pub fn summary(&self) -> Self {
        let mut health = self.clone();
        for pool in &mut health.pools {
            pool.checks.retain(|check| matches!(check.state, Some(HealthState::Warning | HealthState::Critical)));
            for check in &mut pool.checks {
                check.replicas.truncate(SUMMARY_REPLICAS);
                check.query = None;
            }
        }
        health
    }
}

/// The availability of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignalAvailability {
    /// It has values.
    Answers,
    /// It belongs to a feature that is not in use, so nothing is missing.
    Unused,
    /// It has no values.
    Missing,
}

/// A signal of the catalog with its availability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignalCoverage {
    /// Its name.
    pub signal: String,
    /// Its title.
    pub title: String,
    /// Its availability.
    pub answer: SignalAvailability,
    /// The reason why it has no values.
    pub why: Option<String>,
    /// The configuration that enables it.
    pub enable: Option<String>,
}

/// The degree to which a playbook is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CoverageLimit {
    /// A required check, or every check of the symptom, has no data: the playbook can be neither confirmed nor ruled
    /// out.
    Blind,
    /// Some of its own checks, or of the causes defined in it, have no data.
    HalfBlind,
}

/// A playbook with missing signals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlaybookCoverage {
    /// Its id.
    pub playbook: String,
    /// Its title.
    pub title: String,
    /// The degree of the limitation.
    pub eyes: CoverageLimit,
    /// The missing signals.
    pub missing: Vec<String>,
}

/// The coverage of a Prometheus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// The configured name of the Prometheus.
    pub prometheus: String,
    /// The detected engines and exporters, each with the lowest version that its series imply.
    pub engines: Vec<EngineFound>,
    /// Every signal of the catalog.
    pub signals: Vec<SignalCoverage>,
    /// Playbooks with missing signals, the blind ones first.
    pub playbooks: Vec<PlaybookCoverage>,
    /// Errors, as sentences.
    pub problems: Vec<String>,
    /// True if Prometheus was unavailable or slow, so that the rest is not meaningful.
    pub degraded: bool,
}
