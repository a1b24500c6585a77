//! An error line that no knowledge explains.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Error lines that differ only in numbers and ids.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownLine {
    /// Their number.
    pub count: u64,
    /// The line number of the first.
    pub line: u64,
    /// The time of the first, as written in the log.
    pub first: Option<String>,
    /// The first line, truncated.
    pub text: String,
    /// The exception, or the message after time and level, truncated.
    pub said: String,
    /// The class of the exception; `null` for a plain error line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception: Option<String>,
    /// The place that raised it: `offloading/scheduler.py:734`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// True if the process ended of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fatal: bool,
    /// True if a thread of a Python program ended of it, which leaves the process alive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_thread: bool,
    /// True if it did no harm: its process went on to serve, or had been told to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub harmless: bool,
    /// The frames that raised it, the innermost first.
    #[serde(skip)]
    pub(super) frames: Vec<String>,
    /// The parsed time of the first.
    #[serde(skip)]
    pub at: Option<jiff::Timestamp>,
    /// True if only its words say that it is an error.
    #[serde(skip)]
    pub(super) weak: bool,
    /// True if it is a warning that quotes an exception or says that something failed: it tells only where nothing else
    /// explains the end of an engine.
    #[serde(skip)]
    pub(super) suspect: bool,
    /// True if it is a traceback that ends before its exception.
    #[serde(skip)]
    pub(super) cut: bool,
    /// The line of the same record that a finding explains: an exception that followed from it, or the header.
    #[serde(skip)]
    pub(super) explained_by: Option<u64>,
}

impl UnknownLine {
    /// Returns true if the exception tells of the program's own fault, and not of what it was given.
    pub(super) fn is_own_fault(&self) -> bool {
        let class = self.exception.as_deref().unwrap_or_default();
        ["AssertionError", "KeyError", "IndexError", "AttributeError", "UnboundLocalError"].contains(&class)
            || (class == "TypeError" && self.said.contains(" keyword argument"))
    }
}
