//! Posts in the thread of an incident: changes, calls, answers. Each is posted once.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::{debug, warn};

use super::history_search::SearchOutcome;
use super::outgoing::{Outgoing, SendFailure, Trouble};
use super::{MOST_POST_TRIES, MOST_REPOSTS, Notifier, To};
use knowledge::clock::{between, human_duration};
use message::{Message, SlackMessage, TextSpan};
use render::{self, ThreadState};
use slack::{Destination, MessageMark, Slack, SlackError};
use store::failpoint;
use store::{Incident, Post, PostKind, StoreError};

/// The result of a post.
pub(super) enum PostOutcome {
    /// It was posted, with its timestamp if Slack returned one; a change also returns the state that it reported.
    Posted(Option<String>, Option<ThreadState>),
    /// There is nothing to post, for this reason.
    Needless(&'static str),
}

impl Notifier {
    pub(super) async fn deliver_post(&self, out: &Outgoing<'_>, post: &Post) -> Result<(), StoreError> {
        let (Some(slack), Some(incident)) = (&self.slack, self.store.incident(&post.incident).await?) else {
            let why = "there is no Slack or no such incident";
            self.post_ended(post, Err(why)).await?;
            return self.store.post_given_up(post, why, self.store.now()).await;
        };
        match self.look_for(slack, out).await? {
            SearchOutcome::Missing => {}
            SearchOutcome::Later(..) => return Ok(()),
            SearchOutcome::Found => {
                self.post_ended(post, Ok(())).await?;
                // Changes since then were not queued, because this post was still pending.
                return match post.kind {
                    PostKind::Change => {
                        self.store.queue_change(&post.incident, &post.delivery, self.store.now()).await.map(drop)
                    }
                    _ => Ok(()),
                };
            }
        }
        let started = Instant::now();
        let outcome = self.send_post(slack, post, &incident).await;
        let took = started.elapsed();
        match outcome {
            Ok(PostOutcome::Posted(ts, state)) => {
                failpoint("thread post posted");
                self.metrics.delivery(out.sink, post.kind.as_str(), Some(took));
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
            Err(error) => self.post_failed(slack, out, post, &incident, (&error, took)).await,
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
            PostKind::Reminder => {
                let waits = incident.open && incident.critical;
                let waits = waits && !self.is_quiet(incident);
                let is_taken =
                    |since: &Timestamp| incident.acknowledged.as_ref().is_some_and(|taken| taken.at >= *since);
                let Some(since) = incident.critical_at.filter(|since| waits && !is_taken(since)) else {
                    return Ok(PostOutcome::Needless("somebody took it, or it is not critical any more"));
                };
                let people = self.people_to_mention(incident, &post.delivery);
                let age = human_duration(between(since, self.store.now()));
                let line = self.words.line("reminder", &[("age", age.into())]);
                let body = render::with_mentions(render::slack_line(&line), &people);
                let posted = slack.broadcast(thread, &body, &mark).await?;
                Ok(PostOutcome::Posted(Some(posted.ts), None))
            }
            PostKind::Picture => self.post_picture(slack, thread, post, incident).await,
            PostKind::Note => {
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

    /// Tries again, or gives up.
    async fn post_failed(
        &self,
        slack: &Slack,
        out: &Outgoing<'_>,
        post: &Post,
        incident: &Incident,
        (error, took): (&SlackError, Duration),
    ) -> Result<(), StoreError> {
        let (now, mut failed) = (self.store.now(), SendFailure::of(error, took));
        let (mut most_tries, mut may_be_kept) = (MOST_POST_TRIES, incident.open);
        if post.kind == PostKind::Picture {
            (most_tries, may_be_kept) = (super::MOST_PICTURE_TRIES, false);
            // It needs a scope of its own, and nothing depends on it.
            if error.is_about_token() {
                failed.trouble = Trouble::Lasting;
            }
        }
        let is_refused = matches!(failed.trouble, Trouble::Refused);
        if is_refused {
            let calls = match post.kind {
                PostKind::Mention => self.people_to_mention(incident, &post.delivery),
                _ => Vec::new(),
            };
            let calls = calls.into_iter().filter(|id| *id == post.body).collect();
            self.make_up(slack, incident, [&post.channel, &post.delivery], error, calls, now).await?;
        }
        // The thread moves to the message that replaces the deleted one.
        if error.is_about_thread()
            && self.store.forget_message(&post.incident, &post.thread.1, MOST_REPOSTS, now).await?
        {
            failed.trouble = Trouble::Passing(None);
        }
        // A mention is not given up while the incident is open.
        let kept = may_be_kept && (is_refused || post.kind == PostKind::Mention);
        if self.try_again(out, kept || out.tries + 1 < most_tries, &failed).await? {
            return Ok(());
        }
        let reason = &failed.note;
        warn!(incident.id = post.incident, kind = post.kind.as_str(), reason, "gave up a post in the thread");
        self.metrics.delivery(out.sink, "failed", failed.took);
        self.post_ended(post, Err(reason)).await?;
        self.store.post_given_up(post, reason, now).await
    }
}
