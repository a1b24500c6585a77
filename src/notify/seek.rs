//! Looks in Slack for what may stand there already: before something is posted again whose answer was lost, and a few
//! times afterwards, because Slack may have the effect of a call long after the caller gave up: within minutes, when the
//! incident ends, and a day later.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use moka::future::Cache;
use tokio::sync::OnceCell;
use tracing::{info, warn};

use super::{Lane, Notifier, pause};
use crate::clock;
use crate::slack::{Found, Slack, SlackError};
use crate::store::{Called, Look, Mention, Said, Standing, StoreError};

/// When a message is looked for that may have appeared a second time, counted from the last time.
const LOOKS: [Duration; 3] = [Duration::from_secs(20), Duration::from_secs(60), Duration::from_secs(300)];
/// How long after the call the last look comes. The end of the incident adds one before it.
pub(crate) const LONGEST_LOOK: Duration = Duration::from_secs(86_400);
/// A look that Slack could not answer for so long after the call is given up.
const GIVE_UP: Duration = Duration::from_secs(90_000);
/// What all pages of one look may take.
const WITHIN: Duration = Duration::from_secs(20);
/// Slack's clock may be behind ours; `doctor` warns from two minutes on.
const SKEW: Duration = Duration::from_secs(120);
/// Looks at one place that come together share their answer.
const SHARED: Duration = Duration::from_millis(500);
/// Marks of one stretch of time begin their look at the same moment, so that they share it, in seconds.
const STEP: i64 = 600;
/// Places and channels that are remembered.
const REMEMBERED: u64 = 1_000;

/// A place that is looked at: the channel's id, the thread, since when.
type Place = (String, Option<String>, i64);

/// What is remembered between looks.
#[derive(Debug)]
pub(super) struct Seeker {
    me: OnceCell<String>,
    channels: Cache<String, String>,
    found: Cache<Place, Arc<Vec<Found>>>,
}

impl Default for Seeker {
    fn default() -> Self {
        Self {
            me: OnceCell::new(),
            channels: Cache::new(REMEMBERED),
            found: Cache::builder().max_capacity(REMEMBERED).time_to_live(SHARED).build(),
        }
    }
}

/// What came of a look before posting again.
pub(super) enum Sought {
    /// It stands, and the store knows it now.
    Stands,
    /// It does not, or nobody may look: post it.
    Missing,
    /// Slack cannot be asked now.
    Later(Timestamp, String),
}

impl Notifier {
    /// Looks for a message whose answer was lost; what is found is the one that stands from now on.
    pub(super) async fn seek(&self, slack: &Slack, look: &Look) -> Result<Sought, StoreError> {
        let now = self.store.now();
        self.store.look_later(look, clock::after(now, LOOKS[0])).await?;
        match self.marked(slack, look).await {
            Ok((channel, found)) => match found.into_iter().find(|found| found.mark.id == look.subject) {
                Some(found) => {
                    self.adopt(look, &channel, &found, now).await?;
                    self.metrics.delivery("look", "found", None);
                    info!(subject = look.subject, channel, "the message stands already: its answer was lost");
                    Ok(Sought::Stands)
                }
                None => Ok(Sought::Missing),
            },
            Err(error) if error.is_retryable() => {
                Ok(Sought::Later(clock::after(now, self.wait(&error)), error.to_string()))
            }
            Err(error) => {
                self.metrics.delivery("look", "refused", None);
                warn!(subject = look.subject, reason = %error, "cannot see whether the message stands already: posting it");
                Ok(Sought::Missing)
            }
        }
    }

    /// Looks once more where a message may stand twice: keeps the one that is meant to, and removes the others.
    pub(super) async fn look(&self, look: &Look) -> Result<(), StoreError> {
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
        let mut found: Vec<Found> = found.into_iter().filter(|found| found.mark.id == look.subject).collect();
        match self.store.standing(&look.subject).await? {
            // A picture's own message is not known: the first one stays.
            Standing::At(stands) if stands.is_empty() => drop(found.drain(..found.len().min(1))),
            Standing::At(stands) => found.retain(|found| !stands.contains(&found.ts)),
            Standing::No => {}
        }
        if let Some(first) = found.first()
            && self.adopt(look, &channel, first, now).await?
        {
            found.remove(0);
        }
        if self.store.standing(&look.subject).await? != Standing::No {
            for extra in &found {
                self.remove(slack, look, &channel, extra).await;
            }
        }
        let next = match LOOKS.get(look.looks as usize + 1) {
            Some(wait) => Some(clock::after(now, *wait)),
            // The end of its incident brings it forward.
            None => Some(clock::after(look.since.min(now), LONGEST_LOOK)).filter(|last| *last > now),
        };
        self.store.looked(look, next).await
    }

    /// A message that was found becomes the one that stands, when none does.
    async fn adopt(&self, look: &Look, channel: &str, found: &Found, now: Timestamp) -> Result<bool, StoreError> {
        let posted = (channel.to_owned(), found.ts.clone());
        // Whoever was called for what was critical then is not called for what becomes critical later.
        let at = clock::parse_time(&found.ts).map_or(look.since, |at| at.max(look.since));
        let called = Called::read(found.mark.called.as_deref());
        let mention = found.mark.mention.then_some(Mention { since: at, called });
        let said = Said { mention, told: found.mark.told.clone() };
        Ok(self.store.found_message(&look.subject, &look.channel, &posted, &said, now).await?
            || self.store.found_digest(&look.subject, &posted, said.mention.as_ref(), now).await?
            || self.store.found_post(&look.subject, &found.ts, said.told.as_deref()).await?)
    }

    async fn remove(&self, slack: &Slack, look: &Look, channel: &str, extra: &Found) {
        let removed = slack.remove(channel, extra).await;
        self.metrics.delivery("look", if removed.is_ok() { "removed" } else { "failed" }, None);
        match removed {
            Ok(()) => info!(subject = look.subject, channel, ts = extra.ts, "removed a message that stood twice"),
            Err(error) => {
                warn!(subject = look.subject, channel, ts = extra.ts, %error, "cannot remove a message that stands twice");
            }
        }
    }

    /// The channel's id, and what carries our mark there, oldest first.
    pub(super) async fn marked(&self, slack: &Slack, look: &Look) -> Result<(String, Vec<Found>), SlackError> {
        let asked = async {
            let channel = self.channel_id(slack, &look.channel).await?;
            let since = clock::before(look.since, SKEW).as_second().div_euclid(STEP) * STEP;
            let place = (channel.clone(), look.thread.clone(), since);
            let ask = async {
                let me =
                    self.seeker.me.get_or_try_init(|| async { slack.identity().await.map(|me| me.user_id) }).await?;
                self.rates
                    .enter(&Lane::Look)
                    .map_err(|open| SlackError::RateLimited(open.saturating_duration_since(Instant::now())))?;
                let since = Timestamp::from_second(since).unwrap_or(Timestamp::UNIX_EPOCH);
                slack.marked(&channel, look.thread.as_deref(), since, me).await.map(Arc::new)
            };
            let found = self.seeker.found.try_get_with(place, ask).await;
            let found = found.map_err(|error: Arc<SlackError>| (*error).clone())?;
            Ok((channel, found.to_vec()))
        };
        let found = tokio::time::timeout(WITHIN, asked).await.unwrap_or(Err(SlackError::Late));
        if let Err(SlackError::RateLimited(wait)) = &found {
            self.rates.close(&Lane::Look, *wait);
        }
        found
    }

    /// Slack shows the history of a channel by its id alone.
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
        self.seeker
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
