//! "Escalate": calls a user group, a user or a pager.

use std::time::Duration;

use tracing::error;

use super::attempt::{begun, not_done};
use super::replies::Caller;
use knowledge::clock;
use knowledge::incident::{Act, short_id};
use message::{Block, Line, SlackMessage, TextSpan, Tone};
use slack::is_person;
use store::{AuditEntry, AuditResult, Escalated, EscalationCall, Incident, Store};

/// The minimum time between two escalations of one incident.
const ONCE_WITHIN: Duration = Duration::from_secs(300);
/// The longest wait of the answer for the delivery.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The poll interval of that wait.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Calls the configured `callee`, at most once within [`ONCE_WITHIN`] per incident: later and concurrent callers get a notice.
pub(super) async fn escalate(caller: Caller<'_>, callee: Option<&String>, id: &str) {
    let (act, log, words) = (Act::Escalate, caller.log, &caller.notifier.words);
    let Some(incident) = &caller.begin_act(act, id).await else { return };
    if !incident.open {
        return not_done(caller, act, "act-over").await;
    }
    let Some(callee) = callee else {
        return not_done(caller, act, "escalate-nobody").await;
    };
    let person = person(callee);
    let body = match person.clone() {
        Some(person) => Some(call_message(caller, incident, person).await),
        None => None,
    };
    let call = body.as_ref().map_or(EscalationCall::Pager(callee), EscalationCall::Post);
    let (now, actor) = (log.store.now(), caller.actor());
    let entry = AuditEntry::new_attempt(actor.who, actor.place, act.as_str(), Some(&incident.id), now);
    let escalated = log.store.escalate(&entry, clock::before(now, ONCE_WITHIN), call, now).await;
    if let Ok(Escalated::Already) = escalated {
        return not_done(caller, act, "escalate-already").await;
    }
    let is_queued = matches!(escalated, Ok(Escalated::Queued));
    let Some(attempt) = begun(caller, log.begin_after_audit(entry, escalated.map(drop))).await else { return };
    if is_queued {
        log.deliveries.notify_one();
        let pager = [("pager", callee.as_str().into())];
        let [done, pending] = match person {
            Some(_) => ["escalate-done", "escalate-waits"].map(|key| words.line(key, &[])),
            None => ["escalation-called", "escalation-begun"].map(|key| words.line(key, &pager)),
        };
        return tell_end(log.store, caller, attempt.id(), done, pending).await;
    }
    let Some(body) = body else { return };
    match caller.post(&body).await {
        Ok(()) => {
            // The id is not readable; the post mentions them.
            attempt.end(log, AuditResult::Done, callee, "").await;
            caller.tell_phrase("escalate-done").await;
        }
        Err(error) => {
            let error = error.to_string();
            attempt.end(log, AuditResult::Failed, callee, &error).await;
            caller.tell_error("escalate-failed", &error).await;
        }
    }
}

/// Replies with the result of the delivery, which any replica may make and which writes it to the audit entry; with
/// `pending` when it takes longer than [`ANSWER_WITHIN`].
async fn tell_end(store: &Store, caller: Caller<'_>, escalation: &str, done: Line, pending: Line) {
    let ended = tokio::time::timeout(ANSWER_WITHIN, ended(store, escalation)).await;
    match ended.ok().flatten() {
        Some(AuditEntry { result: AuditResult::Done, .. }) => caller.tell_line(done).await,
        Some(entry) => caller.tell_error("escalate-failed", &entry.detail).await,
        None => caller.tell_line(pending).await,
    }
}

/// Waits for the audit entry to have a result and returns it; `None` if it cannot be read.
async fn ended(store: &Store, id: &str) -> Option<AuditEntry> {
    let mut polls = tokio::time::interval(POLL_INTERVAL);
    loop {
        polls.tick().await;
        match store.audit_entry(id).await {
            Ok(Some(entry)) if entry.result == AuditResult::Begun => {}
            Ok(entry) => return entry,
            Err(error) => {
                error!(%error, "cannot read how an escalation ended");
                return None;
            }
        }
    }
}

/// Returns the mention of a user group or user id; `None` for the name of a pager.
fn person(id: &str) -> Option<TextSpan> {
    match (is_person(id), id.starts_with('S')) {
        (true, true) => Some(TextSpan::Group(id.to_owned())),
        (true, false) => Some(TextSpan::User(id.to_owned())),
        (false, _) => None,
    }
}

/// Builds the message that mentions a user or group, with the headline and the escalation hint of the cause.
async fn call_message(caller: Caller<'_>, incident: &Incident, callee: TextSpan) -> SlackMessage {
    let words = &caller.notifier.words;
    let incident_message = caller.notifier.message(incident).await;
    let arguments =
        [("who", TextSpan::User(caller.user().to_owned()).into()), ("headline", incident_message.headline.into())];
    // Slack notifies only for mentions above an attachment.
    let call = Line(vec![callee]).plain(" ").then(words.line("escalate-asks", &arguments));
    let mut parts = Vec::new();
    if let Some(hint) = incident.diagnosis.as_ref().and_then(|d| d.root()).and_then(|root| root.escalate.clone()) {
        parts.push(Block::Paragraph(words.line("escalate-who", &[("who", Line::of(&hint).into())])));
    }
    let command = Line::default().code(format!("/llm-diagnose bundle {}", short_id(&incident.id)));
    parts.push(Block::Note(words.line("escalate-bundle", &[("command", command.into())])));
    render::slack_with_blocks(&call, Tone::Critical, &parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_slack_are_told_from_names_of_pagers() {
        assert_eq!(person("S0123ABC"), Some(TextSpan::Group("S0123ABC".into())));
        assert_eq!(person("U0123ABC"), Some(TextSpan::User("U0123ABC".into())));
        for pager in ["on-call", "SRE", "Ursula", "U<!here>"] {
            assert_eq!(person(pager), None, "{pager}");
        }
    }
}
