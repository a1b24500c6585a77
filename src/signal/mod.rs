//! Signals: named, engine-neutral quantities, and how each engine tells them.
//!
//! `catalog.yaml` says what a signal is; `<engine>.yaml` says how to ask Prometheus for it.
//! This module only holds the words and fills placeholders; it never talks to Prometheus.

mod burn;
mod direct;
pub mod endpoint;
mod engine;
mod facts;
mod format;
mod query;
mod recorded;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use burn::{Buckets, Burn, BurnParts, Term};
pub use direct::{Direct, Read, Selector, Where};
pub use endpoint::{Endpoint, Tells};
pub use engine::{Backends, Engine, EngineKind, EngineVersion, OwnLabels, SignalQuery, VersionProbe, VersionReq};
pub use facts::{Change, Fact, Info, Length};
pub use format::{format_part, format_value};
pub use query::{Fill, Matcher, any_of, choice, fill, histograms, matchers, prometheus_duration};
pub use recorded::{RECORDED_POOL, RECORDED_WINDOW, recorded_name};

/// What a signal's number counts. Ratios are 0..1 everywhere, never percent.
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
    /// A multiple of something else.
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

/// Which direction hurts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bad {
    /// More is worse.
    High,
    /// Less is worse.
    Low,
    /// Neither: it describes the workload.
    Neither,
}

/// How the value of the whole pool comes from its replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fleet {
    /// The largest replica.
    Max,
    /// The smallest replica.
    Min,
    /// The sum of the replicas.
    Sum,
    /// The mean of the replicas.
    Mean,
    /// Cannot be derived (quantiles, ratios of sums): the same query is asked once more without grouping.
    Query,
}

/// What a signal is, for every engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// A few words that stand in a sentence: `KV cache usage`.
    pub title: String,
    /// What the number counts.
    pub unit: Unit,
    /// Which direction hurts.
    pub bad: Bad,
    /// How the pool's value comes from its replicas.
    pub fleet: Fleet,
    /// Whose answer counts, best first, nobody's where it is made of others: a gateway's only where no serving engine has one.
    #[serde(default = "serving")]
    pub of: Vec<EngineKind>,
    /// What it is made of where no engine tells it: another signal, against what drives that one.
    pub against: Option<Against>,
    /// What it is made of where it is the burn rate of another signal: engines' files have no query for it.
    pub burn: Option<Burn>,
    /// The dashboard's row that shows it, as a recorded series; none for what only a diagnosis needs.
    pub row: Option<Row>,
    /// Shown for each replica as well, so that the odd one is seen.
    #[serde(default)]
    pub by_replica: bool,
    /// One or two sentences for somebody who has not met it.
    pub meaning: String,
}

/// A signal of which another one tells what it should be: the factor between what it is and what it was at such a value
/// of the other, in the hours before the incident.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Against {
    /// The signal.
    pub signal: String,
    /// What drives it.
    pub driver: String,
}

impl Signal {
    /// Whether nothing but a log can tell it: then it counts only where a log was read.
    pub fn is_of_log(&self) -> bool {
        self.of == [EngineKind::Log]
    }

    /// Whether only gateways tell it.
    pub fn is_of_gateways(&self) -> bool {
        self.of == [EngineKind::Gateway]
    }

    /// Whether most pools cannot tell it, so that evidence on it exists only where it is told.
    pub fn is_extra(&self) -> bool {
        self.is_of_log() || self.against.is_some()
    }
}

/// The dashboard's rows, from what users feel to what explains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Row {
    /// What users feel.
    User,
    /// What the fleet does.
    System,
    /// What explains it.
    Diagnostic,
    /// The hardware below.
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
