//! Acts of users on incidents, as buttons, the audit log and metrics name them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

/// An act on an incident, mostly by a button.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Act {
    /// Acknowledge the incident.
    Acknowledge,
    /// Hear nothing more of the incident until it gets worse.
    Snooze,
    /// End a snooze.
    Unsnooze,
    /// Run the diagnosis again now.
    Again,
    /// Add a text to the incident.
    Note,
    /// Show all checks to the user who clicked.
    Evidence,
    /// Confirm that the named cause was right.
    Right,
    /// Report that the cause was another one; opens a modal for it.
    Wrong,
    /// Silence in Alertmanager; shows the matchers first.
    Silence,
    /// Expire such a silence.
    Expire,
    /// Escalate: notify the next targets.
    Escalate,
    /// Mark a step as done. The value names it: `<incident>/<step>`.
    Done,
    /// Verify that a step worked. The value names it: `<incident>/<step>`.
    Verify,
    /// Show the incidents of a digest.
    Digest,
    /// Create a bundle of all data of the incident.
    Bundle,
}

impl Act {
    /// Returns the name used in buttons, the audit log and metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the act of a button's id; `None` for an unknown id. The id `verify:1` is one of several of the same act.
    pub fn of(id: &str) -> Option<Self> {
        id.split_once(':').map_or(id, |(act, _)| act).parse().ok()
    }
}

/// A user action on an incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// The chat id of the user, or `page:` and a name; empty for an automatic action.
    pub who: String,
    /// Time of the action.
    pub at: Timestamp,
    /// The action.
    pub act: Act,
    /// Details: duration, cause or result; may be empty.
    pub detail: String,
}
