//! The acts on an incident that need nothing but the incident: acknowledge, diagnose again, show the evidence.

use super::Desk;
use super::attempt::{Attempt, begin_act, open_modal, reply_incident_ended};
use super::forms::{self, ModalMetadata};
use super::replies::send_ephemeral_phrase;
use knowledge::incident::Act;
use slack::SlackRequest;
use store::AuditResult;

/// Records that the user takes care of the incident.
pub(super) async fn acknowledge(desk: &Desk, inbound: &SlackRequest, id: &str) {
    let Some(incident) = &begin_act(desk, inbound, Act::Acknowledge, id).await else { return };
    if !incident.open {
        return reply_incident_ended(desk, inbound, Act::Acknowledge).await;
    }
    let Some(attempt) = Attempt::begin(desk, inbound, Act::Acknowledge.as_str(), Some(&incident.id)).await else {
        return;
    };
    let changed = desk.store.acknowledge(&incident.id, &inbound.who.user, desk.store.now()).await;
    attempt.end_with(desk, inbound, changed, "acknowledged-already").await;
}

/// Makes the next diagnosis of the incident due now.
pub(super) async fn again(desk: &Desk, inbound: &SlackRequest, id: &str) {
    let Some(incident) = &begin_act(desk, inbound, Act::Again, id).await else { return };
    if !incident.open {
        return reply_incident_ended(desk, inbound, Act::Again).await;
    }
    let Some(attempt) = Attempt::begin(desk, inbound, Act::Again.as_str(), Some(&incident.id)).await else { return };
    let changed = desk.store.diagnose_now(&incident.id, desk.store.now()).await;
    if attempt.end_with(desk, inbound, changed, "again-no-playbook").await {
        desk.diagnoses.notify_one();
        send_ephemeral_phrase(desk, inbound, "again-begun").await;
    }
}

/// Shows all checks of the last diagnosis in a modal.
pub(super) async fn evidence(desk: &Desk, inbound: &SlackRequest, id: &str) {
    let Some(incident) = &begin_act(desk, inbound, Act::Evidence, id).await else { return };
    let Some(diagnosis) = &desk.notifier.cleaned(incident).await.diagnosis else {
        desk.metrics.act(Act::Evidence.as_str(), AuditResult::Failed.as_str());
        return send_ephemeral_phrase(desk, inbound, "evidence-none").await;
    };
    let view = forms::evidence(diagnosis, &desk.words, &ModalMetadata::of(&incident.id, inbound));
    if open_modal(desk, inbound, Act::Evidence.as_str(), &view).await {
        desk.metrics.act(Act::Evidence.as_str(), AuditResult::Done.as_str());
    }
}
