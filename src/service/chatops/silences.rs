//! Silences: created, listed and expired by users in Slack.

use std::time::Duration;

use super::Desk;
use super::attempt::{Attempt, permit, reply_with_error};
use super::authority::Power;
use super::forms::cut;
use super::replies::{into_thread, message, send_ephemeral_line, send_ephemeral_message, send_ephemeral_phrase};
use knowledge::clock;
use knowledge::incident::Act;
use message::{Block, Button, ButtonStyle, Line, TextSpan, Tone};
use render::{self, PhraseArgument};
use slack::SlackRequest;
use sources::alertmanager::{self, CreatedSilence, Silence, SilenceError, SilenceMatcher, SilenceParameters};
use sources::redact::Redactor;
use store::{AuditResult, Incident};

/// The action of the button that expires a silence; its value is the silence's id.
const EXPIRE: &str = Act::Expire.as_str();
/// The prefix of the incident's id in a silence's comment.
const ABOUT: &str = "llm-diagnose incident ";
/// Silences in a list.
const LISTED: usize = 20;
/// The longest text of matchers, in characters.
const MATCHERS_CHARS: usize = 300;

/// Creates a silence for an authorised user and posts it in the incident's thread.
pub(super) async fn create(
    desk: &Desk,
    inbound: &SlackRequest,
    incident: &Incident,
    matchers: &[SilenceMatcher],
    duration: Duration,
    comment: &str,
) {
    let Some(attempt) = Attempt::begin(desk, inbound, Act::Silence.as_str(), Some(&incident.id)).await else { return };
    let reference = format!("{ABOUT}{}", incident.id);
    let parameters = SilenceParameters {
        who: format!("{} in Slack", inbound.who.user),
        comment: if comment.trim().is_empty() { reference } else { format!("{} ({reference})", comment.trim()) },
        duration,
        longest: desk.config.slack.silence_max,
    };
    match alertmanager::create(&desk.alertmanagers, &incident.alerts, matchers, &parameters, clock::now()).await {
        Err(error) => {
            attempt.end(desk, AuditResult::Failed, "", &error.to_string()).await;
            reply_with_silence_error(desk, inbound, &error).await;
        }
        Ok(created) => {
            let until = [("day", day(created.until).into()), ("until", TextSpan::Time(created.until).into())];
            let detail = desk.words.text("silence-note", &until);
            let matchers: Vec<String> = created.matchers.iter().map(ToString::to_string).collect();
            let target = format!("{} {}", created.id, matchers.join(" "));
            attempt.end(desk, AuditResult::Done, &target, &detail).await;
            announce(desk, inbound, incident, &created, comment).await;
        }
    }
}

/// Announces a silence in the incident's thread, with a button that expires it.
async fn announce(desk: &Desk, inbound: &SlackRequest, incident: &Incident, created: &CreatedSilence, comment: &str) {
    let redactor = silence_redactor(desk, Some(incident), &created.matchers);
    let mut arguments = silence_arguments(&redactor, &created.matchers, created.until);
    arguments.push(("who", TextSpan::User(inbound.who.user.clone()).into()));
    let line = desk.words.line("silence-made", &arguments);
    let mut parts = Vec::new();
    if !comment.trim().is_empty() {
        let comment = cut(&redactor.text("message", comment), 1_000);
        parts.push(Block::Paragraph(desk.words.line("said-comment", &[("comment", comment.into())])));
    }
    if let Some(n) = created.alerts {
        parts.push(Block::Note(desk.words.line("silence-takes", &[("n", n.into())])));
    }
    parts.push(Block::Note(desk.words.line("silence-deaf", &[])));
    parts.push(Block::Buttons(vec![expire_button(desk, &created.id, EXPIRE)]));
    let body = message(Tone::Unknown, &line, parts);
    if let Err(error) = into_thread(desk, &incident.id, inbound, &body).await {
        tracing::warn!(%error, incident.id = incident.id, "cannot tell the thread of a silence");
        send_ephemeral_phrase(desk, inbound, "silence-made-unposted").await;
    }
}

/// Creates a redactor for texts about a silence; it learns the values of matchers and labels that are named as secrets.
pub(super) fn silence_redactor(desk: &Desk, incident: Option<&Incident>, matchers: &[SilenceMatcher]) -> Redactor {
    let redactor = desk.notifier.redactor_of(incident);
    matchers.iter().for_each(|matcher| redactor.learn_label(&matcher.name, &matcher.value));
    redactor
}

/// Returns a matcher as people see it: without a secret in its value.
pub(super) fn shown_matcher(redactor: &Redactor, matcher: &SilenceMatcher) -> SilenceMatcher {
    let value = redactor.label("message", &matcher.name, &matcher.value).into_owned();
    SilenceMatcher { value, ..matcher.clone() }
}

fn silence_arguments(
    redactor: &Redactor,
    matchers: &[SilenceMatcher],
    until: jiff::Timestamp,
) -> Vec<(&'static str, PhraseArgument)> {
    let matchers: Vec<String> = matchers.iter().map(|one| shown_matcher(redactor, one).to_string()).collect();
    let matchers = Line::default().code(cut(&matchers.join(" "), MATCHERS_CHARS));
    vec![("matchers", matchers.into()), ("until", TextSpan::Time(until).into()), ("day", day(until).into())]
}

/// Formats the date: a silence may last for days, so the time of day is not enough.
fn day(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

fn expire_button(desk: &Desk, id: &str, action: &str) -> Button {
    Button {
        action: action.to_owned(),
        label: desk.words.text("silence-expire", &[]),
        value: id.to_owned(),
        style: ButtonStyle::Plain,
        confirm: Some(desk.words.text("silence-expire-sure", &[])),
    }
}

/// Expires a silence.
pub(super) async fn expire(desk: &Desk, inbound: &SlackRequest, id: &str) {
    if !permit(desk, inbound, EXPIRE, None, Power::of(Act::Expire)).await {
        return;
    }
    let Some(mut attempt) = Attempt::begin(desk, inbound, EXPIRE, None).await else { return };
    match alertmanager::expire(&desk.alertmanagers, id).await {
        Ok(silence) => {
            let incident = incident_of(desk, &silence).await;
            if let Some(incident) = &incident {
                attempt.about(&incident.id);
            }
            attempt.end(desk, AuditResult::Done, id, "").await;
            let redactor = silence_redactor(desk, incident.as_ref(), &silence.matchers);
            let mut arguments = silence_arguments(&redactor, &silence.matchers, silence.ends_at);
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
            reply_with_silence_error(desk, inbound, &error).await;
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
        parts.push(Block::Buttons(vec![expire_button(desk, &silence.id, &format!("{EXPIRE}:{i}"))]));
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

fn described(desk: &Desk, silence: &Silence) -> Line {
    let redactor = silence_redactor(desk, None, &silence.matchers);
    let mut arguments = silence_arguments(&redactor, &silence.matchers, silence.ends_at);
    arguments.push(("by", cut(&silence.created_by, 80).into()));
    arguments.push(("comment", cut(&redactor.text("message", &silence.comment), 200).into()));
    desk.words.line("silence-one", &arguments)
}

async fn reply_with_silence_error(desk: &Desk, inbound: &SlackRequest, error: &SilenceError) {
    let key = match error {
        SilenceError::NoAlertmanager => "silence-no-alertmanager",
        SilenceError::NothingFires => "act-over",
        SilenceError::NoMatcher => "silence-changed",
        SilenceError::Unknown(_) => "silence-unknown",
        SilenceError::Over(_) => "silence-over",
        SilenceError::WholePool(_) | SilenceError::Duration(_) | SilenceError::Alertmanager(_) => {
            return reply_with_error(desk, inbound, "silence-failed", &error.to_string()).await;
        }
    };
    send_ephemeral_phrase(desk, inbound, key).await;
}
