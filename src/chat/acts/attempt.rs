//! One act in the audit log, from its beginning to its end, and the refusals.

use tracing::{error, info};

use super::{ActEnd, Actor};
use message::SlackMessage;
use render::cut;
use service::Service;
use store::{AuditEntry, AuditResult, Incident, StoreError};

/// The longest accepted incident id; a ULID has 26 characters.
const ID_CHARS: usize = 40;

/// Returns a well-formed incident id; other text is neither looked up nor written to the audit log.
fn well_formed_id(id: &str) -> Option<&str> {
    Some(id).filter(|id| !id.is_empty() && id.len() <= ID_CHARS && id.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Finds the incident with this id; the error is the key of the phrase with the reason.
pub async fn find_incident(service: &Service, id: &str) -> Result<Incident, &'static str> {
    let Some(id) = well_formed_id(id) else { return Err("act-gone") };
    match service.store.incident(id).await {
        Ok(incident) => incident.ok_or("act-gone"),
        Err(error) => {
            error!(%error, "cannot read an incident");
            Err("act-store")
        }
    }
}

/// Writes and counts a refusal; `why` is its name in the audit log.
pub async fn write_refusal(
    service: &Service,
    actor: Actor<'_>,
    action: &str,
    incident: Option<&str>,
    why: &'static str,
) {
    info!(user = actor.who, what = action, why, "refused somebody");
    service.metrics.act(action, AuditResult::Refused.as_str());
    let incident = incident.and_then(well_formed_id);
    let attempt = AuditEntry::new_attempt(actor.who, actor.place, action, incident, service.store.now());
    let entry = AuditEntry { result: AuditResult::Refused, detail: why.to_owned(), ..attempt };
    if let Err(error) = service.store.audit(&entry).await {
        error!(%error, "cannot write a refusal into the audit log");
    }
}

/// Writes a note in one step, with what its thread and message say of it: it has no other effect.
pub(super) async fn write_note(service: &Service, entry: &AuditEntry, post: &SlackMessage) -> ActEnd {
    match service.store.audit_note(entry, post, service.store.now()).await {
        Ok(()) => {
            told(service, entry);
            service.deliveries.notify_one();
            ActEnd::Done
        }
        Err(error) => {
            not_begun(service, entry, &error);
            ActEnd::NoStore
        }
    }
}

/// Counts and logs how an act ended.
fn told(service: &Service, entry: &AuditEntry) {
    let AuditEntry { what: action, who, incident, .. } = entry;
    let result = entry.result.as_str();
    service.metrics.act(action, result);
    info!(user = who, what = action, incident.id = incident, result, "somebody acted");
}

/// Counts and logs an act that cannot be written down.
fn not_begun(service: &Service, entry: &AuditEntry, error: &StoreError) {
    error!(%error, what = entry.what, "cannot write into the audit log: nothing is done");
    service.metrics.act(&entry.what, AuditResult::Failed.as_str());
}

/// An act, from its first entry in the audit log to its end.
pub struct Attempt {
    entry: AuditEntry,
}

impl Attempt {
    /// Writes the audit entry.
    ///
    /// # Errors
    /// When the store fails: the act must not be carried out.
    pub async fn begin(
        service: &Service,
        actor: Actor<'_>,
        action: &str,
        incident: Option<&str>,
    ) -> Result<Self, StoreError> {
        let entry = AuditEntry::new_attempt(actor.who, actor.place, action, incident, service.store.now());
        let written = service.store.audit(&entry).await;
        Self::begin_after_audit(service, entry, written)
    }

    /// Begins the act if its audit entry was written.
    ///
    /// # Errors
    /// See [`Self::begin`].
    pub fn begin_after_audit(
        service: &Service,
        entry: AuditEntry,
        written: Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        written.inspect_err(|error| not_begun(service, &entry, error)).map(|()| Self { entry })
    }

    /// Returns the id of the entry in the audit log.
    pub fn id(&self) -> &str {
        &self.entry.id
    }

    /// Sets the incident, where it becomes known only during the act.
    pub fn about(&mut self, incident: &str) {
        self.entry.incident = Some(incident.to_owned());
    }

    /// Writes the result to the audit log; a completed act also updates the incident's message.
    pub async fn end(mut self, service: &Service, result: AuditResult, target: &str, detail: &str) {
        self.entry.result = result;
        self.entry.target = cut(target, 200);
        self.entry.detail = cut(detail, super::NOTE_CHARS);
        told(service, &self.entry);
        if let Err(error) = service.store.audit(&self.entry).await {
            error!(%error, "cannot write into the audit log how an act ended");
        }
        if let (Some(incident), AuditResult::Done) = (&self.entry.incident, result) {
            if let Err(error) = service.store.touch(incident).await {
                error!(%error, "cannot mark an incident's message as changed");
            }
            service.deliveries.notify_one();
        }
    }

    /// Ends the act by the result of a store update.
    pub(super) async fn end_with(self, service: &Service, changed: Result<bool, StoreError>) -> ActEnd {
        let (end, result, detail) = match changed {
            Ok(true) => (ActEnd::Done, AuditResult::Done, ""),
            Ok(false) => (ActEnd::Nothing, AuditResult::Failed, "nothing to do"),
            Err(error) => {
                error!(%error, "cannot write what somebody did");
                (ActEnd::NoStore, AuditResult::Failed, "the store failed")
            }
        };
        self.end(service, result, "", detail).await;
        end
    }
}
