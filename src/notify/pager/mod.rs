//! Pagers: adds the triage to PagerDuty's page, and posts it to the signed webhooks of other tools.
//!
//! One delivery per incident and pager, processed like Slack's. PagerDuty is called when the verdict changes, a webhook
//! for every revision. The user who escalates gets the result of the call.

mod client;
mod config;
mod pagerduty;
mod webhook;

use std::time::Duration;

use tracing::{error, info};

pub use client::PagerClient;
pub use config::{Pager, PagerKind, PagerOn};
pub use webhook::schema;

use super::escalation::Callee;
use super::outgoing::{Outgoing, SendFailure};
use super::{MOST_TRIES, Notifier};
use knowledge::clock;
use message::Message;
use render::Phrases;
use store::failpoint;
use store::{Delivery, Incident, MessageEffects, PostponeReason, StoreError};

/// Tries of an escalation: about half a minute with the pauses.
const MOST_CALL_TRIES: u32 = 6;
/// The longest wait of a page for the first diagnosis.
const DIAGNOSIS_WITHIN: Duration = Duration::from_secs(60);
/// The poll interval of the wait for a diagnosis.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The poll interval in a maintenance window, which somebody may end early.
const LOOK_AGAIN_IN_MAINTENANCE: Duration = Duration::from_secs(15);

/// The data for a call.
struct PagerUpdate<'a> {
    /// The incident without secrets, but with its own group key, which is part of PagerDuty's key.
    incident: &'a Incident,
    /// The group key without secrets.
    group_key: &'a str,
    message: &'a Message,
    words: &'a Phrases,
    /// The incident's page.
    page: Option<&'a str>,
    /// The key and summary of the last call.
    posted: Option<&'a (String, String)>,
    /// The id of the audit entry if a user escalates; the call is then made even if nothing has changed.
    escalation: Option<&'a str>,
}

/// A prepared call.
#[derive(Debug, Clone, PartialEq)]
struct Call {
    /// The incident's key at the pager.
    key: String,
    /// The summary of this call: a call with the same summary is not repeated.
    summary: String,
    body: String,
    headers: Vec<(&'static str, String)>,
}

impl Notifier {
    /// Updates one pager, or stores the time of the next try.
    pub(super) async fn to_pager(
        &self,
        out: &Outgoing<'_>,
        delivery: &Delivery,
        incident: &Incident,
    ) -> Result<(), StoreError> {
        let now = self.store.now();
        let Some(pager) = self.pagers.iter().find(|pager| pager.name() == delivery.channel) else {
            self.metrics.delivery(out.sink, "failed", None);
            let why = "this pager is no longer configured";
            self.escalated(delivery, delivery.escalation.as_deref(), Err(why)).await?;
            return self.store.give_up(delivery, incident.revision, why, now).await;
        };
        let mut escalation = delivery.escalation.as_deref();
        if !incident.open {
            self.escalated(delivery, escalation.take(), Err("the incident has ended")).await?;
        }
        let is_recent = clock::between(incident.opened_at, now) < DIAGNOSIS_WITHIN;
        let waits_for_diagnosis =
            incident.open && incident.diagnosis.is_none() && incident.because.is_some() && is_recent;
        // An escalation does not wait for the diagnosis.
        if waits_for_diagnosis && escalation.is_none() {
            let due = clock::after(now, LOOK_AGAIN);
            return self.store.postpone(out.work, due, PostponeReason::Waits, "waiting for the diagnosis").await;
        }
        if escalation.is_none() && self.maintenance_of(incident).is_some() {
            let due = clock::after(now, LOOK_AGAIN_IN_MAINTENANCE);
            return self.store.postpone(out.work, due, PostponeReason::Waits, "maintenance").await;
        }
        let posted = delivery.posted.as_ref();
        let group_key = self.redactor_of([incident]).text("message", &incident.group_key).into_owned();
        let cleaned = self.cleaned(incident).await;
        let mut view = self.view(&cleaned);
        view.maintenance = self.maintenance_of(incident);
        let message = render::incident_message(&view, &self.words);
        let news = PagerUpdate {
            incident: &cleaned,
            group_key: &group_key,
            message: &message,
            words: &self.words,
            page: view.page.as_deref(),
            posted,
            escalation,
        };
        let Some(call) = pager.call(&news, clock::now()) else {
            // Nothing new for this pager; the revision counts as delivered.
            let effects = MessageEffects::default();
            return self.store.delivered(delivery, posted, incident.revision, &effects, now).await;
        };
        let started = std::time::Instant::now();
        let answer = pager.send(&call).await;
        failpoint("pager called");
        let took = Some(started.elapsed());
        let most = if escalation.is_some() { MOST_CALL_TRIES } else { MOST_TRIES };
        match answer {
            Ok(()) => {
                self.metrics.delivery(out.sink, "posted", took);
                info!(incident.id = delivery.incident, pager = pager.name(), "told the pager");
                let place = (call.key, call.summary);
                self.escalated(delivery, escalation, Ok(())).await?;
                self.store.delivered(delivery, Some(&place), incident.revision, &MessageEffects::default(), now).await
            }
            Err(failed) => {
                let failed = SendFailure { took, ..failed };
                if self.try_again(out, out.tries + 1 < most, &failed).await? {
                    return Ok(());
                }
                let error = &failed.note;
                self.metrics.delivery(out.sink, "failed", took);
                error!(incident.id = delivery.incident, pager = pager.name(), error, "gave up telling the pager");
                self.escalated(delivery, escalation, Err(error)).await?;
                self.store.give_up(delivery, incident.revision, error, now).await?;
                match escalation {
                    // The failure was reported, so a later change of the incident must not call this pager.
                    Some(_) if !pager.takes(incident) => self.store.unpage(delivery).await,
                    _ => Ok(()),
                }
            }
        }
    }

    /// Records the result of an escalation, if there is one.
    async fn escalated(
        &self,
        delivery: &Delivery,
        escalation: Option<&str>,
        result: Result<(), &str>,
    ) -> Result<(), StoreError> {
        let Some(escalation) = escalation else { return Ok(()) };
        let callee = Callee::Pager(&delivery.channel);
        self.escalation_ended(&delivery.incident, escalation, callee, result).await?;
        self.store.escalation_ended(delivery, escalation).await
    }
}
