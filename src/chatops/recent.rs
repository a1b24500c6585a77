//! Deduplication of what Slack delivers, and the limit of work at once.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use tokio::sync::Semaphore;

/// How long a repetition is recognised; Slack repeats within minutes, and signatures are valid for five.
const REMEMBER: Duration = Duration::from_secs(15 * 60);
/// How many ids are remembered.
const REMEMBERED: u64 = 20_000;
/// How many deliveries are worked on at once; further ones are told to try again.
const AT_ONCE: usize = 64;

/// The ids of recent deliveries, and the slots of work.
#[derive(Debug)]
pub struct Recent {
    ids: Cache<String, ()>,
    pub(super) slots: Arc<Semaphore>,
}

impl Default for Recent {
    fn default() -> Self {
        let ids = Cache::builder().max_capacity(REMEMBERED).time_to_live(REMEMBER).build();
        Self { ids, slots: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Recent {
    /// Remembers the id of a delivery; false for exactly one of all callers with this id, true for the others.
    ///
    /// An empty id is never repeated.
    pub(super) async fn is_repeated(&self, id: &str) -> bool {
        // `or_insert` looks and inserts in two steps, so that two copies that arrive together would both be new.
        !id.is_empty() && !self.ids.entry_by_ref(id).or_insert_with(std::future::ready(())).await.is_fresh()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_copies_that_arrive_together_exactly_one_is_new() {
        let recent = Arc::new(Recent::default());
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
