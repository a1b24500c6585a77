//! The error budget of a promise.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The error budget of a promise: the requests of the last 30 days that may miss it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBudget {
    /// The share of the budget that was spent since `since`; above 1 it is more than all of it.
    pub spent: f64,
    /// The onset of the symptom, else the start of the incident, else an hour before the evaluation.
    pub since: Timestamp,
    /// The share of the budget that is left; negative if it is overspent.
    pub left: f64,
    /// The time that the recorded series reach back, in seconds, at most 30 days: the budget is that of this time.
    pub covers_seconds: u64,
}
