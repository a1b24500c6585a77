//! A cache of log findings: an incident is diagnosed every minute, and its logs would be fetched as often.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::observe::log_findings::LogFindings;
use knowledge::clock;

/// Time to live of log findings: every second or third diagnosis of an incident fetches the logs again.
const TTL: Duration = Duration::from_secs(150);
/// Maximum number of cached pools; the oldest entry is dropped first.
const MAX_POOLS: usize = 64;

/// The cache key: pods, start of the time range, and the window of the statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogCacheKey {
    pub(crate) namespace: Option<String>,
    pub(crate) pods: Vec<String>,
    pub(crate) since: Timestamp,
    pub(crate) window: Duration,
}

/// The cache of log findings, without log text; cheap to clone, and clones share it.
#[derive(Debug, Clone, Default)]
pub struct LogFindingsCache(Arc<Mutex<Vec<(LogCacheKey, Timestamp, LogFindings)>>>);

impl LogFindingsCache {
    /// Returns the findings of a time shortly before `at`.
    pub(crate) fn get(&self, key: &LogCacheKey, at: Timestamp) -> Option<LogFindings> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |then: Timestamp| then <= at && clock::between(then, at) < TTL;
        entries.iter().find(|(cached, then, _)| cached == key && fresh(*then)).map(|(_, _, findings)| findings.clone())
    }

    /// Stores the findings in place of the previous ones.
    pub(crate) fn put(&self, key: LogCacheKey, at: Timestamp, findings: &LogFindings) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|(cached, _, _)| *cached != key);
        let over = (entries.len() + 1).saturating_sub(MAX_POOLS);
        entries.drain(..over);
        entries.push((key, at, findings.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(pod: &str) -> LogCacheKey {
        let since = Timestamp::from_second(1_000).unwrap();
        LogCacheKey { namespace: None, pods: vec![pod.to_owned()], since, window: TTL }
    }

    #[test]
    fn what_logs_told_stands_for_a_while_for_the_same_pods_and_the_number_is_bounded() {
        let at = |seconds: i64| Timestamp::from_second(10_000 + seconds).unwrap();
        let cache = LogFindingsCache::default();
        let findings = LogFindings { replicas: ["a".to_owned()].into(), ..LogFindings::default() };
        cache.put(key("a"), at(0), &findings);
        assert_eq!(cache.clone().get(&key("a"), at(149)), Some(findings.clone()));
        assert_eq!(cache.get(&key("a"), at(150)), None, "it is fetched again");
        assert_eq!(cache.get(&key("a"), at(-1)), None, "a question about the past is another one");
        assert_eq!(cache.get(&key("b"), at(1)), None);
        (0..MAX_POOLS).for_each(|i| cache.put(key(&format!("pod-{i}")), at(2), &findings));
        assert_eq!(cache.get(&key("a"), at(3)), None, "the oldest went");
        assert!(cache.get(&key("pod-0"), at(3)).is_some());
    }
}
