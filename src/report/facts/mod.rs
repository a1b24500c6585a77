//! Facts about a pool from Prometheus beyond a diagnosis: metrics before, during and after, configuration and
//! hardware, replicas with their nodes, and changes.

mod bounds;
mod bucket;
mod changes;
mod collect;
mod context;
mod events;
mod info;
mod lengths;
mod measured;
mod rules;
mod targets;
mod types;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use bucket::{QuantileBucket, bucket};
pub use collect::collect_facts;
use knowledge::alert::Labels;
use knowledge::clock;
use knowledge::gap::{Gap, GapReason};
pub use types::{Distribution, GpuInfo, HappenedKind, Measured, ReplicaInfo, TimelineEvent, Version, Window};

/// The shortest window for a rate: two scrapes of the slowest usual interval.
const MIN_RATE_WINDOW: Duration = Duration::from_secs(120);

/// The compared time windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Before the incident.
    pub before: Window,
    /// During the incident, or until now.
    pub during: Window,
    /// After the incident; `None` while it lasts.
    pub after: Option<Window>,
}

impl Windows {
    /// Returns the whole time from the earliest start to the latest end.
    pub fn whole(&self) -> Window {
        let ends = [Some(self.before), Some(self.during), self.after].into_iter().flatten();
        let to = ends.map(|window| window.to).max().unwrap_or(self.during.to);
        Window { from: self.before.from.min(self.during.from), to }
    }
}

/// Returns a window's query parameters: its end, and its length of at least [`MIN_RATE_WINDOW`].
fn end_and_length(window: Window) -> (Timestamp, Duration) {
    (window.to, clock::between(window.from, window.to).max(MIN_RATE_WINDOW))
}

/// All facts about a pool; missing ones are listed in `missing`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrometheusFacts {
    /// Latencies, errors and engine metrics, over three windows.
    pub measured: Vec<Measured>,
    /// The load on the engine, over three windows.
    pub load: Vec<Measured>,
    /// Prompt tokens per request, during the window.
    pub input: Option<Distribution>,
    /// Generated tokens per request, during the window.
    pub output: Option<Distribution>,
    /// GPUs by kind.
    pub gpus: Vec<GpuInfo>,
    /// The pool's nodes with the known properties of each: type, zone.
    pub nodes: BTreeMap<String, Vec<String>>,
    /// The interconnect, if an exporter reports it: `NVLink`.
    pub interconnect: Option<String>,
    /// Versions from metrics: engines, exporters, driver, CUDA, Prometheus itself.
    pub versions: Vec<Version>,
    /// The replicas with the nodes they run on.
    pub replicas: Vec<ReplicaInfo>,
    /// Restarts, rollouts and scaling seen in metrics, oldest first.
    pub happened: Vec<TimelineEvent>,
    /// Labels of info metrics, by metric: `vllm:cache_config_info` ─▶ `{block_size: "16", …}`; one entry for each
    /// distinct row.
    pub info: BTreeMap<String, Vec<Labels>>,
    /// The alerting rules about the pool, whether they fire or not.
    pub rules: Vec<Rule>,
    /// The state of the pool's scrape targets.
    pub targets: Vec<ScrapedTarget>,
    /// Missing facts, each with the reason, as a sentence.
    pub missing: Vec<Gap>,
}

/// The start of a reason if a query failed.
const FAILED: &str = "Prometheus did not tell: ";

impl PrometheusFacts {
    /// Returns the facts that are missing because of a failed query.
    pub fn failed(&self) -> Vec<Gap> {
        self.missing.iter().filter(|gap| matches!(gap.reason, GapReason::Failed(_))).cloned().collect()
    }
}

/// An alerting rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// The alert's name.
    pub name: String,
    /// Its PromQL.
    pub query: String,
    /// The duration for which it must hold, in seconds.
    pub for_seconds: f64,
    /// `firing`, `pending`, `inactive`.
    pub state: String,
    /// The labels that it sets.
    pub labels: Labels,
    /// The error of the last evaluation.
    pub error: Option<String>,
}

/// A scrape target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScrapedTarget {
    /// Host and port.
    pub place: String,
    /// Its labels.
    pub labels: Labels,
    /// `up`, `down`, `unknown`.
    pub health: String,
    /// The error of the last scrape.
    pub error: Option<String>,
}
