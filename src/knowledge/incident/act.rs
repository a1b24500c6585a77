//! Acts of users on incidents, as buttons, the audit log and metrics name them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An act on an incident, mostly by a button.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Acknowledge the incident.
    Acknowledge,
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
    /// All acts.
    pub const ALL: [Self; 13] = [
        Self::Acknowledge,
        Self::Again,
        Self::Note,
        Self::Evidence,
        Self::Right,
        Self::Wrong,
        Self::Silence,
        Self::Expire,
        Self::Escalate,
        Self::Done,
        Self::Verify,
        Self::Digest,
        Self::Bundle,
    ];

    /// Returns the name used in buttons, the audit log and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acknowledge => "acknowledge",
            Self::Again => "again",
            Self::Note => "note",
            Self::Evidence => "evidence",
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::Silence => "silence",
            Self::Expire => "expire",
            Self::Escalate => "escalate",
            Self::Done => "done",
            Self::Verify => "verify",
            Self::Digest => "digest",
            Self::Bundle => "bundle",
        }
    }

    /// Returns the act of a button's id; `None` for an unknown id. The id `verify:1` is one of several of the same act.
    pub fn of(id: &str) -> Option<Self> {
        let id = id.split_once(':').map_or(id, |(act, _)| act);
        Self::ALL.into_iter().find(|act| act.as_str() == id)
    }
}

/// A user action on an incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// The chat id of the user, or `page:` and a name; empty for an automatic action.
    pub who: String,
    /// Time of the action.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The action.
    pub act: Act,
    /// Details: duration, cause or result; may be empty.
    pub detail: String,
}
