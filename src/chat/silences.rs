//! Silences: created, listed and expired by users in Slack.

use std::time::Duration;

use super::Desk;
use super::attempt::{self, actor, permit};
use super::authority::Power;
use super::replies::{into_thread, send_ephemeral_line, send_ephemeral_message, send_ephemeral_phrase};
use crate::acts::silence::{self, ABOUT, NoSilence};
use findings::silence::SilenceMatcher;
use knowledge::incident::Act;
use message::{Block, Line, TextSpan, Tone};
use render::{self, cut};
use slack::SlackRequest;
use sources::alertmanager::{self, Silence};
use store::{AuditResult, Incident};

/// Silences in a list.
const LISTED: usize = 20;

/// Creates a silence for an authorised user and announces it in the incident's thread, with a button that expires it.
pub(super) async fn create(
    desk: &Desk,
    inbound: &SlackRequest,
    incident: &Incident,
    matchers: &[SilenceMatcher],
    duration: Duration,
    comment: &str,
) {
    let author = (actor(inbound), format!("{} in Slack", inbound.who.user));
    let created = silence::create(desk, &desk.alertmanagers, author, incident, (matchers, duration, comment)).await;
    let created = match created {
        Ok(created) => created,
        Err(NoSilence::NoStore) => return send_ephemeral_phrase(desk, inbound, "act-store").await,
        Err(NoSilence::Refused(error)) => {
            return send_ephemeral_line(desk, inbound, silence::problem(desk, &error)).await;
        }
    };
    let button = Block::Buttons(vec![silence::expire_button(desk, &created.id, Act::Expire.as_str())]);
    let body = silence::announcement(desk, actor(inbound), incident, &created, comment, button);
    if let Err(error) = into_thread(desk, &incident.id, inbound, &body).await {
        tracing::warn!(%error, incident.id = incident.id, "cannot tell the thread of a silence");
        send_ephemeral_phrase(desk, inbound, "silence-made-unposted").await;
    }
}

/// Expires a silence.
pub(super) async fn expire(desk: &Desk, inbound: &SlackRequest, id: &str) {
    if !permit(desk, inbound, Act::Expire.as_str(), None, Power::of(Act::Expire)).await {
        return;
    }
    let Some(mut attempt) = attempt::begin(desk, inbound, Act::Expire.as_str(), None).await else { return };
    match alertmanager::expire(&desk.alertmanagers, id).await {
        Ok(ended) => {
            let incident = incident_of(desk, &ended).await;
            if let Some(incident) = &incident {
                attempt.about(&incident.id);
            }
            attempt.end(desk, AuditResult::Done, id, "").await;
            let redactor = silence::redactor(desk, incident.as_ref(), &ended.matchers);
            let mut arguments = silence::arguments(&redactor, &ended.matchers, ended.ends_at);
            arguments.push(("who", TextSpan::User(inbound.who.user.clone()).into()));
            let line = desk.words.line("silence-expired", &arguments);
            // The thread announced the silence, so it also announces its end.
            if let Some(incident) = &incident
                && let Err(error) = into_thread(desk, &incident.id, inbound, &render::slack_line(&line)).await
            {
                tracing::warn!(%error, incident.id = incident.id, "cannot tell the thread of a silence's end");
            }
            if incident.is_none() || inbound.place.thread.is_none() {
                send_ephemeral_line(desk, inbound, line).await;
            }
        }
        Err(error) => {
            attempt.end(desk, AuditResult::Failed, id, &error.to_string()).await;
            send_ephemeral_line(desk, inbound, silence::problem(desk, &error)).await;
        }
    }
}

/// Returns the incident that one of our silences names in its comment; `None` for any other silence.
async fn incident_of(desk: &Desk, silence: &Silence) -> Option<Incident> {
    let (_, rest) = silence.comment.rsplit_once(ABOUT)?;
    let id: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    match desk.store.incident(&id).await {
        Ok(incident) => incident,
        Err(error) => {
            tracing::error!(%error, "cannot read an incident");
            None
        }
    }
}

/// Lists the active and pending silences.
pub(super) async fn list(desk: &Desk, inbound: &SlackRequest) {
    if desk.alertmanagers.is_empty() {
        return send_ephemeral_phrase(desk, inbound, "silence-no-alertmanager").await;
    }
    let (silences, problems) = alertmanager::list(&desk.alertmanagers).await;
    let mut parts = Vec::new();
    for (i, silence) in silences.iter().take(LISTED).enumerate() {
        parts.push(Block::Paragraph(described(desk, silence)));
        // Action ids must be unique within a message.
        parts.push(Block::Buttons(vec![silence::expire_button(
            desk,
            &silence.id,
            &format!("{}:{i}", Act::Expire.as_str()),
        )]));
    }
    if silences.len() > LISTED {
        parts.push(Block::Note(desk.words.line("silence-more", &[("n", (silences.len() - LISTED).into())])));
    }
    let unanswered = problems.len();
    parts.extend(problems.into_iter().map(|problem| Block::Note(Line::of(&problem))));
    let count = [("n", silences.len().into()), ("away", unanswered.into()), ("of", desk.alertmanagers.len().into())];
    // An Alertmanager that did not answer may have silences, so the list is not reported as complete.
    let key = match (unanswered, silences.len()) {
        (0, _) => "silence-list",
        (away, _) if away == desk.alertmanagers.len() => "silence-list-unknown",
        _ => "silence-list-partly",
    };
    let headline = desk.words.line(key, &count);
    send_ephemeral_message(desk, inbound, Tone::Unknown, headline, parts).await;
}

fn described(desk: &Desk, one: &Silence) -> Line {
    let redactor = silence::redactor(desk, None, &one.matchers);
    let mut arguments = silence::arguments(&redactor, &one.matchers, one.ends_at);
    arguments.push(("by", cut(&one.created_by, 80).into()));
    arguments.push(("comment", cut(&redactor.text("message", &one.comment), 200).into()));
    desk.words.line("silence-one", &arguments)
}
