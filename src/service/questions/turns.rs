//! The turns of questions to Prometheus: a few run at one time, so that programs cannot overload it or this process.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::QuestionError;

/// Maximum number of questions to Prometheus that run at one time.
const TURNS: usize = 4;

/// The turns that questions take; clones share them.
#[derive(Debug, Clone)]
pub struct Turns(Arc<Semaphore>);

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(TURNS)))
    }
}

impl Turns {
    /// Takes a turn until the result is dropped.
    pub(super) fn take(&self) -> Result<SemaphorePermit<'_>, QuestionError> {
        self.0.try_acquire().map_err(|_| QuestionError::Busy)
    }
}
