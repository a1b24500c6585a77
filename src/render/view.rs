//! What is known of an incident besides its diagnosis.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Act;
use crate::alert::Alert;
use crate::diagnose::Diagnosis;
use crate::incident::Impact;

/// Everything that the message of an incident tells.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IncidentView<'a> {
    /// The incident's id.
    pub id: &'a str,
    /// Every alert seen, resolved ones included.
    pub alerts: &'a [Alert],
    /// Alerts that Alertmanager left out.
    pub truncated: u64,
    /// Resolved.
    pub resolved_at: Option<Timestamp>,
    /// When the first alert began to fire.
    pub started_at: Timestamp,
    /// Why this message changed last, as the store has it: `new_alerts`, `still_firing`.
    pub reason: &'a str,
    /// Why the playbook was chosen; none when nothing matched.
    pub because: Option<&'a str>,
    /// How often it re-fired.
    pub refired: u32,
    /// Incidents of the same group key in the last 24 hours, this one not counted.
    pub seen_before: u32,
    /// The page of this incident.
    pub page: Option<String>,
    /// The Prometheus that was asked.
    pub prometheus: Option<&'a str>,
    /// The Alertmanager that sent it, for people: its external address.
    pub alertmanager: Option<&'a str>,
    /// The dashboard's address with `{namespace}`, `{model}`, `{cluster}`, `{from}` and `{to}` in it.
    pub dashboard: Option<&'a str>,
    /// The diagnosis, once there is one.
    pub diagnosis: Option<&'a Diagnosis>,
    /// Whether somebody listens to buttons.
    pub interactive: bool,
    /// Whether an Alertmanager takes silences.
    pub can_silence: bool,
    /// Whether somebody is configured to be called.
    pub can_escalate: bool,
    /// Whether somebody is on it.
    pub acknowledged: bool,
    /// Who did what, oldest first.
    pub notes: &'a [Note],
    /// What it cost; known once it is resolved.
    pub impact: Option<Impact>,
    /// What decided, as a picture.
    pub picture: Option<Picture>,
}

/// Who did what with an incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The chat's id of a person; empty when nobody asked for it.
    pub who: String,
    /// When.
    pub at: Timestamp,
    /// What was done.
    pub act: Act,
    /// For how long, which cause, with what result; may be empty.
    pub detail: String,
}

/// A picture that was uploaded before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// The chat's id of the file.
    pub file: String,
    /// What it shows, for those who cannot see it.
    pub alt: String,
}
