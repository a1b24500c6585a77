//! The slots of queries that run at the same time.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::PromError;

/// The slots of a client: those of its server, of which it takes only a part if others share them.
#[derive(Debug, Clone)]
pub(super) struct QuerySlots {
    own: Option<Arc<Semaphore>>,
    of_server: Arc<Semaphore>,
}

/// A slot of a query; free again when it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    _own: Option<OwnedSemaphorePermit>,
    _of_server: OwnedSemaphorePermit,
}

impl QuerySlots {
    /// Creates the slots of a client of a server with so many; it takes at most `own` of them.
    pub(super) fn new(of_server: &Arc<Semaphore>, own: Option<usize>) -> Self {
        Self { own: own.map(|most| Arc::new(Semaphore::new(most))), of_server: Arc::clone(of_server) }
    }

    /// Waits for a free slot; callers drop it at their deadline.
    pub(super) async fn acquire(&self) -> Result<Slot, PromError> {
        // First its own: what waits for the server's stands before the queries of others.
        let own = match &self.own {
            Some(own) => Some(Arc::clone(own).acquire_owned().await.map_err(|_| PromError::Late)?),
            None => None,
        };
        let of_server = Arc::clone(&self.of_server).acquire_owned().await.map_err(|_| PromError::Late)?;
        Ok(Slot { _own: own, _of_server: of_server })
    }
}
