//! Digests: one message for many incidents of a storm, kept up to date by edits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tracing::{error, info, warn};

use super::history_search::SearchOutcome;
use super::refused_channels::REFUSED;
use super::{Lane, MOST_REPOSTS, MOST_TRIES, Notifier, PAUSES, To, mention_mark};
use findings::Scope;
use knowledge::clock;
use knowledge::failpoint::failpoint;
use redact::Redactor;
use render::{self, DigestEntry, DigestView, Phrases};
use slack::{Slack, SlackError};
use store::{
    CalledPeople, Digest, DigestContent, DigestEffects, DigestedDelivery, DuplicateCheck, Incident, IncidentPlace,
    Mention, PostponeReason, StoreError,
};

/// The shortest time between two edits of a digest, unless something in it has become critical: a storm would use up the
/// workspace's limit for edits.
const BETWEEN_EDITS: Duration = Duration::from_secs(5);

/// Maximum number of pools that a mention names.
const NAMED: usize = 5;

/// Returns the name of an incident's pool: cluster, namespace and model; the alert's name if it has none of these
/// labels.
fn pool(incident: &Incident) -> String {
    let scope = Scope::of_alerts(&incident.alerts).dimensions;
    let names = ["cluster", "namespace", "model"].iter().filter_map(|dimension| scope.get(*dimension));
    let names: Vec<&str> = names.map(String::as_str).collect();
    match names.is_empty() {
        true => incident.alerts.first().map(|alert| alert.name().to_owned()).unwrap_or_default(),
        false => names.join("/"),
    }
}

/// The places of incidents' messages, by incident id.
type Places = BTreeMap<String, DigestedDelivery>;

/// The part of an incident that a digest's message needs.
#[derive(Debug)]
struct DigestedIncident<'a> {
    id: String,
    /// Its pool, as [`pool`] names it, with its secrets.
    pool: String,
    /// The users and groups that it mentions in its routed channel.
    people: Vec<&'a str>,
    open: bool,
    critical: bool,
    critical_at: Option<Timestamp>,
    entry: DigestEntry,
}

impl DigestedIncident<'_> {
    /// Returns the name of its pool without secrets; the symptom or the alert's name if it has none.
    fn pool_name(&self) -> String {
        let name = self.entry.pool_name();
        if name.is_empty() { self.entry.what.clone() } else { name }
    }

    /// Returns the users and groups already mentioned for the incident.
    fn called<'p>(&self, places: &'p Places) -> Option<&'p CalledPeople> {
        places.get(&self.id).and_then(|place| place.called.as_ref())
    }
}

/// Joins the first few names and the number of the others.
fn named(pools: impl ExactSizeIterator<Item = String>, words: &Phrases) -> String {
    let more = pools.len().saturating_sub(NAMED);
    let mut names: Vec<String> = pools.take(NAMED).collect();
    if more > 0 {
        names.push(words.text("call-more", &[("n", more.into())]));
    }
    names.join(", ")
}

/// Returns the users and groups to mention, with the pools: in a storm each pool mentions each of them once, for the
/// first of its incidents that routes to them.
fn calls<'a, 'b>(
    incidents: &'a [DigestedIncident<'b>],
    places: &Places,
) -> BTreeMap<&'b str, BTreeMap<&'a String, &'a DigestedIncident<'b>>> {
    let mut called_by_pool: BTreeMap<&String, Vec<&CalledPeople>> = BTreeMap::new();
    for incident in incidents {
        called_by_pool.entry(&incident.pool).or_default().extend(incident.called(places));
    }
    let mut calls: BTreeMap<&str, BTreeMap<&String, &DigestedIncident<'b>>> = BTreeMap::new();
    for incident in incidents {
        for id in &incident.people {
            if !called_by_pool[&incident.pool].iter().any(|called| called.includes(id)) {
                calls.entry(id).or_default().entry(&incident.pool).or_insert(incident);
            }
        }
    }
    calls
}

/// Returns whom the critical incidents mention now: a digest's message covers all of them.
fn new_mentions(incidents: &[DigestedIncident<'_>], places: &Places, now: Timestamp) -> Vec<(IncidentPlace, Mention)> {
    let mention = |incident: &DigestedIncident<'_>| {
        let DigestedDelivery { channel, called: before, .. } = places.get(&incident.id)?;
        let is_new = before.as_ref().is_none_or(|called| incident.people.iter().any(|id| !called.includes(id)));
        let called = before.clone().unwrap_or_default().and(&incident.people);
        let place = IncidentPlace { incident: incident.id.clone(), channel: channel.clone() };
        is_new.then(|| (place, Mention { since: incident.critical_at.unwrap_or(now), called }))
    };
    incidents.iter().filter(|incident| incident.open && incident.critical).filter_map(mention).collect()
}

impl Notifier {
    pub(super) async fn deliver_digest<'a>(&'a self, digest: &Digest) -> Result<(), StoreError> {
        let places = self.store.digest_places(&digest.id).await?;
        let redactor = self.redactor_of([]);
        let of = |incident: Incident| self.digested(&incident, &places, &redactor);
        let content = self.store.digest_incidents(&digest.id, of).await?;
        // An incident that joined after the places were read is not in this message: another edit is due.
        let joined = content.incidents.iter().any(Option::is_none);
        let content = DigestContent {
            incidents: content.incidents.into_iter().flatten().collect(),
            unreadable: content.unreadable,
            revisions: content.revisions - i64::from(joined),
        };
        let incidents = &content.incidents;
        let Some(slack) = &self.slack else {
            let why = "Slack is no longer configured";
            return self.store.digest_given_up(digest, content.revisions, why, self.store.now()).await;
        };
        // For a single incident its own message says more than a digest.
        let single = match incidents.as_slice() {
            [incident] if content.unreadable == 0 => self.store.incident_with_related(&incident.id).await?,
            _ => None,
        };
        let message = match &single {
            Some(incident) => self.message(incident).await,
            None => render::digest_message(&self.digest_view(digest, &content), &self.words),
        };
        let first = digest.posted.is_none();
        if let (true, Some(since)) = (first, digest.began)
            && !self.may_post_digest(slack, digest, since).await?
        {
            return Ok(());
        }
        let calls = calls(incidents, &places);
        let mentions: BTreeSet<&str> = match first {
            true => calls.keys().copied().collect(),
            // Edits keep the mentions, which would otherwise disappear from the message.
            false => {
                let called_before = |incident: &DigestedIncident<'a>| {
                    let before = incident.called(&places);
                    let people = incident.people.iter().copied();
                    people.filter(|id| before.is_some_and(|called| called.includes(id))).collect::<Vec<_>>()
                };
                incidents.iter().flat_map(called_before).collect()
            }
        };
        let mentions: Vec<&str> = mentions.into_iter().collect();
        let mark = mention_mark(&digest.id, &mentions, &CalledPeople::default().and(&mentions));
        let to = To::of(&digest.channel, digest.posted.as_ref(), mark);
        let (answer, took) = self.send(slack, to, &message, &mentions).await;
        let now = self.store.now();
        let posted = match answer {
            Ok(posted) => (posted.channel, posted.ts),
            Err(error) => return self.digest_failed(slack, digest, &content, &error, took, now).await,
        };
        failpoint(if first { "digest posted" } else { "digest edited" });
        let result = if first { "posted" } else { "updated" };
        self.metrics.delivery("digest", result, Some(took));
        info!(digest.id = digest.id, incidents = incidents.len(), "{result} a digest");
        let place_of = |incident: &str| {
            let (incident, place) = places.get_key_value(incident)?;
            Some(IncidentPlace { incident: incident.clone(), channel: place.channel.clone() })
        };
        // An edit notifies nobody, so new mentions go to a thread.
        let in_thread = calls.iter().filter(|_| !first).filter_map(|(person, pools)| {
            let about = named(pools.values().map(|incident| incident.pool_name()), &self.words);
            Some((place_of(&pools.values().next()?.id)?, [(*person).to_owned(), about]))
        });
        // In the thread of a digest with a single incident changes are reported as under the incident's own message.
        let alone = match single.as_ref().and_then(|incident| Some((incident, places.get(&incident.id)?))) {
            Some((incident, place)) => Some((self.thread_state(incident).await, place)),
            None => None,
        };
        let reported = alone.as_ref().and_then(|(_, place)| place.thread_state.as_ref());
        let changed = alone.as_ref().zip(reported).is_some_and(|((state, _), old)| self.has_changed(old, state));
        let effects = DigestEffects {
            mentions: new_mentions(incidents, &places, now),
            calls: in_thread.collect(),
            changed: single.as_ref().filter(|_| changed).and_then(|incident| place_of(&incident.id)),
        };
        let next = clock::after(now, BETWEEN_EDITS);
        self.store.digest_delivered(digest, &posted, content.revisions, &effects, next).await?;
        failpoint(if first { "digest post recorded" } else { "digest edit recorded" });
        match (&single, &alone) {
            (Some(incident), Some((state, place))) if place.thread_state.is_none() => {
                let state = serde_json::to_string(state).unwrap_or_default();
                self.store.save_thread_state(&incident.id, &place.channel, &state).await
            }
            _ => Ok(()),
        }
    }

    /// Returns what the message needs of an incident; `None` if the incident has just joined.
    fn digested(&self, incident: &Incident, places: &Places, redactor: &Redactor) -> Option<DigestedIncident<'_>> {
        let place = places.get(&incident.id)?;
        Some(DigestedIncident {
            id: incident.id.clone(),
            pool: pool(incident),
            people: self.people_to_mention(incident, &place.channel),
            open: incident.open,
            critical: incident.critical,
            critical_at: incident.critical_at,
            entry: self.digest_entry(incident, redactor),
        })
    }

    /// Returns true if a digest whose first post has an unknown result is to be posted again: only if it does not
    /// exist.
    async fn may_post_digest(&self, slack: &Slack, digest: &Digest, since: Timestamp) -> Result<bool, StoreError> {
        let (subject, channel) = (digest.id.clone(), digest.channel.clone());
        let check = DuplicateCheck { subject, channel, thread: None, since, checks_done: 0 };
        match self.search_history(slack, &check).await? {
            SearchOutcome::Missing => Ok(true),
            SearchOutcome::Found => Ok(false),
            SearchOutcome::Later(due, why) => {
                self.metrics.delivery("digest", "retried", None);
                self.store.digest_postponed(digest, due, PostponeReason::Unknown, &why).await?;
                Ok(false)
            }
        }
    }

    fn digest_view(&self, digest: &Digest, content: &DigestContent<DigestedIncident<'_>>) -> DigestView {
        DigestView {
            id: digest.id.clone(),
            topic: digest.topic.clone(),
            opened_at: digest.opened_at,
            incidents: content.incidents.iter().map(|incident| incident.entry.clone()).collect(),
            unreadable: content.unreadable,
            interactive: self.interactive,
        }
    }

    async fn digest_failed(
        &self,
        slack: &Slack,
        digest: &Digest,
        content: &DigestContent<DigestedIncident<'_>>,
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
            return self.store.digest_postponed(digest, clock::after(now, *wait), PostponeReason::Failed, &note).await;
        }
        let retry = digest.tries + 1 < MOST_TRIES || content.incidents.iter().any(|incident| incident.open);
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
            self.report_refused_channel(slack, &digest.channel, error, now).await?;
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
        if (error.is_retryable() || refused) && retry {
            count(if refused { "refused" } else { "retried" });
            warn!(digest.id = digest.id, try = digest.tries + 1, reason = note, "cannot deliver a digest: trying again");
            let pause = if refused { REFUSED.pause(digest.tries) } else { PAUSES.pause(digest.tries) };
            let reason = PostponeReason::failed(digest.posted.is_none() && error.is_unknown());
            return self.store.digest_postponed(digest, clock::after(now, pause), reason, &note).await;
        }
        count("failed");
        error!(digest.id = digest.id, channel = digest.channel, reason = note, "gave up delivering a digest");
        self.store.digest_given_up(digest, content.revisions, &note, now).await
    }
}
