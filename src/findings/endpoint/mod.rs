//! Information that engines return over HTTP beside their metrics: `/version`, `/v1/models`, `/server_info`.
//!
//! Only paths that the engine's signal file lists, only GET, only addresses that `exporters.allow` allows, never a
//! credential. Few replicas are requested: they represent the others, and an overloaded engine needs no extra load.

mod extract;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use extract::{EndpointInfo, read};

/// The reason if a server does not know the path.
pub const NO_SUCH_PATH: &str = "has no such path (HTTP 404)";
/// The start of the reason if a server requires authentication; the status follows.
pub const WANTS_A_KEY: &str = "wants a key; none was sent";

/// The answer of one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointAnswer {
    /// The engine, by the name of its signal file.
    pub engine: String,
    /// The pod, else host and port.
    pub target: String,
    /// The path: `/version`.
    pub path: String,
    /// The answer, or the reason why there is none.
    pub said: AnswerBody,
}

/// The content of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerBody {
    /// JSON.
    Json(Value),
    /// Any other text, truncated.
    Text(String),
    /// No answer; the reason in a sentence.
    Nothing(String),
}

impl EndpointAnswer {
    /// Returns true if the engine failed to answer, as opposed to lacking the path in this version or requiring a key.
    pub fn is_trouble(&self) -> bool {
        let usual = |why: &str| why == NO_SUCH_PATH || why.starts_with(WANTS_A_KEY);
        matches!(&self.said, AnswerBody::Nothing(why) if !usual(why))
    }
}
