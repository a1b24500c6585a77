//! Maintenance windows: times in which the alerts with some labels call nobody.

use jiff::Timestamp;

use crate::alert::{Alert, Labels};

/// One time in which alerts with these labels call nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceWindow {
    /// Unique id; made of labels and times where the window is configured.
    pub id: String,
    /// The labels that an alert has.
    pub labels: Labels,
    /// Its start.
    pub since: Timestamp,
    /// Its end.
    pub until: Timestamp,
    /// The Slack user who made it; empty if it is configured.
    pub who: String,
    /// The reason; may be empty.
    pub reason: String,
}

impl MaintenanceWindow {
    /// Returns true if it calls nobody for these alerts at this time: at least one, and all with its labels.
    pub fn covers(&self, alerts: &[&Alert], at: Timestamp) -> bool {
        self.since <= at && at < self.until && self.is_about(alerts)
    }

    /// Returns true if all these alerts, at least one, have its labels.
    pub fn is_about(&self, alerts: &[&Alert]) -> bool {
        let has_all = |alert: &&Alert| self.labels.iter().all(|(name, value)| alert.labels.get(name) == Some(value));
        !alerts.is_empty() && alerts.iter().all(has_all)
    }
}
