//! Acts: authorised, written to the audit log, then carried out; with the replies when that fails.

use std::time::Duration;

use tracing::{error, info, warn};

use super::Desk;
use super::authority::{Denial, Power, authorise};
use super::forms::{self, ModalMetadata};
use super::intent::IncidentForm;
use super::replies::{send_ephemeral_line, send_ephemeral_phrase};
use knowledge::clock;
use knowledge::incident::Act;
use message::Line;
use slack::{Ack, SlackRequest};
use store::{AuditEntry, AuditResult, Escalated, EscalationCall, Incident, StoreError};

/// The longest accepted incident id; a ULID has 26 characters.
const ID_CHARS: usize = 40;

/// Checks that the user has this power.
pub(super) async fn decide(desk: &Desk, inbound: &SlackRequest, power: Power) -> Result<(), Denial> {
    let facts = desk.people.facts(&desk.slack, inbound, &desk.config.slack).await;
    authorise(&inbound.who, &facts, &inbound.place, power, &desk.config.slack.act)
}

/// Returns a well-formed incident id; other text is neither looked up nor written to the audit log.
fn well_formed_id(id: &str) -> Option<&str> {
    Some(id).filter(|id| !id.is_empty() && id.len() <= ID_CHARS && id.bytes().all(|b| b.is_ascii_alphanumeric()))
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
    write_refusal(desk, inbound, action, incident, refusal).await;
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

async fn write_refusal(desk: &Desk, inbound: &SlackRequest, action: &str, incident: Option<&str>, refusal: Denial) {
    info!(user = inbound.who.user, what = action, why = refusal.as_str(), "refused somebody");
    desk.metrics.act(action, AuditResult::Refused.as_str());
    let incident = incident.and_then(well_formed_id);
    let attempt =
        AuditEntry::new_attempt(&inbound.who.user, &inbound.place.channel, action, incident, desk.store.now());
    let entry = AuditEntry { result: AuditResult::Refused, detail: refusal.as_str().to_owned(), ..attempt };
    if let Err(error) = desk.store.audit(&entry).await {
        error!(%error, "cannot write a refusal into the audit log");
    }
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

/// Finds the incident with this id; the error is the key of the phrase with the reason.
pub(super) async fn find_incident(desk: &Desk, id: &str) -> Result<Incident, &'static str> {
    let Some(id) = well_formed_id(id) else { return Err("act-gone") };
    match desk.store.incident(id).await {
        Ok(incident) => incident.ok_or("act-gone"),
        Err(error) => {
            error!(%error, "cannot read an incident");
            Err("act-store")
        }
    }
}

/// An act, from its first entry in the audit log to its end.
pub(super) struct Attempt {
    entry: AuditEntry,
}

impl Attempt {
    /// Writes the audit entry. `None` if that fails: the act is not carried out, and the user is told.
    pub(super) async fn begin(
        desk: &Desk,
        inbound: &SlackRequest,
        action: &str,
        incident: Option<&str>,
    ) -> Option<Self> {
        let entry =
            AuditEntry::new_attempt(&inbound.who.user, &inbound.place.channel, action, incident, desk.store.now());
        let written = desk.store.audit(&entry).await;
        Self::begin_after_audit(desk, inbound, entry, written).await
    }

    /// Begins an escalation with its call, at most once within a time per incident: later and concurrent callers are
    /// told. Returns true with the attempt if the call is queued.
    pub(super) async fn escalate(
        desk: &Desk,
        inbound: &SlackRequest,
        incident: &str,
        call: EscalationCall<'_>,
        within: Duration,
    ) -> Option<(Self, bool)> {
        let (now, action) = (desk.store.now(), Act::Escalate.as_str());
        let entry = AuditEntry::new_attempt(&inbound.who.user, &inbound.place.channel, action, Some(incident), now);
        let escalated = desk.store.escalate(&entry, clock::before(now, within), call, now).await;
        let queued = matches!(escalated, Ok(Escalated::Queued));
        if let Ok(Escalated::Already) = escalated {
            desk.metrics.act(action, AuditResult::Failed.as_str());
            send_ephemeral_phrase(desk, inbound, "escalate-already").await;
            return None;
        }
        let attempt = Self::begin_after_audit(desk, inbound, entry, escalated.map(drop)).await?;
        Some((attempt, queued))
    }

    /// Begins the act if its audit entry was written; else replies why not.
    async fn begin_after_audit(
        desk: &Desk,
        inbound: &SlackRequest,
        entry: AuditEntry,
        written: Result<(), StoreError>,
    ) -> Option<Self> {
        let Err(error) = written else { return Some(Self { entry }) };
        error!(%error, what = entry.what, "cannot write into the audit log: nothing is done");
        desk.metrics.act(&entry.what, AuditResult::Failed.as_str());
        send_ephemeral_phrase(desk, inbound, "act-store").await;
        None
    }

    /// Returns the id of the entry in the audit log.
    pub(super) fn id(&self) -> &str {
        &self.entry.id
    }

    /// Sets the incident, where it becomes known only during the act.
    pub(super) fn about(&mut self, incident: &str) {
        self.entry.incident = Some(incident.to_owned());
    }

    /// Writes the result to the audit log; a completed act also updates the incident's message.
    pub(super) async fn end(mut self, desk: &Desk, result: AuditResult, target: &str, detail: &str) {
        self.entry.result = result;
        self.entry.target = forms::cut(target, 200);
        self.entry.detail = forms::cut(detail, 500);
        let AuditEntry { what: action, who, incident, .. } = &self.entry;
        desk.metrics.act(action, result.as_str());
        info!(user = who, what = action, incident.id = incident, result = result.as_str(), "somebody acted");
        if let Err(error) = desk.store.audit(&self.entry).await {
            error!(%error, "cannot write into the audit log how an act ended");
        }
        if let (Some(incident), AuditResult::Done) = (incident, result) {
            if let Err(error) = desk.store.touch(incident).await {
                error!(%error, "cannot mark an incident's message as changed");
            }
            desk.deliveries.notify_one();
        }
    }

    /// Ends the act by the result of a store update; replies with the phrase `not` if nothing was changed.
    pub(super) async fn end_with(
        self,
        desk: &Desk,
        inbound: &SlackRequest,
        changed: Result<bool, StoreError>,
        nothing_changed: &str,
    ) -> bool {
        match changed {
            Ok(true) => {
                self.end(desk, AuditResult::Done, "", "").await;
                true
            }
            Ok(false) => {
                self.end(desk, AuditResult::Failed, "", "nothing to do").await;
                send_ephemeral_phrase(desk, inbound, nothing_changed).await;
                false
            }
            Err(error) => {
                error!(%error, "cannot write what somebody did");
                self.end(desk, AuditResult::Failed, "", "the store failed").await;
                send_ephemeral_phrase(desk, inbound, "act-store").await;
                false
            }
        }
    }
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
