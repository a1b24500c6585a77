//! Fleet health: each pool's few decisive numbers, against the thresholds that the playbooks alert on.
//!
//! Which numbers is data (`playbooks/health.yaml`). The types here are the documented output of `health`.

mod checks;
mod coverage;
mod look;
mod triage;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::alert::Labels;
use crate::diagnose::{EngineFound, Outcome, ReplicaValue};
use crate::playbook::Severity;
use crate::signal::Unit;

pub use coverage::{Answer, Coverage, Eyes, Sight, SignalCoverage, coverage};
pub use look::{DIMENSIONS, Look, Source, look};
pub use triage::{Triage, places, triage};

/// The version of the JSON output; a change that breaks readers gives it another name.
pub const SCHEMA: &str = "llm-diagnose/health/v1";

/// How it stands, as monitoring plugins say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing that an alert would fire for.
    Healthy,
    /// What a warning fires for.
    Warning,
    /// What a critical alert fires for.
    Critical,
    /// Nobody can tell.
    Unknown,
}

impl State {
    /// The exit status of monitoring plugins.
    pub fn code(self) -> u8 {
        match self {
            Self::Healthy => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
        }
    }

    /// Which one decides where several meet: what is known to be wrong, then what is not known.
    fn weight(self) -> u8 {
        match self {
            Self::Healthy => 0,
            Self::Unknown => 1,
            Self::Warning => 2,
            Self::Critical => 3,
        }
    }

    /// The worst of several; none for none.
    pub fn worst(states: impl Iterator<Item = Self>) -> Option<Self> {
        states.max_by_key(|state| state.weight())
    }
}

/// What is too much of a check's signal, and who says so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Threshold {
    /// How bad it is when it holds.
    pub severity: Severity,
    /// The condition on the check's own signal, in its unit.
    pub when: String,
    /// Further signals that must agree before it counts.
    pub with: Vec<With>,
    /// The alert's name, else the playbook whose symptom says so: `alert LLMHighTTFT`, `symptom of crash-loop`.
    pub source: String,
    /// Whether it holds now.
    pub outcome: Outcome,
}

/// A condition that must hold beside the check's own; of several with the same `group` one suffices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct With {
    /// Counts the entries of the alert's `when`.
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

/// One signal of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// The heading it stands under.
    pub heading: String,
    /// The signal's name.
    pub signal: String,
    /// The signal's title.
    pub title: String,
    /// How it stands; none for a number to know, which has no threshold.
    pub state: Option<State>,
    /// The pool's value now.
    pub value: Option<f64>,
    /// The value's unit.
    pub unit: Unit,
    /// Warning first; empty for a number to know.
    pub thresholds: Vec<Threshold>,
    /// The playbook to open.
    pub playbook: Option<String>,
    /// The replicas that are meant, worst first, where replicas can be told apart.
    pub replicas: Vec<ReplicaValue>,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What would bring the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<String>,
    /// The PromQL that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

/// How much of a pool can be seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Seen {
    /// Checks that have a value.
    pub with_data: usize,
    /// All checks.
    pub of: usize,
}

/// One pool: the replicas that serve one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    /// `cluster`, `namespace`, `model`, as far as its series carry them.
    pub labels: Labels,
    /// The configured name of the Prometheus that sees it.
    pub prometheus: String,
    /// The engines and exporters that tell of it.
    pub engines: Vec<EngineFound>,
    /// The replicas of the last hour.
    pub replicas: usize,
    /// The worst of its checks; unknown when its engines tell nothing that could be judged.
    pub state: State,
    /// Nothing is asked of it, so latencies and shares have no value.
    pub idle: bool,
    /// In the order of the headings.
    pub checks: Vec<Check>,
    /// How much of it can be seen.
    pub coverage: Seen,
}

/// How a fleet stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// [`SCHEMA`].
    pub schema: String,
    /// The moment that was looked at.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The rate window.
    pub window_seconds: u64,
    /// What was asked for: dimension to value.
    pub scope: Labels,
    /// The worst of the pools.
    pub state: State,
    /// By name.
    pub pools: Vec<Pool>,
    /// Pools beyond the most that are looked at.
    pub left_out: usize,
    /// Why nobody can tell, and what could not be used of the scope, in sentences.
    pub notes: Vec<String>,
    /// What went wrong on the way, in sentences.
    pub problems: Vec<String>,
    /// How many queries were asked; grows with the pools, not with their replicas.
    pub queries: usize,
    /// How long it took.
    pub took_seconds: f64,
}
