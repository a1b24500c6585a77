//! Acts from Slack: authorised, audited, carried out by [`crate::acts`]; with the replies when that fails.

use std::time::Duration;

use tracing::warn;

use super::Desk;
use super::authority::{Denial, Power, authorise};
use super::forms::{self, ModalMetadata};
use super::intent::IncidentForm;
use super::replies::{send_ephemeral_line, send_ephemeral_phrase};
use crate::acts::{Actor, Attempt, find_incident, write_refusal};
use knowledge::clock;
use knowledge::incident::Act;
use message::Line;
use slack::{Ack, SlackRequest};
use store::{AuditEntry, AuditResult, Escalated, EscalationCall, Incident};

/// Returns who acts, and in which channel.
pub(super) fn actor(inbound: &SlackRequest) -> Actor<'_> {
    Actor { who: &inbound.who.user, place: &inbound.place.channel }
}

/// Checks that the user has this power.
pub(super) async fn decide(desk: &Desk, inbound: &SlackRequest, power: Power) -> Result<(), Denial> {
    let facts = desk.people.facts(&desk.slack, inbound, &desk.config.slack).await;
    authorise(&inbound.who, &facts, &inbound.place, power, &desk.config.slack.act)
}

/// Returns true if the user has this power; otherwise replies with the refusal, audits and counts it.
pub(super) async fn permit(
    desk: &Desk,
    inbound: &SlackRequest,
    action: &str,
    incident: Option<&str>,
    power: Power,
) -> bool {
    let Some(refusal) = refused(desk, inbound, action, incident, power).await else { return true };
    if refusal != Denial::Bot {
        send_ephemeral_phrase(desk, inbound, refusal.key()).await;
    }
    false
}

/// Returns the reason why the user lacks this power, audited and counted; `None` if the user has it.
pub(super) async fn refused(
    desk: &Desk,
    inbound: &SlackRequest,
    action: &str,
    incident: Option<&str>,
    power: Power,
) -> Option<Denial> {
    let refusal = decide(desk, inbound, power).await.err()?;
    write_refusal(desk, actor(inbound), action, incident, refusal.as_str()).await;
    Some(refusal)
}

/// Like [`permit`], for a form: the returned view with the refusal replaces the form.
pub(super) async fn permit_form(
    desk: &Desk,
    inbound: &SlackRequest,
    action: &str,
    incident: Option<&str>,
    power: Power,
) -> Result<(), Ack> {
    let Some(refusal) = refused(desk, inbound, action, incident, power).await else { return Ok(()) };
    Err(Ack::View(forms::notice(&desk.words, desk.words.line(refusal.key(), &[]))))
}

/// Finds the incident of a button; tells the user when it no longer exists.
pub(super) async fn find_incident_or_reply(
    desk: &Desk,
    inbound: &SlackRequest,
    action: &str,
    id: &str,
) -> Option<Incident> {
    let key = match find_incident(desk, id).await {
        Ok(incident) => return Some(incident),
        Err(key) => key,
    };
    desk.metrics.act(action, AuditResult::Failed.as_str());
    send_ephemeral_phrase(desk, inbound, key).await;
    None
}

/// Begins an act on an incident: returns the incident if the user may act on it and it exists; otherwise replies.
pub(super) async fn begin_act(desk: &Desk, inbound: &SlackRequest, act: Act, id: &str) -> Option<Incident> {
    match permit(desk, inbound, act.as_str(), Some(id), Power::of(act)).await {
        true => find_incident_or_reply(desk, inbound, act.as_str(), id).await,
        false => None,
    }
}

/// Writes the audit entry of an act. `None` if that fails: the act is not carried out, and the user is told.
pub(super) async fn begin(
    desk: &Desk,
    inbound: &SlackRequest,
    action: &str,
    incident: Option<&str>,
) -> Option<Attempt> {
    begun(desk, inbound, Attempt::begin(desk, actor(inbound), action, incident).await).await
}

async fn begun<E>(desk: &Desk, inbound: &SlackRequest, attempt: Result<Attempt, E>) -> Option<Attempt> {
    if attempt.is_err() {
        send_ephemeral_phrase(desk, inbound, "act-store").await;
    }
    attempt.ok()
}

/// Begins an escalation with its call, at most once within a time per incident: later and concurrent callers are
/// told. Returns true with the attempt if the call is queued.
pub(super) async fn begin_escalation(
    desk: &Desk,
    inbound: &SlackRequest,
    incident: &str,
    call: EscalationCall<'_>,
    within: Duration,
) -> Option<(Attempt, bool)> {
    let (now, action) = (desk.store.now(), Act::Escalate.as_str());
    let entry = AuditEntry::new_attempt(&inbound.who.user, &inbound.place.channel, action, Some(incident), now);
    let escalated = desk.store.escalate(&entry, clock::before(now, within), call, now).await;
    let queued = matches!(escalated, Ok(Escalated::Queued));
    if let Ok(Escalated::Already) = escalated {
        desk.metrics.act(action, AuditResult::Failed.as_str());
        send_ephemeral_phrase(desk, inbound, "escalate-already").await;
        return None;
    }
    let attempt = Attempt::begin_after_audit(desk, entry, escalated.map(drop));
    Some((begun(desk, inbound, attempt).await?, queued))
}

/// Replies that the incident has already ended.
pub(super) async fn reply_incident_ended(desk: &Desk, inbound: &SlackRequest, act: Act) {
    desk.metrics.act(act.as_str(), AuditResult::Failed.as_str());
    send_ephemeral_phrase(desk, inbound, "act-over").await;
}

/// Opens a form about an incident; its title and its button are phrases.
pub(super) async fn open_incident_form(
    desk: &Desk,
    inbound: &SlackRequest,
    incident: &str,
    form: IncidentForm,
    [title, send]: [&str; 2],
    blocks: Vec<serde_json::Value>,
) {
    let [title, send] = [title, send].map(|key| desk.words.text(key, &[]));
    let about = ModalMetadata::of(incident, inbound);
    let view = forms::modal(&desk.words, &title, Some(&send), form.as_str(), &about, blocks);
    open_modal(desk, inbound, form.as_str(), &view).await;
}

/// Opens a modal; tells the user if that fails, mostly because Slack's trigger has expired. Returns true if it is open.
pub(super) async fn open_modal(desk: &Desk, inbound: &SlackRequest, action: &str, view: &serde_json::Value) -> bool {
    let answer = match &inbound.place.trigger {
        Some(trigger) => desk.slack.open_view(trigger, view).await.map_err(|error| error.to_string()),
        None => Err("Slack gave no trigger".to_owned()),
    };
    if let Err(error) = answer {
        warn!(error, what = action, "cannot open a modal");
        desk.metrics.act(action, AuditResult::Failed.as_str());
        send_ephemeral_phrase(desk, inbound, "form-late").await;
        return false;
    }
    true
}

/// Replies with a phrase that quotes an error of another system.
pub(super) async fn reply_with_error(desk: &Desk, inbound: &SlackRequest, key: &str, error: &str) {
    send_ephemeral_line(desk, inbound, desk.words.line(key, &[("error", Line::of(error).into())])).await;
}
