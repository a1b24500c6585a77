//! The incidents of a channel's week, as far as the weekly summary needs them.

use std::time::Duration;

use jiff::Timestamp;

use crate::alert::Labels;

/// One week.
pub const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// The incidents that began in a channel's week.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Week {
    /// The newest ones, newest first.
    pub incidents: Vec<WeekIncident>,
    /// Number of all incidents of the week.
    pub count: u64,
    /// Number of incidents in the week before.
    pub before: u64,
}

/// An incident of a week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeekIncident {
    /// Its id.
    pub id: String,
    /// True while at least one alert fires.
    pub open: bool,
    /// True if it was closed because Alertmanager fell silent, so that its end is not known.
    pub stale: bool,
    /// True if something critical fires, or fired until the end.
    pub critical: bool,
    /// Number of times that it fired again.
    pub refired: u32,
    /// The playbook that its alerts select.
    pub playbook: Option<String>,
    /// The start of its first alert.
    pub started_at: Timestamp,
    /// The time of its first notification.
    pub opened_at: Timestamp,
    /// The time of its resolution; `None` while it is open.
    pub resolved_at: Option<Timestamp>,
    /// The time of its first message in the channel; `None` if there is none, or the first one was deleted.
    pub first_message_at: Option<Timestamp>,
    /// The time of the first acknowledgement.
    pub acknowledged_at: Option<Timestamp>,
    /// The cause that its diagnosis names; `None` if it names none.
    pub cause: Option<PoolCause>,
}

/// A cause in a pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolCause {
    /// The source of the incident.
    pub source: String,
    /// The labels of the pool.
    pub pool: Labels,
    /// The id of the cause.
    pub id: String,
}

/// The incidents of a cause in a pool before a week, and what helped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CauseHistory {
    /// Number of earlier incidents that the store keeps.
    pub before: u64,
    /// The time of the first notification of the last one.
    pub last_before: Option<Timestamp>,
    /// The last step that was marked as done, in or before the week.
    pub done: Option<String>,
    /// The result of the last verification of that incident.
    pub verified: Option<String>,
}
