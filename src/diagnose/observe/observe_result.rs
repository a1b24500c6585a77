//! The result of [`observe`](crate::observe()).

use std::time::Duration;

use crate::observe::answer_cache::AnswerCache;
use crate::observe::gather::Members;
use detect::DetectionResult;
use findings::ErrorBudget;
use findings::observation::Observations;
use findings::{DataSpan, DirectRead, LogsRead};

/// The part of the deadline that is left for judging and rendering.
pub(crate) const RESERVE: Duration = Duration::from_millis(200);

/// The observations, and the errors on the way.
#[derive(Debug, Clone, Default)]
pub struct ObserveResult {
    /// The detected engines.
    pub detection: DetectionResult,
    /// The names of the pool's kinds, if they were looked for and are known.
    pub kinds: Vec<String>,
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
    /// The error budget of the symptom's objective.
    pub error_budget: Option<ErrorBudget>,
    /// The replicas whose rows count.
    pub(crate) members: Members,
    /// Answers that later queries of the same diagnosis reuse.
    pub(crate) cache: AnswerCache,
}

impl ObserveResult {
    /// Returns the server's words about a part of the data that it could not read; `None` if all answers are complete.
    pub fn incomplete(&self) -> Option<&str> {
        self.cache.missing.as_ref().filter(|part| part.counts).map(|part| part.said.as_str())
    }

    /// Returns what to know beside the values, in sentences: the failures, and what was noticed about the engines.
    pub fn remarks(&self) -> Vec<String> {
        self.problems.iter().chain(&self.detection.notes).cloned().collect()
    }

    /// Adds the failures of another observation: its missing values make this one worth repeating.
    pub(crate) fn add_trouble(&mut self, other: &Self) {
        self.degraded |= other.degraded;
        let new = other.problems.iter().filter(|problem| !self.problems.contains(problem));
        let new: Vec<String> = new.cloned().collect();
        self.problems.extend(new);
    }
}
