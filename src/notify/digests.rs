//! Digests: one living message for many incidents of a storm.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tracing::{error, info, warn};

use super::refused::pause_refused;
use super::seek::Sought;
use super::{Lane, MOST_REPOSTS, MOST_TRIES, Notifier, To, pause};
use crate::clock;
use crate::diagnose::Scope;
use crate::render::{self, DigestEntry, DigestView, Words};
use crate::slack::{Mark, Slack, SlackError};
use crate::store::{Digest, Held, Incident, Look, StoreError};

/// The shortest time between two edits of a digest: a storm would use up the edits of the whole workspace.
const BETWEEN_EDITS: Duration = Duration::from_secs(5);

/// Of the pools that a call is about, how many are named.
const NAMED: usize = 5;

/// Whose pool: cluster, namespace and model; an alert's name where its labels tell none.
fn pool(incident: &Incident) -> String {
    let scope = Scope::of_alerts(&incident.alerts).dimensions;
    let names = ["cluster", "namespace", "model"].iter().filter_map(|dimension| scope.get(*dimension));
    let names: Vec<&str> = names.map(String::as_str).collect();
    match names.is_empty() {
        true => incident.alerts.first().map(|alert| alert.name().to_owned()).unwrap_or_default(),
        false => names.join("/"),
    }
}

/// The channel to which an incident is routed: the digest may have moved from there to the default channel.
fn routed<'a>(incident: &Incident, mentions: &'a BTreeMap<String, (String, bool)>, digest: &'a Digest) -> &'a str {
    mentions.get(&incident.id).map_or(digest.channel.as_str(), |(channel, _)| channel.as_str())
}

/// The first few names, and how many there are besides.
fn named<'a>(pools: impl ExactSizeIterator<Item = &'a String>, words: &Words) -> String {
    let more = pools.len().saturating_sub(NAMED);
    let mut names: Vec<String> = pools.take(NAMED).cloned().collect();
    if more > 0 {
        names.push(words.text("call-more", &[("n", more.into())]));
    }
    names.join(", ")
}

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
        if let (true, Some(since)) = (first, digest.began)
            && !self.may_post_digest(slack, digest, since).await?
        {
            return Ok(());
        }
        let mentions = self.store.digest_mentions(&digest.id).await?;
        let calls = self.calls(digest, &incidents, &mentions);
        // Edits keep the mention, or it would vanish from where people find it.
        let called = mentions.values().any(|(_, mentioned)| *mentioned);
        let critical = incidents.iter().find_map(|incident| self.whom(incident, routed(incident, &mentions, digest)));
        let whom = if first { calls.keys().next().map(String::as_str) } else { critical.filter(|_| called) };
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
        for (whom, pools) in calls.iter().skip(usize::from(first)) {
            let Some((incident, (channel, _))) =
                pools.values().next().and_then(|incident| mentions.get_key_value(incident.id.as_str()))
            else {
                continue;
            };
            let about = named(pools.keys(), &self.words);
            self.store.queue_mention(incident, channel, [whom, &about], now).await?;
        }
        // Who reads the digest has read of all of them.
        for incident in incidents.iter().filter(|incident| incident.open && incident.critical) {
            if let Some((channel, false)) = mentions.get(&incident.id) {
                let since = incident.critical_at.unwrap_or(now);
                self.store.mentioned(&incident.id, channel, since).await?;
            }
        }
        Ok(())
    }

    /// Who is to be called, and for which pools: each pool of a storm calls once, with the first of its incidents that is
    /// critical.
    fn calls<'a>(
        &self,
        digest: &Digest,
        incidents: &'a [Incident],
        mentions: &BTreeMap<String, (String, bool)>,
    ) -> BTreeMap<String, BTreeMap<String, &'a Incident>> {
        let mentioned = |incident: &Incident| mentions.get(&incident.id).is_some_and(|(_, mentioned)| *mentioned);
        let known: BTreeSet<String> = incidents.iter().filter(|incident| mentioned(incident)).map(pool).collect();
        let mut calls: BTreeMap<String, BTreeMap<String, &Incident>> = BTreeMap::new();
        for incident in incidents.iter().filter(|incident| !mentioned(incident)) {
            let pool = pool(incident);
            if let Some(whom) =
                self.whom(incident, routed(incident, mentions, digest)).filter(|_| !known.contains(&pool))
            {
                calls.entry(whom.to_owned()).or_default().entry(pool).or_insert(incident);
            }
        }
        calls
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
