//! The parts of a latency.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A mean latency and its parts, of one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyParts {
    /// The signal of the whole.
    pub signal: String,
    /// The title of the latency.
    pub title: String,
    /// The mean of the whole.
    pub seconds: f64,
    /// The parts that are known, in the order of time.
    pub parts: Vec<LatencyPart>,
    /// The remainder; `None` if a part is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<LatencyRest>,
}

/// One part of a latency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyPart {
    /// Its signal.
    pub signal: String,
    /// The title of the part.
    pub title: String,
    /// The mean.
    pub seconds: f64,
    /// The share of the whole, 0..1.
    pub share: f64,
}

/// The remainder of a latency beside its known parts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyRest {
    /// The mean.
    pub seconds: f64,
    /// The share of the whole, 0..1.
    pub share: f64,
}
