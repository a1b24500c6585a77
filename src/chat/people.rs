//! Facts about Slack users for authorisation, and their rate limits.

use std::collections::BTreeSet;
use std::time::Duration;

use moka::future::Cache;
use tokio::sync::OnceCell;
use tracing::warn;

use service::RequestLimits;
use slack::{self, Slack, SlackError, SlackRequest, User};

/// The time to live of Slack's answers about users and groups.
const FRESH_FOR: Duration = Duration::from_secs(300);
/// The time for which a stale answer is used while Slack does not answer.
const STALE_FOR: Duration = Duration::from_secs(24 * 3_600);
/// Maximum number of users and groups in a cache.
const CACHE_ENTRIES: u64 = 10_000;
/// The timeout of one API call: a modal must be opened within 3 seconds of the press.
const CALL_WITHIN: Duration = Duration::from_millis(1_000);
/// The time before a rate-limited user gets another notice.
const NOTICE_INTERVAL: Duration = Duration::from_secs(60);

/// The facts that authorisation needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserFacts {
    /// Our own workspace; `None` if Slack did not answer.
    pub own_team: Option<String>,
    /// The user; `None` if Slack did not answer.
    pub user: Option<User>,
    /// The configured user groups to which the user belongs.
    pub groups: BTreeSet<String>,
    /// True if Slack did not return the members of a group.
    pub groups_unknown: bool,
}

/// The decision of the rate limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateDecision {
    /// Within the limits.
    Now,
    /// Over a limit: reply with a notice.
    Tell,
    /// Over a limit, and the user already got the notice: no reply.
    Silence,
}

/// Cached facts about users, and the rate limits per user, per channel and in total.
#[derive(Debug)]
pub struct People {
    own_team: OnceCell<String>,
    users: FallbackCache<User>,
    groups: FallbackCache<BTreeSet<String>>,
    limits: RequestLimits<2>,
    notified_users: Cache<String, ()>,
}

impl People {
    /// Creates empty caches, with the configured rate limits.
    pub fn new(config: &slack::Config) -> Self {
        let [user, channel, everybody] = config.commands_per_minute;
        Self {
            own_team: OnceCell::new(),
            users: FallbackCache::default(),
            groups: FallbackCache::default(),
            limits: RequestLimits::new([user, channel], everybody),
            notified_users: Cache::builder().max_capacity(CACHE_ENTRIES).time_to_live(NOTICE_INTERVAL).build(),
        }
    }

    /// Counts a request against the rate limits.
    pub async fn check_rate_limit(&self, inbound: &SlackRequest) -> RateDecision {
        let user = format!("{}/{}", inbound.who.team, inbound.who.user);
        let channel = Some(inbound.place.channel.as_str()).filter(|channel| !channel.is_empty());
        match self.limits.admit([Some(&user), channel]) {
            true => RateDecision::Now,
            false if self.notified_users.entry(user).or_insert_with(std::future::ready(())).await.is_fresh() => {
                RateDecision::Tell
            }
            false => RateDecision::Silence,
        }
    }

    /// Returns the facts for authorisation; queries Slack for those that are not cached.
    pub async fn facts(&self, slack: &Slack, inbound: &SlackRequest, groups: &[String]) -> UserFacts {
        let own_team_id = self.own_team.get_or_try_init(|| async {
            match tokio::time::timeout(CALL_WITHIN, slack.identity()).await {
                Ok(answer) => answer.map(|identity| identity.team_id),
                Err(_) => Err(SlackError::Late),
            }
        });
        let user = self.users.get(&inbound.who.user, || slack.user(&inbound.who.user));
        let groups = futures::future::join_all(groups.iter().map(|group| async move {
            let fetch = || async { slack.group_members(group).await.map(|members| members.into_iter().collect()) };
            (group, self.groups.get(group, fetch).await)
        }));
        let (own_team_id, user, groups) = futures::join!(own_team_id, user, groups);
        if let Err(error) = &own_team_id {
            warn!(%error, "cannot ask Slack which workspace is ours");
        }
        UserFacts {
            own_team: own_team_id.ok().cloned(),
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

/// A cache of fresh answers, with stale ones as fallback.
#[derive(Debug)]
struct FallbackCache<T: Clone + Send + Sync + 'static> {
    fresh: Cache<String, T>,
    last: Cache<String, T>,
}

impl<T: Clone + Send + Sync + 'static> Default for FallbackCache<T> {
    fn default() -> Self {
        let cache = |time| Cache::builder().max_capacity(CACHE_ENTRIES).time_to_live(time).build();
        Self { fresh: cache(FRESH_FOR), last: cache(STALE_FOR) }
    }
}

impl<T: Clone + Send + Sync + 'static> FallbackCache<T> {
    /// Returns the answer for `key`, fetched, cached or stale; `None` if there is none.
    async fn get<F>(&self, key: &str, fetch: impl FnOnce() -> F) -> Option<T>
    where
        F: Future<Output = Result<T, SlackError>>,
    {
        let answer = self.fresh.try_get_with_by_ref(key, async {
            match tokio::time::timeout(CALL_WITHIN, fetch()).await {
                Ok(answer) => answer,
                Err(_) => Err(SlackError::Late),
            }
        });
        match answer.await {
            Ok(answer) => {
                self.last.insert(key.to_owned(), answer.clone()).await;
                Some(answer)
            }
            Err(error) => {
                let stale = self.last.get(key).await;
                warn!(%error, known = stale.is_some(), "cannot ask Slack about a person or a group");
                stale
            }
        }
    }
}
