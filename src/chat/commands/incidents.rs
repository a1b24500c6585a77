//! Answers about incidents: lists, the evidence of a diagnosis, silences.

use super::super::command::{OfIncident, SilenceArguments, SilenceOperation, Which};
use crate::acts::silence::Silencer;
use crate::incidents::{find, line, listed};
use crate::replies::Caller;
use crate::reply::Reply;
use crate::wording::{command_button, diagnosis_message, sentence, with};
use crate::{silence_form, silences};
use knowledge::clock;
use message::{Block, Line, Tone};
use notify::Notifier;
use prom::choose;
use store::{Incident, Store};

/// Maximum number of incidents in a list.
const LISTED: u32 = 20;
/// The period of `incidents today`.
const TODAY: std::time::Duration = std::time::Duration::from_secs(86_400);

/// Replies with a list of incidents, one line each.
pub(super) async fn list(store: &Store, notifier: &Notifier, reply: &Reply<'_>, which: Which) {
    let words = &notifier.words;
    let since = (which == Which::Today).then(|| clock::before(store.now(), TODAY));
    let incidents = match listed(store, which, since, LISTED + 1).await {
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
    let listed_count = incidents.len().min(LISTED as usize);
    let open = incidents.iter().filter(|incident| incident.open).count();
    let tone = if open > 0 { Tone::Warning } else { Tone::Good };
    let mut message = sentence(tone, words.line(key, &[("n", listed_count.into())]));
    for incident in incidents.iter().take(listed_count) {
        message.parts.push(Block::Paragraph(line(notifier, incident).await));
    }
    if incidents.len() > listed_count {
        message.parts.push(Block::Note(words.line("incidents-more", &[])));
    }
    if which == Which::Open {
        message.parts.push(Block::Buttons(vec![command_button(0, "incidents today", "incidents today")]));
    }
    reply.send_message(&message).await;
}

/// Replies with the full diagnosis of an incident.
pub(super) async fn why(notifier: &Notifier, reply: &Reply<'_>, incident: &Incident) {
    let message = match &incident.diagnosis {
        Some(diagnosis) => diagnosis_message(notifier, diagnosis, choose(&notifier.prometheus, &incident.alerts)),
        None => sentence(Tone::Unknown, notifier.words.line("incident-undiagnosed", &[])),
    };
    reply.send_message(&message).await;
}

/// Handles `silence`. A silence is created only by the form, which shows its matchers first; where no form can be
/// opened, the answer is the incident's message with its button.
pub(super) async fn silence(caller: Caller<'_>, silencer: Silencer<'_>, reply: &Reply<'_>, silence: &SilenceArguments) {
    let (words, place) = (&caller.notifier.words, &caller.request.place);
    let (incident, duration) = match silence.operation() {
        Ok(SilenceOperation::Make(incident, duration)) => (incident, duration),
        Ok(SilenceOperation::List) => return silences::list(caller, silencer.alertmanagers).await,
        Ok(SilenceOperation::Expire(id)) => return silences::expire(caller, silencer.alertmanagers, &id).await,
        Err(why) => return reply.send_message(&sentence(Tone::Unknown, Line::of(&why))).await,
    };
    match find(caller.log.store, words, place, &OfIncident { incident }).await {
        Ok(incident) if place.trigger.is_some() => {
            silence_form::open_form(caller, silencer, &incident.id, Some(duration)).await;
        }
        Ok(incident) => {
            let message = caller.notifier.message(&incident).await;
            reply.send_message(&with(message, Block::Note(words.line("silence-by-button", &[])))).await;
        }
        Err(message) => reply.send_message(&message).await,
    }
}
