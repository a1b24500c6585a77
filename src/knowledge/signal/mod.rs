//! Signals: named, engine-neutral quantities, and their definition for each engine.
//!
//! `catalog.yaml` defines the signals; `<engine>.yaml` has their Prometheus queries. This module only holds the
//! definitions and fills placeholders; it never queries Prometheus.

pub mod budget;
mod burn;
pub mod endpoint;
mod engine;
mod facts;
mod format;
mod metric_filter;
mod query;
mod recorded;
mod renamed;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use burn::{Buckets, Burn, BurnParts, RequestCounts, Term};
pub use endpoint::{AnswerPointers, Endpoint};
pub use engine::{
    Backends, Engine, EngineKind, EngineSignals, EngineVersion, GpuVendor, OwnLabels, RenamedMetric, SignalQuery,
    TenantSeries, VersionProbe, VersionReq,
};
pub use facts::{Change, Fact, Info, Length};
pub use format::{format_part, format_threshold, format_value};
pub use metric_filter::MetricFilter;
pub use query::{Fill, Matcher, any_of, choice, fill, histograms, matchers, prometheus_duration};
pub use recorded::{RECORDED_POOL, RECORDED_WINDOW, recorded_name};
pub use renamed::outdated;

/// The unit of a signal. Ratios are 0..1 everywhere, never percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A share, 0..1.
    Ratio,
    /// Seconds.
    Seconds,
    /// Tokens.
    Tokens,
    /// Requests, as a gauge.
    Requests,
    /// Tokens per second.
    TokensPerSecond,
    /// Requests per second.
    RequestsPerSecond,
    /// Events per second.
    PerSecond,
    /// A factor: a multiple of another value.
    Factor,
    /// A number of things: replicas, restarts, GPUs.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Degrees Celsius.
    Celsius,
    /// Hertz.
    Hertz,
    /// Watts.
    Watts,
}

/// The direction in which a signal gets worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorseDirection {
    /// More is worse.
    High,
    /// Less is worse.
    Low,
    /// Neither: it describes the workload.
    Neither,
}

impl WorseDirection {
    /// Compares two values so that a sorted list begins with the worst one; with the largest if neither is worse.
    pub fn worst_first(self, a: f64, b: f64) -> std::cmp::Ordering {
        match self {
            Self::Low => a.total_cmp(&b),
            Self::High | Self::Neither => b.total_cmp(&a),
        }
    }
}

/// The aggregation from the replicas to the whole pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PoolAggregation {
    /// The largest replica.
    Max,
    /// The smallest replica.
    Min,
    /// The sum of the replicas.
    Sum,
    /// The mean of the replicas.
    Mean,
    /// Cannot be derived (quantiles, ratios of sums): the same query is sent once more without grouping.
    Query,
}

/// The definition of a signal, for all engines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// The title, for use in a sentence: `KV cache usage`.
    pub title: String,
    /// The unit of the value.
    pub unit: Unit,
    /// The direction in which it gets worse.
    pub bad: WorseDirection,
    /// The aggregation from the replicas to the pool.
    pub fleet: PoolAggregation,
    /// The engine kinds whose data counts, best first; empty if it is derived from others. A gateway's data counts only
    /// if no serving engine has any.
    #[serde(default = "serving")]
    pub of: Vec<EngineKind>,
    /// The signals that it is derived from if no engine exposes it: another signal and the driver of that one.
    pub against: Option<Against>,
    /// The burn rate that it is: engine files have no query for it.
    pub burn: Option<Burn>,
    /// The dashboard's row that shows it, as a recorded series; unset if only a diagnosis needs it.
    pub row: Option<DashboardRow>,
    /// True if it is also shown for each replica, so that an outlier is visible.
    #[serde(default)]
    pub by_replica: bool,
    /// True if its rows are there because series of other targets are not. While a part of the data is missing such rows
    /// say nothing, for their series may be in that part.
    #[serde(default)]
    pub by_absence: bool,
    /// True if it is seen only once nothing has moved for a whole window: it began a window earlier.
    #[serde(default)]
    pub standstill: bool,
    /// An explanation in one or two sentences, for a reader who is new to it.
    pub meaning: String,
}

/// A signal whose expected value depends on another one: the factor between its value and its value at the same level
/// of the driver, in the hours before the incident.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Against {
    /// The signal.
    pub signal: String,
    /// The signal that drives it.
    pub driver: String,
}

impl Signal {
    /// Returns true if only a log can provide it: then it counts only if a log was read.
    pub fn is_of_log(&self) -> bool {
        self.of == [EngineKind::Log]
    }

    /// Returns true if only gateways expose it.
    pub fn is_of_gateways(&self) -> bool {
        self.of == [EngineKind::Gateway]
    }

    /// Returns true if most pools lack it, so that it is evidence only where it has data.
    pub fn is_extra(&self) -> bool {
        self.is_of_log() || self.against.is_some()
    }
}

/// The dashboard's rows, from user-visible signals to their explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DashboardRow {
    /// Signals that users notice.
    User,
    /// Signals of the fleet's work.
    System,
    /// Signals that explain the others.
    Diagnostic,
    /// Signals of the GPUs.
    Gpu,
}

fn serving() -> Vec<EngineKind> {
    vec![EngineKind::Serving]
}

/// The shape of `signals/catalog.yaml`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// The format's version: 1.
    pub schema: u32,
    /// Signal name to its definition.
    pub signals: BTreeMap<String, Signal>,
}
