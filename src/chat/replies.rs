//! Answers to one user or in an incident's thread.

use tracing::warn;

use super::Desk;
use message::{Block, Line, SlackMessage, Tone};
use notify::AnswerTarget;
use slack::{Destination, SlackError, SlackRequest};

/// Sends a sentence that only the requesting user sees.
pub(super) async fn send_ephemeral_line(desk: &Desk, inbound: &SlackRequest, line: Line) {
    send(desk, inbound, &render::slack_line(&line.map_text(&desk.notifier.text_cleaner()))).await;
}

/// Sends a message of several parts that only the requesting user sees.
pub(super) async fn send_ephemeral_message(
    desk: &Desk,
    inbound: &SlackRequest,
    tone: Tone,
    line: Line,
    parts: Vec<Block>,
) {
    let clean = desk.notifier.text_cleaner();
    let parts = parts.into_iter().map(|part| part.map_text(&clean)).collect();
    send(desk, inbound, &message(tone, &line.map_text(&clean), parts)).await;
}

/// Sends the phrase with this key to the requesting user only.
pub(super) async fn send_ephemeral_phrase(desk: &Desk, inbound: &SlackRequest, key: &str) {
    send_ephemeral_line(desk, inbound, desk.words.line(key, &[])).await;
}

/// Builds a message from a headline, which also appears in the notification, and the parts below it.
pub(super) fn message(tone: Tone, line: &Line, parts: Vec<Block>) -> SlackMessage {
    render::slack_with_blocks(line, tone, &parts)
}

async fn send(desk: &Desk, inbound: &SlackRequest, body: &SlackMessage) {
    let place = &inbound.place;
    let user = inbound.who.user.as_str();
    if let Some(url) = &place.response_url {
        match desk.notifier.answer(&desk.slack, AnswerTarget::Respond(url, false), body).await {
            Ok(_) => return,
            Err(error) => warn!(%error, "cannot answer at a response_url: trying an ephemeral message"),
        }
    }
    let target = match place.channel.as_str() {
        "" => AnswerTarget::Post(Destination::channel(user)),
        channel => AnswerTarget::Ephemeral(Destination { channel, thread: place.thread.as_deref() }, user),
    };
    if let Err(error) = desk.notifier.answer(&desk.slack, target, body).await {
        warn!(%error, user, "cannot answer");
    }
}

/// Posts a message durably into the thread of an incident's message; if there is none, posts it where the request was
/// made.
pub(super) async fn into_thread(
    desk: &Desk,
    incident: &str,
    request: &SlackRequest,
    body: &SlackMessage,
) -> Result<(), SlackError> {
    match desk.store.queue_answer(incident, body, desk.store.now()).await {
        Ok(true) => {
            desk.deliveries.notify_one();
            return Ok(());
        }
        Ok(false) => {}
        Err(error) => warn!(%error, incident.id = incident, "cannot keep what the thread is to be told"),
    }
    post_at_request(desk, request, body).await
}

/// Posts a message where the request was made.
pub(super) async fn post_at_request(
    desk: &Desk,
    request: &SlackRequest,
    body: &SlackMessage,
) -> Result<(), SlackError> {
    let place = &request.place;
    let channel = if place.channel.is_empty() { desk.config.slack.channel.as_str() } else { place.channel.as_str() };
    let to = Destination { channel, thread: place.thread.as_deref().or(place.message.as_deref()) };
    desk.notifier.answer(&desk.slack, AnswerTarget::Post(to), body).await.map(drop)
}
