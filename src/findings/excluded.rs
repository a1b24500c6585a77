//! Causes that are ruled out, could not be checked, or were not reached before the deadline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EvidenceResult, Verdict};

/// A cause that is ruled out or unlikely.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuledOut {
    /// Its id.
    pub id: String,
    /// The title of the cause, a clause.
    pub title: String,
    /// Ruled out or unlikely.
    pub verdict: Verdict,
    /// The check that speaks against it.
    pub because: Option<EvidenceResult>,
    /// The share of the symptom's latency that it explains, 0..1, if that is too little; `None` if its checks
    /// decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<f64>,
}

/// A signal that could not be checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unchecked {
    /// Its name.
    pub signal: String,
    /// Its title.
    pub title: String,
    /// The reason why there is no data.
    pub why: String,
    /// The setting that makes it available.
    pub enable: Option<String>,
    /// The causes that stay undetermined because of it.
    pub causes: Vec<String>,
}

/// A cause that was not evaluated before the deadline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnevaluatedCause {
    /// Its id.
    pub id: String,
    /// The title of the cause, a clause.
    pub title: String,
}
