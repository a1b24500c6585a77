//! The incidents that an incident has something in common with.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Act, Note};
use crate::alert::Labels;

/// The incidents that share a cause, the pool or a node with an incident.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Related {
    /// The last time that its cause hit its pool; `None` if there was none, or the cause is not known.
    pub last: Option<LastTime>,
    /// Other open incidents of its pool, then those on its nodes; a few.
    pub open: Vec<Neighbour>,
}

/// An earlier incident of the same pool with the same cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastTime {
    /// Its id.
    pub id: String,
    /// The start of its first alert.
    pub started_at: Timestamp,
    /// The time of its resolution.
    pub resolved_at: Timestamp,
    /// The steps that were marked as done, their verifications, and the judgements of its cause; oldest first.
    pub notes: Vec<Note>,
}

impl LastTime {
    /// Returns true if a note tells what was done, what came of it, or that the cause was right or wrong.
    pub fn tells(note: &Note) -> bool {
        matches!(note.act, Act::Done | Act::Verify | Act::Right | Act::Wrong)
    }
}

/// Another open incident of the same pool, or on the same node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Neighbour {
    /// Its id.
    pub id: String,
    /// The start of its first alert.
    pub started_at: Timestamp,
    /// Its symptom, else the name of its alert; `None` if it may be of another pool and is not shown where this one is.
    pub what: Option<String>,
    /// The title of its cause; `None` while that is not known.
    pub cause: Option<String>,
    /// The labels of its pool; empty if `what` is `None`.
    pub pool: Labels,
    /// The trait that both share.
    pub shared: SharedTrait,
}

/// A trait that two open incidents share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SharedTrait {
    /// The pool.
    Pool,
    /// The namespace, or the model or job where there is none; the labels of one of both name no pool.
    Place,
    /// This node.
    Node(String),
}
