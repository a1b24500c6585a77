//! Buttons, forms and menus: each is dispatched to its act.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tracing::warn;

use super::attempt::{Attempt, find_incident, find_or_reply, open_modal, permit, permit_form, reply_incident_ended};
use super::authority::Power;
use super::forms::{self, ModalMetadata};
use super::replies::send_ephemeral_phrase;
use super::{Desk, digest, escalate, feedback, silence_form, silences, verify};
use crate::render::{Act, MENU};
use crate::slack::{Ack, SlackAction, SlackRequest};
use crate::store::{AuditResult, Incident};

/// The longest accepted button value: an incident's id (a ULID) and a step's hash fit.
const VALUE_CHARS: usize = 100;

/// Handles a button press.
pub(super) async fn press(desk: &Desk, inbound: &SlackRequest, action: &str, value: &str) {
    // The value of a menu option holds the action and the value of the button that it stands for.
    let (action, value) = match value.split_once(' ') {
        Some(chosen) if action == MENU => chosen,
        _ => (action, value),
    };
    // An index distinguishes several buttons of one kind: `verify:2`.
    let name = action.split_once(':').map_or(action, |(name, _)| name);
    if value.len() > VALUE_CHARS {
        desk.metrics.act("unknown", "refused");
        return send_ephemeral_phrase(desk, inbound, "act-unknown").await;
    }
    if name == silences::EXPIRE {
        return silences::press_expire(desk, inbound, value).await;
    }
    let Some(act) = Act::of(name) else {
        warn!(action, "a button that is not ours was pressed");
        desk.metrics.act("unknown", "refused");
        return send_ephemeral_phrase(desk, inbound, "act-unknown").await;
    };
    let (id, step) = value.split_once('/').unwrap_or((value, ""));
    if !permit(desk, inbound, act.as_str(), Some(id), power(act)).await {
        return;
    }
    if act == Act::Digest {
        return digest::list(desk, inbound, id, step).await;
    }
    let Some(incident) = find_or_reply(desk, inbound, act.as_str(), id).await else { return };
    match act {
        Act::Acknowledge => acknowledge(desk, inbound, &incident).await,
        Act::Again => again(desk, inbound, &incident).await,
        Act::Evidence => evidence(desk, inbound, &incident).await,
        Act::Right => feedback::right(desk, inbound, &incident).await,
        Act::Wrong => feedback::open_form(desk, inbound, &incident).await,
        Act::Silence => silence_form::open_form(desk, inbound, &incident).await,
        Act::Escalate => escalate::escalate(desk, inbound, &incident).await,
        Act::Done => verify::done(desk, inbound, &incident, step).await,
        Act::Verify => verify::press(desk, inbound, &incident, step).await,
        Act::Bundle => super::commands::press_bundle(desk, inbound, &incident).await,
        Act::Digest | Act::Expire => {}
    }
}

/// Returns the power that an act needs.
fn power(act: Act) -> Power {
    match act {
        Act::Evidence | Act::Digest => Power::Look,
        Act::Acknowledge | Act::Again | Act::Right | Act::Wrong | Act::Done | Act::Verify | Act::Bundle => Power::Note,
        Act::Silence | Act::Expire | Act::Escalate => Power::Act,
    }
}

/// Handles a submitted modal.
pub(super) async fn submit(desk: &Arc<Desk>, mut inbound: SlackRequest, slot: OwnedSemaphorePermit) -> Ack {
    let SlackAction::Submit { form, about, values } = inbound.what.clone() else { return Ack::Received };
    let refused = |key: &str| Ack::View(forms::notice(&desk.words, desk.words.line(key, &[])));
    let Some(about) = ModalMetadata::read(&about) else {
        desk.metrics.act("unknown", "refused");
        return refused("act-unknown");
    };
    inbound.place.channel = about.channel.clone();
    inbound.place.thread = about.thread.clone();
    let (what, power) = match form.as_str() {
        "evidence" => ("evidence", Power::Look),
        "wrong" => ("wrong", Power::Note),
        "silence" => ("silence", Power::Act),
        _ => {
            desk.metrics.act("unknown", "refused");
            return refused("act-unknown");
        }
    };
    if let Err(refusal) = permit_form(desk, &inbound, what, Some(&about.incident), power).await {
        return refusal;
    }
    let incident = match find_incident(desk, &about.incident).await {
        Ok(incident) => incident,
        Err(key) => return refused(key),
    };
    match what {
        "evidence" => match &incident.diagnosis {
            Some(diagnosis) => Ack::View(forms::evidence(diagnosis, &desk.words, &about)),
            None => refused("evidence-none"),
        },
        "wrong" => feedback::wrong(desk, inbound, incident, values, slot),
        _ => silence_form::submit(desk, inbound, incident, values, slot),
    }
}

async fn acknowledge(desk: &Desk, inbound: &SlackRequest, incident: &Incident) {
    if !incident.open {
        return reply_incident_ended(desk, inbound, Act::Acknowledge).await;
    }
    let Some(attempt) = Attempt::begin(desk, inbound, Act::Acknowledge.as_str(), Some(&incident.id)).await else {
        return;
    };
    let changed = desk.store.acknowledge(&incident.id, &inbound.who.user, desk.store.now()).await;
    attempt.end_with(desk, inbound, changed, "acknowledged-already").await;
}

async fn again(desk: &Desk, inbound: &SlackRequest, incident: &Incident) {
    if !incident.open {
        return reply_incident_ended(desk, inbound, Act::Again).await;
    }
    let Some(attempt) = Attempt::begin(desk, inbound, Act::Again.as_str(), Some(&incident.id)).await else { return };
    let changed = desk.store.diagnose_now(&incident.id, desk.store.now()).await;
    if attempt.end_with(desk, inbound, changed, "again-no-playbook").await {
        desk.wake.notify_one();
        send_ephemeral_phrase(desk, inbound, "again-begun").await;
    }
}

async fn evidence(desk: &Desk, inbound: &SlackRequest, incident: &Incident) {
    let Some(diagnosis) = &incident.diagnosis else {
        desk.metrics.act(Act::Evidence.as_str(), AuditResult::Failed.as_str());
        return send_ephemeral_phrase(desk, inbound, "evidence-none").await;
    };
    let view = forms::evidence(diagnosis, &desk.words, &ModalMetadata::of(&incident.id, inbound));
    if open_modal(desk, inbound, Act::Evidence.as_str(), &view).await {
        desk.metrics.act(Act::Evidence.as_str(), AuditResult::Done.as_str());
    }
}
