//! chatops: handles the commands, button presses, forms and mentions of Slack users, over either transport.
//!
//! [`Desk::receive`] acknowledges the request at once; the work runs in a bounded number of tasks. Every workspace
//! member may read; [`authority`] decides who may act, and every act is written to the audit log.

mod acts;
mod attempt;
mod authority;
pub mod command;
mod commands;
mod digest;
mod escalate;
mod feedback;
mod forms;
mod people;
mod recent;
mod replies;
mod silence_form;
mod silences;
mod targets;
mod verify;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;
use tracing::{Instrument, info_span, warn};

use crate::alertmanager::Alertmanager;
use crate::bundle::BundleService;
use crate::diagnose;
use crate::exporter::{self, ExporterReader};
use crate::notify::Notifier;
use crate::playbook::Library;
use crate::prom::Prometheus;
use crate::readiness::Examination;
use crate::render::Phrases;
use crate::slack::{self, Ack, Slack, SlackAction, SlackRequest};
use crate::store::Store;
use crate::telemetry::Metrics;
pub use authority::{Denial, Power, authorise};
pub use people::{People, RateDecision, UserFacts};
pub use recent::RequestDedup;
pub use silences::SilenceRequest;

pub(crate) use commands::{listed, measured, named_id};
pub(crate) use verify::LONGEST_FOLLOWUP;

/// Timeout for the options of a menu, within Slack's limit of 3 seconds.
const OPTIONS: Duration = Duration::from_millis(2_000);

/// Everything that a handler may need.
#[derive(Debug)]
pub struct Desk {
    /// The playbooks and signals.
    pub library: Arc<Library>,
    /// The store.
    pub store: Store,
    /// The Prometheus servers, each with the alert labels that select it.
    pub prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
    /// Scrapes exporters for signals that Prometheus lacks.
    pub reader: ExporterReader,
    /// The configured exporters.
    pub exporters: exporter::Config,
    /// The sources of the replicas' logs.
    pub logs: diagnose::LogSources,
    /// Window, baseline and deadline of a diagnosis.
    pub diagnosing: diagnose::Config,
    /// The Alertmanagers in which silences are created.
    pub alertmanagers: Vec<Alertmanager>,
    /// The Slack Web API client.
    pub slack: Slack,
    /// Permissions, rate limits and channels.
    pub config: slack::Config,
    /// The delivery of incident messages.
    pub notifier: Arc<Notifier>,
    /// The phrases of all messages.
    pub words: Arc<Phrases>,
    /// The service's own metrics.
    pub metrics: Arc<Metrics>,
    /// Wakes the diagnose loop because a diagnosis is due.
    pub wake: Arc<tokio::sync::Notify>,
    /// Wakes the deliver loop because a message has changed.
    pub deliveries: Arc<tokio::sync::Notify>,
    /// The builder of bundles.
    pub bundles: Arc<BundleService>,
    /// The running tasks; joined at shutdown.
    pub tasks: TaskTracker,
    /// The ids of recent requests: Slack retries those without an acknowledgement.
    pub seen: RequestDedup,
    /// Cached facts about users, and their rate limits.
    pub people: People,
    /// The checks of the `doctor` command.
    pub examination: Examination,
}

impl Desk {
    /// Accepts a request and acknowledges it: within 2 seconds for a menu's options, otherwise in microseconds.
    pub async fn receive(self: &Arc<Self>, inbound: SlackRequest) -> Ack {
        if self.seen.is_repeated(&inbound.id).await {
            self.metrics.inbound(kind(&inbound.what), "repeated");
            return Ack::Received;
        }
        if let SlackAction::Suggest { action, typed } = &inbound.what {
            return self.suggest(&inbound, action, typed).await;
        }
        if inbound.what == SlackAction::Joined {
            self.metrics.inbound("joined", "done");
            let desk = Arc::clone(self);
            self.tasks.spawn(async move {
                desk.notifier.check_refused_channels(Duration::ZERO).await;
                desk.deliveries.notify_one();
            });
            return Ack::Received;
        }
        let decision = match &inbound.what {
            // The user already has the form open, so no rate limit applies.
            SlackAction::Submit { .. } | SlackAction::Suggest { .. } | SlackAction::Joined => RateDecision::Now,
            SlackAction::Command { .. } | SlackAction::Mention { .. } | SlackAction::Press { .. } => {
                self.people.check_rate_limit(&inbound).await
            }
        };
        if decision != RateDecision::Now {
            self.metrics.inbound(kind(&inbound.what), "limited");
            warn!(kind = kind(&inbound.what), user = inbound.who.user, "somebody asks too often");
        }
        if decision == RateDecision::Silence {
            return Ack::Received;
        }
        let Ok(slot) = Arc::clone(&self.seen.slots).try_acquire_owned() else {
            warn!(kind = kind(&inbound.what), user = inbound.who.user, "too much is asked at once");
            self.metrics.inbound(kind(&inbound.what), "busy");
            return Ack::Say(self.words.text("busy", &[]));
        };
        let span = info_span!("chat", kind = kind(&inbound.what), user = inbound.who.user);
        // The acknowledgement of a form carries its validation errors or the next form; neither needs a call to Slack.
        if let SlackAction::Submit { form, about, values } = &inbound.what {
            if form == targets::FORM {
                return targets::submit(self, &inbound, about, values, slot).instrument(span).await;
            }
            return acts::submit(self, inbound, slot).instrument(span).await;
        }
        let desk = Arc::clone(self);
        self.tasks.spawn(
            async move {
                match &inbound.what {
                    _ if decision == RateDecision::Tell => {
                        replies::send_ephemeral_line(&desk, &inbound, desk.words.line("too-often", &[])).await
                    }
                    SlackAction::Command { text } | SlackAction::Mention { text } => {
                        if attempt::permit(&desk, &inbound, kind(&inbound.what), None, Power::Look).await {
                            commands::run(&desk, &inbound, text).await;
                        }
                    }
                    SlackAction::Press { action, value } => {
                        if !targets::is_ours(action) {
                            acts::press(&desk, &inbound, action, value).await;
                        } else if attempt::permit(&desk, &inbound, kind(&inbound.what), None, Power::Look).await {
                            targets::press(&desk, &inbound, action, value).await;
                        }
                    }
                    SlackAction::Submit { .. } | SlackAction::Suggest { .. } | SlackAction::Joined => {}
                }
                drop(slot);
            }
            .instrument(span),
        );
        Ack::Received
    }

    /// Returns the options of a menu; none if the user may not read, or if all slots are in use.
    async fn suggest(&self, inbound: &SlackRequest, action: &str, typed: &str) -> Ack {
        let Ok(_slot) = self.seen.slots.try_acquire() else {
            self.metrics.inbound("suggest", "busy");
            return Ack::Options(Vec::new());
        };
        let both =
            futures::future::join(attempt::decide(self, inbound, Power::Look), targets::suggest(self, action, typed));
        let answer = tokio::time::timeout(OPTIONS, both).await;
        let (result, options) = match answer {
            Ok((Ok(()), options)) => ("done", options),
            Ok((Err(_), _)) => ("refused", Vec::new()),
            Err(_) => ("late", Vec::new()),
        };
        self.metrics.inbound("suggest", result);
        Ack::Options(options)
    }
}

/// Returns the kind of a request as metrics and logs name it.
fn kind(what: &SlackAction) -> &'static str {
    match what {
        SlackAction::Command { .. } => "command",
        SlackAction::Mention { .. } => "mention",
        SlackAction::Press { .. } => "press",
        SlackAction::Submit { .. } => "submit",
        SlackAction::Suggest { .. } => "suggest",
        SlackAction::Joined => "joined",
    }
}
