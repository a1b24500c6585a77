//! An incident: one source's alert group from firing to resolved. No IO; [`store`] stores it.

mod act;
mod admit;
mod change;
mod maintenance;
mod related;
mod week;

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::alert::AlertStatus;

pub use act::{Act, Note};
pub use admit::{Admission, AdmissionRules, AdmitReason, admit};
pub use change::ChangeReason;
pub use maintenance::MaintenanceWindow;
pub use related::{LastTime, Neighbour, Related, SharedTrait};
pub use week::{CauseHistory, PoolCause, WEEK, Week, WeekIncident};

/// The topic of a storm with several symptoms or pools.
pub const VARIOUS: &str = "other";

/// Number of characters of a short id, the shortest part of an id that selects an incident.
pub const SHORT_ID: usize = 4;

/// Returns the end of an id; its beginning encodes the time, which neighbouring ids share.
pub fn short_id(id: &str) -> &str {
    id.get(id.len().saturating_sub(SHORT_ID)..).unwrap_or(id)
}

/// The state of an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum IncidentState {
    /// At least one alert fires.
    Open,
    /// No alert fires any more.
    Resolved,
}

impl IncidentState {
    /// Returns the name in the store.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The impact of an incident on requests, from its start until it was resolved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Impact {
    /// Number of requests that arrived.
    pub requests: Option<f64>,
    /// Number of these requests that failed.
    pub failed: Option<f64>,
    /// Number of these requests that were slow.
    pub slow: Option<f64>,
}

/// An acknowledgement: a person has taken the incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledged {
    /// The person's id in the chat.
    pub who: String,
    /// The time of the acknowledgement.
    pub at: Timestamp,
}

/// The stored state of an incident that admission needs.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownIncident {
    /// The incident's id.
    pub id: String,
    /// Open or resolved.
    pub state: IncidentState,
    /// The time of Alertmanager's last notification for it.
    pub notified_at: Timestamp,
    /// The time at which it was resolved; `None` while it is open.
    pub resolved_at: Option<Timestamp>,
    /// Number of alerts of its last notification that are not stored.
    pub left_out: u64,
    /// The largest number of alerts of one notification that were not stored.
    pub left_out_most: u64,
    /// True if something critical fires, or fired until the end.
    pub critical: bool,
    /// Every episode, (fingerprint, start), with its last status.
    pub episodes: BTreeMap<(String, Timestamp), AlertStatus>,
}
