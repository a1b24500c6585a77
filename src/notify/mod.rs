//! notify: brings the message of an incident to where it belongs, and keeps it up to date there.
//!
//! One message per incident and sink, or one for many in a storm; and a thread under it. Slack's rates are kept here.
//! What has to wait its turn stays in the store, so nothing is lost and nothing piles up in memory.

mod answers;
mod digests;
mod escalation;
mod messages;
mod pager;
mod posts;
mod queue;
mod rates;
mod refused;
mod seek;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{error, warn};

use crate::alert::Alert;
use crate::diagnose;
use crate::playbook::Library;
use crate::prom::{Prometheus, choose};
use crate::render::{self, IncidentView, Message, SlackMessage, Words};
use crate::slack::{self, Destination, Mark, Posted, Slack, SlackError};
use crate::store::{Called, Incident, Store, Work};
use crate::telemetry::Metrics;
pub use answers::{ANSWER_WITHIN, Answer};
pub use pager::{Pager, PagerClient, PagerKind, PagerOn, schema as webhook_schema};
pub use queue::Taken;
use rates::{Lane, Rates};
pub use refused::{LONGEST_REFUSED, todo};
pub(crate) use seek::LONGEST_LOOK;
use seek::Seeker;

/// Tries of one message before it is given up: with the pauses between them about two hours.
const MOST_TRIES: u32 = 130;
/// Tries of a post in a thread: with the pauses between them about ten minutes.
const MOST_POST_TRIES: u32 = 15;
/// Tries of a picture.
const MOST_PICTURE_TRIES: u32 = 3;
/// How often an incident's message is posted anew after somebody deleted it.
const MOST_REPOSTS: u32 = 2;
/// The first pause after an error; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Delivers messages.
#[derive(Debug)]
pub struct Notifier {
    parts: Parts,
    rates: Rates,
    seeker: Seeker,
    can_silence: bool,
}

/// What delivery is made of.
#[derive(Debug)]
pub struct Parts {
    /// What is to be delivered.
    pub store: Store,
    /// Where messages go; none when only the console is used.
    pub slack: Option<Slack>,
    /// Channels, rates and mentions.
    pub config: slack::Config,
    /// What is said.
    pub words: Arc<Words>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where people reach the pages; empty leaves the links out.
    pub public_url: String,
    /// A dashboard's address, with places to fill in; empty leaves the link out.
    pub dashboard_url: String,
    /// For links and pictures, with the alert labels that choose them.
    pub prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
    /// For pictures: which signals, and what their past is.
    pub library: Arc<Library>,
    /// For pictures: what the past is, and when to stop waiting.
    pub diagnosing: diagnose::Config,
    /// Who else is told.
    pub pagers: Vec<PagerClient>,
    /// Whether somebody hears when a button is pressed; without, messages carry none.
    pub interactive: bool,
}

impl std::ops::Deref for Notifier {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl Notifier {
    /// Prepares delivery.
    pub fn new(mut parts: Parts) -> Self {
        parts.public_url.truncate(parts.public_url.trim_end_matches('/').len());
        Self { rates: Rates::new(&parts.config), seeker: Seeker::default(), can_silence: true, parts }
    }

    /// No Alertmanager is configured, so messages offer no silence of ours.
    #[must_use]
    pub fn without_silences(self) -> Self {
        Self { can_silence: false, ..self }
    }

    /// So many replicas share Slack's rates from now on.
    pub fn share(&self, replicas: i64) {
        self.rates.share(&self.config, u32::try_from(replicas).unwrap_or(1));
    }

    /// The message of an incident as it stands.
    pub fn message(&self, incident: &Incident) -> Message {
        render::incident_message(&self.view(incident), &self.words)
    }

    /// What is told of an incident, wherever that is.
    pub fn view<'a>(&'a self, incident: &'a Incident) -> IncidentView<'a> {
        IncidentView {
            id: &incident.id,
            alerts: &incident.alerts,
            truncated: incident.truncated,
            resolved_at: incident.resolved_at,
            started_at: incident.started_at,
            reason: &incident.reason,
            because: incident.because.as_deref(),
            refired: incident.refired,
            page: (!self.public_url.is_empty()).then(|| format!("{}/incidents/{}", self.public_url, incident.id)),
            prometheus: choose(&self.prometheus, &incident.alerts).map(|prometheus| prometheus.url.as_str()),
            diagnosis: incident.diagnosis.as_ref(),
            interactive: self.interactive,
            can_silence: self.can_silence,
            can_escalate: self.config.escalate.is_some(),
            acknowledged: incident.acknowledged.is_some(),
            notes: &incident.notes,
            dashboard: Some(self.dashboard_url.as_str()).filter(|url| !url.is_empty()),
            impact: incident.impact,
            seen_before: incident.seen_before,
            alertmanager: Some(incident.external_url.as_str()).filter(|url| !url.is_empty()),
            ..IncidentView::default()
        }
    }

    /// The page that lists incidents, where people reach one.
    pub fn incidents_page(&self) -> Option<String> {
        (!self.public_url.is_empty()).then(|| format!("{}/incidents", self.public_url))
    }

    /// Whom an incident calls in this channel while it is critical: everybody whom the routes of its critical alerts name
    /// there, each once. A channel to which none of its alerts was ever routed stands in for one that did not take the
    /// message.
    fn whom(&self, incident: &Incident, channel: &str) -> Vec<&str> {
        let mut whom = Vec::new();
        if !incident.open || !incident.critical {
            return whom;
        }
        let goes_there = |alert: &Alert| self.config.channel_for(&alert.labels) == channel;
        let stands_in = !incident.alerts.iter().any(goes_there);
        let calls = |alert: &&Alert| alert.is_critical() && (stands_in || goes_there(alert));
        for alert in incident.firing().into_iter().filter(calls) {
            whom.extend(self.config.mention_for(&alert.labels).filter(|id| !whom.contains(id)));
        }
        whom
    }

    /// Delivers what was taken, or says in the store when to try again.
    pub async fn deliver(&self, work: Work) {
        let (sink, done) = match &work {
            Work::Message(delivery) => (delivery.sink.as_str(), self.deliver_message(delivery).await),
            Work::Digest(digest) => ("digest", self.deliver_digest(digest).await),
            Work::Post(post) => ("thread", self.deliver_post(post).await),
            Work::Look(look) => ("look", self.look(look).await),
        };
        let Err(error) = done else { return };
        self.metrics.delivery(sink, "store_error", None);
        if let (true, Some(incident)) = (error.is_unreadable(), work.incident()) {
            return self.store.set_incident_aside(incident, &error).await;
        }
        // The lease ends by itself, so it is tried again.
        error!(sink, %error, "cannot work on a delivery");
    }

    /// Posts or edits a message that begins with mentions, which notify only in a new one. One that Slack cannot take is
    /// sent once more, short and plain.
    async fn send(
        &self,
        slack: &Slack,
        to: To<'_>,
        message: &Message,
        call: &[&str],
    ) -> (Result<Posted, SlackError>, Duration) {
        let started = Instant::now();
        let mut answer = to.send(slack, &render::slack(message).calling(call)).await;
        if let Err(error) = &answer
            && error.is_about_content()
        {
            warn!(reason = %error, "Slack does not take the message: sending a shorter one");
            answer = to.send(slack, &render::slack(&render::short(message)).calling(call)).await;
        }
        (answer, started.elapsed())
    }
}

/// What a message becomes.
enum To<'a> {
    /// A new message, with the mark by which it is found again.
    New(Destination<'a>, Mark),
    /// An edit.
    Edit(Posted),
}

impl<'a> To<'a> {
    fn of(channel: &'a str, posted: Option<&(String, String)>, mark: Mark) -> Self {
        match posted {
            None => Self::New(Destination::channel(channel), mark),
            Some((channel, ts)) => Self::Edit(Posted { channel: channel.clone(), ts: ts.clone() }),
        }
    }

    async fn send(&self, slack: &Slack, body: &SlackMessage) -> Result<Posted, SlackError> {
        match self {
            Self::New(to, mark) => slack.post(*to, body, mark).await,
            Self::Edit(at) => slack.update(at, body).await,
        }
    }
}

/// The mark of a message that calls these; `called` are they and whoever was called before.
fn calling(id: &str, calls: &[&str], called: &Called) -> Mark {
    Mark { mention: !calls.is_empty(), called: Some(called.to_string()), ..Mark::new(id) }
}

/// The pause after so many failures in a row.
fn pause(tries: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << tries.min(16)).min(LONGEST_PAUSE)
}
