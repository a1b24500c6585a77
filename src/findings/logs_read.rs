//! The logs that a diagnosis read, part of the documented output.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use knowledge::gap::Gap;

/// The logs that were read, and those that could not be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogsRead {
    /// The logs, those with a root error first.
    pub logs: Vec<LogRead>,
    /// Logs that could not be read: name and reason, a sentence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Gap>,
}

/// A log that was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogRead {
    /// The name, `llama-0/vllm (previous)`.
    pub name: String,
    /// The engine that wrote it; `None` if no engine is recognised.
    pub engine: Option<String>,
    /// The number of lines.
    pub lines: u64,
    /// The first timestamp, as it is written.
    pub from: Option<String>,
    /// The last timestamp, as it is written.
    pub to: Option<String>,
    /// The first root error within the incident, else the first error that no finding explains.
    pub root: Option<LogError>,
}

/// An error in a log, without its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogError {
    /// The finding's id in `logs/<engine>.yaml`; `unknown` if no finding explains it.
    pub id: String,
    /// The title, a clause; of an unknown error the exception's class and place.
    pub title: String,
    /// The line number within the part that was read.
    pub line: u64,
    /// The time, as the log writes it.
    pub when: Option<String>,
    /// The recommended action.
    #[serde(rename = "do")]
    pub action: Option<String>,
    /// False if no finding explains the error.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub known: bool,
}

fn yes() -> bool {
    true
}
