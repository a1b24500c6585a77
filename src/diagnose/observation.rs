//! Observations: what Prometheus said of every signal, now and in the past.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::signal::Fleet;

/// From so many times on a past is as unsteady as can be: something after nothing.
const MOST_VARIED: f64 = 100.0;

/// Where a value comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A query to Prometheus.
    #[default]
    Prometheus,
    /// The page of an engine or exporter itself.
    Exporter,
    /// The log of a replica, by whose name it is told.
    Log,
}

impl Source {
    /// Whether it is the usual one, which needs no mention.
    pub fn is_prometheus(&self) -> bool {
        *self == Self::Prometheus
    }
}

/// One replica's value now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    /// The pod, else whatever names the row.
    pub name: String,
    /// In the signal's unit; finite.
    pub value: f64,
}

/// What is known of one signal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The pool's value now.
    pub value: Option<f64>,
    /// Each replica's value now, by name.
    pub replicas: Vec<Replica>,
    /// The pool's value in the past.
    pub baseline: Option<f64>,
    /// The pool's value in the window before the past's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    /// The question was asked and answered, be it with nothing: only then does `absent` mean something.
    pub answered: bool,
    /// A question about it was not answered in time; what it would have told is not known to be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    /// Nobody could be asked, because Prometheus was away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub away: bool,
    /// Why there is no value.
    pub why: Option<String>,
    /// What makes it available.
    pub enable: Option<String>,
    /// The PromQL of the pool's value.
    pub query: Option<String>,
    /// Where the value now comes from.
    #[serde(default)]
    pub source: Source,
    /// Since when, where what tells the value tells that as well: the time of a log's line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl Observation {
    /// Of two successive windows of the past, the larger value over the smaller, at most [`MOST_VARIED`]; none where one of
    /// them is unknown or both are nothing.
    pub(super) fn varies(&self) -> Option<f64> {
        let (past, before) = self.baseline.zip(self.before)?;
        let times = (past / before).max(before / past);
        (times >= 1.0).then(|| times.min(MOST_VARIED))
    }
}

/// All observations of a diagnosis.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observations {
    /// Signal name to what is known of it.
    pub signals: BTreeMap<String, Observation>,
    /// The pool's replicas within the last hour, by name.
    pub pool: Vec<String>,
    /// The node and the GPUs of each replica, where an orchestrator or an exporter tells.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub places: BTreeMap<String, BTreeSet<String>>,
    /// Since when a condition on a signal holds, by [`Observations::held_key`]; only where it did not hold all along.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held_since: BTreeMap<String, Timestamp>,
}

impl Observations {
    /// The key of a condition in `held_since`.
    pub fn held_key(signal: &str, when: &str) -> String {
        format!("{signal} {when}")
    }
}

/// The pool's value from its replicas'; none for [`Fleet::Query`] and for no replicas.
pub(crate) fn reduce(fleet: Fleet, values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let n = values.clone().count();
    if n == 0 {
        return None;
    }
    match fleet {
        Fleet::Max => values.reduce(f64::max),
        Fleet::Min => values.reduce(f64::min),
        Fleet::Sum => Some(values.sum()),
        Fleet::Mean => Some(values.sum::<f64>() / n as f64),
        Fleet::Query => None,
    }
}

/// The median; none for no values.
pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(values[n / 2]),
        _ => Some(f64::midpoint(values[n / 2 - 1], values[n / 2])),
    }
}

/// The median of sorted values without one of them; none where nothing is left. Sorted once, a thousand replicas are
/// compared with their peers as fast as they are read.
pub(super) fn median_of_others(sorted: &[f64], own: f64) -> Option<f64> {
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
        assert_eq!(varies(Some(2.0), Some(0.0)), Some(MOST_VARIED), "something after nothing");
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
