//! The acts on an incident that need nothing but the incident: acknowledge, snooze, diagnose again, show the evidence.

use tokio::sync::Notify;

use super::attempt::{Guard, not_done, open_modal};
use super::forms::{self, ModalMetadata};
use super::replies::Caller;
use crate::acts;
use knowledge::incident::Act;
use store::AuditResult;

/// Records that the user takes care of the incident.
pub(super) async fn acknowledge(guard: Guard<'_>, caller: Caller<'_>, id: &str) {
    let Some(incident) = &guard.begin_act(caller, Act::Acknowledge, id).await else { return };
    let end = acts::acknowledge(guard.log, caller.actor(), incident).await;
    if let Some(problem) = end.problem("acknowledged-already") {
        caller.tell_phrase(problem).await;
    }
}

/// Records that nobody wants to hear more of the incident until it gets worse, or that this is over.
pub(super) async fn snooze(guard: Guard<'_>, caller: Caller<'_>, act: Act, id: &str) {
    let Some(incident) = &guard.begin_act(caller, act, id).await else { return };
    let end = acts::snooze(guard.log, caller.actor(), act, incident).await;
    if let Some(problem) = end.problem("unsnoozed-already") {
        caller.tell_phrase(problem).await;
    }
}

/// Makes the next diagnosis of the incident due now.
pub(super) async fn again(guard: Guard<'_>, caller: Caller<'_>, diagnoses: &Notify, id: &str) {
    let Some(incident) = &guard.begin_act(caller, Act::Again, id).await else { return };
    let end = acts::again(guard.log, diagnoses, caller.actor(), incident).await;
    caller.tell_phrase(end.problem("again-no-playbook").unwrap_or("again-begun")).await;
}

/// Shows all checks of the last diagnosis in a modal.
pub(super) async fn evidence(guard: Guard<'_>, caller: Caller<'_>, id: &str) {
    let Some(incident) = &guard.begin_act(caller, Act::Evidence, id).await else { return };
    let Some(diagnosis) = &caller.notifier.cleaned(incident).await.diagnosis else {
        return not_done(guard.log, caller, Act::Evidence, "evidence-none").await;
    };
    let about = ModalMetadata::of(&incident.id, caller.request);
    let view = forms::evidence(diagnosis, &caller.notifier.words, &about);
    if open_modal(guard.log, caller, Act::Evidence.as_str(), &view).await {
        guard.log.metrics.act(Act::Evidence.as_str(), AuditResult::Done.as_str());
    }
}
