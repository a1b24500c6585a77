//! Series that are held here instead of by a server: pages that were read or saved, and a benchmark's export. Queries of
//! them get the answers that Prometheus would give.
//!
//! Each difference is documented where it is decided: values are not extrapolated, a range always reaches back to the read before its
//! last one, and few events make no share and no quantile (`value.rs`).

mod evaluate;
mod functions;
mod operators;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use indexmap::IndexMap;
use promql_parser::parser::VectorSelector;

use super::{Answer, PromError, Row};
use knowledge::alert::Labels;
use value::is_counter;

/// The time for which a sample holds, in milliseconds. Source: Prometheus, `--query.lookback-delta`.
const LOOKBACK: i64 = 300_000;
/// Tolerance for a counter: a larger decrease shows that the process was restarted.
const RESET_TOLERANCE: f64 = 1e-9;
/// The label that holds a metric's name.
const NAME: &str = "__name__";

/// Series by the name of their metric, each with samples in order of their time, in unix milliseconds.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    metrics: BTreeMap<Arc<str>, Metric>,
}

/// The series of a metric by their labels, in the order in which they came: the same pages give the same answer, digit by
/// digit.
type Metric = IndexMap<Arc<Labels>, Vec<(i64, f64)>>;

/// Samples of one series, in order.
pub type Points<'a> = &'a [(i64, f64)];

impl Recorded {
    /// Adds a sample; one of the same series at the same or a later time is replaced.
    pub fn add(&mut self, name: &str, labels: Labels, at: i64, value: f64) {
        self.add_points(name, Arc::new(labels), std::iter::once((at, value)));
    }

    /// Adds samples of one series, in order.
    pub fn add_points(&mut self, name: &str, labels: Arc<Labels>, points: impl Iterator<Item = (i64, f64)>) {
        let metric = match self.metrics.get_mut(name) {
            Some(metric) => metric,
            None => self.metrics.entry(name.into()).or_default(),
        };
        let series = metric.entry(labels).or_default();
        for (at, value) in points {
            series.truncate(series.partition_point(|(time, _)| *time < at));
            series.push((at, value));
        }
    }

    /// Adds the samples of others from a time on, each by so many milliseconds later.
    pub fn add_all(&mut self, others: &Self, since: i64, later: i64) {
        for (name, labels, points) in others.all() {
            let from = points.partition_point(|(at, _)| *at < since);
            if from < points.len() {
                let shifted = points[from..].iter().map(|(at, value)| (at + later, *value));
                self.add_points(name, Arc::clone(labels), shifted);
            }
        }
    }

    /// Returns the series of a metric, each with its samples.
    pub fn series(&self, name: &str) -> impl Iterator<Item = (&Labels, Points<'_>)> {
        let series = self.metrics.get(name).into_iter().flatten();
        series.map(|(labels, points)| (&**labels, points.as_slice()))
    }

    /// Returns the series of counters that fell between two of their samples: what counts was started anew.
    pub fn fallen(&self) -> impl Iterator<Item = &str> {
        let fell = |points: Points<'_>| points.windows(2).any(|pair| pair[1].1 < pair[0].1 - RESET_TOLERANCE);
        self.all().filter(move |(name, _, points)| is_counter(name) && fell(points)).map(|(name, ..)| &**name)
    }

    /// Returns all series: name, labels and samples.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Labels>, Points<'_>)> {
        let metrics = self.metrics.iter();
        metrics.flat_map(|(name, series)| series.iter().map(move |(labels, points)| (name, labels, points.as_slice())))
    }

    /// Evaluates a query at a unix time in milliseconds.
    ///
    /// # Errors
    /// If it is no PromQL, has a function that is not known here, or takes longer than the deadline.
    pub fn query(&self, query: &str, at: i64, deadline: Instant) -> Result<Answer<Row>, PromError> {
        let expr = knowledge::promql::parse(query).map_err(PromError::NotEvaluated)?;
        let rows = evaluate::Evaluation { recorded: self, deadline }.vector(&expr, at)?;
        let finite = rows.into_iter().filter(|row| row.value.is_finite());
        Ok(finite.map(|row| Row { value: row.value, labels: row.into_labels() }).collect())
    }

    fn earliest(&self) -> i64 {
        self.all().filter_map(|(.., points)| points.first()).map(|(at, _)| *at).min().unwrap_or_default()
    }

    /// Returns the series that a selector matches, with all of their samples.
    fn select<'s>(
        &'s self,
        selector: &'s VectorSelector,
    ) -> impl Iterator<Item = (&'s Arc<str>, &'s Arc<Labels>, Points<'s>)> + 's {
        let (of_name, of_labels): (Vec<_>, Vec<_>) =
            selector.matchers.matchers.iter().partition(|matcher| matcher.name == NAME);
        let named = move |name: &str| {
            selector.name.as_deref().is_none_or(|own| own == name) && of_name.iter().all(|m| m.is_match(name))
        };
        let fits = move |labels: &Labels| {
            let value = |name: &str| labels.get(name).map_or("", String::as_str);
            of_labels.iter().all(|m| m.is_match(value(&m.name)))
        };
        let metrics = self.metrics.iter().filter(move |(name, _)| named(name));
        let series =
            metrics.flat_map(|(name, series)| series.iter().map(move |(labels, points)| (name, labels, points)));
        series
            .filter(move |(_, labels, _)| fits(labels))
            .map(|(name, labels, points)| (name, labels, points.as_slice()))
    }
}
