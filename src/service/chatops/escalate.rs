//! "Escalate": calls a user group, a user or a pager.

use std::time::Duration;

use tracing::error;

use super::Desk;
use super::attempt::{Attempt, begin_act, reply_incident_ended, reply_with_error};
use super::incidents::short;
use super::replies::{ThreadPostOutcome, message, put_into_thread, send_ephemeral_line, send_ephemeral_phrase};
use knowledge::incident::Act;
use message::{Block, Line, TextSpan, Tone};
use slack::{SlackRequest, is_person};
use store::{AuditEntry, AuditResult, Incident};

/// The minimum time between two escalations of one incident.
const ONCE_WITHIN: Duration = Duration::from_secs(300);
/// The longest wait of the answer for the delivery.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The poll interval of that wait.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) async fn escalate(desk: &Desk, inbound: &SlackRequest, id: &str) {
    let Some(incident) = &begin_act(desk, inbound, Act::Escalate, id).await else { return };
    let act = Act::Escalate;
    if !incident.open {
        return reply_incident_ended(desk, inbound, act).await;
    }
    let Some(callee) = &desk.config.slack.escalate else {
        desk.metrics.act(act.as_str(), AuditResult::Failed.as_str());
        return send_ephemeral_phrase(desk, inbound, "escalate-nobody").await;
    };
    let attempt = Attempt::begin_once(desk, inbound, act.as_str(), &incident.id, ONCE_WITHIN, "escalate-already");
    let Some(attempt) = attempt.await else { return };
    let Some(span) = person(callee) else { return page(desk, inbound, incident, callee, attempt).await };
    match call(desk, inbound, incident, span, attempt.id()).await {
        Ok(ThreadPostOutcome::Posted) => {
            // The id is not readable; the post in the thread mentions them.
            attempt.end(desk, AuditResult::Done, callee, "").await;
            send_ephemeral_phrase(desk, inbound, "escalate-done").await;
        }
        Ok(ThreadPostOutcome::Queued) => {
            let [done, pending] = ["escalate-done", "escalate-waits"].map(|key| desk.words.line(key, &[]));
            tell_end(desk, inbound, attempt.id(), done, pending).await;
        }
        Err(error) => {
            attempt.end(desk, AuditResult::Failed, callee, &error).await;
            reply_with_error(desk, inbound, "escalate-failed", &error).await;
        }
    }
}

/// Calls a pager. The delivery writes its result to the attempt's audit entry, so any replica may make it; a result
/// after [`ANSWER_WITHIN`] is reported in the thread only.
async fn page(desk: &Desk, inbound: &SlackRequest, incident: &Incident, pager: &str, attempt: Attempt) {
    if let Err(error) = desk.store.page(&incident.id, pager, attempt.id(), desk.store.now()).await {
        let error = error.to_string();
        attempt.end(desk, AuditResult::Failed, pager, &error).await;
        return reply_with_error(desk, inbound, "escalate-failed", &error).await;
    }
    desk.deliveries.notify_one();
    let [done, pending] =
        ["escalation-called", "escalation-begun"].map(|key| desk.words.line(key, &[("pager", pager.into())]));
    tell_end(desk, inbound, attempt.id(), done, pending).await;
}

/// Replies with the result of the delivery, or with `waits` when it takes longer than [`ANSWER_WITHIN`].
async fn tell_end(desk: &Desk, inbound: &SlackRequest, escalation: &str, done: Line, pending: Line) {
    let ended = tokio::time::timeout(ANSWER_WITHIN, ended(desk, escalation)).await;
    match ended.ok().flatten() {
        Some(AuditEntry { result: AuditResult::Done, .. }) => send_ephemeral_line(desk, inbound, done).await,
        Some(entry) => reply_with_error(desk, inbound, "escalate-failed", &entry.detail).await,
        None => send_ephemeral_line(desk, inbound, pending).await,
    }
}

/// Waits for the audit entry to have a result and returns it; `None` if it cannot be read.
async fn ended(desk: &Desk, id: &str) -> Option<AuditEntry> {
    let mut polls = tokio::time::interval(POLL_INTERVAL);
    loop {
        polls.tick().await;
        match desk.store.audit_entry(id).await {
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

/// Mentions the user or group in the incident's thread, with the headline and the escalation hint of the cause.
async fn call(
    desk: &Desk,
    inbound: &SlackRequest,
    incident: &Incident,
    callee: TextSpan,
    escalation: &str,
) -> Result<ThreadPostOutcome, String> {
    let words = &desk.words;
    let incident_message = desk.notifier.message(incident);
    let arguments =
        [("who", TextSpan::User(inbound.who.user.clone()).into()), ("headline", incident_message.headline.into())];
    // Slack notifies only for mentions above an attachment.
    let call = Line(vec![callee]).plain(" ").then(words.line("escalate-asks", &arguments));
    let mut parts = Vec::new();
    if let Some(hint) = incident.diagnosis.as_ref().and_then(|d| d.root()).and_then(|root| root.escalate.clone()) {
        parts.push(Block::Paragraph(words.line("escalate-who", &[("who", Line::of(&hint).into())])));
    }
    let command = Line::default().code(format!("/llm-diagnose bundle {}", short(&incident.id)));
    parts.push(Block::Note(words.line("escalate-bundle", &[("command", command.into())])));
    let body = message(Tone::Critical, &call, parts);
    put_into_thread(desk, &incident.id, inbound, &body, escalation).await.map_err(|error| error.to_string())
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
