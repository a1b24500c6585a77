//! How far the questions are, for somebody who waits.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts questions and answers of the clients that were given it.
#[derive(Debug, Default)]
pub struct Progress {
    asked: AtomicUsize,
    answered: AtomicUsize,
}

impl Progress {
    /// Answered (or given up) and asked so far; more may be asked once the first are answered.
    pub fn seen(&self) -> (usize, usize) {
        let answered = self.answered.load(Ordering::Relaxed);
        (answered, self.asked.load(Ordering::Relaxed).max(answered))
    }

    pub(super) fn ask(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn answer(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }
}
