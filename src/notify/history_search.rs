//! Searches Slack's history for our messages: before a message whose result was lost is posted again, and several times
//! afterwards, because Slack may execute a call long after its caller gave up: within minutes, when the incident ends,
//! and a day later.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use moka::future::Cache;
use tokio::sync::OnceCell;
use tracing::{info, warn};

use super::{Lane, Notifier, PAUSES};
use knowledge::clock;
use slack::{MarkedMessage, Slack, SlackError};
use store::failpoint;
use store::{CalledPeople, DuplicateCheck, Mention, MessageEffects, StoreError, ValidMessages};

/// The delays of the searches for a duplicate message, each counted from the previous one.
const SEARCH_DELAYS: [Duration; 3] = [Duration::from_secs(20), Duration::from_secs(60), Duration::from_secs(300)];
/// The delay of the last search after the call. The end of the incident adds one before it.
pub const LAST_SEARCH_DELAY: Duration = Duration::from_secs(86_400);
/// The age of the call after which a search that Slack cannot answer is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(90_000);
/// The timeout for all pages of a search.
const SEARCH_WITHIN: Duration = Duration::from_secs(20);
/// The tolerance for Slack's clock being behind ours; `doctor` warns from two minutes on.
const CLOCK_SKEW: Duration = Duration::from_secs(120);
/// The time for which concurrent searches of one place share their result.
const SHARED_FOR: Duration = Duration::from_millis(500);
/// The step to which the start of a search is rounded, in seconds, so that several searches share one result.
const START_STEP: i64 = 600;
/// Maximum number of places and channels in a cache.
const CACHE_ENTRIES: u64 = 1_000;

/// The key of a search: the channel's id, the thread and the start time.
type SearchKey = (String, Option<String>, i64);

/// Cached answers of Slack: our own user, the channels' ids, and the found messages.
#[derive(Debug)]
pub struct HistoryCache {
    own_user: OnceCell<String>,
    channels: Cache<String, String>,
    messages: Cache<SearchKey, Arc<Vec<MarkedMessage>>>,
}

impl Default for HistoryCache {
    fn default() -> Self {
        Self {
            own_user: OnceCell::new(),
            channels: Cache::new(CACHE_ENTRIES),
            messages: Cache::builder().max_capacity(CACHE_ENTRIES).time_to_live(SHARED_FOR).build(),
        }
    }
}

/// The result of a search before posting again.
pub(super) enum SearchOutcome {
    /// The message exists; the store is updated.
    Found,
    /// The message does not exist, or the history is not readable: post it.
    Missing,
    /// Slack does not answer now: try again at this time, with the reason.
    Later(Timestamp, String),
}

impl Notifier {
    /// Searches for a message whose result was lost; if it is found, the store adopts it.
    pub(super) async fn search_history(
        &self,
        slack: &Slack,
        check: &DuplicateCheck,
    ) -> Result<SearchOutcome, StoreError> {
        let now = self.store.now();
        self.store.schedule_duplicate_check(check, clock::after(now, SEARCH_DELAYS[0])).await?;
        let found = self.find_marked_messages(slack, check).await;
        failpoint("history searched");
        match found {
            Ok((channel, messages)) => match messages.into_iter().find(|message| message.mark.id == check.subject) {
                Some(message) => {
                    self.adopt(check, &channel, &message, now).await?;
                    self.metrics.delivery("look", "found", None);
                    info!(subject = check.subject, channel, "the message is posted already: its answer was lost");
                    Ok(SearchOutcome::Found)
                }
                None => Ok(SearchOutcome::Missing),
            },
            Err(error) if error.is_retryable() => {
                Ok(SearchOutcome::Later(clock::after(now, self.wait(&error)), error.to_string()))
            }
            Err(error) => {
                self.metrics.delivery("look", "refused", None);
                warn!(
                    subject = check.subject,
                    reason = %error,
                    "cannot see whether the message is posted already: posting it"
                );
                Ok(SearchOutcome::Missing)
            }
        }
    }

    /// Searches again for duplicates of a message: keeps the known one and removes the others.
    pub(super) async fn remove_duplicates(&self, check: &DuplicateCheck) -> Result<(), StoreError> {
        let Some(slack) = &self.slack else { return self.store.finish_duplicate_check(check, None).await };
        let now = self.store.now();
        let (channel, messages) = match self.find_marked_messages(slack, check).await {
            Ok(messages) => messages,
            Err(error) if error.is_retryable() && clock::between(check.since, now) < GIVE_UP_AFTER => {
                return self.store.postpone_duplicate_check(check, clock::after(now, self.wait(&error))).await;
            }
            Err(error) => {
                self.metrics.delivery("look", "refused", None);
                warn!(subject = check.subject, reason = %error, "cannot see whether a message was posted twice");
                return self.store.finish_duplicate_check(check, None).await;
            }
        };
        let mut messages: Vec<MarkedMessage> =
            messages.into_iter().filter(|message| message.mark.id == check.subject).collect();
        failpoint("duplicates searched");
        let unknown = match self.store.valid_messages(&check.subject).await? {
            ValidMessages::No => messages.first(),
            ValidMessages::At(valid) if valid.is_empty() => None,
            ValidMessages::At(valid) => messages.iter().find(|message| !valid.contains(&message.ts)),
        };
        if let Some(message) = unknown {
            self.adopt(check, &channel, message, now).await?;
        }
        // Read again: the delivery of the message may have adopted one of them meanwhile.
        match self.store.valid_messages(&check.subject).await? {
            ValidMessages::No => messages.clear(),
            // The message of a chart is not known, so the first one is kept.
            ValidMessages::At(valid) if valid.is_empty() => drop(messages.drain(..messages.len().min(1))),
            ValidMessages::At(valid) => messages.retain(|message| !valid.contains(&message.ts)),
        }
        for extra in &messages {
            self.remove(slack, check, &channel, extra).await;
        }
        let next = match SEARCH_DELAYS.get(check.checks_done as usize + 1) {
            Some(wait) => Some(clock::after(now, *wait)),
            // The end of the incident brings it forward.
            None => Some(clock::after(check.since.min(now), LAST_SEARCH_DELAY)).filter(|last| *last > now),
        };
        self.store.finish_duplicate_check(check, next).await
    }

    /// Stores a found message as the posted one, unless another one is already stored. Returns true if it was adopted.
    async fn adopt(
        &self,
        check: &DuplicateCheck,
        channel: &str,
        message: &MarkedMessage,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let posted = (channel.to_owned(), message.ts.clone());
        // Mentions of an earlier critical phase do not count for a later one.
        let at = clock::parse_time(&message.ts).map_or(check.since, |at| at.max(check.since));
        let called = message.mark.called.as_deref().filter(|_| message.mark.mention).map(CalledPeople::read);
        let mention = called.map(|called| Mention { since: at, called });
        let effects = MessageEffects { mention, thread_state: message.mark.told.clone(), ..MessageEffects::default() };
        Ok(self.store.found_message(&check.subject, &check.channel, &posted, &effects, now).await?
            || self.store.found_digest(&check.subject, &posted, effects.mention.as_ref(), now).await?
            || self.store.weekly_posted(&check.subject, &check.channel, &posted, now).await?
            || self.store.found_post(&check.subject, &message.ts, effects.thread_state.as_deref()).await?)
    }

    async fn remove(&self, slack: &Slack, check: &DuplicateCheck, channel: &str, extra: &MarkedMessage) {
        let removed = slack.remove(channel, extra).await;
        self.metrics.delivery("look", if removed.is_ok() { "removed" } else { "failed" }, None);
        match removed {
            Ok(()) => info!(subject = check.subject, channel, ts = extra.ts, "removed a message that stood twice"),
            Err(error) => {
                warn!(
                    subject = check.subject,
                    channel,
                    ts = extra.ts,
                    %error,
                    "cannot remove a message that was posted twice"
                );
            }
        }
    }

    /// Returns the channel's id and our marked messages there, oldest first.
    pub(super) async fn find_marked_messages(
        &self,
        slack: &Slack,
        check: &DuplicateCheck,
    ) -> Result<(String, Vec<MarkedMessage>), SlackError> {
        let search = async {
            let channel = self.channel_id(slack, &check.channel).await?;
            let since = clock::before(check.since, CLOCK_SKEW).as_second().div_euclid(START_STEP) * START_STEP;
            let place = (channel.clone(), check.thread.clone(), since);
            let fetch = async {
                let own_user = self
                    .history
                    .own_user
                    .get_or_try_init(|| async { slack.identity().await.map(|me| me.user_id) })
                    .await?;
                self.rates
                    .enter(&Lane::HistorySearch)
                    .map_err(|open| SlackError::RateLimited(open.saturating_duration_since(Instant::now())))?;
                let since = Timestamp::from_second(since).unwrap_or(Timestamp::UNIX_EPOCH);
                slack.marked(&channel, check.thread.as_deref(), since, own_user).await.map(Arc::new)
            };
            let messages = self.history.messages.try_get_with(place, fetch).await;
            let messages = messages.map_err(|error: Arc<SlackError>| (*error).clone())?;
            Ok((channel, messages.to_vec()))
        };
        let result = tokio::time::timeout(SEARCH_WITHIN, search).await.unwrap_or(Err(SlackError::Late));
        if let Err(SlackError::RateLimited(wait)) = &result {
            self.rates.close(&Lane::HistorySearch, *wait);
        }
        result
    }

    /// Resolves a channel's name to its id, which Slack's history methods require.
    async fn channel_id(&self, slack: &Slack, channel: &str) -> Result<String, SlackError> {
        if !channel.starts_with('#') {
            return Ok(channel.to_owned());
        }
        let resolve = async {
            if let Ok(Some(id)) = self.store.channel_id(channel).await {
                return Ok(id);
            }
            let unknown = SlackError::Refused { code: "channel_not_found".to_owned(), detail: String::new() };
            slack.channel(channel).await?.map(|channel| channel.id).ok_or(unknown)
        };
        self.history
            .channels
            .try_get_with(channel.to_owned(), resolve)
            .await
            .map_err(|error: Arc<SlackError>| (*error).clone())
    }

    fn wait(&self, error: &SlackError) -> Duration {
        match error {
            SlackError::RateLimited(wait) => *wait,
            _ => PAUSES.pause(2),
        }
    }
}
