//! The queue: what goes out now, best turn first, as far as Slack's rates allow.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{Lane, Notifier};
use crate::store::{Sink, StoreError, Turn, Waiting, Work};

/// What was taken, and when to look again.
#[derive(Debug, Default)]
pub struct Taken {
    /// What is to be delivered.
    pub work: Vec<Work>,
    /// How long the rates keep what is left from going out; none when nothing is left that could.
    pub wait: Option<Duration>,
}

impl Notifier {
    /// Takes what may be delivered now, at most `most`, by a lease of `lease_ms`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn take(&self, now: Timestamp, lease_ms: i64, most: u32) -> Result<Taken, StoreError> {
        let mut taken = Taken::default();
        if most == 0 {
            return Ok(taken);
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

/// The lane that something goes through; none where nobody limits.
pub(super) fn lane(waiting: &Waiting) -> Option<Lane> {
    let post = |channel: &str| Some(Lane::Post(channel.to_owned()));
    match (&waiting.work, waiting.turn) {
        (Work::Message(delivery), _) if delivery.sink != Sink::Slack => None,
        // It takes its place where it asks.
        (Work::Look(_), _) => None,
        (_, Turn::Favoured) => Some(Lane::Favoured),
        (_, Turn::Update | Turn::Digest | Turn::Look) => Some(Lane::Ordinary),
        (Work::Message(delivery), Turn::NewCritical | Turn::New | Turn::Thread) => post(&delivery.channel),
        (Work::Digest(digest), Turn::NewCritical | Turn::New | Turn::Thread) => post(&digest.channel),
        (Work::Post(p), Turn::NewCritical | Turn::New | Turn::Thread) => post(&p.channel),
    }
}
