//! Posts in the thread of an incident: changes, charts, answers. Each is posted once.

use std::time::Instant;

use jiff::Timestamp;
use tracing::{debug, warn};

use super::history_search::SearchOutcome;
use super::refused_channels::REFUSED;
use super::{Lane, MOST_PICTURE_TRIES, MOST_POST_TRIES, MOST_REPOSTS, Notifier, PAUSES, To};
use diagnose::{HistoryRequest, evidence_history};
use knowledge::clock;
use knowledge::failpoint::failpoint;
use message::{Message, SlackMessage, TextSpan};
use prom::choose;

use render::{self, ThreadState};
use slack::{Destination, MessageMark, Slack, SlackError, marked_name};
use store::{DuplicateCheck, Incident, Post, PostKind, PostponeReason, StoreError};

/// The result of a post.
enum PostOutcome {
    /// It was posted, with its timestamp if Slack returned one; a change also returns the state that it reported.
    Posted(Option<String>, Option<ThreadState>),
    /// There is nothing to post, for this reason.
    Needless(&'static str),
}

impl Notifier {
    pub(super) async fn deliver_post(&self, post: &Post) -> Result<(), StoreError> {
        let (Some(slack), Some(incident)) = (&self.slack, self.store.incident(&post.incident).await?) else {
            let why = "there is no Slack or no such incident";
            self.post_ended(post, Err(why)).await?;
            return self.store.post_given_up(post, why, self.store.now()).await;
        };
        if let Some(since) = post.began
            && !self.may_post(slack, post, since).await?
        {
            return Ok(());
        }
        let started = Instant::now();
        let outcome = self.send_post(slack, post, &incident).await;
        let (took, now) = (Some(started.elapsed()), self.store.now());
        match outcome {
            Ok(PostOutcome::Posted(ts, state)) => {
                failpoint("thread post posted");
                self.metrics.delivery("thread", post.kind.as_str(), took);
                if let Some(state) = state.and_then(|state| serde_json::to_string(&state).ok()) {
                    self.store.save_thread_state(&post.incident, &post.delivery, &state).await?;
                }
                // First mark it as posted; after a crash `end_escalations` completes the rest.
                self.store.posted(post, ts.as_deref()).await?;
                self.post_ended(post, Ok(())).await
            }
            Ok(PostOutcome::Needless(why)) => {
                debug!(incident.id = post.incident, kind = post.kind.as_str(), why, "left out a post in the thread");
                self.post_ended(post, Err(why)).await?;
                self.store.post_needless(post, why).await
            }
            Err(error) => {
                let result = self.post_failed(slack, post, &incident, &error, now).await?;
                self.metrics.delivery("thread", result, took);
                Ok(())
            }
        }
    }

    async fn send_post(&self, slack: &Slack, post: &Post, incident: &Incident) -> Result<PostOutcome, SlackError> {
        let (channel, ts) = &post.thread;
        let thread = Destination { channel, thread: Some(ts) };
        let mark = MessageMark::new(&post.id);
        match post.kind {
            PostKind::Change => {
                let reported: ThreadState =
                    post.thread_state.as_deref().and_then(|t| serde_json::from_str(t).ok()).unwrap_or_default();
                let state = self.thread_state(incident).await;
                let Some(line) = render::changes(&reported, &state, &self.words) else {
                    return Ok(PostOutcome::Needless("nothing has changed after all"));
                };
                let mark = MessageMark { told: serde_json::to_string(&state).ok(), ..mark };
                let posted = slack.post(thread, &render::slack_line(&line), &mark).await?;
                Ok(PostOutcome::Posted(Some(posted.ts), Some(state)))
            }
            PostKind::Mention => {
                let person = ("who", TextSpan::whom(&post.body).into());
                let line = match &post.about {
                    Some(pools) => self.words.line("call-storm", &[person, ("pools", pools.as_str().into())]),
                    None => self.words.line("call", &[person]),
                };
                let posted = slack.broadcast(thread, &render::slack_line(&line), &mark).await?;
                Ok(PostOutcome::Posted(Some(posted.ts), None))
            }
            PostKind::Picture => match self.draw(incident).await {
                Some((png, title, alt)) => {
                    let name = marked_name(&incident.id, &post.id);
                    slack.upload(&name, [&title, &alt], png, Some(thread)).await?;
                    Ok(PostOutcome::Posted(None, None))
                }
                None => Ok(PostOutcome::Needless("there is nothing to draw")),
            },
            PostKind::Verify | PostKind::Note => {
                let Ok(message) = serde_json::from_str::<Message>(&post.body) else {
                    return Ok(PostOutcome::Needless("another version wrote it"));
                };
                let posted = self.send(slack, To::New(thread, mark), &message, &[]).await.0?;
                Ok(PostOutcome::Posted(Some(posted.ts), None))
            }
            PostKind::Answer => {
                let Ok(message) = serde_json::from_str::<SlackMessage>(&post.body) else {
                    return Ok(PostOutcome::Needless("another version wrote it"));
                };
                let posted = slack.post(thread, &message, &mark).await?;
                Ok(PostOutcome::Posted(Some(posted.ts), None))
            }
        }
    }

    /// Draws a chart of the evidence for the cause, with its title and alternative text; `None` if there is nothing to
    /// draw.
    async fn draw(&self, incident: &Incident) -> Option<(Vec<u8>, String, String)> {
        let diagnosis = incident.diagnosis.as_ref()?;
        let prometheus = choose(&self.prometheus, &incident.alerts)?;
        let (baseline, deadline) = (self.diagnosing.baseline, self.diagnosing.deadline);
        let request = HistoryRequest { since: incident.started_at, until: None, baseline, deadline };
        let history = evidence_history(&self.library, prometheus, diagnosis, &request).await?;
        let mut chart = render::diagnosis_chart(&self.library, diagnosis, &history, request.since, &self.words)?;
        self.clean_chart(incident, &mut chart);
        // Drawing takes about ten milliseconds of CPU time, so it must not block the runtime.
        let drawn = tokio::task::spawn_blocking(move || {
            (chart::png(&chart), format!("{} · {}", chart.title, chart.subtitle), chart::alt(&chart))
        })
        .await;
        drawn.inspect_err(|error| warn!(incident.id = incident.id, %error, "cannot draw the picture")).ok()
    }

    /// Returns true if a post whose result is unknown is to be posted again: only if it does not exist.
    async fn may_post(&self, slack: &Slack, post: &Post, since: Timestamp) -> Result<bool, StoreError> {
        let (channel, ts) = post.thread.clone();
        let check = DuplicateCheck { subject: post.id.clone(), channel, thread: Some(ts), since, checks_done: 0 };
        match self.search_history(slack, &check).await? {
            SearchOutcome::Missing => Ok(true),
            SearchOutcome::Found => {
                self.post_ended(post, Ok(())).await?;
                // Changes since then were not queued, because this post was still pending.
                if post.kind == PostKind::Change {
                    self.store.queue_change(&post.incident, &post.delivery, self.store.now()).await?;
                }
                Ok(false)
            }
            SearchOutcome::Later(due, why) => {
                self.metrics.delivery("thread", "retried", None);
                self.store.post_postponed(post, due, PostponeReason::Unknown, &why).await?;
                Ok(false)
            }
        }
    }

    /// Handles the error of a post: postpones it or gives it up. Returns the result for the metrics.
    async fn post_failed(
        &self,
        slack: &Slack,
        post: &Post,
        incident: &Incident,
        error: &SlackError,
        now: Timestamp,
    ) -> Result<&'static str, StoreError> {
        let note = error.to_string();
        if let SlackError::RateLimited(wait) = error {
            self.rates.close(&Lane::Post(post.channel.clone()), *wait);
            self.metrics.rate_limit_wait("slack");
            self.store.post_postponed(post, clock::after(now, *wait), PostponeReason::Waits, &note).await?;
            return Ok("rate_limited");
        }
        let picture = post.kind == PostKind::Picture;
        // Charts need a scope of their own, and nothing depends on them.
        let refused = error.is_about_channel() || (error.is_about_token() && !picture);
        if refused {
            self.report_refused_channel(slack, &post.channel, error, now).await?;
            self.stand_in(&post.incident, &post.channel, error, now).await?;
            if post.kind == PostKind::Mention {
                let calls = self.people_to_mention(incident, &post.delivery).into_iter().filter(|id| *id == post.body);
                self.call_instead(incident, &post.delivery, calls.collect(), now).await?;
            }
        }
        let most_tries = if picture { MOST_PICTURE_TRIES } else { MOST_POST_TRIES };
        // The thread moves to the message that replaces the deleted one.
        let thread_moves = error.is_about_thread()
            && self.store.forget_message(&post.incident, &post.thread.1, MOST_REPOSTS, now).await?;
        // A mention is not given up while the incident is open.
        let keep_trying = incident.open && !picture && (refused || post.kind == PostKind::Mention);
        let again = post.tries + 1 < most_tries || keep_trying;
        if (error.is_retryable() || refused || thread_moves) && again {
            let pause = if refused { REFUSED.pause(post.tries) } else { PAUSES.pause(post.tries) };
            let reason = PostponeReason::failed(error.is_unknown());
            self.store.post_postponed(post, clock::after(now, pause), reason, &note).await?;
            return Ok("retried");
        }
        warn!(incident.id = post.incident, kind = post.kind.as_str(), reason = note, "gave up a post in the thread");
        self.post_ended(post, Err(&note)).await?;
        self.store.post_given_up(post, &note, now).await?;
        Ok("failed")
    }
}
