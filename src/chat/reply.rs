//! The answer to a request, and the progress shown to a waiting user.
//!
//! A slash command's `response_url` accepts 5 posts and cannot replace its own posts: Slack ignores `replace_original`
//! there (<https://github.com/slackapi/bolt-js/issues/2287>). So progress is posted there at most twice, each time as a
//! separate message; elsewhere one message is edited until it holds the answer.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::replies::Caller;
use super::wording::sentence;

use bundle::{BundleProgress, bundle_progress};
use message::{Line, Message, SlackMessage, Tone};
use notify::AnswerTarget;
use prom::{Prometheus, QueryProgress};
use slack::{Destination, Posted, RequestPlace, SlackAction, SlackError, SlackRequest};
use store::StoreError;

/// The pauses before the progress messages, each counted from the previous one.
const PATIENCE: [Duration; 2] = [Duration::from_millis(1_500), Duration::from_secs(5)];
/// The pause between later progress edits of a bundle: all edits in the workspace share Slack's limit of 50 a minute.
const BUNDLE_EVERY: Duration = Duration::from_secs(5);

/// The destination of an answer, with its progress.
pub(super) struct Reply<'a> {
    caller: Caller<'a>,
    /// The place of the request.
    pub(super) place: &'a RequestPlace,
    /// True if the request is public: a mention, or a button within a thread or direct message.
    is_open: bool,
    /// True if the answer is visible to everybody in the channel.
    pub(super) in_channel: bool,
    /// The message that shows the progress and becomes the answer; locked while something is sent.
    progress_message: Mutex<Option<Posted>>,
    /// The number of queries sent and answered by the clients of [`Self::watch`].
    pub(super) progress: Arc<QueryProgress>,
    /// The progress of the bundle being built, if there is one.
    pub(super) bundle: OnceLock<BundleProgress>,
    /// Cancelled once the answer is being sent: no more progress is posted.
    done: CancellationToken,
}

/// Maximum number of characters of the command that a progress message repeats.
const REPEATED_CHARS: usize = 60;

impl<'a> Reply<'a> {
    pub(super) fn new(caller: Caller<'a>) -> Self {
        let SlackRequest { place, what, .. } = caller.request;
        // Answers to a button go to the thread that holds it; posts to `response_url` appear outside threads.
        let in_thread_or_direct = place.thread.is_some() || place.channel.starts_with('D');
        let is_open = match what {
            SlackAction::Mention { .. } => true,
            SlackAction::Press { .. } => in_thread_or_direct,
            SlackAction::Command { .. }
            | SlackAction::Submit { .. }
            | SlackAction::Suggest { .. }
            | SlackAction::Joined
            | SlackAction::Home => false,
        };
        Self {
            caller,
            place,
            is_open,
            in_channel: false,
            progress_message: Mutex::new(None),
            progress: Arc::default(),
            bundle: OnceLock::new(),
            done: CancellationToken::new(),
        }
    }

    /// Returns true in a direct message, where nobody else reads.
    fn is_direct(&self) -> bool {
        self.place.channel.starts_with('D')
    }

    /// Returns the place of a public message: the request's thread, a new thread under a mention, else the channel.
    pub(super) fn destination(&self) -> Destination<'_> {
        let message = self.place.message.as_deref().filter(|_| self.is_open && !self.is_direct());
        Destination { channel: &self.place.channel, thread: self.place.thread.as_deref().or(message) }
    }

    /// Sends the answer; a failure is only logged, as no other channel to the user remains.
    pub(super) async fn send_message(&self, message: &Message) {
        let message = message.clone().map_text(&self.caller.notifier.text_cleaner());
        if let Err(error) = self.send(&render::slack(&message)).await {
            warn!(%error, channel = self.place.channel, "cannot answer in Slack");
        }
    }

    async fn send(&self, message: &SlackMessage) -> Result<(), SlackError> {
        self.done.cancel();
        let progress_message = self.progress_message.lock().await;
        let answer = |target| self.caller.notifier.answer(self.caller.slack, target, message);
        if self.is_open {
            if let Some(progress_message) = &*progress_message
                && answer(AnswerTarget::Edit(progress_message)).await.is_ok()
            {
                return Ok(());
            }
            return match answer(AnswerTarget::Post(self.destination())).await {
                Err(error) if error.is_retryable() && self.queue_for_thread(message).await => Ok(()),
                answered => answered.map(drop),
            };
        }
        self.caller.answer(message, self.in_channel).await
    }

    /// Queues the answer for the incident's thread when Slack does not accept it now. Returns true if it was queued.
    async fn queue_for_thread(&self, message: &SlackMessage) -> bool {
        let Some(thread) = &self.place.thread else { return false };
        let log = self.caller.log;
        let queued = async {
            let Some(incident) = log.store.incident_at(&self.place.channel, thread).await? else { return Ok(false) };
            log.tell_thread(&incident, message).await
        };
        let queued: Result<bool, StoreError> = queued.await;
        queued.inspect_err(|error| warn!(%error, "cannot keep an answer")).unwrap_or(false)
    }

    /// Returns a client whose queries count towards the progress of this answer.
    pub(super) fn watch(&self, prometheus: &Prometheus) -> Prometheus {
        prometheus.clone().watched(Arc::clone(&self.progress))
    }

    /// Runs the work and posts its progress meanwhile. The progress ends with the work, which may answer in another way.
    pub(super) async fn watched<T>(&self, command: &str, work: impl Future<Output = T>) -> T {
        let work = async {
            let result = work.await;
            self.done.cancel();
            result
        };
        let updates = async {
            for pause in PATIENCE {
                if tokio::time::timeout(pause, self.done.cancelled()).await.is_ok() {
                    return;
                }
                self.update_progress(command).await;
            }
            while self.is_open && self.bundle.get().is_some() {
                if tokio::time::timeout(BUNDLE_EVERY, self.done.cancelled()).await.is_ok() {
                    return;
                }
                self.update_progress(command).await;
            }
        };
        futures::future::join(work, updates).await.0
    }

    async fn update_progress(&self, command: &str) {
        let mut progress_message = self.progress_message.lock().await;
        let Some(message) = self.so_far(command).filter(|_| !self.done.is_cancelled()) else { return };
        let target = match (&self.place.response_url, self.is_open, &*progress_message) {
            (Some(url), false, _) => AnswerTarget::Respond(url, false),
            (None, false, _) => return,
            (_, true, Some(posted)) => AnswerTarget::Edit(posted),
            (_, true, None) => AnswerTarget::Post(self.destination()),
        };
        let result = self.caller.notifier.progress(self.caller.slack, target, &message).await;
        let result = result.map(|posted| *progress_message = posted.or(progress_message.take()));
        if let Err(error) = result {
            warn!(%error, "cannot tell the progress in Slack");
        }
    }

    /// Renders the progress; `None` before the first query or bundle part.
    fn so_far(&self, command: &str) -> Option<SlackMessage> {
        let words = &self.caller.notifier.words;
        if let Some(bundle) = self.bundle.get() {
            // Reasons hold texts of servers.
            let progress = bundle_progress(&bundle.board(), words);
            return Some(render::slack(&progress.map_text(&self.caller.notifier.text_cleaner())));
        }
        let (answered, sent) = self.progress.seen();
        if sent == 0 {
            return None;
        }
        let command: String = command.chars().take(REPEATED_CHARS).collect();
        let command = Line::default().code(command);
        let pieces = [("target", command.into()), ("answered", answered.into()), ("asked", sent.into())];
        let progress = sentence(Tone::Unknown, words.line("command-progress", &pieces));
        Some(render::slack(&progress.map_text(&self.caller.notifier.text_cleaner())))
    }
}
