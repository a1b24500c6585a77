//! Analysis of an engine's log: root errors, consequences, harmless lines, and reported numbers.
//!
//! Pure over lines; a log of any length is read once, in constant memory.

mod engine_errors;
mod errors;
pub mod files;
mod forms;
mod life;
mod line;
mod log;
mod meanings;
mod moment;
mod patterns;
mod reader;
mod record;
pub mod start;
mod story;
pub mod stream;
mod tally;
mod unknown_line;
mod utf16;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use errors::UnclassifiedErrors;
use knowledge::playbook::{Direction, LogRank, LogStage};
use knowledge::signal::Unit;
pub use log::{HEAD_BYTES, Log, joined};
pub use patterns::Patterns;
pub use reader::LogReader;
pub use start::Start;
pub use story::{LogEvent, first, in_order};
pub use unknown_line::UnknownLine;

/// Maximum bytes of a line that are analysed; the rest of a longer line is ignored.
pub const LINE_BYTES: usize = 16 << 10;

/// The analysis of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogAnalysis {
    /// The engine that wrote it; `null` if no line was recognised.
    pub engine: Option<String>,
    /// Number of lines.
    pub lines: u64,
    /// The first timestamp, as written.
    pub from: Option<String>,
    /// The last timestamp, as written.
    pub to: Option<String>,
    /// The findings, in order of their first line.
    pub findings: Vec<LogMatch>,
    /// Error lines that match no finding.
    pub unknown: UnclassifiedErrors,
    /// The id of the root error: the first finding with that rank that is written as an error, else the first. `null` if there is
    /// none, or only a warning beside an error that no finding explains.
    pub first_root: Option<String>,
    /// Numbers from periodic lines.
    pub statistics: Vec<LogValueSummary>,
    /// Numbers from start-up lines.
    pub startup: Vec<LogValueSummary>,
    /// The engine's configuration.
    pub start: Start,
    /// The stage of the engine at the last line; `null` if no line shows it, or several pods wrote the log.
    #[serde(default)]
    pub stage: Option<LogStage>,
}

/// The analysis of one of several logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedLogAnalysis {
    /// The file's name.
    pub name: String,
    /// The pod, if known from the name.
    pub pod: Option<String>,
    /// The container, if known.
    pub container: Option<String>,
    /// True if a part was not read; always false for a log that is read as a stream.
    pub cut: bool,
    /// The analysis.
    #[serde(flatten)]
    pub report: LogAnalysis,
}

/// A finding with its occurrences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogMatch {
    /// Its id in `logs/<engine>.yaml`.
    pub id: String,
    /// The title, as a clause.
    pub title: String,
    /// The explanation.
    pub meaning: String,
    /// Root, sign, secondary or benign, depending on the number of repetitions.
    pub rank: LogRank,
    /// The action to take.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The direction in which to change the flag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// The playbook or cause that it supports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The signal that counts such lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tells: Option<String>,
    /// The time of the first occurrence, if the line has a timestamp.
    #[serde(skip)]
    pub at: Option<Timestamp>,
    /// The time of the last occurrence.
    #[serde(skip)]
    pub last_at: Option<Timestamp>,
    /// True if every occurrence was written as information or a warning.
    #[serde(skip)]
    pub is_warning: bool,
    /// Number of occurrences.
    pub count: u64,
    /// The line number of the first occurrence.
    pub line: u64,
    /// The time of the first occurrence, as written.
    pub first: Option<String>,
    /// The time of the last occurrence, as written.
    pub last: Option<String>,
    /// The first line, truncated.
    pub text: String,
    /// The exception, if no text says what it means: the finding explains its place, or another line of its record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised: Option<UnknownLine>,
    /// The reference of the finding.
    pub source: String,
}

/// The summary of a number over the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogValueSummary {
    /// The name of a signal, or a name of its own.
    pub name: String,
    /// The title.
    pub title: String,
    /// The unit of the values.
    pub unit: Unit,
    /// Number of readings.
    pub count: u64,
    /// The minimum.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The maximum.
    pub max: f64,
    /// The last reading.
    pub last: f64,
}
