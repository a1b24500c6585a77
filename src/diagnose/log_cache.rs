//! A cache of log findings: an incident is diagnosed every minute, and its logs would be fetched as often.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::log_findings::LogFindings;
use knowledge::clock;

/// Time to live of log findings: every second or third diagnosis of an incident fetches the logs again.
const STANDS: Duration = Duration::from_secs(150);
/// Maximum number of cached pools; the oldest entry is dropped first.
const POOLS: usize = 64;

/// The cache key: pods, start of the time range, and the window of the statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogCacheKey {
    pub(super) namespace: Option<String>,
    pub(super) pods: Vec<String>,
    pub(super) since: Timestamp,
    pub(super) window: Duration,
}

/// The cache of log findings, without log text; cheap to clone, and clones share it.
#[derive(Debug, Clone, Default)]
pub struct LogFindingsCache(Arc<Mutex<Vec<(LogCacheKey, Timestamp, LogFindings)>>>);

impl LogFindingsCache {
    /// Returns the findings of a time shortly before `at`.
    pub(super) fn get(&self, whose: &LogCacheKey, at: Timestamp) -> Option<LogFindings> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |then: Timestamp| then <= at && clock::between(then, at) < STANDS;
        kept.iter().find(|(known, then, _)| known == whose && fresh(*then)).map(|(_, _, told)| told.clone())
    }

    /// Stores the findings in place of the previous ones.
    pub(super) fn put(&self, whose: LogCacheKey, at: Timestamp, told: &LogFindings) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _, _)| *known != whose);
        let over = (kept.len() + 1).saturating_sub(POOLS);
        kept.drain(..over);
        kept.push((whose, at, told.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whose(pod: &str) -> LogCacheKey {
        let since = Timestamp::from_second(1_000).unwrap();
        LogCacheKey { namespace: None, pods: vec![pod.to_owned()], since, window: STANDS }
    }

    #[test]
    fn what_logs_told_stands_for_a_while_for_the_same_pods_and_the_number_is_bounded() {
        let at = |seconds: i64| Timestamp::from_second(10_000 + seconds).unwrap();
        let kept = LogFindingsCache::default();
        let told = LogFindings { replicas: ["a".to_owned()].into(), ..LogFindings::default() };
        kept.put(whose("a"), at(0), &told);
        assert_eq!(kept.clone().get(&whose("a"), at(149)), Some(told.clone()));
        assert_eq!(kept.get(&whose("a"), at(150)), None, "it is fetched again");
        assert_eq!(kept.get(&whose("a"), at(-1)), None, "a question about the past is another one");
        assert_eq!(kept.get(&whose("b"), at(1)), None);
        (0..POOLS).for_each(|i| kept.put(whose(&format!("pod-{i}")), at(2), &told));
        assert_eq!(kept.get(&whose("a"), at(3)), None, "the oldest went");
        assert!(kept.get(&whose("pod-0"), at(3)).is_some());
    }
}
