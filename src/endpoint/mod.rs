//! What engines say of themselves over HTTP, beside their metrics: `/version`, `/v1/models`, `/server_info`.
//!
//! Only paths that the engine's signal file lists, only GET, only addresses that `exporters.allow` allows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What one path answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The engine, as its signal file is called.
    pub engine: String,
    /// The pod, else host and port.
    pub target: String,
    /// The path: `/version`.
    pub path: String,
    /// What came, or why nothing did.
    pub said: Said,
}

/// The answer itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// JSON.
    Json(Value),
    /// Anything else that is text, cut to a bound.
    Text(String),
    /// Nothing, in a sentence.
    Nothing(String),
}
