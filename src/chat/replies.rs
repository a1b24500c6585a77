//! Answers to one user or in an incident's thread.

use tracing::warn;

use super::people::People;
use crate::acts::{Actor, AuditLog};
use message::{Block, Line, SlackMessage, Tone};
use notify::{AnswerTarget, Notifier};
use slack::{Destination, Powers, Slack, SlackError, SlackRequest};

/// The user of a request, and how they are answered.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) request: &'a SlackRequest,
    pub(super) slack: &'a Slack,
    pub(super) notifier: &'a Notifier,
    /// The known facts about users.
    pub(super) people: &'a People,
    /// The permissions of `slack.act`.
    pub(super) powers: &'a Powers,
    /// The record of what they do.
    pub(super) log: AuditLog<'a>,
}

impl<'a> Caller<'a> {
    /// Returns the user's id.
    pub(super) fn user(self) -> &'a str {
        &self.request.who.user
    }

    /// Returns who acts, and in which channel.
    pub(super) fn actor(self) -> Actor<'a> {
        Actor { who: self.user(), place: &self.request.place.channel }
    }

    /// Sends a sentence that only the user sees.
    pub(super) async fn tell_line(self, line: Line) {
        self.send(&render::slack_line(&line.map_text(&self.notifier.text_cleaner()))).await;
    }

    /// Sends a message of several parts that only the user sees.
    pub(super) async fn tell_message(self, tone: Tone, line: Line, parts: Vec<Block>) {
        let clean = self.notifier.text_cleaner();
        let parts: Vec<Block> = parts.into_iter().map(|part| part.map_text(&clean)).collect();
        self.send(&render::slack_with_blocks(&line.map_text(&clean), tone, &parts)).await;
    }

    /// Sends the phrase with this key, which only the user sees.
    pub(super) async fn tell_phrase(self, key: &str) {
        self.tell_line(self.notifier.words.line(key, &[])).await;
    }

    /// Sends a phrase that quotes an error of another system; only the user sees it.
    pub(super) async fn tell_error(self, key: &str, error: &str) {
        self.tell_line(self.notifier.words.line(key, &[("error", Line::of(error).into())])).await;
    }

    async fn send(self, body: &SlackMessage) {
        if let Err(error) = self.answer(body, false).await {
            warn!(%error, user = self.user(), "cannot answer");
        }
    }

    /// Answers where the request was made: to everybody there, or to the user alone.
    pub(super) async fn answer(self, body: &SlackMessage, to_all: bool) -> Result<(), SlackError> {
        let place = &self.request.place;
        if let Some(url) = &place.response_url {
            match self.notifier.answer(self.slack, AnswerTarget::Respond(url, to_all), body).await {
                Ok(_) => return Ok(()),
                // It is used up, expired or unreachable.
                Err(error) => warn!(%error, "cannot answer at a response_url: trying the channel"),
            }
        }
        let to = Destination { channel: &place.channel, thread: place.thread.as_deref() };
        let target = match (place.channel.as_str(), to_all) {
            ("", _) => AnswerTarget::Post(Destination::channel(self.user())),
            (_, true) => AnswerTarget::Post(to),
            (_, false) => AnswerTarget::Ephemeral(to, self.user()),
        };
        self.notifier.answer(self.slack, target, body).await.map(drop)
    }

    /// Posts a message durably into the thread of an incident's message; if there is none, posts it where the request
    /// was made.
    pub(super) async fn post_in_thread(self, incident: &str, body: &SlackMessage) -> Result<(), SlackError> {
        match self.log.tell_thread(incident, body).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => warn!(%error, incident.id = incident, "cannot store the post for the thread"),
        }
        self.post(body).await
    }

    /// Posts a message where the request was made.
    pub(super) async fn post(self, body: &SlackMessage) -> Result<(), SlackError> {
        let place = &self.request.place;
        let channel = if place.channel.is_empty() { &self.notifier.config.channel } else { &place.channel };
        let to = Destination { channel, thread: place.thread.as_deref().or(place.message.as_deref()) };
        self.notifier.answer(self.slack, AnswerTarget::Post(to), body).await.map(drop)
    }
}
