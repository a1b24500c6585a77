//! notify: delivers the message of an incident and keeps it up to date.
//!
//! One message per incident and sink, or one digest for many incidents in a storm, and a thread under it. Slack's rate
//! limits are applied here. Work that must wait stays in the store, so nothing is lost or piles up in memory.

mod answers;
mod cleaned;
mod digests;
mod escalation;
mod history_search;
mod maintenance;
mod messages;
mod outgoing;
mod pager;
mod pictures;
mod posts;
mod queue;
mod rates;
mod refused_channels;
pub mod weekly;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{error, warn};

pub use answers::{ANSWER_WITHIN, AnswerTarget};
pub use cleaned::{cleaned_incident, learn};
pub use history_search::{HistoryCache, LAST_SEARCH_DELAY};
use knowledge::alert::Alert;
use knowledge::clock::Backoff;
use knowledge::playbook::Library;
pub use maintenance::{LONGEST as LONGEST_MAINTENANCE, Maintenance, MaintenanceConfig};
use message::{Message, SlackMessage};
use outgoing::Outgoing;
pub use pager::{Pager, PagerClient, PagerKind, PagerOn, schema as webhook_schema};
use prom::{Prometheus, choose};
pub use queue::Taken;
use rates::Lane;
pub use rates::Rates;
use redact::Redactor;
pub use refused_channels::{CHECK_INTERVAL, REFUSED, todo};
use render::{self, IncidentView, Phrases};
use slack::{self, Destination, MessageMark, Posted, Slack, SlackError};
use store::failpoint;
use store::{CalledPeople, Incident, PendingWork, Store};
use telemetry::Metrics;

/// Tries before a message is given up: about two hours with the pauses.
const MOST_TRIES: u32 = 130;
/// Tries of a post in a thread: about ten minutes with the pauses.
const MOST_POST_TRIES: u32 = 15;
/// Tries of a chart.
const MOST_PICTURE_TRIES: u32 = 3;
/// Maximum number of times that a deleted incident message is posted again.
const MOST_REPOSTS: u32 = 2;
/// The pauses after errors.
const PAUSES: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };

/// Delivers messages to Slack, pagers and the console.
#[derive(Debug)]
pub struct Notifier {
    /// The store of pending deliveries.
    pub store: Store,
    /// The Slack client; `None` if only the console is used.
    pub slack: Option<Slack>,
    /// Channels, rates and mentions.
    pub config: slack::Config,
    /// The phrases of all messages.
    pub words: Arc<Phrases>,
    /// The service's own metrics.
    pub metrics: Arc<Metrics>,
    /// The base URL of the incident pages; empty leaves the links out.
    pub public_url: String,
    /// The template of a dashboard's URL; empty leaves the link out.
    pub dashboard_url: String,
    /// The Prometheus servers for links and charts, each with the alert labels that select it.
    pub prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
    /// The signals for charts.
    pub library: Arc<Library>,
    /// The baseline and deadline for charts.
    pub diagnosing: diagnose::Config,
    /// The pagers and webhooks.
    pub pagers: Vec<PagerClient>,
    /// True if button presses reach the service; otherwise messages have no buttons.
    pub interactive: bool,
    /// False if no Alertmanager is configured: messages have no button that silences.
    pub can_silence: bool,
    /// Removes secrets from what messages show.
    pub redactor: Redactor,
    /// Slack's rate limits.
    pub rates: Rates,
    /// The maintenance windows.
    pub maintenance: Maintenance,
    /// Cached answers about Slack's history.
    pub history: HistoryCache,
}

/// Returns the alerts, the state and the diagnosis of a stored incident, without links and buttons.
pub fn stored_view(incident: &Incident) -> IncidentView<'_> {
    IncidentView {
        id: &incident.id,
        alerts: &incident.alerts,
        truncated: incident.truncated,
        resolved_at: incident.resolved_at,
        started_at: incident.started_at,
        reason: Some(&incident.reason),
        because: incident.because.as_deref(),
        refired: incident.refired,
        diagnosis: incident.diagnosis.as_ref(),
        related: Some(&incident.related),
        ..IncidentView::default()
    }
}

impl Notifier {
    /// Sets the number of replicas that share Slack's rate limits.
    pub fn share(&self, replicas: i64) {
        self.rates.share(&self.config, u32::try_from(replicas).unwrap_or(1));
    }

    /// Renders the current message of an incident, without secrets.
    pub async fn message(&self, incident: &Incident) -> Message {
        let cleaned = self.cleaned(incident).await;
        let mut view = self.view(&cleaned);
        view.maintenance = self.maintenance_of(incident);
        render::incident_message(&view, &self.words)
    }

    /// Returns the data that every message about an incident shows, but for the maintenance window: its labels are those
    /// of the alerts before secrets were taken out of them.
    pub fn view<'a>(&'a self, incident: &'a Incident) -> IncidentView<'a> {
        IncidentView {
            page: self.incidents_page().map(|list| format!("{list}/{}", incident.id)),
            prometheus: choose(&self.prometheus, &incident.alerts).map(|prometheus| prometheus.url.as_str()),
            interactive: self.interactive,
            can_silence: self.can_silence,
            can_escalate: self.config.escalate.is_some(),
            acknowledged: incident.acknowledged.is_some(),
            snoozed: incident.snoozed,
            notes: &incident.notes,
            dashboard: Some(self.dashboard_url.as_str()).filter(|url| !url.is_empty()),
            impact: incident.impact,
            seen_before: incident.seen_before,
            alertmanager: Some(incident.external_url.as_str()).filter(|url| !url.is_empty()),
            ..stored_view(incident)
        }
    }

    /// Returns the URL of the page that lists incidents; `None` without a public URL.
    pub fn incidents_page(&self) -> Option<String> {
        let url = self.public_url.trim_end_matches('/');
        (!url.is_empty()).then(|| format!("{url}/incidents"))
    }

    /// Returns the users and groups to mention for an incident in this channel while it is critical: those of the
    /// routes of its critical alerts to this channel, without duplicates. If none of its alerts was ever routed to this
    /// channel, the channel stands in for another and gets the mentions of all routes of the critical alerts.
    fn people_to_mention(&self, incident: &Incident, channel: &str) -> Vec<&str> {
        let mut people = Vec::new();
        if !incident.open || !incident.critical || self.is_quiet(incident) {
            return people;
        }
        let goes_there = |alert: &Alert| self.config.channel_for(&alert.labels) == channel;
        let stands_in = !incident.alerts.iter().any(goes_there);
        let calls = |alert: &&Alert| alert.is_critical() && (stands_in || goes_there(alert));
        for alert in incident.firing().into_iter().filter(calls) {
            people.extend(self.config.mention_for(&alert.labels).filter(|id| !people.contains(id)));
        }
        people
    }

    /// Returns true if nobody wants to be called for this incident now.
    fn is_quiet(&self, incident: &Incident) -> bool {
        if self.maintenance_of(incident).is_some() {
            return true;
        }
        if incident.snoozed {
            return true;
        }
        false
    }

    /// Delivers one piece of work, or stores the time of the next try.
    pub async fn deliver(&self, work: PendingWork) {
        failpoint("delivery claimed");
        let out = &Outgoing::of(&work);
        let done = match &work {
            PendingWork::Message(delivery) => self.deliver_message(out, delivery).await,
            PendingWork::Digest(digest) => self.deliver_digest(out, digest).await,
            PendingWork::Post(post) => self.deliver_post(out, post).await,
            PendingWork::SummaryPost(weekly) => self.deliver_weekly(out, weekly).await,
            PendingWork::DuplicateCheck(check) => self.remove_duplicates(check).await,
        };
        let Err(error) = done else { return };
        self.metrics.delivery(out.sink, "store_error", None);
        if let (true, Some(incident)) = (error.is_unreadable(), work.incident()) {
            return self.store.set_incident_aside(incident, &error).await;
        }
        // The lease expires by itself, so the work is tried again.
        error!(sink = out.sink, %error, "cannot work on a delivery");
    }

    /// Posts or edits a message that begins with mentions; Slack notifies only for those of a new message. If Slack
    /// rejects the content, sends a shorter, plain message.
    async fn send(
        &self,
        slack: &Slack,
        to: To<'_>,
        message: &Message,
        call: &[&str],
    ) -> (Result<Posted, SlackError>, Duration) {
        let started = Instant::now();
        let mut answer = to.send(slack, &render::with_mentions(render::slack(message), call)).await;
        if let Err(error) = &answer
            && error.is_about_content()
        {
            warn!(reason = %error, "Slack does not take the message: sending a shorter one");
            answer = to.send(slack, &render::with_mentions(render::slack(&render::short(message)), call)).await;
        }
        (answer, started.elapsed())
    }
}

/// The operation for a message.
enum To<'a> {
    /// Post a new message, with the mark by which it can be found.
    New(Destination<'a>, MessageMark),
    /// Edit an existing message.
    Edit(Posted),
}

impl<'a> To<'a> {
    fn of(channel: &'a str, posted: Option<&(String, String)>, mark: MessageMark) -> Self {
        match posted {
            None => Self::New(Destination::channel(channel), mark),
            Some((channel, ts)) => Self::Edit(Posted { channel: channel.clone(), ts: ts.clone() }),
        }
    }

    async fn send(&self, slack: &Slack, body: &SlackMessage) -> Result<Posted, SlackError> {
        match self {
            Self::New(to, mark) => {
                failpoint("message before the call");
                slack.post(*to, body, mark).await
            }
            Self::Edit(at) => slack.update(at, body).await,
        }
    }
}

/// Builds the mark of a message that mentions `calls`; `called` also includes those mentioned before.
fn mention_mark(id: &str, calls: &[&str], called: &CalledPeople) -> MessageMark {
    MessageMark { mention: !calls.is_empty(), called: Some(called.to_string()), ..MessageMark::new(id) }
}
