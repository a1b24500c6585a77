//! `postmortem`: uploads the draft of an incident's post-mortem into the incident's thread.

use jiff::Timestamp;
use tracing::warn;

use crate::authority::Power;
use crate::command::OfIncident;
use crate::incidents::find;
use crate::replies::Caller;
use crate::reply::Reply;
use crate::wording::sentence;
use knowledge::incident::short_id;
use message::{Line, Message, Tone};
use service::{Service, Subject, postmortem};
use slack::Destination;
use store::{AuditResult, Incident};

/// The name of the act in the audit log.
const ACT: &str = "postmortem";
/// Maximum number of events in the timeline.
const EVENTS: u32 = 500;

/// Handles the command.
pub(super) async fn run(service: &Service, caller: Caller<'_>, reply: &Reply<'_>, of: &OfIncident, now: Timestamp) {
    let words = &service.words;
    let incident = match find(&service.store, words, reply.place, of).await {
        Ok(incident) => incident,
        Err(message) => return reply.send_message(&message).await,
    };
    if !caller.permit(ACT, Some(&incident.id), Power::Note).await {
        return;
    }
    let message = uploaded(service, caller, reply, incident, now).await;
    reply.send_message(&message).await;
}

/// Uploads the draft; returns what the user is told.
async fn uploaded(
    service: &Service,
    caller: Caller<'_>,
    reply: &Reply<'_>,
    incident: Incident,
    now: Timestamp,
) -> Message {
    let log = caller.log;
    let (notifier, words, id) = (&service.notifier, &service.words, incident.id.clone());
    let short = short_id(&id);
    let failed = |why: &str| {
        let pieces = [("id", Line::default().code(short).into()), ("why", Line::of(why).into())];
        sentence(Tone::Unknown, words.line("postmortem-none", &pieces))
    };
    let Ok(attempt) = log.begin(caller.actor(), ACT, Some(&id)).await else {
        return sentence(Tone::Unknown, words.line("act-store", &[]));
    };
    let read = (service.store.incident_with_related(&id).await, service.store.events(&id, EVENTS).await);
    let (Ok(Some(incident)), Ok(events)) = read else {
        attempt.end(log, AuditResult::Failed, "", "the store failed").await;
        return sentence(Tone::Unknown, words.line("act-store", &[]));
    };
    let redactor = notifier.redactor_of([&incident]);
    let headline = notifier.message(&incident).await.headline;
    let (diagnosing, margin) = (&service.config.diagnose, service.config.bundle.margin);
    let subject = Subject::of_incident(&service.library, incident, headline, &events, diagnosing, margin, now);
    let text = match postmortem(&service.library, &redactor, words, &subject, now) {
        Ok(text) => text,
        Err(error) => {
            attempt.end(log, AuditResult::Failed, "", &error.to_string()).await;
            return failed(&error.to_string());
        }
    };
    let place = log.store.place_of(&id).await.unwrap_or_else(|error| {
        warn!(%error, incident.id = id, "cannot read the place of the message");
        None
    });
    let thread = place.as_ref().map(|(channel, ts)| Destination { channel, thread: Some(ts) });
    let to = thread.unwrap_or_else(|| reply.destination());
    let (name, title) = (format!("postmortem-{short}.md"), words.text("postmortem-title", &[("id", short.into())]));
    match caller.slack.upload(&name, [&title, ""], text.into_bytes(), Some(to)).await {
        Ok(_) => {
            attempt.end(log, AuditResult::Done, &name, "").await;
            let key = if place.is_some() { "postmortem-made" } else { "postmortem-here" };
            sentence(Tone::Unknown, words.line(key, &[("id", Line::default().code(short).into())]))
        }
        Err(error) => {
            attempt.end(log, AuditResult::Failed, &name, &error.to_string()).await;
            failed(&error.to_string())
        }
    }
}
