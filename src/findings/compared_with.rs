//! The past that values were compared with.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The past that the values of a diagnosis were compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedWith {
    /// The kind of past.
    pub kind: PastKind,
    /// The end of the past; `None` without a past.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The length of the past.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<u64>,
}

/// The kind of past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PastKind {
    /// The same time of another day: yesterday, else last week.
    SameTime,
    /// The hours before the incident.
    HoursBefore,
    /// Shortly before the incident: the pool has not existed for longer.
    SinceStart,
    /// No past: checks that compare replicas with each other have to suffice.
    Peers,
    /// No past, and too few replicas to compare with each other.
    Nothing,
}
