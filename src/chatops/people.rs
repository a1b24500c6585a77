//! What is known of people, and how often they may ask.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use moka::future::Cache;
use tokio::sync::OnceCell;
use tracing::warn;

use crate::slack::{self, Inbound, Slack, SlackError, User};

/// How long an answer of Slack's about a person or a group is believed.
const BELIEVED: Duration = Duration::from_secs(300);
/// How long its last answer stands in while Slack is slow or away.
const STANDS_IN: Duration = Duration::from_secs(24 * 3_600);
/// How many people and groups are remembered.
const REMEMBERED: u64 = 10_000;
/// How long one question may take: a modal must be opened within 3 seconds of the press.
const ASKING: Duration = Duration::from_millis(1_000);
/// How long somebody who was told to slow down is not told again.
const TOLD: Duration = Duration::from_secs(60);
/// From so many rates on, those that are full again are forgotten.
const RATES: usize = 10_000;

/// What decides what somebody may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Our own workspace; none when Slack did not tell.
    pub own_team: Option<String>,
    /// Who they are; none when Slack did not tell.
    pub user: Option<User>,
    /// Of the configured user groups, those that they are in.
    pub groups: BTreeSet<String>,
    /// Whether Slack did not tell of a group.
    pub groups_unknown: bool,
}

/// Whether something may be worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It may.
    Now,
    /// They ask too often, and are to be told once.
    Tell,
    /// They were told.
    Silence,
}

/// Answers of Slack's about people, and their rates.
#[derive(Debug)]
pub struct People {
    own_team: OnceCell<String>,
    users: Remembered<User>,
    groups: Remembered<BTreeSet<String>>,
    by_user: DefaultKeyedRateLimiter<String>,
    by_channel: DefaultKeyedRateLimiter<String>,
    everybody: DefaultDirectRateLimiter,
    told: Cache<String, ()>,
}

impl People {
    /// Nobody is known yet; the rates are the configuration's.
    pub fn new(config: &slack::Config) -> Self {
        let [user, channel, everybody] =
            config.commands_per_minute.map(|n| Quota::per_minute(NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN)));
        Self {
            own_team: OnceCell::new(),
            users: Remembered::default(),
            groups: Remembered::default(),
            by_user: RateLimiter::keyed(user),
            by_channel: RateLimiter::keyed(channel),
            everybody: RateLimiter::direct(everybody),
            told: Cache::builder().max_capacity(REMEMBERED).time_to_live(TOLD).build(),
        }
    }

    /// Counts something that somebody did. Their own rate comes first, so that one person cannot use up the others'.
    pub async fn turn(&self, inbound: &Inbound) -> Turn {
        let user = format!("{}/{}", inbound.who.team, inbound.who.user);
        for rates in [&self.by_user, &self.by_channel] {
            if rates.len() > RATES {
                rates.retain_recent();
            }
        }
        let channel = &inbound.place.channel;
        let free = self.by_user.check_key(&user).is_ok()
            && (channel.is_empty() || self.by_channel.check_key(channel).is_ok())
            && self.everybody.check().is_ok();
        match free {
            true => Turn::Now,
            false if self.told.entry(user).or_insert_with(std::future::ready(())).await.is_fresh() => Turn::Tell,
            false => Turn::Silence,
        }
    }

    /// What decides what the person may do; asks Slack for what is not known.
    pub async fn facts(&self, slack: &Slack, inbound: &Inbound, config: &slack::Config) -> Facts {
        let own = self.own_team.get_or_try_init(|| async {
            match tokio::time::timeout(ASKING, slack.identity()).await {
                Ok(answer) => answer.map(|identity| identity.team_id),
                Err(_) => Err(SlackError::Late),
            }
        });
        let user = self.users.get(&inbound.who.user, || slack.user(&inbound.who.user));
        let groups = futures::future::join_all(config.act.groups.iter().map(|group| async move {
            let asked = || async { slack.group_members(group).await.map(|members| members.into_iter().collect()) };
            (group, self.groups.get(group, asked).await)
        }));
        let (own, user, groups) = futures::join!(own, user, groups);
        if let Err(error) = &own {
            warn!(%error, "cannot ask Slack which workspace is ours");
        }
        Facts {
            own_team: own.ok().cloned(),
            user,
            groups_unknown: groups.iter().any(|(_, members)| members.is_none()),
            groups: groups
                .into_iter()
                .filter(|(_, members)| members.as_ref().is_some_and(|all| all.contains(&inbound.who.user)))
                .map(|(group, _)| group.clone())
                .collect(),
        }
    }
}

/// Answers that are believed for a while, and stand in for longer.
#[derive(Debug)]
struct Remembered<T: Clone + Send + Sync + 'static> {
    fresh: Cache<String, T>,
    last: Cache<String, T>,
}

impl<T: Clone + Send + Sync + 'static> Default for Remembered<T> {
    fn default() -> Self {
        let kept = |time| Cache::builder().max_capacity(REMEMBERED).time_to_live(time).build();
        Self { fresh: kept(BELIEVED), last: kept(STANDS_IN) }
    }
}

impl<T: Clone + Send + Sync + 'static> Remembered<T> {
    /// The answer for `key`; none when there is none and there was none.
    async fn get<F>(&self, key: &str, ask: impl FnOnce() -> F) -> Option<T>
    where
        F: Future<Output = Result<T, SlackError>>,
    {
        let asked = self.fresh.try_get_with_by_ref(key, async {
            match tokio::time::timeout(ASKING, ask()).await {
                Ok(answer) => answer,
                Err(_) => Err(SlackError::Late),
            }
        });
        match asked.await {
            Ok(answer) => {
                self.last.insert(key.to_owned(), answer.clone()).await;
                Some(answer)
            }
            Err(error) => {
                let stands_in = self.last.get(key).await;
                warn!(%error, known = stands_in.is_some(), "cannot ask Slack about a person or a group");
                stands_in
            }
        }
    }
}
