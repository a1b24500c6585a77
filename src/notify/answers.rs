//! Answers to waiting users: sent at once, under the same rate limits as everything else, with retries.
//!
//! An answer to one person has bounded tries; what a whole thread reads is a post, which is first in the store.

use std::time::{Duration, Instant};

use tracing::warn;
use ulid::Ulid;

use super::{Lane, Notifier, PAUSES};
use knowledge::clock;
use message::SlackMessage;
use slack::{Destination, MessageMark, Posted, Slack, SlackError};
use store::DuplicateCheck;

/// Tries of an answer.
const MOST_TRIES: u32 = 6;
/// The deadline of an answer with all its tries.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(45);

/// The place of an answer, and the users who see it.
#[derive(Debug, Clone, Copy)]
pub enum AnswerTarget<'a> {
    /// A message that everybody in the channel sees.
    Post(Destination<'a>),
    /// An edit of an existing message.
    Edit(&'a Posted),
    /// A message that only this user sees.
    Ephemeral(Destination<'a>, &'a str),
    /// A post to a `response_url`; visible to everybody if true, else only to the requesting user.
    Respond(&'a str, bool),
}

impl AnswerTarget<'_> {
    fn lane(self) -> Option<Lane> {
        match self {
            Self::Post(to) => Some(Lane::Post(to.channel.to_owned())),
            Self::Edit(_) => Some(Lane::Favoured),
            Self::Ephemeral(..) | Self::Respond(..) => None,
        }
    }
}

impl Notifier {
    /// Answers a waiting user; retries after rate limits and transient errors until [`ANSWER_WITHIN`]. Returns the
    /// place of the message, if it is a visible one.
    ///
    /// # Errors
    /// The last error of Slack or the network.
    pub async fn answer(
        &self,
        slack: &Slack,
        target: AnswerTarget<'_>,
        message: &SlackMessage,
    ) -> Result<Option<Posted>, SlackError> {
        let answered = self.answer_within(slack, target, message).await;
        self.metrics.delivery("answer", if answered.is_ok() { "posted" } else { "failed" }, None);
        answered
    }

    /// Shows progress if the rate limit allows it now; without retries, because the answer follows.
    ///
    /// # Errors
    /// The error of Slack or the network; [`SlackError::RateLimited`] also if our own rate limit allows no call now.
    pub async fn progress(
        &self,
        slack: &Slack,
        target: AnswerTarget<'_>,
        message: &SlackMessage,
    ) -> Result<Option<Posted>, SlackError> {
        let lane = target.lane().map(|lane| if lane == Lane::Favoured { Lane::Ordinary } else { lane });
        if let Some(lane) = &lane {
            let limited = |open: Instant| SlackError::RateLimited(open.saturating_duration_since(Instant::now()));
            self.rates.enter(lane).map_err(limited)?;
        }
        let result = send_answer(slack, target, message, &MessageMark::new(&Ulid::generate().to_string())).await;
        if let (Err(SlackError::RateLimited(wait)), Some(lane)) = (&result, &lane) {
            self.rates.close(lane, *wait);
        }
        result
    }

    async fn answer_within(
        &self,
        slack: &Slack,
        target: AnswerTarget<'_>,
        message: &SlackMessage,
    ) -> Result<Option<Posted>, SlackError> {
        let until = Instant::now() + ANSWER_WITHIN;
        let (mark, began) = (MessageMark::new(&Ulid::generate().to_string()), clock::now());
        let mut tries = 0;
        loop {
            let answered = async {
                if let Some(lane) = target.lane() {
                    self.wait_for_rate_limit(&lane, until).await?;
                }
                send_answer(slack, target, message, &mark).await
            };
            let error = match answered.await {
                Ok(posted) => return Ok(posted),
                Err(error) => error,
            };
            let wait = match &error {
                SlackError::RateLimited(wait) => {
                    if let Some(lane) = target.lane() {
                        self.rates.close(&lane, *wait);
                    }
                    *wait
                }
                _ => PAUSES.pause(tries),
            };
            tries += 1;
            if !error.is_retryable() || tries >= MOST_TRIES || Instant::now() + wait > until {
                return Err(error);
            }
            warn!(%error, try = tries, "cannot answer in Slack: trying again");
            tokio::time::sleep(wait).await;
            if let AnswerTarget::Post(to) = target
                && error.is_unknown()
                && let Some(posted) = self.find_answer(slack, to, &mark, began).await
            {
                return Ok(Some(posted));
            }
        }
    }

    /// Waits until the rate limit of a lane allows the call.
    async fn wait_for_rate_limit(&self, lane: &Lane, until: Instant) -> Result<(), SlackError> {
        while let Err(open) = self.rates.enter(lane) {
            if open > until {
                return Err(SlackError::RateLimited(open.saturating_duration_since(Instant::now())));
            }
            tokio::time::sleep_until(open.into()).await;
        }
        Ok(())
    }

    /// Finds the answer in Slack's history after the result of its post was lost.
    async fn find_answer(
        &self,
        slack: &Slack,
        to: Destination<'_>,
        mark: &MessageMark,
        since: jiff::Timestamp,
    ) -> Option<Posted> {
        let check = DuplicateCheck {
            subject: mark.id.clone(),
            channel: to.channel.to_owned(),
            thread: to.thread.map(str::to_owned),
            since,
            checks_done: 0,
        };
        let (channel, messages) = self.find_marked_messages(slack, &check).await.ok()?;
        let message = messages.into_iter().find(|message| message.mark.id == mark.id)?;
        Some(Posted { channel, ts: message.ts })
    }
}

async fn send_answer(
    slack: &Slack,
    target: AnswerTarget<'_>,
    message: &SlackMessage,
    mark: &MessageMark,
) -> Result<Option<Posted>, SlackError> {
    match target {
        AnswerTarget::Post(to) => slack.post(to, message, mark).await.map(Some),
        AnswerTarget::Edit(at) => slack.update(at, message).await.map(Some),
        AnswerTarget::Ephemeral(to, user) => slack.post_ephemeral(to, user, message).await.map(|()| None),
        AnswerTarget::Respond(url, in_channel) => slack.respond(url, message, in_channel).await.map(|()| None),
    }
}
