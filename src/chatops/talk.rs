//! Answers: to one person, or into an incident's thread.

use tracing::warn;

use super::Desk;
use crate::render::{self, Line, Part, SlackMessage, Tone};
use crate::slack::{Destination, Inbound, SlackError};

/// Says a sentence to the one who did it, and to nobody else.
pub(super) async fn tell(desk: &Desk, inbound: &Inbound, line: Line) {
    send(desk, inbound, &render::slack_line(&line)).await;
}

/// Says more than a sentence to the one who did it, and to nobody else.
pub(super) async fn tell_more(desk: &Desk, inbound: &Inbound, tone: Tone, line: Line, parts: Vec<Part>) {
    send(desk, inbound, &message(tone, &line, parts)).await;
}

/// The phrase with this key, to the one who did it.
pub(super) async fn say(desk: &Desk, inbound: &Inbound, key: &str) {
    tell(desk, inbound, desk.words.line(key, &[])).await;
}

/// A line that shows in the notification too, and what stands below it.
pub(super) fn message(tone: Tone, line: &Line, parts: Vec<Part>) -> SlackMessage {
    render::slack_said(line, tone, &parts)
}

async fn send(desk: &Desk, inbound: &Inbound, body: &SlackMessage) {
    let place = &inbound.place;
    if let Some(url) = &place.response_url {
        match desk.slack.respond(url, body, false, false).await {
            Ok(()) => return,
            Err(error) => warn!(%error, "cannot answer at a response_url: trying an ephemeral message"),
        }
    }
    let answer = match place.channel.as_str() {
        "" => desk.slack.post(Destination::channel(&inbound.who.user), body).await.map(drop),
        channel => {
            let to = Destination { channel, thread: place.thread.as_deref() };
            desk.slack.post_ephemeral(to, &inbound.who.user, body).await
        }
    };
    if let Err(error) = answer {
        warn!(%error, user = inbound.who.user, "cannot answer");
    }
}

/// Posts into the thread of an incident's message; without such a message, where it was asked.
pub(super) async fn into_thread(
    desk: &Desk,
    incident: &str,
    asked: &Inbound,
    body: &SlackMessage,
) -> Result<(), SlackError> {
    let standing = desk.store.place_of(incident).await.unwrap_or_else(|error| {
        warn!(%error, incident.id = incident, "cannot read where the message stands");
        None
    });
    let place = &asked.place;
    let (channel, thread) = match &standing {
        Some((channel, ts)) => (channel.as_str(), Some(ts.as_str())),
        None => (place.channel.as_str(), place.thread.as_deref().or(place.message.as_deref())),
    };
    let channel = if channel.is_empty() { desk.config.channel.as_str() } else { channel };
    desk.notifier.post_in_turn(&desk.slack, Destination { channel, thread }, body).await.map(drop)
}
