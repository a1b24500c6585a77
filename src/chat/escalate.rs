//! "Escalate": calls a user group, a user or a pager.

use std::time::Duration;

use tracing::error;

use super::Desk;
use super::attempt::{self, begin_act, reply_incident_ended, reply_with_error};
use super::replies::{message, post_at_request, send_ephemeral_line, send_ephemeral_phrase};
use knowledge::incident::{Act, short_id};
use message::{Block, Line, SlackMessage, TextSpan, Tone};
use slack::{SlackRequest, is_person};
use store::{AuditEntry, AuditResult, EscalationCall, Incident};

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
    let person = person(callee);
    let body = match person.clone() {
        Some(person) => Some(call_message(desk, inbound, incident, person).await),
        None => None,
    };
    let call = body.as_ref().map_or(EscalationCall::Pager(callee), EscalationCall::Post);
    let Some((attempt, queued)) = attempt::begin_escalation(desk, inbound, &incident.id, call, ONCE_WITHIN).await
    else {
        return;
    };
    if queued {
        desk.deliveries.notify_one();
        let pager = [("pager", callee.as_str().into())];
        let [done, pending] = match person {
            Some(_) => ["escalate-done", "escalate-waits"].map(|key| desk.words.line(key, &[])),
            None => ["escalation-called", "escalation-begun"].map(|key| desk.words.line(key, &pager)),
        };
        return tell_end(desk, inbound, attempt.id(), done, pending).await;
    }
    let Some(body) = body else { return };
    match post_at_request(desk, inbound, &body).await {
        Ok(()) => {
            // The id is not readable; the post mentions them.
            attempt.end(desk, AuditResult::Done, callee, "").await;
            send_ephemeral_phrase(desk, inbound, "escalate-done").await;
        }
        Err(error) => {
            let error = error.to_string();
            attempt.end(desk, AuditResult::Failed, callee, &error).await;
            reply_with_error(desk, inbound, "escalate-failed", &error).await;
        }
    }
}

/// Replies with the result of the delivery, which any replica may make and which writes it to the audit entry; with
/// `pending` when it takes longer than [`ANSWER_WITHIN`].
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

/// Builds the message that mentions a user or group, with the headline and the escalation hint of the cause.
async fn call_message(desk: &Desk, inbound: &SlackRequest, incident: &Incident, callee: TextSpan) -> SlackMessage {
    let words = &desk.words;
    let incident_message = desk.notifier.message(incident).await;
    let arguments =
        [("who", TextSpan::User(inbound.who.user.clone()).into()), ("headline", incident_message.headline.into())];
    // Slack notifies only for mentions above an attachment.
    let call = Line(vec![callee]).plain(" ").then(words.line("escalate-asks", &arguments));
    let mut parts = Vec::new();
    if let Some(hint) = incident.diagnosis.as_ref().and_then(|d| d.root()).and_then(|root| root.escalate.clone()) {
        parts.push(Block::Paragraph(words.line("escalate-who", &[("who", Line::of(&hint).into())])));
    }
    let command = Line::default().code(format!("/llm-diagnose bundle {}", short_id(&incident.id)));
    parts.push(Block::Note(words.line("escalate-bundle", &[("command", command.into())])));
    message(Tone::Critical, &call, parts)
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
