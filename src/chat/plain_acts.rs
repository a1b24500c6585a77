//! The acts on an incident that need nothing but the incident: acknowledge, snooze, diagnose again, show the evidence.

use tokio::sync::Notify;

use super::attempt::{not_done, open_modal};
use super::forms::{self, ModalMetadata};
use super::replies::Caller;
use crate::acts;
use knowledge::incident::Act;
use store::AuditResult;

/// Acknowledges, snoozes or wakes the incident, or makes its next diagnosis due now.
pub(super) async fn simple(caller: Caller<'_>, diagnoses: &Notify, act: Act, id: &str) {
    let Some(incident) = &caller.begin_act(act, id).await else { return };
    let end = acts::simple(caller.log, diagnoses, caller.actor(), act, incident).await;
    if let Some(phrase) = end.problem(act).or((act == Act::Again).then_some("again-begun")) {
        caller.tell_phrase(phrase).await;
    }
}

/// Shows all checks of the last diagnosis in a modal.
pub(super) async fn evidence(caller: Caller<'_>, id: &str) {
    let Some(incident) = &caller.begin_act(Act::Evidence, id).await else { return };
    let Some(diagnosis) = &caller.notifier.cleaned(incident).await.diagnosis else {
        return not_done(caller, Act::Evidence, "evidence-none").await;
    };
    let about = ModalMetadata::of(&incident.id, caller.request);
    let view = forms::evidence(diagnosis, &caller.notifier.words, &about);
    if open_modal(caller, Act::Evidence.as_str(), &view).await {
        caller.log.metrics.act(Act::Evidence.as_str(), AuditResult::Done.as_str());
    }
}
