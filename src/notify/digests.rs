//! Digests: one message for many incidents of a storm, kept up to date by edits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tracing::{error, info, warn};

use super::history_search::SearchOutcome;
use super::outgoing::{Outgoing, SendFailure, Trouble};
use super::{MOST_REPOSTS, MOST_TRIES, Notifier, To, mention_mark};
use findings::Scope;
use knowledge::clock;
use redact::Redactor;
use render::{self, DigestEntry, DigestView, Phrases};
use slack::{Slack, SlackError};
use store::failpoint;
use store::{
    CalledPeople, Digest, DigestContent, DigestEffects, DigestedDelivery, Incident, IncidentPlace, Mention, StoreError,
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
    pub(super) async fn deliver_digest<'a>(&'a self, out: &Outgoing<'_>, digest: &Digest) -> Result<(), StoreError> {
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
        let first = out.is_new;
        if !matches!(self.look_for(slack, out).await?, SearchOutcome::Missing) {
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
            Err(error) => return self.digest_failed(slack, out, digest, &content, (&error, took)).await,
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
        let shown = single.as_ref().zip(alone.as_ref()).zip(reported);
        let changed = shown.is_some_and(|((incident, (state, _)), old)| self.has_changed(incident, old, state));
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

    /// Tries again, posts anew what was deleted, or moves to the default channel; gives up after the end of the incidents.
    async fn digest_failed(
        &self,
        slack: &Slack,
        out: &Outgoing<'_>,
        digest: &Digest,
        content: &DigestContent<DigestedIncident<'_>>,
        (error, took): (&SlackError, Duration),
    ) -> Result<(), StoreError> {
        let (now, failed) = (self.store.now(), SendFailure::of(error, took));
        let (reason, fallback) = (&failed.note, &self.config.channel);
        if error.is_gone() && !out.is_new && self.store.forget_digest_message(digest, MOST_REPOSTS, now).await? {
            warn!(digest.id = digest.id, reason, "the digest is gone: posting it anew");
            self.metrics.delivery(out.sink, "reposted", failed.took);
            return Ok(());
        }
        if let Trouble::Refused = failed.trouble {
            self.report_refused_channel(slack, out.channel, error, now).await?;
        }
        if error.is_about_channel() && out.channel != fallback && !fallback.is_empty() {
            warn!(digest.id = digest.id, reason, "the channel does not take the digest: using the default channel");
            self.metrics.delivery(out.sink, "rerouted", failed.took);
            return self.store.digest_moved(digest, fallback, now).await;
        }
        let kept = out.tries + 1 < MOST_TRIES || content.incidents.iter().any(|incident| incident.open);
        if self.try_again(out, kept, &failed).await? {
            return Ok(());
        }
        self.metrics.delivery(out.sink, "failed", failed.took);
        error!(digest.id = digest.id, channel = out.channel, reason, "gave up delivering a digest");
        self.store.digest_given_up(digest, content.revisions, reason, now).await
    }
}
