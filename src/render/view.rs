//! The data of an incident's message, besides its diagnosis.

use jiff::Timestamp;

use findings::Diagnosis;
use knowledge::alert::Alert;
use knowledge::incident::MaintenanceWindow;
use knowledge::incident::{ChangeReason, Impact, Note, Related};

/// All data that the message of an incident shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IncidentView<'a> {
    /// The incident's id.
    pub id: &'a str,
    /// All alerts seen, including resolved ones.
    pub alerts: &'a [Alert],
    /// Number of alerts that Alertmanager left out.
    pub truncated: u64,
    /// Time of resolution; `None` while it is open.
    pub resolved_at: Option<Timestamp>,
    /// Start time of the first alert.
    pub started_at: Timestamp,
    /// The reason of the last change; `None` for a message that is about no stored incident.
    pub reason: Option<&'a ChangeReason>,
    /// The reason why the playbook was selected; `None` if none matched.
    pub because: Option<&'a str>,
    /// Number of re-fires.
    pub refired: u32,
    /// Number of other incidents with the same group key in the last 24 hours.
    pub seen_before: u32,
    /// The URL of the incident's page.
    pub page: Option<String>,
    /// The URL of the queried Prometheus.
    pub prometheus: Option<&'a str>,
    /// The external URL of the Alertmanager that sent the alerts.
    pub alertmanager: Option<&'a str>,
    /// The dashboard's URL with the placeholders `{namespace}`, `{model}`, `{cluster}`, `{from}` and `{to}`.
    pub dashboard: Option<&'a str>,
    /// The diagnosis, once there is one.
    pub diagnosis: Option<&'a Diagnosis>,
    /// True if button clicks are received.
    pub interactive: bool,
    /// True if silences can be created in an Alertmanager.
    pub can_silence: bool,
    /// True if an escalation target is configured.
    pub can_escalate: bool,
    /// True if a user acknowledged it.
    pub acknowledged: bool,
    /// True while somebody wants to hear nothing more of it until it gets worse.
    pub snoozed: bool,
    /// The maintenance window in which it calls nobody.
    pub maintenance: Option<MaintenanceWindow>,
    /// User actions, oldest first.
    pub notes: &'a [Note],
    /// The incidents that share something with it.
    pub related: Option<&'a Related>,
    /// The impact on requests; known once the incident is resolved.
    pub impact: Option<Impact>,
}
