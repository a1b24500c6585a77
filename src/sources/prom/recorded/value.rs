//! A value with the number of events behind it.

use std::collections::BTreeMap;

use knowledge::alert::Labels;

/// The least number of events that make a share or a quantile. Prometheus has no such limit, and its windows hold more.
pub(super) const LEAST: f64 = 10.0;

/// One row of a vector.
#[derive(Debug, Clone)]
pub(super) struct CountedRow {
    pub(super) labels: Labels,
    pub(super) value: f64,
    /// The number of events that it counts; infinite if it counts none: a gauge, a number.
    pub(super) events: f64,
}

impl CountedRow {
    pub(super) fn plain(labels: Labels, value: f64) -> Self {
        Self { labels, value, events: f64::INFINITY }
    }

    /// Returns the same row with another value.
    pub(super) fn with(mut self, value: f64) -> Self {
        self.value = value;
        self
    }
}

/// The result of an expression.
#[derive(Debug, Clone)]
pub(super) enum Evaluated {
    Number(f64),
    Rows(Vec<CountedRow>),
}

/// A gauge whose name ends as those of counters do: <https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/metrics.html>.
const GAUGE: &str = "nv_inference_pending_request_count";

/// Returns true if a metric is a counter by its name: what it counts are events.
pub(super) fn is_counter(name: &str) -> bool {
    if name == GAUGE {
        return false;
    }
    ["_total", "_count", "_bucket"].iter().any(|end| name.ends_with(end))
}

/// Groups rows by a key of their labels, in its order.
pub(super) fn grouped(rows: Vec<CountedRow>, key: impl Fn(&Labels) -> Labels) -> BTreeMap<Labels, Vec<CountedRow>> {
    let mut groups: BTreeMap<Labels, Vec<CountedRow>> = BTreeMap::new();
    for row in rows {
        groups.entry(key(&row.labels)).or_default().push(row);
    }
    groups
}

/// Returns the quantile of unordered values, as `quantile` and `quantile_over_time` compute it.
pub(super) fn quantile_of(q: f64, mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    let rank = q.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (rank.floor() as usize, (rank.ceil() as usize).min(last));
    values[below] + (values[above] - values[below]) * (rank - rank.floor())
}
