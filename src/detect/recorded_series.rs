//! The recorded series of a pool as replacements of a signal's own queries.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::QueryPurpose;
use knowledge::signal::{Engine, Matcher, matchers, prometheus_duration, recorded_name};

/// Maximum window of a past: the mean of quantiles over a longer one is not that past's quantile.
const LONGEST_PAST: Duration = Duration::from_secs(600);

/// The recorded series that may be used, by engine and name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedSeries {
    /// The rate window of all of them.
    pub window: Duration,
    /// By engine and name.
    pub series: BTreeMap<(String, String), PoolSeries>,
}

/// The recorded series of a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolSeries {
    /// The pool, as matchers on the recorded series' labels.
    pub matchers: Vec<Matcher>,
    /// True if it was recorded at the time of the past as well.
    pub has_past: bool,
}

impl RecordedSeries {
    /// Returns true if a signal of the pool, or of its replicas, is recorded.
    pub fn has(&self, signal: &str) -> bool {
        let names = [false, true].map(|by_replica| recorded_name(signal, by_replica));
        self.series.keys().any(|(_, recorded)| names.contains(recorded))
    }

    /// Returns the query that replaces a signal's own; `None` if the own one is needed.
    pub fn query(&self, engine: &Engine, signal: &str, purpose: QueryPurpose, window: Duration) -> Option<String> {
        let entry = engine.signals.get(signal)?;
        // Up or down is a state of this moment: a minute-old value would deny the outage that was just reported.
        if !entry.query.as_deref()?.contains("$window") {
            return None;
        }
        let has_own_window = entry.window.is_some();
        let (by_replica, of_past) = match purpose {
            QueryPurpose::Pool => (false, false),
            QueryPurpose::Replicas => (true, false),
            QueryPurpose::PastPool => (false, true),
            _ => return None,
        };
        let name = recorded_name(signal, by_replica);
        let series = self.series.get(&(engine.engine.clone(), name.clone()))?;
        let selector = format!("{name}{{{}}}", matchers(&series.matchers));
        match (by_replica, of_past) {
            // A quantile without requests is NaN, and one NaN would make the mean NaN.
            (_, true) if series.has_past && window <= LONGEST_PAST && !has_own_window => {
                let window = prometheus_duration(window);
                Some(format!("avg(avg_over_time(({selector} > -Inf)[{window}:1m]))"))
            }
            (_, true) => None,
            // Rates over another window are different numbers.
            _ if window != self.window && !has_own_window => None,
            (true, false) => Some(format!("max by ({}) ({selector})", engine.replica.join(", "))),
            (false, false) => Some(format!("max({selector})")),
        }
    }
}
