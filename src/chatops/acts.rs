//! Buttons, forms and menus: authority, then the audit log, then the effect.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tracing::{error, info, warn};

use super::authority::{Power, Refusal, may};
use super::forms::{self, About};
use super::talk::{say, tell};
use super::{Desk, digest, escalate, feedback, silence_form, silences, verify};
use crate::clock;
use crate::render::{Act, Line, MENU};
use crate::slack::{Ack, Inbound, What};
use crate::store::{AuditEntry, AuditResult, Incident, StoreError};

/// An incident's id is a ULID; what is longer than this with a step's hash is none.
const VALUE_CHARS: usize = 100;
/// An incident's id has 26.
const ID_CHARS: usize = 40;

/// A button was pressed.
pub(super) async fn press(desk: &Desk, inbound: &Inbound, action: &str, value: &str) {
    // The menu tells back the action and the value of the button that stands in it.
    let (action, value) = match value.split_once(' ') {
        Some(chosen) if action == MENU => chosen,
        _ => (action, value),
    };
    // Of several of one kind, which one: `verify:2`.
    let name = action.split_once(':').map_or(action, |(name, _)| name);
    if value.len() > VALUE_CHARS {
        desk.metrics.act("unknown", "refused");
        return say(desk, inbound, "act-unknown").await;
    }
    if name == silences::EXPIRE {
        return silences::press_expire(desk, inbound, value).await;
    }
    let Some(act) = Act::of(name) else {
        warn!(action, "a button that is not ours was pressed");
        desk.metrics.act("unknown", "refused");
        return say(desk, inbound, "act-unknown").await;
    };
    let (id, step) = value.split_once('/').unwrap_or((value, ""));
    if !permit(desk, inbound, act.as_str(), Some(id), power(act)).await {
        return;
    }
    if act == Act::Digest {
        return digest::list(desk, inbound, id, step).await;
    }
    let Some(incident) = find(desk, inbound, act.as_str(), id).await else { return };
    match act {
        Act::Acknowledge => acknowledge(desk, inbound, &incident).await,
        Act::Again => again(desk, inbound, &incident).await,
        Act::Evidence => evidence(desk, inbound, &incident).await,
        Act::Right => feedback::right(desk, inbound, &incident).await,
        Act::Wrong => feedback::ask(desk, inbound, &incident).await,
        Act::Silence => silence_form::ask(desk, inbound, &incident).await,
        Act::Escalate => escalate::escalate(desk, inbound, &incident).await,
        Act::Done => verify::done(desk, inbound, &incident, step).await,
        Act::Verify => verify::press(desk, inbound, &incident, step).await,
        Act::Bundle => super::commands::press_bundle(desk, inbound, &incident).await,
        Act::Digest | Act::Expire => {}
    }
}

/// What an act needs.
fn power(act: Act) -> Power {
    match act {
        Act::Evidence | Act::Digest => Power::Look,
        Act::Acknowledge | Act::Again | Act::Right | Act::Wrong | Act::Done | Act::Verify | Act::Bundle => Power::Note,
        Act::Silence | Act::Expire | Act::Escalate => Power::Act,
    }
}

/// A modal was sent.
pub(super) async fn submit(desk: &Arc<Desk>, mut inbound: Inbound, slot: OwnedSemaphorePermit) -> Ack {
    let What::Submit { form, about, values } = inbound.what.clone() else { return Ack::Received };
    let refused = |key: &str| Ack::View(forms::notice(&desk.words, desk.words.line(key, &[])));
    let Some(about) = About::read(&about) else {
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
    if let Err(refusal) = permitted(desk, &inbound, what, Some(&about.incident), power).await {
        return refusal;
    }
    let incident = match known(desk, &about.incident).await {
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

/// Whether they may.
pub(super) async fn decide(desk: &Desk, inbound: &Inbound, power: Power) -> Result<(), Refusal> {
    let facts = desk.people.facts(&desk.slack, inbound, &desk.config).await;
    may(&inbound.who, &facts, &inbound.place, power, &desk.config.act)
}

/// An incident's id as it may be: what is none is neither looked for nor written down.
fn plausible(id: &str) -> Option<&str> {
    Some(id).filter(|id| !id.is_empty() && id.len() <= ID_CHARS && id.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Whether they may; else they are told, and it is written down and counted.
pub(super) async fn permit(desk: &Desk, inbound: &Inbound, what: &str, incident: Option<&str>, power: Power) -> bool {
    let Err(refusal) = decide(desk, inbound, power).await else { return true };
    write_refusal(desk, inbound, what, incident, refusal).await;
    if refusal != Refusal::Bot {
        say(desk, inbound, refusal.key()).await;
    }
    false
}

/// As [`permit`], for a form: the refusal takes its place.
pub(super) async fn permitted(
    desk: &Desk,
    inbound: &Inbound,
    what: &str,
    incident: Option<&str>,
    power: Power,
) -> Result<(), Ack> {
    let Err(refusal) = decide(desk, inbound, power).await else { return Ok(()) };
    write_refusal(desk, inbound, what, incident, refusal).await;
    Err(Ack::View(forms::notice(&desk.words, desk.words.line(refusal.key(), &[]))))
}

async fn write_refusal(desk: &Desk, inbound: &Inbound, what: &str, incident: Option<&str>, refusal: Refusal) {
    info!(user = inbound.who.user, what, why = refusal.as_str(), "refused somebody");
    desk.metrics.act(what, AuditResult::Refused.as_str());
    let incident = incident.and_then(plausible);
    let begun = AuditEntry::begun(&inbound.who.user, &inbound.place.channel, what, incident, desk.store.now());
    let entry = AuditEntry { result: AuditResult::Refused, detail: refusal.as_str().to_owned(), ..begun };
    if let Err(error) = desk.store.audit(&entry).await {
        error!(%error, "cannot write a refusal into the audit log");
    }
}

/// The incident of a button; they are told when it is gone.
pub(super) async fn find(desk: &Desk, inbound: &Inbound, what: &str, id: &str) -> Option<Incident> {
    let key = match known(desk, id).await {
        Ok(incident) => return Some(incident),
        Err(key) => key,
    };
    desk.metrics.act(what, AuditResult::Failed.as_str());
    say(desk, inbound, key).await;
    None
}

/// The incident with this id, else the phrase that says why there is none.
async fn known(desk: &Desk, id: &str) -> Result<Incident, &'static str> {
    let Some(id) = plausible(id) else { return Err("act-gone") };
    match desk.store.incident(id).await {
        Ok(incident) => incident.ok_or("act-gone"),
        Err(error) => {
            error!(%error, "cannot read an incident");
            Err("act-store")
        }
    }
}

/// An act from its line in the audit log to its end.
pub(super) struct Attempt {
    entry: AuditEntry,
}

impl Attempt {
    /// Writes the line; none, and they are told, when that is impossible: what is not written down is not done.
    pub(super) async fn begin(desk: &Desk, inbound: &Inbound, what: &str, incident: Option<&str>) -> Option<Self> {
        let entry = AuditEntry::begun(&inbound.who.user, &inbound.place.channel, what, incident, desk.store.now());
        let written = desk.store.audit(&entry).await.map(|()| true);
        Self::written(desk, inbound, entry, written, "").await
    }

    /// As [`Self::begin`], once within a time for an incident: who comes later, or at the same moment, is told `already`.
    pub(super) async fn begin_once(
        desk: &Desk,
        inbound: &Inbound,
        what: &str,
        incident: &str,
        within: Duration,
        already: &str,
    ) -> Option<Self> {
        let now = desk.store.now();
        let entry = AuditEntry::begun(&inbound.who.user, &inbound.place.channel, what, Some(incident), now);
        let written = desk.store.audit_once(&entry, clock::before(now, within)).await;
        Self::written(desk, inbound, entry, written, already).await
    }

    async fn written(
        desk: &Desk,
        inbound: &Inbound,
        entry: AuditEntry,
        written: Result<bool, StoreError>,
        already: &str,
    ) -> Option<Self> {
        let what = entry.what.as_str();
        match written {
            Ok(true) => Some(Self { entry }),
            Ok(false) => {
                desk.metrics.act(what, AuditResult::Failed.as_str());
                say(desk, inbound, already).await;
                None
            }
            Err(error) => {
                error!(%error, what, "cannot write into the audit log: nothing is done");
                desk.metrics.act(what, AuditResult::Failed.as_str());
                say(desk, inbound, "act-store").await;
                None
            }
        }
    }

    /// The id of its line in the audit log.
    pub(super) fn id(&self) -> &str {
        &self.entry.id
    }

    /// It turns out to be about an incident.
    pub(super) fn about(&mut self, incident: &str) {
        self.entry.incident = Some(incident.to_owned());
    }

    /// Says how it ended; what was done changes the incident's message.
    pub(super) async fn end(mut self, desk: &Desk, result: AuditResult, target: &str, detail: &str) {
        self.entry.result = result;
        self.entry.target = forms::cut(target, 200);
        self.entry.detail = forms::cut(detail, 500);
        let AuditEntry { what, who, incident, .. } = &self.entry;
        desk.metrics.act(what, result.as_str());
        info!(user = who, what, incident.id = incident, result = result.as_str(), "somebody acted");
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

    /// Ends it by what a change of the store said: done, or `not` for the person when there was nothing to do.
    async fn ended(self, desk: &Desk, inbound: &Inbound, changed: Result<bool, StoreError>, not: &str) -> bool {
        match changed {
            Ok(true) => {
                self.end(desk, AuditResult::Done, "", "").await;
                true
            }
            Ok(false) => {
                self.end(desk, AuditResult::Failed, "", "nothing to do").await;
                say(desk, inbound, not).await;
                false
            }
            Err(error) => {
                error!(%error, "cannot write what somebody did");
                self.end(desk, AuditResult::Failed, "", "the store failed").await;
                say(desk, inbound, "act-store").await;
                false
            }
        }
    }
}

async fn acknowledge(desk: &Desk, inbound: &Inbound, incident: &Incident) {
    if !incident.open {
        return over(desk, inbound, Act::Acknowledge).await;
    }
    let Some(attempt) = Attempt::begin(desk, inbound, Act::Acknowledge.as_str(), Some(&incident.id)).await else {
        return;
    };
    let changed = desk.store.acknowledge(&incident.id, &inbound.who.user, desk.store.now()).await;
    attempt.ended(desk, inbound, changed, "acknowledged-already").await;
}

async fn again(desk: &Desk, inbound: &Inbound, incident: &Incident) {
    if !incident.open {
        return over(desk, inbound, Act::Again).await;
    }
    let Some(attempt) = Attempt::begin(desk, inbound, Act::Again.as_str(), Some(&incident.id)).await else { return };
    let changed = desk.store.diagnose_now(&incident.id, desk.store.now()).await;
    if attempt.ended(desk, inbound, changed, "again-no-playbook").await {
        desk.wake.notify_one();
        say(desk, inbound, "again-begun").await;
    }
}

/// The incident is over, so there is nothing to do.
pub(super) async fn over(desk: &Desk, inbound: &Inbound, act: Act) {
    desk.metrics.act(act.as_str(), AuditResult::Failed.as_str());
    say(desk, inbound, "act-over").await;
}

/// Opens a modal; they are told when that is too late.
pub(super) async fn open(desk: &Desk, inbound: &Inbound, what: &str, view: &serde_json::Value) -> bool {
    let answer = match &inbound.place.trigger {
        Some(trigger) => desk.slack.open_view(trigger, view).await.map_err(|error| error.to_string()),
        None => Err("Slack gave no trigger".to_owned()),
    };
    if let Err(error) = answer {
        warn!(error, what, "cannot open a modal");
        desk.metrics.act(what, AuditResult::Failed.as_str());
        say(desk, inbound, "form-late").await;
        return false;
    }
    true
}

async fn evidence(desk: &Desk, inbound: &Inbound, incident: &Incident) {
    let Some(diagnosis) = &incident.diagnosis else {
        desk.metrics.act(Act::Evidence.as_str(), AuditResult::Failed.as_str());
        return say(desk, inbound, "evidence-none").await;
    };
    let view = forms::evidence(diagnosis, &desk.words, &About::of(&incident.id, inbound));
    if open(desk, inbound, Act::Evidence.as_str(), &view).await {
        desk.metrics.act(Act::Evidence.as_str(), AuditResult::Done.as_str());
    }
}

/// The refusal of somebody else's sentence: what went wrong, in its own words.
pub(super) async fn failed(desk: &Desk, inbound: &Inbound, key: &str, error: &str) {
    tell(desk, inbound, desk.words.line(key, &[("error", Line::of(error).into())])).await;
}
