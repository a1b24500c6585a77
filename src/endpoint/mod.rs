//! What engines say of themselves over HTTP, beside their metrics: `/version`, `/v1/models`, `/server_info`.
//!
//! Only paths that the engine's signal file lists, only GET, only addresses that `exporters.allow` allows, never a
//! credential. Few replicas are asked: they stand for the others, and an engine in trouble has better things to do.

mod ask;
mod told;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use ask::{TARGETS_MOST, ask};
pub(crate) use told::is_secret;
pub use told::{Told, read};

/// What is said where a server does not know the path.
const NO_SUCH_PATH: &str = "has no such path (HTTP 404)";
/// What is said where a server wants to know who asks; the status follows.
const WANTS_A_KEY: &str = "wants a key; none was sent";

/// What one path answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The engine, as its signal file is called.
    pub engine: String,
    /// The pod, else host and port.
    pub target: String,
    /// The path: `/version`.
    pub path: String,
    /// What came, or why nothing did.
    pub said: Said,
}

/// The answer itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// JSON.
    Json(Value),
    /// Anything else that is text, cut to a bound.
    Text(String),
    /// Nothing, in a sentence.
    Nothing(String),
}

impl Answer {
    /// Whether the engine failed to answer, as opposed to having no such path in this version, or guarding it.
    pub fn is_trouble(&self) -> bool {
        let usual = |why: &str| why == NO_SUCH_PATH || why.starts_with(WANTS_A_KEY);
        matches!(&self.said, Said::Nothing(why) if !usual(why))
    }
}
