//! Observations: the values of every signal, now and in the past.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ReplicaValue, ValueSource};
use knowledge::signal::PoolAggregation;

/// Maximum variation of a past: a value after zero.
const MAX_VARIATION: f64 = 100.0;

/// The values of one signal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The pool's value now.
    pub value: Option<f64>,
    /// Each replica's value now, by name.
    pub replicas: Vec<ReplicaValue>,
    /// The pool's value in the past.
    pub baseline: Option<f64>,
    /// The pool's value in the window before the past's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    /// True if the query was answered, even with no rows: only then does `absent` mean something.
    pub answered: bool,
    /// True if a query for it timed out; its values are then not known to be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    /// True if the pool's engine does not have the signal: nothing is missing that anybody could turn on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsupported: bool,
    /// True if no query was possible, because Prometheus was unavailable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub away: bool,
    /// The server's words about a part of the data that it could not read for the present values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// The same for the values of the past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub past_incomplete: Option<String>,
    /// The reason why there is no value.
    pub why: Option<String>,
    /// The setting that makes it available.
    pub enable: Option<String>,
    /// The PromQL of the pool's value.
    pub query: Option<String>,
    /// The origin of the current value.
    #[serde(default)]
    pub source: ValueSource,
    /// The onset, if the source of the value reports it: the time of a log line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl Observation {
    /// Returns the larger over the smaller value of two successive windows of the past, at most [`MAX_VARIATION`];
    /// `None` if one of them is unknown or both are zero.
    pub fn varies(&self) -> Option<f64> {
        let (past, before) = self.baseline.zip(self.before)?;
        let times = (past / before).max(before / past);
        (times >= 1.0).then(|| times.min(MAX_VARIATION))
    }
}

/// All observations of a diagnosis.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observations {
    /// Signal name to its values.
    pub signals: BTreeMap<String, Observation>,
    /// The pool's replicas within the last hour, by name.
    pub pool: Vec<String>,
    /// The node and the GPUs of each replica, if an orchestrator or an exporter reports them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub places: BTreeMap<String, BTreeSet<String>>,
    /// The node of each replica, if an orchestrator reports it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, String>,
    /// Onset of a condition on a signal, by [`Observations::held_key`]; absent if it held all along.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held_since: BTreeMap<String, Timestamp>,
    /// The conditions that held with about the same value before the symptom began, by [`Observations::held_key`].
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub as_before: BTreeSet<String>,
    /// Distance of the moments that `held_since` is read at, in seconds.
    #[serde(default, skip_serializing_if = "crate::judgement::no_step")]
    pub held_step_seconds: i64,
}

impl Observations {
    /// Returns the pool's values of the past as if they were those of now, without replicas.
    #[must_use]
    pub fn of_past(&self) -> Self {
        let then =
            |now: &Observation| Observation { value: now.baseline, answered: now.answered, ..Observation::default() };
        let signals = self.signals.iter().map(|(name, now)| (name.clone(), then(now))).collect();
        Self { signals, ..Self::default() }
    }

    /// Drops the values of the past.
    pub fn forget_past(&mut self) {
        self.signals.values_mut().for_each(|seen| (seen.baseline, seen.before) = (None, None));
    }

    /// Returns the key of a condition in `held_since`.
    pub fn held_key(signal: &str, when: &str) -> String {
        format!("{signal} {when}")
    }
}

/// Reduces the replicas' values to the pool's; `None` for [`PoolAggregation::Query`] and for no replicas.
pub fn reduce(fleet: PoolAggregation, values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let n = values.clone().count();
    if n == 0 {
        return None;
    }
    match fleet {
        PoolAggregation::Max => values.reduce(f64::max),
        PoolAggregation::Min => values.reduce(f64::min),
        PoolAggregation::Sum => Some(values.sum()),
        PoolAggregation::Mean => Some(values.sum::<f64>() / n as f64),
        PoolAggregation::Query => None,
    }
}

/// Returns the median; `None` for no values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(values[n / 2]),
        _ => Some(f64::midpoint(values[n / 2 - 1], values[n / 2])),
    }
}

/// Returns the median of sorted values without one of them; `None` if nothing is left. The values are sorted once, so
/// that a thousand replicas are compared with their peers quickly.
pub fn median_of_others(sorted: &[f64], own: f64) -> Option<f64> {
    let place = sorted.partition_point(|value| value.total_cmp(&own).is_lt());
    let other = |i: usize| sorted.get(i + usize::from(i >= place)).copied();
    match sorted.len().saturating_sub(1) {
        0 => None,
        n if n % 2 == 1 => other(n / 2),
        n => Some(f64::midpoint(other(n / 2 - 1)?, other(n / 2)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_past_varies_by_the_larger_of_its_windows_over_the_smaller() {
        let varies = |baseline, before| Observation { baseline, before, ..Observation::default() }.varies();
        assert_eq!((varies(Some(4.0), Some(2.0)), varies(Some(2.0), Some(4.0))), (Some(2.0), Some(2.0)));
        assert_eq!(varies(Some(2.0), Some(0.0)), Some(MAX_VARIATION), "something after nothing");
        assert_eq!((varies(Some(0.0), Some(0.0)), varies(Some(1.0), None)), (None, None));
    }

    #[test]
    fn the_median_of_the_others_leaves_out_one_of_several_equal_values() {
        let of = |values: &[f64], own: f64| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            median_of_others(&sorted, own)
        };
        assert_eq!(of(&[3.0, 1.0, 2.0], 2.0), Some(2.0));
        assert_eq!(of(&[3.0, 1.0, 2.0], 3.0), Some(1.5));
        assert_eq!(of(&[5.0, 5.0, 1.0, 2.0], 5.0), Some(2.0));
        assert_eq!(of(&[1.0, 9.0], 1.0), Some(9.0));
        assert_eq!((of(&[1.0], 1.0), of(&[], 1.0)), (None, None));
    }
}
