//! Deduplication of Slack's requests, and the limit of concurrent work.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use tokio::sync::Semaphore;

/// The retention of request ids; Slack retries within minutes, and signatures are valid for five.
const REMEMBER: Duration = Duration::from_secs(15 * 60);
/// Maximum number of ids in the cache.
const REMEMBERED: u64 = 20_000;
/// Maximum number of requests handled concurrently; further ones get a busy notice.
const AT_ONCE: usize = 64;

/// The ids of recent requests, and the slots for concurrent work.
#[derive(Debug)]
pub struct RequestDedup {
    ids: Cache<String, ()>,
    pub(super) slots: Arc<Semaphore>,
}

impl Default for RequestDedup {
    fn default() -> Self {
        let ids = Cache::builder().max_capacity(REMEMBERED).time_to_live(REMEMBER).build();
        Self { ids, slots: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl RequestDedup {
    /// Records a request id; returns false for exactly one of all callers with this id, true for the others.
    ///
    /// An empty id is never a repetition.
    pub(super) async fn is_repeated(&self, id: &str) -> bool {
        // `or_insert` reads and inserts in two steps, so two concurrent copies would both count as new.
        !id.is_empty() && !self.ids.entry_by_ref(id).or_insert_with(std::future::ready(())).await.is_fresh()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_copies_that_arrive_together_exactly_one_is_new() {
        let recent = Arc::new(RequestDedup::default());
        for round in 0..2_000 {
            let id = format!("envelope {round}");
            let copies: Vec<_> = (0..4)
                .map(|_| {
                    let (recent, id) = (Arc::clone(&recent), id.clone());
                    tokio::spawn(async move { recent.is_repeated(&id).await })
                })
                .collect();
            let repeated = futures::future::join_all(copies).await.into_iter().filter(|r| *r.as_ref().unwrap()).count();
            assert_eq!(repeated, 3, "{id}");
        }
        assert!(!recent.is_repeated("").await && !recent.is_repeated("").await);
    }
}
