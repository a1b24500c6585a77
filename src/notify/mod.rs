//! notify: brings the message of an incident to where it belongs, and keeps it up to date there.
//!
//! One message per incident and sink. Slack's rates are kept here: new messages per channel, edits for the whole
//! workspace. What has to wait its turn stays in the store, so nothing is lost and nothing piles up in memory.

mod pager;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use jiff::Timestamp;
use tracing::{error, info, warn};

use crate::clock;
use crate::prom::choose;
use crate::render::{self, IncidentView, Message, Words};
use crate::slack::{self, Destination, Posted, Slack, SlackError};
use crate::store::{Delivery, Incident, Sink, Store, StoreError};
use crate::telemetry::Metrics;
pub(crate) use pager::PagerClient;
pub use pager::{Pager, PagerKind, PagerOn, schema as webhook_schema};

/// Tries of one message before it is given up: with the pauses between them about two hours.
const MOST_TRIES: u32 = 130;
/// The first pause after an error; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Edits that may go out at once before the rate holds; with Slack's sliding minute the rate and this are added up.
const UPDATE_BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(4);

/// Delivers messages.
#[derive(Debug)]
pub struct Notifier {
    store: Store,
    slack: Option<Slack>,
    fallback_channel: String,
    posts: DefaultKeyedRateLimiter<String>,
    updates: DefaultDirectRateLimiter,
    metrics: Arc<Metrics>,
    public_url: String,
    /// Addresses for links, with the alert labels that choose them.
    prometheus: Vec<(String, BTreeMap<String, String>)>,
    pagers: Vec<PagerClient>,
    words: Arc<Words>,
    /// Whether somebody hears when a button is pressed; without, messages carry none.
    pub interactive: bool,
}

impl Notifier {
    /// Prepares delivery; `slack` is none when only the console is used.
    pub fn new(
        store: Store,
        slack: Option<Slack>,
        config: &slack::Config,
        metrics: Arc<Metrics>,
        public_url: &str,
        prometheus: Vec<(String, BTreeMap<String, String>)>,
        words: Arc<Words>,
        interactive: bool,
    ) -> Self {
        let at_least_one = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        let posts =
            Quota::per_second(at_least_one(config.posts_per_second)).allow_burst(at_least_one(config.posts_burst));
        let updates = Quota::per_minute(at_least_one(config.updates_per_minute)).allow_burst(UPDATE_BURST);
        Self {
            store,
            slack,
            fallback_channel: config.channel.clone(),
            posts: RateLimiter::keyed(posts),
            updates: RateLimiter::direct(updates),
            metrics,
            public_url: public_url.trim_end_matches('/').to_owned(),
            prometheus,
            pagers: Vec::new(),
            words,
            interactive,
        }
    }

    /// With pagers.
    #[must_use]
    pub(crate) fn with_pagers(mut self, pagers: Vec<PagerClient>) -> Self {
        self.pagers = pagers;
        self
    }

    /// What is said.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// The message of an incident as it stands.
    pub fn message(&self, incident: &Incident) -> Message {
        let view = IncidentView {
            id: &incident.id,
            alerts: &incident.alerts,
            truncated: incident.truncated,
            resolved_at: incident.resolved_at,
            started_at: incident.started_at,
            reason: &incident.reason,
            because: incident.because.as_deref(),
            refired: incident.refired,
            page: (!self.public_url.is_empty()).then(|| format!("{}/incidents/{}", self.public_url, incident.id)),
            prometheus: choose(&self.prometheus, &incident.alerts).map(String::as_str),
            diagnosis: incident.diagnosis.as_ref(),
            interactive: self.interactive,
            ..IncidentView::default()
        };
        render::incident_message(&view, &self.words)
    }

    /// Delivers one message, or says in the store when to try again.
    pub async fn deliver(&self, delivery: Delivery) {
        if let Err(error) = self.try_deliver(&delivery).await {
            // The lease ends by itself, so the delivery is tried again.
            error!(incident.id = delivery.incident, %error, "cannot work on a delivery");
            self.metrics.delivery(delivery.sink.as_str(), "store_error", None);
        }
    }

    async fn try_deliver(&self, delivery: &Delivery) -> Result<(), StoreError> {
        let Some(incident) = self.store.incident(&delivery.incident).await? else { return Ok(()) };
        let message = self.message(&incident);
        match (delivery.sink, &self.slack) {
            (Sink::Console, _) => {
                anstream::println!("{}", render::terminal(&message));
                self.metrics.delivery("console", "posted", None);
                let place = ("stdout".to_owned(), "-".to_owned());
                self.store.delivered(delivery, Some(&place), incident.revision, clock::now()).await
            }
            (Sink::Pager, _) => self.to_pager(delivery, &incident, &message).await,
            (Sink::Slack, Some(slack)) => self.to_slack(slack, delivery, &incident, &message).await,
            (Sink::Slack, None) => {
                self.metrics.delivery("slack", "failed", None);
                self.store.give_up(delivery, "Slack is no longer configured", clock::now()).await
            }
        }
    }

    async fn to_slack(
        &self,
        slack: &Slack,
        delivery: &Delivery,
        incident: &Incident,
        message: &Message,
    ) -> Result<(), StoreError> {
        if let Some(wait) = self.wait(delivery) {
            self.metrics.rate_limit_wait("ours");
            return self
                .store
                .postpone(delivery, clock::after(clock::now(), wait), false, "waiting for its turn")
                .await;
        }
        let body = render::slack(message);
        let started = Instant::now();
        let answer = match &delivery.posted {
            None => slack.post(Destination::channel(&delivery.channel), &body).await,
            Some((channel, ts)) => slack.update(&Posted { channel: channel.clone(), ts: ts.clone() }, &body).await,
        };
        let took = Some(started.elapsed());
        let now = clock::now();
        let done = if delivery.posted.is_none() { "posted" } else { "updated" };
        match answer {
            Ok(posted) => {
                self.metrics.delivery("slack", done, took);
                info!(incident.id = delivery.incident, channel = posted.channel, "{done} the incident's message");
                let place = (posted.channel, posted.ts);
                self.store.delivered(delivery, Some(&place), incident.revision, now).await
            }
            Err(error) => self.failed(delivery, &error, took, now).await,
        }
    }

    /// How long Slack's rates make this delivery wait; none when it may go.
    fn wait(&self, delivery: &Delivery) -> Option<Duration> {
        let clock = DefaultClock::default();
        let refused = match &delivery.posted {
            None => self.posts.check_key(&delivery.channel).err(),
            Some(_) => self.updates.check().err(),
        };
        refused.map(|not_until| not_until.wait_time_from(clock.now()).max(Duration::from_millis(20)))
    }

    async fn failed(
        &self,
        delivery: &Delivery,
        error: &SlackError,
        took: Option<Duration>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let note = error.to_string();
        if let SlackError::RateLimited(wait) = error {
            self.metrics.rate_limit_wait("slack");
            self.metrics.delivery("slack", "rate_limited", took);
            return self.store.postpone(delivery, clock::after(now, *wait), true, &note).await;
        }
        if error.is_gone() && delivery.posted.is_some() {
            warn!(incident.id = delivery.incident, reason = note, "the message is gone: posting it anew");
            self.metrics.delivery("slack", "reposted", took);
            return self.store.forget_message(delivery, now).await;
        }
        if error.is_about_channel() && delivery.channel != self.fallback_channel && !self.fallback_channel.is_empty() {
            warn!(
                incident.id = delivery.incident,
                channel = delivery.channel,
                reason = note,
                "the channel does not take the message: using the default channel"
            );
            self.metrics.delivery("slack", "rerouted", took);
            return self.store.reroute(delivery, &self.fallback_channel, now).await;
        }
        if error.is_retryable() && delivery.tries + 1 < MOST_TRIES {
            self.metrics.delivery("slack", "retried", took);
            let pause = FIRST_PAUSE.saturating_mul(1 << delivery.tries.min(16)).min(LONGEST_PAUSE);
            warn!(incident.id = delivery.incident, try = delivery.tries + 1, reason = note, "cannot deliver: trying again");
            return self.store.postpone(delivery, clock::after(now, pause), true, &note).await;
        }
        self.metrics.delivery("slack", "failed", took);
        error!(
            incident.id = delivery.incident,
            channel = delivery.channel,
            reason = note,
            "gave up delivering the message"
        );
        self.store.give_up(delivery, &note, now).await
    }
}
