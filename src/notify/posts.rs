//! Posts in the thread of an incident: what changed, pictures, answers. Each is made once.

use std::time::Instant;

use jiff::Timestamp;
use tracing::{debug, warn};

use super::{Lane, MOST_PICTURE_TRIES, MOST_POST_TRIES, MOST_REPOSTS, Notifier, To, pause};
use crate::chart;
use crate::clock;
use crate::diagnose::{Frame, picture};
use crate::prom::choose;
use crate::render::{self, Message, Span, Told};
use crate::slack::{Destination, Slack, SlackError};
use crate::store::{Incident, Post, PostKind, StoreError};

/// What became of a post.
enum Made {
    /// It stands. Of a change: and this is what the thread now knows.
    Posted(Option<Told>),
    /// There is nothing to post.
    Needless(&'static str),
}

impl Notifier {
    pub(super) async fn deliver_post(&self, post: &Post) -> Result<(), StoreError> {
        let (Some(slack), Some(incident)) = (&self.slack, self.store.incident(&post.incident).await?) else {
            return self.store.post_given_up(post, "there is no Slack or no such incident", clock::now()).await;
        };
        let started = Instant::now();
        let made = self.make(slack, post, &incident).await;
        let (took, now) = (Some(started.elapsed()), clock::now());
        match made {
            Ok(Made::Posted(told)) => {
                self.metrics.delivery("thread", post.kind.as_str(), took);
                if let Some(told) = told.and_then(|told| serde_json::to_string(&told).ok()) {
                    self.store.told(&post.incident, &post.delivery, &told).await?;
                }
                self.store.post_done(post, None).await
            }
            Ok(Made::Needless(why)) => {
                debug!(incident.id = post.incident, kind = post.kind.as_str(), why, "left out a post in the thread");
                self.store.post_done(post, Some(why)).await
            }
            Err(error) => {
                let result = self.post_failed(post, &error, now).await?;
                self.metrics.delivery("thread", result, took);
                Ok(())
            }
        }
    }

    async fn make(&self, slack: &Slack, post: &Post, incident: &Incident) -> Result<Made, SlackError> {
        let (channel, ts) = &post.thread;
        let thread = Destination { channel, thread: Some(ts) };
        match post.kind {
            PostKind::Change => {
                let told: Told = post.told.as_deref().and_then(|t| serde_json::from_str(t).ok()).unwrap_or_default();
                let knows = Told::of(&self.view(incident));
                let Some(line) = render::changes(&told, &knows, &self.words) else {
                    return Ok(Made::Needless("nothing has changed after all"));
                };
                slack.post(thread, &render::slack_line(&line)).await?;
                Ok(Made::Posted(Some(knows)))
            }
            PostKind::Mention => {
                let who = ("who", Span::whom(&post.body).into());
                let line = match &post.about {
                    Some(pools) => self.words.line("call-storm", &[who, ("pools", pools.as_str().into())]),
                    None => self.words.line("call", &[who]),
                };
                slack.broadcast(thread, &render::slack_line(&line)).await?;
                Ok(Made::Posted(None))
            }
            PostKind::Picture => match self.draw(incident).await {
                Some((png, title, alt)) => {
                    slack.upload(&format!("{}.png", incident.id), [&title, &alt], png, Some(thread)).await?;
                    Ok(Made::Posted(None))
                }
                None => Ok(Made::Needless("there is nothing to draw")),
            },
            PostKind::Verify | PostKind::Note => {
                let Ok(message) = serde_json::from_str::<Message>(&post.body) else {
                    return Ok(Made::Needless("another version wrote it"));
                };
                self.send(slack, To::New(thread), &message, None).await.0?;
                Ok(Made::Posted(None))
            }
        }
    }

    /// A picture of what speaks for the cause, with its title and words for those who cannot see it; none where there is nothing to
    /// show.
    async fn draw(&self, incident: &Incident) -> Option<(Vec<u8>, String, String)> {
        let diagnosis = incident.diagnosis.as_ref()?;
        let prometheus = choose(&self.prometheus, &incident.alerts)?;
        let (baseline, deadline) = (self.diagnosing.baseline, self.diagnosing.deadline);
        let frame = Frame { since: incident.started_at, baseline, deadline };
        let chart = picture(&self.library, prometheus, diagnosis, &frame, &self.words).await?;
        // Drawing takes some ten milliseconds of one core; others go on meanwhile.
        let drawn = tokio::task::spawn_blocking(move || {
            (chart::png(&chart), format!("{} · {}", chart.title, chart.subtitle), chart::alt(&chart))
        })
        .await;
        drawn.inspect_err(|error| warn!(incident.id = incident.id, %error, "cannot draw the picture")).ok()
    }

    /// What the post's error means; returns what it is counted as.
    async fn post_failed(&self, post: &Post, error: &SlackError, now: Timestamp) -> Result<&'static str, StoreError> {
        let note = error.to_string();
        if let SlackError::RateLimited(wait) = error {
            self.rates.close(&Lane::Post(post.channel.clone()), *wait);
            self.metrics.rate_limit_wait("slack");
            self.store.post_postponed(post, clock::after(now, *wait), &note).await?;
            return Ok("rate_limited");
        }
        let most = if post.kind == PostKind::Picture { MOST_PICTURE_TRIES } else { MOST_POST_TRIES };
        // The thread follows the message that takes the deleted one's place.
        let follows = error.is_about_thread()
            && self.store.forget_message(&post.incident, &post.thread.1, MOST_REPOSTS, now).await?;
        // A channel that is closed is left by the message, with its next edit.
        if (error.is_retryable() || error.is_about_channel() || follows) && post.tries + 1 < most {
            let due = clock::after(now, pause(post.tries));
            self.store.post_postponed(post, due, &note).await?;
            return Ok("retried");
        }
        warn!(incident.id = post.incident, kind = post.kind.as_str(), reason = note, "gave up a post in the thread");
        self.store.post_given_up(post, &note, now).await?;
        Ok("failed")
    }
}
