//! Answers about incidents: lists, the evidence of a diagnosis, silences.

use super::super::command::{OfIncident, SilenceArguments, SilenceOperation, Which};
use super::{Reply, command_button, sentence, with};
use crate::chatops::{Desk, SilenceRequest, acts};
use crate::clock;
use crate::render::{self, Act, Line, Message, MessagePart, Tone};
use crate::slack::SlackRequest;
use crate::store::{Incident, Store, StoreError};

/// Maximum number of incidents in a list.
const LISTED: u32 = 20;
/// The number of recent incidents that can be selected by a part of their id.
const KNOWN: u32 = 2_000;
/// The shortest part of an id that selects an incident, in characters.
const SHORTEST: usize = 4;
/// The period of `incidents today`.
const TODAY: std::time::Duration = std::time::Duration::from_secs(86_400);

/// Returns the end of an id; its beginning encodes the time, which neighbouring ids share.
pub(crate) fn short(id: &str) -> &str {
    id.get(id.len().saturating_sub(SHORTEST)..).unwrap_or(id)
}

/// Finds the selected incident: by id, by the thread, else the newest open one, else the newest.
pub(super) async fn find(desk: &Desk, reply: &Reply<'_>, of: &OfIncident) -> Result<Incident, Message> {
    let words = &desk.words;
    let lost = |error: StoreError| {
        tracing::error!(%error, "cannot read an incident for an answer");
        sentence(Tone::Unknown, words.line("incident-unreadable", &[]))
    };
    let id = match (&of.incident, &reply.place.thread) {
        (Some(named), _) => match named_id(&desk.store, named).await.map_err(lost)?.as_slice() {
            [one] => Some(one.clone()),
            [] => None,
            several => {
                let buttons =
                    several.iter().take(4).enumerate().map(|(i, id)| command_button(i, id, &format!("status {id}")));
                let line = words.line("incident-several", &[("id", Line::default().code(named.as_str()).into())]);
                return Err(with(sentence(Tone::Unknown, line), MessagePart::Buttons(buttons.collect())));
            }
        },
        (None, Some(thread)) => match desk.store.incident_at(&reply.place.channel, thread).await.map_err(lost)? {
            Some(id) => Some(id),
            None => newest(&desk.store).await.map_err(lost)?,
        },
        (None, None) => newest(&desk.store).await.map_err(lost)?,
    };
    let incident = match &id {
        Some(id) => desk.store.incident(id).await.map_err(lost)?,
        None => None,
    };
    incident.ok_or_else(|| {
        let line = match &of.incident {
            Some(named) => words.line("incident-unknown", &[("id", Line::default().code(named.as_str()).into())]),
            None => words.line("incidents-none", &[]),
        };
        with(
            sentence(Tone::Unknown, line),
            MessagePart::Buttons(vec![command_button(0, "incidents today", "incidents today")]),
        )
    })
}

async fn newest(store: &Store) -> Result<Option<String>, StoreError> {
    match store.incidents(true, None, 1).await?.pop() {
        Some(id) => Ok(Some(id)),
        None => Ok(store.incidents(false, None, 1).await?.pop()),
    }
}

/// Returns the recent ids that equal, begin or end with `named`.
pub(crate) async fn named_id(store: &Store, named: &str) -> Result<Vec<String>, StoreError> {
    let named = named.trim_start_matches('#').to_uppercase();
    if named.len() < SHORTEST || !named.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Ok(Vec::new());
    }
    let mut ids = store.recent(KNOWN).await?;
    if ids.contains(&named) {
        return Ok(vec![named]);
    }
    ids.retain(|id| id.ends_with(&named) || id.starts_with(&named));
    Ok(ids)
}

/// Replies with a list of incidents, one line each.
pub(super) async fn list(desk: &Desk, reply: &Reply<'_>, which: Which) {
    let words = &desk.words;
    let since = (which == Which::Today).then(|| clock::before(desk.store.now(), TODAY));
    let incidents = match listed(&desk.store, which, since, LISTED + 1).await {
        Ok(incidents) => incidents,
        Err(error) => {
            tracing::error!(%error, "cannot list incidents");
            return reply.send_message(&sentence(Tone::Unknown, words.line("incident-unreadable", &[]))).await;
        }
    };
    let key = match which {
        Which::Open => "incidents-open",
        Which::Today => "incidents-today",
        Which::All => "incidents-newest",
    };
    let shown = incidents.len().min(LISTED as usize);
    let open = incidents.iter().filter(|incident| incident.open).count();
    let tone = if open > 0 { Tone::Warning } else { Tone::Good };
    let mut message = sentence(tone, words.line(key, &[("n", shown.into())]));
    for incident in incidents.iter().take(shown) {
        message.parts.push(MessagePart::Paragraph(line(desk, incident)));
    }
    if incidents.len() > shown {
        message.parts.push(MessagePart::Note(words.line("incidents-more", &[])));
    }
    if which == Which::Open {
        message.parts.push(MessagePart::Buttons(vec![command_button(0, "incidents today", "incidents today")]));
    }
    reply.send_message(&message).await;
}

/// Returns the incidents of a list, newest first.
pub(crate) async fn listed(
    store: &Store,
    which: Which,
    since: Option<jiff::Timestamp>,
    most: u32,
) -> Result<Vec<Incident>, StoreError> {
    store.each(&store.incidents(which == Which::Open, since, most).await?).await
}

/// Formats an incident in one line: headline, start and short id, with a link to its page if there is one.
pub(in crate::chatops) fn line(desk: &Desk, incident: &Incident) -> Line {
    let headline = desk.notifier.message(incident).headline;
    let headline = match desk.notifier.view(incident).page {
        Some(page) => Line::default().link(headline, page),
        None => Line::default().plain(headline),
    };
    let since = desk.words.line("incident-since", &[("at", render::TextSpan::Time(incident.started_at).into())]);
    headline.plain(" · ").then(since).plain(" · ").code(short(&incident.id))
}

/// Replies with the full diagnosis of an incident.
pub(super) async fn why(desk: &Desk, reply: &Reply<'_>, incident: &Incident) {
    let message = match &incident.diagnosis {
        Some(diagnosis) => {
            super::fleet::diagnosis_message(desk, diagnosis, super::fleet::prometheus_of(desk, incident))
        }
        None => sentence(Tone::Unknown, desk.words.line("incident-undiagnosed", &[])),
    };
    reply.send_message(&message).await;
}

/// Handles `silence`. A silence is created only by the form, which shows its matchers first; where no form can be
/// opened, the answer is the incident's message with its button.
pub(super) async fn silence(desk: &Desk, inbound: &SlackRequest, reply: &Reply<'_>, silence: &SilenceArguments) {
    let words = &desk.words;
    let named = match silence.operation() {
        Ok(SilenceOperation::Make(incident, _)) => incident,
        Ok(SilenceOperation::List) => return desk.silence(inbound, SilenceRequest::List).await,
        Ok(SilenceOperation::Expire(id)) => return desk.silence(inbound, SilenceRequest::Expire { id }).await,
        Err(why) => return reply.send_message(&sentence(Tone::Unknown, Line::of(&why))).await,
    };
    match find(desk, reply, &OfIncident { incident: named }).await {
        Ok(incident) if inbound.place.trigger.is_some() => {
            acts::press(desk, inbound, Act::Silence.as_str(), &incident.id).await;
        }
        Ok(incident) => {
            let message = desk.notifier.message(&incident);
            reply.send_message(&with(message, MessagePart::Note(words.line("silence-by-button", &[])))).await;
        }
        Err(message) => reply.send_message(&message).await,
    }
}
