//! A request for a diagnosis.

use std::time::Duration;

use jiff::Timestamp;

use crate::AlertCondition;
use crate::scope::Scope;

/// The reason that is reported where a comparison with the past has no data.
pub const NO_PAST: &str = "there is no past to compare with";

/// The rate window unless the configuration or the incident's age says otherwise.
pub const USUAL_WINDOW: Duration = Duration::from_secs(300);

/// The shortest window of a young incident, and that of a step of a trace: two scrapes of a minute.
pub const SHORTEST_WINDOW: Duration = Duration::from_secs(120);

/// A request for a diagnosis: the pool, the time, and the past to compare with.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The playbook at the start of the chain; empty where the symptom has to be found out.
    pub playbook: String,
    /// True if the pool's other symptoms are screened where that playbook explains nothing.
    pub screen: bool,
    /// Names of alerts that carry neither a playbook nor an expression; Prometheus may know their rules.
    pub rules: Vec<String>,
    /// The conditions of its alerts.
    pub conditions: Vec<AlertCondition>,
    /// The pool.
    pub scope: Scope,
    /// The time of the evaluation.
    pub at: Timestamp,
    /// The start of the incident, if known: the time before it counts as normal.
    pub since: Option<Timestamp>,
    /// The rate window.
    pub window: Duration,
    /// True if the window is the age of a young incident: the short windows of signals are then as much shorter.
    pub is_young: bool,
    /// The past to compare with.
    pub baseline: Baseline,
    /// The time limit for Prometheus' answers.
    pub deadline: Duration,
}

impl Request {
    /// Returns a request for a pool's values at one time, without a playbook and a past.
    pub fn without_past(scope: Scope, at: Timestamp, window: Duration, deadline: Duration) -> Self {
        Self {
            playbook: String::new(),
            screen: false,
            rules: Vec::new(),
            conditions: Vec::new(),
            scope,
            at,
            since: None,
            window,
            is_young: false,
            baseline: Baseline::Off,
            deadline,
        }
    }
}

/// The past that values are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// The same time so much earlier, else the time before the incident.
    Earlier(Duration),
    /// No comparison with the past.
    Off,
}
