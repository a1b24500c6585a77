//! The queue: selects the work that goes out now, by priority and within Slack's rate limits.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::error;

use super::{Lane, Notifier};
use store::{DeliveryPriority, PendingItem, PendingWork, Sink, StoreError};

/// The selected work, and the time until the next selection.
#[derive(Debug, Default)]
pub struct Taken {
    /// The work to deliver.
    pub work: Vec<PendingWork>,
    /// The time until the rate limits allow the remaining work; `None` if none of it is waiting for them.
    pub wait: Option<Duration>,
}

impl Notifier {
    /// Takes at most `most` pieces of work that may be delivered now, under a lease of `lease_ms` milliseconds.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn take(&self, now: Timestamp, lease_ms: i64, most: u32) -> Result<Taken, StoreError> {
        let mut taken = Taken::default();
        if most == 0 {
            return Ok(taken);
        }
        match self.store.choose_digests(now).await {
            Ok(digested) => (0..digested).for_each(|_| self.metrics.delivery("slack", "digested", None)),
            // Whatever is chosen for already goes out.
            Err(error) => error!(%error, "cannot choose between messages and digests"),
        }
        let mut closed: HashMap<Lane, Instant> = HashMap::new();
        for waiting in self.store.waiting(now, most).await? {
            if taken.work.len() >= most as usize {
                return Ok(taken);
            }
            if let Some(lane) = lane(&waiting) {
                if closed.contains_key(&lane) {
                    continue;
                }
                if let Err(until) = self.rates.enter(&lane) {
                    self.metrics.rate_limit_wait("ours");
                    closed.insert(lane, until);
                    continue;
                }
            }
            if self.store.take(&waiting, now, lease_ms).await? {
                taken.work.push(waiting.work);
            }
        }
        taken.wait = closed.into_values().min().map(|until| until.saturating_duration_since(Instant::now()));
        Ok(taken)
    }
}

/// Returns the lane of a piece of work; `None` if no rate limit applies here.
pub(super) fn lane(waiting: &PendingItem) -> Option<Lane> {
    let channel = match &waiting.work {
        PendingWork::Message(delivery) if delivery.sink != Sink::Slack => return None,
        // It enters its lane before its own API call.
        PendingWork::DuplicateCheck(_) => return None,
        PendingWork::Message(delivery) => &delivery.channel,
        PendingWork::Digest(digest) => &digest.channel,
        PendingWork::Post(post) => &post.channel,
        PendingWork::SummaryPost(weekly) => &weekly.channel,
    };
    Some(match waiting.turn {
        DeliveryPriority::NewCritical | DeliveryPriority::New | DeliveryPriority::Thread => Lane::Post(channel.clone()),
        DeliveryPriority::SummaryPost => Lane::Post(channel.clone()),
        DeliveryPriority::Favoured => Lane::Favoured,
        DeliveryPriority::Update | DeliveryPriority::Digest | DeliveryPriority::DuplicateCheck => Lane::Ordinary,
    })
}
