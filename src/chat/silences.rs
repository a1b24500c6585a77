//! Silences: created, listed and expired by users in Slack.

use std::time::Duration;

use super::attempt;
use super::authority::Power;
use super::replies::Caller;
use crate::acts::silence::{self, ABOUT, NoSilence, Silencer};
use findings::silence::SilenceMatcher;
use knowledge::incident::Act;
use message::{Block, Line, TextSpan, Tone};
use notify::Notifier;
use render::{self, cut};
use sources::alertmanager::{self, Alertmanager, Silence};
use store::{AuditResult, Incident, Store};

/// Silences in a list.
const LISTED: usize = 20;

/// Creates a silence for an authorised user and announces it in the incident's thread, with a button that expires it.
pub(super) async fn create(
    caller: Caller<'_>,
    silencer: Silencer<'_>,
    incident: &Incident,
    wanted: (&[SilenceMatcher], Duration, &str),
) {
    let author = (caller.actor(), format!("{} in Slack", caller.user()));
    let words = &caller.notifier.words;
    let created = silence::create(caller.log, silencer, author, incident, wanted).await;
    let created = match created {
        Ok(created) => created,
        Err(NoSilence::NoStore) => return caller.tell_phrase("act-store").await,
        Err(NoSilence::Refused(error)) => {
            return caller.tell_line(silence::problem(words, &error)).await;
        }
    };
    let button = Block::Buttons(vec![silence::expire_button(words, &created.id, Act::Expire.as_str())]);
    let body = silence::announcement(caller.notifier, caller.actor(), incident, &created, wanted.2, button);
    if let Err(error) = caller.post_in_thread(&incident.id, &body).await {
        tracing::warn!(%error, incident.id = incident.id, "cannot tell the thread of a silence");
        caller.tell_phrase("silence-made-unposted").await;
    }
}

/// Expires a silence.
pub(super) async fn expire(caller: Caller<'_>, alertmanagers: &[Alertmanager], id: &str) {
    if !caller.permit(Act::Expire.as_str(), None, Power::of(Act::Expire)).await {
        return;
    }
    let (log, words) = (caller.log, &caller.notifier.words);
    let Some(mut attempt) = attempt::begin(caller, Act::Expire, None).await else { return };
    match alertmanager::expire(alertmanagers, id).await {
        Ok(ended) => {
            let incident = incident_of(log.store, &ended).await;
            if let Some(incident) = &incident {
                attempt.about(&incident.id);
            }
            attempt.end(log, AuditResult::Done, id, "").await;
            let redactor = silence::redactor(caller.notifier, incident.as_ref(), &ended.matchers);
            let mut arguments = silence::arguments(&redactor, &ended.matchers, ended.ends_at);
            arguments.push(("who", TextSpan::User(caller.user().to_owned()).into()));
            let line = words.line("silence-expired", &arguments);
            // The thread announced the silence, so it also announces its end.
            if let Some(incident) = &incident
                && let Err(error) = caller.post_in_thread(&incident.id, &render::slack_line(&line)).await
            {
                tracing::warn!(%error, incident.id = incident.id, "cannot tell the thread of a silence's end");
            }
            if incident.is_none() || caller.request.place.thread.is_none() {
                caller.tell_line(line).await;
            }
        }
        Err(error) => {
            attempt.end(log, AuditResult::Failed, id, &error.to_string()).await;
            caller.tell_line(silence::problem(words, &error)).await;
        }
    }
}

/// Returns the incident that one of our silences names in its comment; `None` for any other silence.
async fn incident_of(store: &Store, silence: &Silence) -> Option<Incident> {
    let (_, rest) = silence.comment.rsplit_once(ABOUT)?;
    let id: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    match store.incident(&id).await {
        Ok(incident) => incident,
        Err(error) => {
            tracing::error!(%error, "cannot read an incident");
            None
        }
    }
}

/// Lists the active and pending silences.
pub(super) async fn list(caller: Caller<'_>, alertmanagers: &[Alertmanager]) {
    let words = &caller.notifier.words;
    if alertmanagers.is_empty() {
        return caller.tell_phrase("silence-no-alertmanager").await;
    }
    let (silences, problems) = alertmanager::list(alertmanagers).await;
    let mut parts = Vec::new();
    for (i, silence) in silences.iter().take(LISTED).enumerate() {
        parts.push(Block::Paragraph(described(caller.notifier, silence)));
        // Action ids must be unique within a message.
        parts.push(Block::Buttons(vec![silence::expire_button(
            words,
            &silence.id,
            &format!("{}:{i}", Act::Expire.as_str()),
        )]));
    }
    if silences.len() > LISTED {
        parts.push(Block::Note(words.line("silence-more", &[("n", (silences.len() - LISTED).into())])));
    }
    let unanswered = problems.len();
    parts.extend(problems.into_iter().map(|problem| Block::Note(Line::of(&problem))));
    let count = [("n", silences.len().into()), ("away", unanswered.into()), ("of", alertmanagers.len().into())];
    // An Alertmanager that did not answer may have silences, so the list is not reported as complete.
    let key = match (unanswered, silences.len()) {
        (0, _) => "silence-list",
        (away, _) if away == alertmanagers.len() => "silence-list-unknown",
        _ => "silence-list-partly",
    };
    let headline = words.line(key, &count);
    caller.tell_message(Tone::Unknown, headline, parts).await;
}

fn described(notifier: &Notifier, one: &Silence) -> Line {
    let redactor = silence::redactor(notifier, None, &one.matchers);
    let mut arguments = silence::arguments(&redactor, &one.matchers, one.ends_at);
    arguments.push(("by", cut(&one.created_by, 80).into()));
    arguments.push(("comment", cut(&redactor.text("message", &one.comment), 200).into()));
    notifier.words.line("silence-one", &arguments)
}
