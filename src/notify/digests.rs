//! Digests: one living message for many incidents of a storm.

use std::time::Duration;

use jiff::Timestamp;
use tracing::{error, info, warn};

use super::{Lane, MOST_TRIES, Notifier, To, pause};
use crate::clock;
use crate::render::{self, DigestEntry, DigestView};
use crate::slack::SlackError;
use crate::store::{Digest, Incident, StoreError};

/// The shortest time between two edits of a digest: a storm would use up the edits of the whole workspace.
const BETWEEN_EDITS: Duration = Duration::from_secs(5);

impl Notifier {
    pub(super) async fn deliver_digest(&self, digest: &Digest) -> Result<(), StoreError> {
        let incidents = self.store.digest_incidents(&digest.id).await?;
        let Some(slack) = &self.slack else {
            let why = "Slack is no longer configured";
            return self.store.digest_given_up(digest, &incidents, why, clock::now()).await;
        };
        let message = match incidents.as_slice() {
            // Of one incident there is more to say than a line.
            [one] => self.message(one),
            _ => render::digest_message(&self.digest_view(digest, &incidents), &self.words),
        };
        let first = digest.posted.is_none();
        let called = self.store.digest_mentioned(&digest.id).await?;
        let critical = incidents.iter().find_map(|incident| Some((incident, self.whom(incident)?)));
        let whom = critical.map(|(_, whom)| whom).filter(|_| first != called);
        let to = To::of(&digest.channel, digest.posted.as_ref());
        let (answer, took) = self.send(slack, to, &message, whom).await;
        let now = clock::now();
        let posted = match answer {
            Ok(posted) => (posted.channel, posted.ts),
            Err(error) => return self.digest_failed(digest, &incidents, &error, took, now).await,
        };
        let done = if first { "posted" } else { "updated" };
        self.metrics.delivery("digest", done, Some(took));
        info!(digest.id = digest.id, incidents = incidents.len(), "{done} a digest");
        let next = clock::after(now, BETWEEN_EDITS);
        self.store.digest_delivered(digest, &posted, &incidents, next).await?;
        let Some((incident, whom)) = critical else { return Ok(()) };
        if !first && !called {
            self.store.queue_mention(&incident.id, whom, now).await?;
        }
        // Who reads the digest has read of all of them.
        let read: Vec<&str> =
            incidents.iter().filter(|incident| incident.critical).map(|incident| incident.id.as_str()).collect();
        self.store.mentioned(&read, now).await.map(drop)
    }

    fn digest_view(&self, digest: &Digest, incidents: &[Incident]) -> DigestView {
        DigestView {
            id: digest.id.clone(),
            topic: digest.topic.clone(),
            opened_at: digest.opened_at,
            incidents: incidents.iter().map(|incident| DigestEntry::of(&self.view(incident))).collect(),
            interactive: self.interactive,
        }
    }

    async fn digest_failed(
        &self,
        digest: &Digest,
        incidents: &[Incident],
        error: &SlackError,
        took: Duration,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let note = error.to_string();
        let count = |result| self.metrics.delivery("digest", result, Some(took));
        if let SlackError::RateLimited(wait) = error {
            let lane = if digest.posted.is_none() { Lane::Post(digest.channel.clone()) } else { Lane::Favoured };
            self.rates.close(&lane, *wait);
            self.metrics.rate_limit_wait("slack");
            count("rate_limited");
            return self.store.digest_postponed(digest, clock::after(now, *wait), &note).await;
        }
        let more = digest.tries + 1 < MOST_TRIES;
        if error.is_gone() && digest.posted.is_some() && more {
            warn!(digest.id = digest.id, reason = note, "the digest is gone: posting it anew");
            count("reposted");
            return self.store.digest_moved(digest, &digest.channel, now).await;
        }
        let fallback = &self.config.channel;
        if error.is_about_channel() && digest.channel != *fallback && !fallback.is_empty() {
            warn!(
                digest.id = digest.id,
                reason = note,
                "the channel does not take the digest: using the default channel"
            );
            count("rerouted");
            return self.store.digest_moved(digest, fallback, now).await;
        }
        if error.is_retryable() && more {
            count("retried");
            warn!(digest.id = digest.id, try = digest.tries + 1, reason = note, "cannot deliver a digest: trying again");
            return self.store.digest_postponed(digest, clock::after(now, pause(digest.tries)), &note).await;
        }
        count("failed");
        error!(digest.id = digest.id, channel = digest.channel, reason = note, "gave up delivering a digest");
        self.store.digest_given_up(digest, incidents, &note, now).await
    }
}
