//! Digests: one living message for many incidents of a storm.

use std::time::Duration;

use jiff::Timestamp;
use tracing::{error, info, warn};

use super::refused::pause_refused;
use super::seek::Sought;
use super::{Lane, MOST_REPOSTS, MOST_TRIES, Notifier, To, pause};
use crate::clock;
use crate::render::{self, DigestEntry, DigestView};
use crate::slack::{Mark, Slack, SlackError};
use crate::store::{Digest, Held, Incident, Look, StoreError};

/// The shortest time between two edits of a digest: a storm would use up the edits of the whole workspace.
const BETWEEN_EDITS: Duration = Duration::from_secs(5);

impl Notifier {
    pub(super) async fn deliver_digest(&self, digest: &Digest) -> Result<(), StoreError> {
        let incidents = self.store.digest_incidents(&digest.id).await?;
        let Some(slack) = &self.slack else {
            let why = "Slack is no longer configured";
            return self.store.digest_given_up(digest, &incidents, why, self.store.now()).await;
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
        if let (true, Some(since)) = (first, digest.began)
            && !self.may_post_digest(slack, digest, since).await?
        {
            return Ok(());
        }
        let mark = Mark { mention: whom.is_some(), ..Mark::new(&digest.id) };
        let to = To::of(&digest.channel, digest.posted.as_ref(), mark);
        let (answer, took) = self.send(slack, to, &message, whom).await;
        let now = self.store.now();
        let posted = match answer {
            Ok(posted) => (posted.channel, posted.ts),
            Err(error) => return self.digest_failed(slack, digest, &incidents, &error, took, now).await,
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

    /// Whether a digest that was being posted before is to be posted again: not when it stands already.
    async fn may_post_digest(&self, slack: &Slack, digest: &Digest, since: Timestamp) -> Result<bool, StoreError> {
        let (subject, channel) = (digest.id.clone(), digest.channel.clone());
        let look = Look { subject, channel, thread: None, since, looks: 0 };
        match self.seek(slack, &look).await? {
            Sought::Missing => Ok(true),
            Sought::Stands => Ok(false),
            Sought::Later(due, why) => {
                self.metrics.delivery("digest", "retried", None);
                self.store.digest_postponed(digest, due, Held::Unknown, &why).await?;
                Ok(false)
            }
        }
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
        slack: &Slack,
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
            return self.store.digest_postponed(digest, clock::after(now, *wait), Held::Failed, &note).await;
        }
        let more = digest.tries + 1 < MOST_TRIES || incidents.iter().any(|incident| incident.open);
        if error.is_gone()
            && digest.posted.is_some()
            && self.store.forget_digest_message(digest, MOST_REPOSTS, now).await?
        {
            warn!(digest.id = digest.id, reason = note, "the digest is gone: posting it anew");
            count("reposted");
            return Ok(());
        }
        let refused = error.is_about_channel() || error.is_about_token();
        if refused {
            self.channel_refused(slack, &digest.channel, error, now).await?;
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
        if (error.is_retryable() || refused) && more {
            count(if refused { "refused" } else { "retried" });
            warn!(digest.id = digest.id, try = digest.tries + 1, reason = note, "cannot deliver a digest: trying again");
            let pause = if refused { pause_refused(digest.tries) } else { pause(digest.tries) };
            let held = Held::failed(digest.posted.is_none() && error.is_unknown());
            return self.store.digest_postponed(digest, clock::after(now, pause), held, &note).await;
        }
        count("failed");
        error!(digest.id = digest.id, channel = digest.channel, reason = note, "gave up delivering a digest");
        self.store.digest_given_up(digest, incidents, &note, now).await
    }
}
