//! Digests: one living message for many incidents of a storm.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tracing::{error, info, warn};

use super::{Lane, MOST_TRIES, Notifier, To, pause};
use crate::clock;
use crate::diagnose::Scope;
use crate::render::{self, DigestEntry, DigestView, Words};
use crate::slack::SlackError;
use crate::store::{Digest, Incident, StoreError};

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
            return self.store.digest_given_up(digest, &incidents, why, clock::now()).await;
        };
        let view = DigestView {
            id: digest.id.clone(),
            topic: digest.topic.clone(),
            opened_at: digest.opened_at,
            incidents: incidents.iter().map(|incident| DigestEntry::of(&self.view(incident))).collect(),
            interactive: self.interactive,
        };
        let message = render::digest_message(&view, &self.words);
        let first = digest.posted.is_none();
        let mentions = self.store.digest_mentions(&digest.id).await?;
        let calls = self.calls(&digest.channel, &incidents, &mentions);
        // Edits keep the mention, or it would vanish from where people find it.
        let called = mentions.values().any(|(_, mentioned)| *mentioned);
        let critical = incidents.iter().find_map(|incident| self.whom(incident, &digest.channel));
        let whom = if first { calls.keys().next().map(String::as_str) } else { critical.filter(|_| called) };
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
        channel: &str,
        incidents: &'a [Incident],
        mentions: &BTreeMap<String, (String, bool)>,
    ) -> BTreeMap<String, BTreeMap<String, &'a Incident>> {
        let mentioned = |incident: &Incident| mentions.get(&incident.id).is_some_and(|(_, mentioned)| *mentioned);
        let known: BTreeSet<String> = incidents.iter().filter(|incident| mentioned(incident)).map(pool).collect();
        let mut calls: BTreeMap<String, BTreeMap<String, &Incident>> = BTreeMap::new();
        for incident in incidents.iter().filter(|incident| !mentioned(incident)) {
            let pool = pool(incident);
            if let Some(whom) = self.whom(incident, channel).filter(|_| !known.contains(&pool)) {
                calls.entry(whom.to_owned()).or_default().entry(pool).or_insert(incident);
            }
        }
        calls
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
