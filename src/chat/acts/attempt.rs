//! One act in the audit log, from its beginning to its end, and the refusals.

use tokio::sync::Notify;
use tracing::{error, info};

use super::{ActEnd, Actor};
use message::SlackMessage;
use render::cut;
use service::Service;
use store::{AuditEntry, AuditResult, Incident, Store, StoreError};
use telemetry::Metrics;

/// The longest accepted incident id; a ULID has 26 characters.
const ID_CHARS: usize = 40;

/// Returns a well-formed incident id; other text is neither looked up nor written to the audit log.
fn well_formed_id(id: &str) -> Option<&str> {
    Some(id).filter(|id| !id.is_empty() && id.len() <= ID_CHARS && id.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Finds the incident with this id; the error is the key of the phrase with the reason.
pub async fn find_incident(store: &Store, id: &str) -> Result<Incident, &'static str> {
    let Some(id) = well_formed_id(id) else { return Err("act-gone") };
    match store.incident(id).await {
        Ok(incident) => incident.ok_or("act-gone"),
        Err(error) => {
            error!(%error, "cannot read an incident");
            Err("act-store")
        }
    }
}

/// The record of acts: they are written down and counted, and their changes wake the deliveries.
#[derive(Debug, Clone, Copy)]
pub struct AuditLog<'a> {
    /// The store with the log.
    pub store: &'a Store,
    /// Counts the acts.
    pub metrics: &'a Metrics,
    /// Wakes the deliver loop.
    pub deliveries: &'a Notify,
}

impl<'a> AuditLog<'a> {
    /// Returns the audit log of a running service.
    pub fn of(service: &'a Service) -> Self {
        Self { store: &service.store, metrics: &service.metrics, deliveries: &service.deliveries }
    }

    /// Writes and counts a refusal; `why` is its name in the audit log.
    pub async fn write_refusal(self, actor: Actor<'_>, action: &str, incident: Option<&str>, why: &'static str) {
        info!(user = actor.who, what = action, why, "refused somebody");
        self.metrics.act(action, AuditResult::Refused.as_str());
        let incident = incident.and_then(well_formed_id);
        let attempt = AuditEntry::new_attempt(actor.who, actor.place, action, incident, self.store.now());
        let entry = AuditEntry { result: AuditResult::Refused, detail: why.to_owned(), ..attempt };
        if let Err(error) = self.store.audit(&entry).await {
            error!(%error, "cannot write a refusal into the audit log");
        }
    }

    /// Counts an act that fails before it begins, which is not written down.
    pub fn count_failure(self, act: &str) {
        self.metrics.act(act, AuditResult::Failed.as_str());
    }

    /// Begins an act: writes its entry.
    ///
    /// # Errors
    /// When the store fails: the act must not be carried out.
    pub async fn begin(self, actor: Actor<'_>, action: &str, incident: Option<&str>) -> Result<Attempt, StoreError> {
        let entry = AuditEntry::new_attempt(actor.who, actor.place, action, incident, self.store.now());
        let written = self.store.audit(&entry).await;
        self.begin_after_audit(entry, written)
    }

    /// Begins an act if its entry was written.
    ///
    /// # Errors
    /// See [`Self::begin`].
    pub fn begin_after_audit(self, entry: AuditEntry, written: Result<(), StoreError>) -> Result<Attempt, StoreError> {
        written.inspect_err(|error| self.not_begun(&entry, error)).map(|()| Attempt { entry })
    }

    /// Writes a note in one step, with what its thread and message say of it: it has no other effect.
    pub(super) async fn write_note(self, entry: &AuditEntry, post: &SlackMessage) -> ActEnd {
        match self.store.audit_note(entry, post, self.store.now()).await {
            Ok(()) => {
                self.ended(entry);
                self.deliveries.notify_one();
                ActEnd::Done
            }
            Err(error) => {
                self.not_begun(entry, &error);
                ActEnd::NoStore
            }
        }
    }

    /// Queues a post in the incident's thread; false if it has none.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn tell_thread(self, incident: &str, body: &SlackMessage) -> Result<bool, StoreError> {
        let queued = self.store.queue_answer(incident, body, self.store.now()).await?;
        if queued {
            self.deliveries.notify_one();
        }
        Ok(queued)
    }

    /// Marks the incident's message as changed by what somebody did.
    pub async fn touch(self, incident: &str) {
        if let Err(error) = self.store.touch(incident).await {
            error!(%error, "cannot mark an incident's message as changed");
        }
        self.deliveries.notify_one();
    }

    /// Counts and logs how an act ended.
    fn ended(self, entry: &AuditEntry) {
        let AuditEntry { what: action, who, incident, .. } = entry;
        let result = entry.result.as_str();
        self.metrics.act(action, result);
        info!(user = who, what = action, incident.id = incident, result, "somebody acted");
    }

    /// Counts and logs an act that cannot be written down.
    fn not_begun(self, entry: &AuditEntry, error: &StoreError) {
        error!(%error, what = entry.what, "cannot write into the audit log: nothing is done");
        self.count_failure(&entry.what);
    }
}

/// An act, from its first entry in the audit log to its end.
pub struct Attempt {
    entry: AuditEntry,
}

impl Attempt {
    /// Returns the id of the entry in the audit log.
    pub fn id(&self) -> &str {
        &self.entry.id
    }

    /// Sets the incident, where it becomes known only during the act.
    pub fn about(&mut self, incident: &str) {
        self.entry.incident = Some(incident.to_owned());
    }

    /// Writes the result to the audit log; a completed act also updates the incident's message.
    pub async fn end(mut self, log: AuditLog<'_>, result: AuditResult, target: &str, detail: &str) {
        self.entry.result = result;
        self.entry.target = cut(target, 200);
        self.entry.detail = cut(detail, super::NOTE_CHARS);
        log.ended(&self.entry);
        if let Err(error) = log.store.audit(&self.entry).await {
            error!(%error, "cannot write into the audit log how an act ended");
        }
        if let (Some(incident), AuditResult::Done) = (&self.entry.incident, result) {
            log.touch(incident).await;
        }
    }

    /// Ends the act by the result of a store update.
    pub(super) async fn end_with(self, log: AuditLog<'_>, changed: Result<bool, StoreError>) -> ActEnd {
        let (end, result, detail) = match changed {
            Ok(true) => (ActEnd::Done, AuditResult::Done, ""),
            Ok(false) => (ActEnd::Nothing, AuditResult::Failed, "nothing to do"),
            Err(error) => {
                error!(%error, "cannot write the audit entry of an act");
                (ActEnd::NoStore, AuditResult::Failed, "the store failed")
            }
        };
        self.end(log, result, "", detail).await;
        end
    }
}
