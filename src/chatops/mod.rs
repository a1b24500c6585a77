//! chatops: what people ask and do in Slack, from whichever way it came.
//!
//! [`Desk::receive`] answers Slack at once; the work itself runs in a bounded number of tasks. Looking is for everybody,
//! acting is decided by [`authority`] and written down.

mod acts;
mod authority;
pub mod command;
mod commands;
mod digest;
mod escalate;
mod feedback;
mod forms;
mod people;
mod recent;
mod silence_form;
mod silences;
mod talk;
mod targets;
mod verify;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;
use tracing::{Instrument, info_span, warn};

use crate::alertmanager::Alertmanager;
use crate::bundle::Workshop;
use crate::diagnose;
use crate::exporter::{self, Reader};
use crate::notify::Notifier;
use crate::playbook::Library;
use crate::prom::Prometheus;
use crate::readiness::Examination;
use crate::render::Words;
use crate::slack::{self, Ack, Inbound, Slack, What};
use crate::store::Store;
use crate::telemetry::Metrics;
pub use authority::{Power, Refusal, may};
pub use people::{Facts, People, Turn};
pub use recent::Recent;
pub use silences::SilenceRequest;

pub(crate) use commands::{listed, measured, named_id};
pub(crate) use verify::LONGEST_FOLLOWUP;

/// Of Slack's 3 seconds, what a menu's options may take.
const OPTIONS: Duration = Duration::from_millis(2_000);

/// Everything that an answer may need.
#[derive(Debug)]
pub struct Desk {
    /// The knowledge.
    pub library: Arc<Library>,
    /// The state.
    pub store: Store,
    /// Where evidence is asked.
    pub prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
    /// How exporters are read where those cannot tell.
    pub reader: Reader,
    /// Which exporters.
    pub exporters: exporter::Config,
    /// Where the replicas' logs are read.
    pub logs: diagnose::LogSources,
    /// How diagnoses are made.
    pub diagnosing: diagnose::Config,
    /// Where silences are made.
    pub alertmanagers: Vec<Alertmanager>,
    /// Where answers go.
    pub slack: Slack,
    /// Who may do what, and how often.
    pub config: slack::Config,
    /// The messages of incidents.
    pub notifier: Arc<Notifier>,
    /// What is said.
    pub words: Arc<Words>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Tells the diagnose loop that something is due.
    pub wake: Arc<tokio::sync::Notify>,
    /// Tells the deliver loop that a message says something new.
    pub deliveries: Arc<tokio::sync::Notify>,
    /// Makes bundles.
    pub workshop: Arc<Workshop>,
    /// Ended when the service stops.
    pub tasks: TaskTracker,
    /// What arrived lately: Slack repeats what it thinks was lost.
    pub seen: Recent,
    /// Who may do what, and how often they asked.
    pub people: People,
    /// What `doctor` looks at.
    pub examination: Examination,
}

impl Desk {
    /// Takes what somebody did and answers at once: within 2 seconds for a menu's options, else in microseconds.
    pub async fn receive(self: &Arc<Self>, inbound: Inbound) -> Ack {
        if self.seen.is_repeated(&inbound.id).await {
            self.metrics.inbound(kind(&inbound.what), "repeated");
            return Ack::Received;
        }
        if let What::Suggest { action, typed } = &inbound.what {
            return self.suggest(&inbound, action, typed).await;
        }
        if inbound.what == What::Joined {
            self.metrics.inbound("joined", "done");
            let desk = Arc::clone(self);
            self.tasks.spawn(async move {
                desk.notifier.look_at_channels(Duration::ZERO).await;
                desk.deliveries.notify_one();
            });
            return Ack::Received;
        }
        let turn = match &inbound.what {
            // What was begun may be finished.
            What::Submit { .. } | What::Suggest { .. } | What::Joined => Turn::Now,
            What::Command { .. } | What::Mention { .. } | What::Press { .. } => self.people.turn(&inbound).await,
        };
        if turn != Turn::Now {
            self.metrics.inbound(kind(&inbound.what), "limited");
            warn!(kind = kind(&inbound.what), user = inbound.who.user, "somebody asks too often");
        }
        if turn == Turn::Silence {
            return Ack::Received;
        }
        let Ok(slot) = Arc::clone(&self.seen.slots).try_acquire_owned() else {
            warn!(kind = kind(&inbound.what), user = inbound.who.user, "too much is asked at once");
            self.metrics.inbound(kind(&inbound.what), "busy");
            return Ack::Say(self.words.text("busy", &[]));
        };
        let span = info_span!("chat", kind = kind(&inbound.what), user = inbound.who.user);
        // A form is answered by what is wrong with it, or by the next one; both are known without asking anybody.
        if let What::Submit { form, about, values } = &inbound.what {
            if form == targets::FORM {
                return targets::submit(self, &inbound, about, values, slot).instrument(span).await;
            }
            return acts::submit(self, inbound, slot).instrument(span).await;
        }
        let desk = Arc::clone(self);
        self.tasks.spawn(
            async move {
                match &inbound.what {
                    _ if turn == Turn::Tell => talk::tell(&desk, &inbound, desk.words.line("too-often", &[])).await,
                    What::Command { text } | What::Mention { text } => {
                        if acts::permit(&desk, &inbound, kind(&inbound.what), None, Power::Look).await {
                            commands::run(&desk, &inbound, text).await;
                        }
                    }
                    What::Press { action, value } => {
                        if !targets::is_ours(action) {
                            acts::press(&desk, &inbound, action, value).await;
                        } else if acts::permit(&desk, &inbound, kind(&inbound.what), None, Power::Look).await {
                            targets::press(&desk, &inbound, action, value).await;
                        }
                    }
                    What::Submit { .. } | What::Suggest { .. } | What::Joined => {}
                }
                drop(slot);
            }
            .instrument(span),
        );
        Ack::Received
    }

    /// The options of a menu; none for those who may not look, and none when too much is asked at once.
    async fn suggest(&self, inbound: &Inbound, action: &str, typed: &str) -> Ack {
        let Ok(_slot) = self.seen.slots.try_acquire() else {
            self.metrics.inbound("suggest", "busy");
            return Ack::Options(Vec::new());
        };
        let both =
            futures::future::join(acts::decide(self, inbound, Power::Look), targets::suggest(self, action, typed));
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

/// As metrics and logs name it.
fn kind(what: &What) -> &'static str {
    match what {
        What::Command { .. } => "command",
        What::Mention { .. } => "mention",
        What::Press { .. } => "press",
        What::Submit { .. } => "submit",
        What::Suggest { .. } => "suggest",
        What::Joined => "joined",
    }
}
