//! Searches Slack's history for our messages: before a message whose result was lost is posted again, and several times
//! afterwards, because Slack may execute a call long after its caller gave up: within minutes, when the incident ends,
//! and a day later.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use moka::future::Cache;
use tokio::sync::OnceCell;
use tracing::{info, warn};

use super::{Lane, Notifier, pause};
use crate::clock;
use crate::slack::{MarkedMessage, Slack, SlackError};
use crate::store::{CalledPeople, DuplicateCheck, Mention, MessageEffects, StoreError, ValidMessages};

/// The delays of the searches for a duplicate message, each counted from the previous one.
const LOOKS: [Duration; 3] = [Duration::from_secs(20), Duration::from_secs(60), Duration::from_secs(300)];
/// The delay of the last search after the call. The end of the incident adds one before it.
pub(crate) const LONGEST_LOOK: Duration = Duration::from_secs(86_400);
/// The age of the call after which a search that Slack cannot answer is given up.
const GIVE_UP: Duration = Duration::from_secs(90_000);
/// The timeout for all pages of a search.
const WITHIN: Duration = Duration::from_secs(20);
/// The tolerance for Slack's clock being behind ours; `doctor` warns from two minutes on.
const SKEW: Duration = Duration::from_secs(120);
/// The time for which concurrent searches of one place share their result.
const SHARED: Duration = Duration::from_millis(500);
/// The step to which the start of a search is rounded, in seconds, so that several searches share one result.
const STEP: i64 = 600;
/// Maximum number of places and channels in a cache.
const REMEMBERED: u64 = 1_000;

/// The key of a search: the channel's id, the thread and the start time.
type SearchKey = (String, Option<String>, i64);

/// The cached results of searches.
#[derive(Debug)]
pub(super) struct HistoryCache {
    me: OnceCell<String>,
    channels: Cache<String, String>,
    found: Cache<SearchKey, Arc<Vec<MarkedMessage>>>,
}

impl Default for HistoryCache {
    fn default() -> Self {
        Self {
            me: OnceCell::new(),
            channels: Cache::new(REMEMBERED),
            found: Cache::builder().max_capacity(REMEMBERED).time_to_live(SHARED).build(),
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
        look: &DuplicateCheck,
    ) -> Result<SearchOutcome, StoreError> {
        let now = self.store.now();
        self.store.look_later(look, clock::after(now, LOOKS[0])).await?;
        match self.marked(slack, look).await {
            Ok((channel, found)) => match found.into_iter().find(|found| found.mark.id == look.subject) {
                Some(found) => {
                    self.adopt(look, &channel, &found, now).await?;
                    self.metrics.delivery("look", "found", None);
                    info!(subject = look.subject, channel, "the message stands already: its answer was lost");
                    Ok(SearchOutcome::Found)
                }
                None => Ok(SearchOutcome::Missing),
            },
            Err(error) if error.is_retryable() => {
                Ok(SearchOutcome::Later(clock::after(now, self.wait(&error)), error.to_string()))
            }
            Err(error) => {
                self.metrics.delivery("look", "refused", None);
                warn!(subject = look.subject, reason = %error, "cannot see whether the message stands already: posting it");
                Ok(SearchOutcome::Missing)
            }
        }
    }

    /// Searches again for duplicates of a message: keeps the known one and removes the others.
    pub(super) async fn remove_duplicates(&self, look: &DuplicateCheck) -> Result<(), StoreError> {
        let Some(slack) = &self.slack else { return self.store.looked(look, None).await };
        let now = self.store.now();
        let (channel, found) = match self.marked(slack, look).await {
            Ok(found) => found,
            Err(error) if error.is_retryable() && clock::between(look.since, now) < GIVE_UP => {
                return self.store.look_postponed(look, clock::after(now, self.wait(&error))).await;
            }
            Err(error) => {
                self.metrics.delivery("look", "refused", None);
                warn!(subject = look.subject, reason = %error, "cannot see whether a message stands twice");
                return self.store.looked(look, None).await;
            }
        };
        let mut found: Vec<MarkedMessage> = found.into_iter().filter(|found| found.mark.id == look.subject).collect();
        match self.store.standing(&look.subject).await? {
            // The message of a chart is not known, so the first one is kept.
            ValidMessages::At(stands) if stands.is_empty() => drop(found.drain(..found.len().min(1))),
            ValidMessages::At(stands) => found.retain(|found| !stands.contains(&found.ts)),
            ValidMessages::No => {}
        }
        if let Some(first) = found.first()
            && self.adopt(look, &channel, first, now).await?
        {
            found.remove(0);
        }
        if self.store.standing(&look.subject).await? != ValidMessages::No {
            for extra in &found {
                self.remove(slack, look, &channel, extra).await;
            }
        }
        let next = match LOOKS.get(look.looks as usize + 1) {
            Some(wait) => Some(clock::after(now, *wait)),
            // The end of the incident brings it forward.
            None => Some(clock::after(look.since.min(now), LONGEST_LOOK)).filter(|last| *last > now),
        };
        self.store.looked(look, next).await
    }

    /// Stores a found message as the posted one, unless another one is already stored. Returns true if it was adopted.
    async fn adopt(
        &self,
        look: &DuplicateCheck,
        channel: &str,
        found: &MarkedMessage,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let posted = (channel.to_owned(), found.ts.clone());
        // Mentions of an earlier critical phase do not count for a later one.
        let at = clock::parse_time(&found.ts).map_or(look.since, |at| at.max(look.since));
        let called = CalledPeople::read(found.mark.called.as_deref());
        let mention = found.mark.mention.then_some(Mention { since: at, called });
        let said = MessageEffects { mention, thread_state: found.mark.told.clone() };
        Ok(self.store.found_message(&look.subject, &look.channel, &posted, &said, now).await?
            || self.store.found_digest(&look.subject, &posted, said.mention.as_ref(), now).await?
            || self.store.found_post(&look.subject, &found.ts, said.thread_state.as_deref()).await?)
    }

    async fn remove(&self, slack: &Slack, look: &DuplicateCheck, channel: &str, extra: &MarkedMessage) {
        let removed = slack.remove(channel, extra).await;
        self.metrics.delivery("look", if removed.is_ok() { "removed" } else { "failed" }, None);
        match removed {
            Ok(()) => info!(subject = look.subject, channel, ts = extra.ts, "removed a message that stood twice"),
            Err(error) => {
                warn!(subject = look.subject, channel, ts = extra.ts, %error, "cannot remove a message that stands twice");
            }
        }
    }

    /// Returns the channel's id and our marked messages there, oldest first.
    pub(super) async fn marked(
        &self,
        slack: &Slack,
        look: &DuplicateCheck,
    ) -> Result<(String, Vec<MarkedMessage>), SlackError> {
        let asked = async {
            let channel = self.channel_id(slack, &look.channel).await?;
            let since = clock::before(look.since, SKEW).as_second().div_euclid(STEP) * STEP;
            let place = (channel.clone(), look.thread.clone(), since);
            let ask = async {
                let me = self
                    .history_cache
                    .me
                    .get_or_try_init(|| async { slack.identity().await.map(|me| me.user_id) })
                    .await?;
                self.rates
                    .enter(&Lane::Look)
                    .map_err(|open| SlackError::RateLimited(open.saturating_duration_since(Instant::now())))?;
                let since = Timestamp::from_second(since).unwrap_or(Timestamp::UNIX_EPOCH);
                slack.marked(&channel, look.thread.as_deref(), since, me).await.map(Arc::new)
            };
            let found = self.history_cache.found.try_get_with(place, ask).await;
            let found = found.map_err(|error: Arc<SlackError>| (*error).clone())?;
            Ok((channel, found.to_vec()))
        };
        let found = tokio::time::timeout(WITHIN, asked).await.unwrap_or(Err(SlackError::Late));
        if let Err(SlackError::RateLimited(wait)) = &found {
            self.rates.close(&Lane::Look, *wait);
        }
        found
    }

    /// Resolves a channel's name to its id, which Slack's history methods require.
    async fn channel_id(&self, slack: &Slack, channel: &str) -> Result<String, SlackError> {
        if !channel.starts_with('#') {
            return Ok(channel.to_owned());
        }
        let ask = async {
            if let Ok(Some(id)) = self.store.channel_id(channel).await {
                return Ok(id);
            }
            let unknown = SlackError::Refused { code: "channel_not_found".to_owned(), detail: String::new() };
            slack.channel(channel).await?.map(|found| found.id).ok_or(unknown)
        };
        self.history_cache
            .channels
            .try_get_with(channel.to_owned(), ask)
            .await
            .map_err(|error: Arc<SlackError>| (*error).clone())
    }

    fn wait(&self, error: &SlackError) -> Duration {
        match error {
            SlackError::RateLimited(wait) => *wait,
            _ => pause(2),
        }
    }
}
