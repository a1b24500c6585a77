//! The types that facts and reports share.

mod bucket;

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use bucket::{QuantileBucket, bucket};
use knowledge::alert::Labels;
use knowledge::gap::{Gap, GapReason};
use knowledge::signal::Unit;

/// A time window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// The start.
    pub from: Timestamp,
    /// The end.
    pub to: Timestamp,
}

/// An event of the timeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimelineEvent {
    /// The time.
    pub at: Timestamp,
    /// The kind.
    pub kind: HappenedKind,
    /// A description, as a sentence.
    pub what: String,
    /// The source: `prometheus`, `kubernetes`, `alertmanager`, `llm-diagnose`, or a user.
    pub source: String,
}

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HappenedKind {
    /// An alert fired or ended.
    Alert,
    /// A check of the diagnosis began to be met.
    Onset,
    /// A replica restarted.
    Restart,
    /// A replica began or stopped exposing metrics.
    Presence,
    /// Anything else was rolled out.
    Rollout,
    /// A silence began or ended.
    Silence,
    /// llm-diagnose posted or did something.
    Message,
    /// A user did something.
    Act,
    /// A user wrote a note.
    Note,
    /// A log's root error was written.
    Log,
    /// Kubernetes recorded a warning event.
    Event,
}

/// GPUs of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuInfo {
    /// The product: `NVIDIA H100 80GB HBM3`.
    pub kind: String,
    /// Number of GPUs.
    pub count: usize,
    /// The source.
    pub source: String,
}

/// A quantity over three windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// The signal's name.
    pub signal: String,
    /// The title.
    pub title: String,
    /// The unit of the values.
    pub unit: Unit,
    /// The value before the incident.
    pub before: Option<f64>,
    /// The value during the incident.
    pub during: Option<f64>,
    /// The value after the incident; `null` while the incident lasts.
    pub after: Option<f64>,
    /// The finite upper bounds of the histogram's buckets, ascending, if this is a quantile: it is only as exact as
    /// its bucket. Empty for other quantities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<f64>,
    /// The PromQL.
    pub query: Option<String>,
    /// The reason why there is no value.
    pub why: Option<String>,
}

/// A distribution, from a histogram.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Number of requests.
    pub count: f64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// Upper bounds and the share of requests in each bucket, 0..1; the last bound may be infinite (`null`).
    pub buckets: Vec<(Option<f64>, f64)>,
    /// Mean and p50 a day or an hour before, for comparison.
    pub earlier: Option<(f64, f64)>,
    /// The metric.
    pub metric: String,
}

impl Distribution {
    /// Returns the bucket of one of its quantiles.
    pub fn bucket(&self, quantile: f64) -> Option<QuantileBucket> {
        bucket(quantile, &self.buckets.iter().filter_map(|(bound, _)| *bound).collect::<Vec<_>>())
    }
}

/// The version of a component.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The component: `vllm`, `dcgm-exporter`, `NVIDIA driver`, `CUDA`, `Kubernetes`, `Prometheus`.
    pub what: String,
    /// Its version.
    pub version: String,
    /// The source: `GET /version of llama-0`.
    pub source: String,
}

/// A replica and the node it runs on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicaInfo {
    /// The pod, else the instance.
    pub name: String,
    /// The node.
    pub node: Option<String>,
    /// Its GPUs: index or UUID, and product where known.
    pub gpus: Vec<String>,
    /// Its role: `prefill`, `decode`, `gateway`; empty for a plain replica.
    pub role: String,
    /// Its state: `up`, `gone`, `restarted 3 times`.
    pub state: String,
    /// Further labels.
    pub labels: Labels,
}

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
    /// The tenants of the gateway that tells them apart, the largest first; a few.
    pub tenants: Vec<TenantUse>,
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

impl PrometheusFacts {
    /// Returns the facts that are missing because of a failed query.
    pub fn failed(&self) -> Vec<Gap> {
        self.missing.iter().filter(|gap| matches!(gap.reason, GapReason::Failed(_))).cloned().collect()
    }
}

/// The use of one tenant of a gateway: a team, a key, a flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantUse {
    /// Its name: team and key, or the id of its flow.
    pub who: String,
    /// Requests per second before the incident.
    pub requests_before: f64,
    /// Requests per second during it.
    pub requests: f64,
    /// Tokens per second before it, of prompts and answers.
    pub tokens_before: f64,
    /// Tokens per second during it.
    pub tokens: f64,
    /// Failed requests per second during it.
    pub failed: f64,
    /// The 99th percentile of its times to the first token during it, in seconds; `null` if unknown.
    pub first_token_p99: Option<f64>,
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
