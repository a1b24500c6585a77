//! The result of reading exporters directly, part of the documented output.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reason for reading exporters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DirectReadReason {
    /// Only addresses or saved pages were named; no Prometheus was asked.
    NoPrometheus,
    /// Prometheus was unavailable or timed out.
    NoAnswer,
    /// Some queries to Prometheus timed out.
    InPart,
    /// Prometheus answered, but has no current values.
    NoValues,
    /// The user asked for it.
    Asked,
}

impl DirectReadReason {
    /// Returns true if nothing is known from Prometheus.
    pub fn is_without_prometheus(self) -> bool {
        matches!(self, Self::NoPrometheus | Self::NoAnswer)
    }
}

/// A remark on one exporter: the reason why it was not read, or an anomaly.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ExporterRemark {
    /// Its pod; else its host and port.
    pub exporter: String,
    /// A clause about it: `answered HTTP 404`.
    pub what: String,
}

/// The result of reading exporters directly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectRead {
    /// The reason for reading them.
    pub because: DirectReadReason,
    /// Number of serving engines that were read.
    pub engines: usize,
    /// Number of known serving engines.
    pub engines_known: usize,
    /// Number of GPU exporters that were read.
    pub gpu_exporters: usize,
    /// Number of known GPU exporters.
    pub gpu_exporters_known: usize,
    /// Number of exporters that were skipped, because there are too many.
    pub left_out: usize,
    /// Remarks, by exporter.
    pub remarks: Vec<ExporterRemark>,
}
