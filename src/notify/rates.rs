//! Slack's rate limits: new messages per channel, edits per workspace. A lane that is limited, by us or by Slack, is
//! closed for all callers. Replicas share the limits: each uses its part.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use governor::clock::{Clock, DefaultClock, QuantaInstant};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, NotUntil, Quota, RateLimiter};

/// The burst of edits: in Slack's sliding minute it adds to the rate, so 45 configured edits stay below the allowed 50.
const EDIT_BURST: u32 = 4;
/// The share of ordinary edits, in tenths; the rest is reserved for critical and resolved incidents.
const ORDINARY_TENTHS: u32 = 6;
/// History calls per minute, below the 50 that Slack allows for each of its two methods (tier 3):
/// <https://docs.slack.dev/apis/web-api/rate-limits>.
const SEARCHES_PER_MINUTE: u32 = 40;
/// The burst of history calls.
const SEARCH_BURST: u32 = 8;

/// The number of channel rate limiters above which idle ones are removed.
const CHANNELS: usize = 10_000;

/// The calls that share a rate limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    /// New messages of a channel, including its threads.
    Post(String),
    /// Edits for critical or resolved incidents.
    Favoured,
    /// Other edits.
    Ordinary,
    /// Calls that read the history of a channel.
    HistorySearch,
}

/// The limits of one replica.
#[derive(Debug)]
struct ReplicaLimits {
    replicas: u32,
    posts: DefaultKeyedRateLimiter<String>,
    edits: DefaultDirectRateLimiter,
    ordinary: DefaultDirectRateLimiter,
    history_searches: DefaultDirectRateLimiter,
}

impl ReplicaLimits {
    fn new(config: &slack::Config, replicas: u32) -> Self {
        let replicas = replicas.max(1);
        let at_least_one = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        let quota = |period: Duration, n: u32, burst: u32| {
            // A quota needs a period of at least a nanosecond.
            let every = (period * replicas / n.max(1)).max(Duration::from_nanos(1));
            let quota = Quota::with_period(every).unwrap_or_else(|| Quota::per_second(NonZeroU32::MIN));
            quota.allow_burst(at_least_one(burst / replicas))
        };
        let edits = |tenths: u32| {
            quota(Duration::from_secs(60), config.updates_per_minute * tenths / 10, EDIT_BURST * tenths / 10)
        };
        Self {
            replicas,
            posts: RateLimiter::keyed(quota(Duration::from_secs(1), config.posts_per_second, config.posts_burst)),
            edits: RateLimiter::direct(edits(10)),
            ordinary: RateLimiter::direct(edits(ORDINARY_TENTHS)),
            history_searches: RateLimiter::direct(quota(Duration::from_secs(60), SEARCHES_PER_MINUTE, SEARCH_BURST)),
        }
    }
}

/// The rate limiters, and the lanes that are closed until a time.
#[derive(Debug)]
pub struct Rates {
    part: Mutex<ReplicaLimits>,
    closed: Mutex<HashMap<Lane, Instant>>,
}

impl Rates {
    /// Creates the limits of the only replica.
    pub fn new(config: &slack::Config) -> Self {
        Self { part: Mutex::new(ReplicaLimits::new(config, 1)), closed: Mutex::default() }
    }

    /// Sets the number of replicas that share the limits.
    pub(super) fn share(&self, config: &slack::Config, replicas: u32) {
        let mut part = self.part.lock().unwrap_or_else(PoisonError::into_inner);
        if part.replicas != replicas.max(1) {
            *part = ReplicaLimits::new(config, replicas);
        }
    }

    /// Takes a slot in a lane; the error is the time of the next try.
    pub(super) fn enter(&self, lane: &Lane) -> Result<(), Instant> {
        let now = Instant::now();
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.retain(|_, until| *until > now);
        // Ordinary edits also count as edits.
        let whole = if *lane == Lane::Ordinary { &Lane::Favoured } else { lane };
        if let Some(until) = [lane, whole].into_iter().filter_map(|lane| closed.get(lane)).max() {
            return Err(*until);
        }
        let part = self.part.lock().unwrap_or_else(PoisonError::into_inner);
        if part.posts.len() > CHANNELS {
            part.posts.retain_recent();
        }
        let (refused, by) = match lane {
            Lane::Post(channel) => (part.posts.check_key(channel).err(), lane),
            Lane::Favoured => (part.edits.check().err(), lane),
            Lane::HistorySearch => (part.history_searches.check().err(), lane),
            Lane::Ordinary => match part.ordinary.check() {
                Err(refused) => (Some(refused), lane),
                Ok(()) => (part.edits.check().err(), whole),
            },
        };
        drop(part);
        let Some(refused) = refused else { return Ok(()) };
        let until = now + pause(&refused);
        closed.insert(by.clone(), until);
        Err(until)
    }

    /// Closes a lane for the time that Slack demands.
    pub(super) fn close(&self, lane: &Lane, wait: Duration) {
        let lane = if *lane == Lane::Ordinary { Lane::Favoured } else { lane.clone() };
        let until = Instant::now() + wait;
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let at = closed.entry(lane).or_insert(until);
        *at = until.max(*at);
    }
}

fn pause(refused: &NotUntil<QuantaInstant>) -> Duration {
    refused.wait_time_from(DefaultClock::default().now()).max(Duration::from_millis(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates() -> Rates {
        Rates::new(&slack::Config::default())
    }

    fn channel(name: &str) -> Lane {
        Lane::Post(name.to_owned())
    }

    #[test]
    fn each_channel_has_a_burst_of_its_own_and_then_one_message_a_second() {
        let rates = rates();
        assert_eq!((0..10).filter(|_| rates.enter(&channel("a")).is_ok()).count(), 4);
        assert!(rates.enter(&channel("b")).is_ok());
        let wait = rates.enter(&channel("a")).unwrap_err().duration_since(Instant::now());
        assert!(wait > Duration::from_millis(800) && wait <= Duration::from_secs(1), "{wait:?}");
    }

    #[test]
    fn two_replicas_send_no_more_than_one_does() {
        let config = slack::Config::default();
        let replicas = [rates(), rates()];
        let burst = |rates: &Rates| (0..10).filter(|_| rates.enter(&channel("a")).is_ok()).count();
        replicas.iter().for_each(|rates| rates.share(&config, 2));
        assert_eq!(replicas.iter().map(burst).sum::<usize>(), 4);
        let wait = replicas[0].enter(&channel("a")).unwrap_err().duration_since(Instant::now());
        assert!(wait > Duration::from_millis(1_800) && wait <= Duration::from_secs(2), "{wait:?}");
        // An unchanged number of replicas does not refill the burst; a single replica gets the whole limit.
        replicas[0].share(&config, 2);
        assert!(replicas[0].enter(&channel("a")).is_err());
        replicas[0].share(&config, 1);
        assert_eq!((0..10).filter(|_| replicas[0].enter(&channel("b")).is_ok()).count(), 4);
    }

    #[test]
    fn ordinary_edits_leave_room_for_what_is_critical_or_over() {
        let rates = rates();
        let ordinary = (0..10).filter(|_| rates.enter(&Lane::Ordinary).is_ok()).count();
        let favoured = (0..10).filter(|_| rates.enter(&Lane::Favoured).is_ok()).count();
        assert_eq!((ordinary, favoured), (2, 2));
    }

    #[test]
    fn what_slack_refuses_once_is_closed_for_all() {
        let rates = rates();
        rates.close(&Lane::Ordinary, Duration::from_secs(30));
        assert!(rates.enter(&Lane::Favoured).is_err() && rates.enter(&Lane::Ordinary).is_err());
        rates.close(&channel("a"), Duration::from_secs(30));
        rates.close(&channel("a"), Duration::from_secs(1));
        let wait = rates.enter(&channel("a")).unwrap_err().duration_since(Instant::now());
        assert!(wait > Duration::from_secs(28), "a shorter pause does not end a longer one: {wait:?}");
        assert!(rates.enter(&channel("b")).is_ok());
    }
}
