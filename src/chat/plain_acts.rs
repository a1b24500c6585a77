//! The acts on an incident that need nothing but the incident: acknowledge, diagnose again, show the evidence.

use super::Desk;
use super::attempt::{actor, begin_act, open_modal};
use super::forms::{self, ModalMetadata};
use super::replies::send_ephemeral_phrase;
use crate::acts;
use knowledge::incident::Act;
use slack::SlackRequest;
use store::AuditResult;

/// Records that the user takes care of the incident.
pub(super) async fn acknowledge(desk: &Desk, inbound: &SlackRequest, id: &str) {
    let Some(incident) = &begin_act(desk, inbound, Act::Acknowledge, id).await else { return };
    let end = acts::acknowledge(desk, actor(inbound), incident).await;
    if let Some(problem) = end.problem("acknowledged-already") {
        send_ephemeral_phrase(desk, inbound, problem).await;
    }
}

/// Makes the next diagnosis of the incident due now.
pub(super) async fn again(desk: &Desk, inbound: &SlackRequest, id: &str) {
    let Some(incident) = &begin_act(desk, inbound, Act::Again, id).await else { return };
    let end = acts::again(desk, actor(inbound), incident).await;
    send_ephemeral_phrase(desk, inbound, end.problem("again-no-playbook").unwrap_or("again-begun")).await;
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
