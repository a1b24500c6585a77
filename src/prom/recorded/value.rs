//! A value with the number of events behind it.

use std::sync::Arc;

use super::NAME;
use indexmap::IndexMap;
use knowledge::alert::Labels;

/// The least number of events that make a share or a quantile. Prometheus has no such limit, and its windows hold more.
pub(super) const LEAST: f64 = 10.0;

/// Names and values of labels that rows are grouped or matched by.
pub(super) type Key<'r> = Vec<(&'r str, &'r str)>;

/// One row of a vector.
#[derive(Debug, Clone)]
pub(super) struct CountedRow {
    /// The metric's name, where it is known.
    pub(super) name: Option<Arc<str>>,
    /// The other labels; those of a series are its own, not copied.
    pub(super) labels: Arc<Labels>,
    pub(super) value: f64,
    /// The number of events that it counts; infinite if it counts none: a gauge, a number.
    pub(super) events: f64,
}

impl CountedRow {
    /// Returns a row without labels that counts nothing.
    pub(super) fn number(value: f64) -> Self {
        Self { name: None, labels: Arc::default(), value, events: f64::INFINITY }
    }

    /// Returns the row of a group.
    pub(super) fn of(key: &Key<'_>, value: f64, events: f64) -> Self {
        let (name, labels): (Vec<_>, Vec<_>) = key.iter().copied().partition(|(label, _)| *label == NAME);
        let labels = labels.into_iter().map(|(label, value)| (label.to_owned(), value.to_owned())).collect();
        Self { name: name.first().map(|(_, name)| (*name).into()), labels: Arc::new(labels), value, events }
    }

    /// Returns the value of a label; of one that it lacks, nothing.
    pub(super) fn label(&self, label: &str) -> &str {
        match label {
            NAME => self.name.as_deref().unwrap_or_default(),
            _ => self.labels.get(label).map_or("", String::as_str),
        }
    }

    /// Sets a label; one without a value is removed.
    pub(super) fn set(&mut self, label: &str, value: &str) {
        match (label, value.is_empty()) {
            (NAME, empty) => self.name = (!empty).then(|| value.into()),
            (_, true) => _ = Arc::make_mut(&mut self.labels).remove(label),
            (_, false) => _ = Arc::make_mut(&mut self.labels).insert(label.to_owned(), value.to_owned()),
        }
    }

    /// Returns all labels, the metric's name as one of them.
    pub(super) fn into_labels(self) -> Labels {
        let mut labels = Arc::unwrap_or_clone(self.labels);
        labels.extend(self.name.map(|name| (NAME.to_owned(), name.to_string())));
        labels
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

/// Groups rows by a key, in the order of the rows.
pub(super) fn grouped<'r>(
    rows: &'r [CountedRow],
    key: impl Fn(&'r CountedRow) -> Key<'r>,
) -> IndexMap<Key<'r>, Vec<&'r CountedRow>> {
    let mut groups: IndexMap<_, Vec<_>> = IndexMap::new();
    rows.iter().for_each(|row| groups.entry(key(row)).or_default().push(row));
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
