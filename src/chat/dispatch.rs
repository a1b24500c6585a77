//! Dispatch: acknowledges a request at once and hands it to its command, act or form in a bounded number of tasks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tracing::{Instrument, error, info_span, warn};

use super::authority::Power;
use super::forms::{self, ModalMetadata};
use super::intent::{Intent, TARGET_FORM};
use super::people::RateDecision;
use super::replies::Caller;
use super::reply::Reply;
use super::{
    Desk, commands, digest, escalate, feedback, home, plain_acts, silence_form, silences, target_form, verify,
};
use crate::acts::find_incident;
use knowledge::incident::Act;
use service::Service;
use slack::{Ack, SlackAction, SlackRequest};

/// Timeout for the record of a request, which waits behind others in a storm: Slack wants its answer, and a modal,
/// within 3 seconds of the press.
const CLAIM: Duration = Duration::from_millis(2_000);
/// Timeout of a submitted form: without an answer within 3 seconds Slack closes it as if it were accepted.
const FORM: Duration = Duration::from_millis(2_200);
/// Timeout for the options of a menu, within Slack's limit of 3 seconds.
const OPTIONS: Duration = Duration::from_millis(2_000);

impl Desk {
    /// Accepts a request and acknowledges it: a form within [`FORM`], a menu's options within [`OPTIONS`], otherwise as
    /// soon as the store has recorded it, or after [`CLAIM`].
    pub async fn receive(self: &Arc<Self>, inbound: SlackRequest) -> Ack {
        match &inbound.what {
            SlackAction::Suggest { action, typed } => self.suggest(&inbound, action, typed).await,
            // It may be dropped at any await: the act begins in a task of its own.
            SlackAction::Submit { .. } => tokio::time::timeout(FORM, self.accept(inbound)).await.unwrap_or_else(|_| {
                warn!("a submitted form took too long: nothing was done");
                self.service.metrics.inbound("submit", "late");
                Ack::View(forms::notice(&self.service.words, self.service.words.line("form-slow", &[])))
            }),
            _ => self.accept(inbound).await,
        }
    }

    async fn accept(self: &Arc<Self>, inbound: SlackRequest) -> Ack {
        let decision = match &inbound.what {
            // The user already has the form open, so no rate limit applies.
            SlackAction::Submit { .. } | SlackAction::Suggest { .. } | SlackAction::Joined => RateDecision::Now,
            SlackAction::Command { .. }
            | SlackAction::Mention { .. }
            | SlackAction::Press { .. }
            | SlackAction::Home => self.people.check_rate_limit(&inbound).await,
        };
        if decision != RateDecision::Now {
            self.service.metrics.inbound(kind(&inbound.what), "limited");
            warn!(kind = kind(&inbound.what), user = inbound.who.user, "somebody asks too often");
        }
        // The Home keeps what it showed, and has no place for a notice.
        if decision == RateDecision::Silence || (decision != RateDecision::Now && inbound.what == SlackAction::Home) {
            return Ack::Received;
        }
        // What is over the limit has no effect, so a flood writes nothing.
        let claim = if decision == RateDecision::Now { claim(self, &inbound).await } else { RequestClaim::Unknown };
        if claim == RequestClaim::Repeated {
            self.service.metrics.inbound(kind(&inbound.what), "repeated");
            return Ack::Received;
        }
        if inbound.what == SlackAction::Joined {
            self.service.metrics.inbound("joined", "done");
            let desk = Arc::clone(self);
            self.tasks.spawn(async move {
                desk.service.notifier.check_refused_channels(Duration::ZERO).await;
                desk.service.deliveries.notify_one();
            });
            return Ack::Received;
        }
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            warn!(kind = kind(&inbound.what), user = inbound.who.user, "too much is asked at once");
            self.service.metrics.inbound(kind(&inbound.what), "busy");
            return Ack::Say(self.service.words.text("busy", &[]));
        };
        let span = info_span!("chat", kind = kind(&inbound.what), user = inbound.who.user);
        // The acknowledgement of a form carries its validation errors or the next form, so it waits for Slack's word on
        // who may, and for Alertmanager's count.
        if let SlackAction::Submit { .. } = &inbound.what {
            return submit(self, inbound, claim, slot).instrument(span).await;
        }
        let desk = Arc::clone(self);
        self.tasks.spawn(
            async move {
                let caller = desk.caller(&inbound);
                if decision == RateDecision::Tell {
                    caller.tell_phrase("too-often").await;
                } else if let Some(intent) = Intent::of(&inbound.what, inbound.place.thread.is_some()) {
                    match claim == RequestClaim::Unknown && intent.power() > Power::Read {
                        true => caller.tell_phrase("act-store").await,
                        false => carry_out(&desk, &inbound, intent).await,
                    }
                }
                drop(slot);
            }
            .instrument(span),
        );
        Ack::Received
    }

    /// Returns the options of a menu; none if the user may not read, or if all slots are in use.
    async fn suggest(&self, inbound: &SlackRequest, action: &str, typed: &str) -> Ack {
        let Ok(_slot) = self.slots.try_acquire() else {
            self.service.metrics.inbound("suggest", "busy");
            return Ack::Options(Vec::new());
        };
        let fleet = &self.fleet();
        let decision_and_options =
            futures::future::join(self.caller(inbound).decide(Power::Read), target_form::suggest(fleet, action, typed));
        let answer = tokio::time::timeout(OPTIONS, decision_and_options).await;
        let (result, options) = match answer {
            Ok((Ok(()), options)) => ("done", options),
            Ok((Err(_), _)) => ("refused", Vec::new()),
            Err(_) => ("late", Vec::new()),
        };
        self.service.metrics.inbound("suggest", result);
        Ack::Options(options)
    }
}

/// The record of a request in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestClaim {
    /// The request is new and recorded.
    New,
    /// It was handled before, here or at another replica.
    Repeated,
    /// The store does not tell: the user may read, but an act could be a repetition.
    Unknown,
}

/// Records a request. One without an id, a menu's, is never a repetition.
async fn claim(desk: &Desk, inbound: &SlackRequest) -> RequestClaim {
    if inbound.id.is_empty() {
        return RequestClaim::New;
    }
    // A task of its own, because a cancelled write costs a connection; it ends by the store's own timeouts.
    let recorded = desk.tasks.spawn({
        let (store, id) = (desk.service.store.clone(), inbound.id.clone());
        async move { store.claim_request(&id, store.now()).await.map_err(|error| error.to_string()) }
    });
    let recorded = match tokio::time::timeout(CLAIM, recorded).await {
        Ok(joined) => joined.unwrap_or_else(|error| Err(error.to_string())),
        Err(_) => Err("no answer in time".to_owned()),
    };
    match recorded {
        Ok(true) => RequestClaim::New,
        Ok(false) => RequestClaim::Repeated,
        Err(error) => {
            error!(error, kind = kind(&inbound.what), "cannot record a request: acts are refused");
            desk.service.metrics.inbound(kind(&inbound.what), "unrecorded");
            RequestClaim::Unknown
        }
    }
}

/// Carries out a command, a mention or a press.
async fn carry_out(desk: &Desk, inbound: &SlackRequest, intent: Intent<'_>) {
    let (caller, diagnoses) = (desk.caller(inbound), &desk.service.diagnoses);
    match intent {
        Intent::Act { act, id, part } => match act {
            Act::Acknowledge | Act::Again => plain_acts::simple(caller, diagnoses, act, id).await,
            Act::Snooze | Act::Unsnooze => plain_acts::simple(caller, diagnoses, act, id).await,
            Act::Evidence => plain_acts::evidence(caller, id).await,
            Act::Right => feedback::right(caller, id).await,
            Act::Wrong => feedback::open_form(caller, &desk.service.library, id).await,
            Act::Silence => silence_form::open_form(caller, desk.silencer(), id, None).await,
            Act::Expire => silences::expire(caller, &desk.alertmanagers, id).await,
            Act::Escalate => escalate::escalate(caller, desk.service.config.slack.escalate.as_ref(), id).await,
            Act::Done => verify::done(caller, id, part).await,
            Act::Verify => verify::press(caller, &desk.fleet(), id, part).await,
            Act::Bundle => commands::bundle::press(caller, &desk.bundles, id).await,
            Act::Digest => digest::list(caller, id, part).await,
            // In chat the thread holds what people write, so there is no button for it.
            Act::Note => reply_unknown(caller, act.as_str()).await,
        },
        Intent::Command(line) => {
            if permit_read(caller).await {
                commands::run(desk, inbound, line).await;
            }
        }
        Intent::PickTarget => {
            if permit_read(caller).await {
                target_form::offer(&desk.slack, &desk.service.words, &Reply::new(caller)).await;
            }
        }
        Intent::Home => home::publish(caller).await,
        Intent::Unknown(action) => reply_unknown(caller, action).await,
    }
}

async fn reply_unknown(caller: Caller<'_>, action: &str) {
    warn!(action, "a press was refused: not our button, or a value that none of ours has");
    caller.log.metrics.act("unknown", "refused");
    caller.tell_phrase("act-unknown").await;
}

/// Returns true if the user may read; otherwise replies with the refusal.
async fn permit_read(caller: Caller<'_>) -> bool {
    caller.permit(kind(&caller.request.what), None, Power::Read).await
}

/// Handles a submitted form. The form for a target runs as a command typed where the form was opened.
async fn submit(desk: &Arc<Desk>, mut inbound: SlackRequest, claim: RequestClaim, slot: OwnedSemaphorePermit) -> Ack {
    let SlackAction::Submit { form, about, values } = inbound.what.clone() else { return Ack::Received };
    let Service { metrics, store, words, notifier, .. } = &*desk.service;
    let notice = |key: &str| Ack::View(forms::notice(words, words.line(key, &[])));
    if form == TARGET_FORM {
        inbound.place = target_form::read_place(&about);
        return submit_target(desk, inbound, &values, slot).await;
    }
    let acts = [Act::Evidence, Act::Wrong, Act::Silence];
    let act = acts.into_iter().find(|act| act.as_str() == form);
    let (Some(act), Some(about)) = (act, ModalMetadata::read(&about)) else {
        metrics.act("unknown", "refused");
        return notice("act-unknown");
    };
    inbound.place.channel = about.channel.clone();
    inbound.place.thread = about.thread.clone();
    let power = Power::of(act);
    if claim == RequestClaim::Unknown && power > Power::Read {
        return notice("act-store");
    }
    let checked = desk.caller(&inbound).check(act.as_str(), Some(&about.incident), power).await;
    if let Err(refusal) = checked {
        return notice(refusal.key());
    }
    let incident = match find_incident(store, &about.incident).await {
        Ok(incident) => incident,
        Err(key) => return notice(key),
    };
    match act {
        Act::Wrong => feedback::wrong(desk, inbound, incident, values, slot),
        Act::Silence => silence_form::submit(desk, inbound, incident, values, slot).await,
        _ => match &notifier.cleaned(&incident).await.diagnosis {
            Some(diagnosis) => Ack::View(forms::evidence(diagnosis, words, &about)),
            None => notice("evidence-none"),
        },
    }
}

async fn submit_target(
    desk: &Arc<Desk>,
    mut inbound: SlackRequest,
    values: &BTreeMap<String, String>,
    slot: OwnedSemaphorePermit,
) -> Ack {
    let words = &desk.service.words;
    if let Err(refusal) = desk.caller(&inbound).check("submit", None, Power::Read).await {
        return Ack::View(forms::notice(words, words.line(refusal.key(), &[])));
    }
    let line = match target_form::command_line(words, values) {
        Ok(line) => line,
        Err(errors) => return Ack::Errors(errors),
    };
    inbound.what = SlackAction::Command { text: line.clone() };
    let shared = Arc::clone(desk);
    desk.tasks.spawn(
        async move {
            commands::run(&shared, &inbound, &line).await;
            drop(slot);
        }
        .in_current_span(),
    );
    Ack::Received
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
        SlackAction::Home => "home",
    }
}
