//! The result of [`observe`](super::observe()).

use std::time::Duration;

use super::answer_cache::AnswerCache;
use super::data_span::DataSpan;
use super::detection_result::DetectionResult;
use super::direct_read::DirectRead;
use super::gather::Members;
use super::logs_read::LogsRead;
use super::observation::Observations;

/// The part of the deadline that is left for judging and rendering.
pub(super) const RESERVE: Duration = Duration::from_millis(200);

/// The observations, and the errors on the way.
#[derive(Debug, Clone, Default)]
pub struct ObserveResult {
    /// The detected engines.
    pub detection: DetectionResult,
    /// The signals' values.
    pub observations: Observations,
    /// Errors, in sentences.
    pub problems: Vec<String>,
    /// True if Prometheus was unavailable or timed out: worth repeating.
    pub degraded: bool,
    /// Number of queries sent.
    pub queries: usize,
    /// Values read directly from exporters.
    pub direct: Option<DirectRead>,
    /// The logs that were read.
    pub logs: Option<LogsRead>,
    /// The time span in which the pool has data, if it has none at the time of the evaluation.
    pub elsewhere: Option<DataSpan>,
    /// The replicas whose rows count.
    pub(super) members: Members,
    /// Answers that later queries of the same diagnosis reuse.
    pub(super) cache: AnswerCache,
}

impl ObserveResult {
    /// Adds the failures of another observation: its missing values make this one worth repeating.
    pub(super) fn add_trouble(&mut self, other: &Self) {
        self.degraded |= other.degraded;
        let new = other.problems.iter().filter(|problem| !self.problems.contains(problem));
        let new: Vec<String> = new.cloned().collect();
        self.problems.extend(new);
    }
}
