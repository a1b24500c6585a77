//! A counter of queries, for progress displays.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the queries and answers of the clients that share it.
#[derive(Debug, Default)]
pub struct QueryProgress {
    started: AtomicUsize,
    answered: AtomicUsize,
}

impl QueryProgress {
    /// Returns the number of finished (answered or failed) and of started queries; both may still grow.
    pub fn seen(&self) -> (usize, usize) {
        let answered = self.answered.load(Ordering::Relaxed);
        (answered, self.started.load(Ordering::Relaxed).max(answered))
    }

    pub(super) fn ask(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn answer(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }
}
