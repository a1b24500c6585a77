//! An incident: the life of one source's group from firing to resolved. Pure; [`crate::store`] keeps it.

mod admit;

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::alert::AlertStatus;

pub use admit::{Admission, AdmitReason, Rules, admit};

/// Whether an incident still needs anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Something fires.
    Open,
    /// Nothing fires any more.
    Resolved,
}

impl State {
    /// As the store keeps it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Resolved => "resolved",
        }
    }
}

/// What an incident cost, from its start until it was resolved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Impact {
    /// Requests that arrived.
    pub requests: Option<f64>,
    /// Of those, how many failed.
    pub failed: Option<f64>,
    /// Of those, how many were slow.
    pub slow: Option<f64>,
}

/// Who said "I am on it".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledged {
    /// Their id in the chat.
    pub who: String,
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
}

/// What admission must know of an incident that is there already.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Its id.
    pub id: String,
    /// Open or resolved.
    pub state: State,
    /// Alertmanager's last notification for it.
    pub notified_at: Timestamp,
    /// When it was resolved.
    pub resolved_at: Option<Timestamp>,
    /// Alerts of its last notification of which nothing is kept.
    pub left_out: u64,
    /// The most of which nothing was kept of one notification.
    pub left_out_most: u64,
    /// Something critical fires, or did at the end.
    pub critical: bool,
    /// Every episode, (fingerprint, start), with its last status.
    pub episodes: BTreeMap<(String, Timestamp), AlertStatus>,
}
