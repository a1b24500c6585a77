//! Series that are held here instead of by a server: pages that were read or saved, and a benchmark's export. Queries of
//! them get the answers that Prometheus would give.
//!
//! What differs is said where it is decided: nothing is extrapolated, a range always reaches back to the read before its
//! last one, and few events make no share and no quantile (`value.rs`).

mod evaluate;
mod functions;
mod operators;
mod value;

use std::collections::BTreeMap;

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
    metrics: BTreeMap<String, BTreeMap<Labels, Vec<(i64, f64)>>>,
}

/// Samples of one series, in order.
pub type Points<'a> = &'a [(i64, f64)];

impl Recorded {
    /// Adds a sample; one of the same series at the same or a later time is replaced.
    pub fn add(&mut self, name: &str, labels: Labels, at: i64, value: f64) {
        self.add_points(name, labels, std::iter::once((at, value)));
    }

    fn add_points(&mut self, name: &str, labels: Labels, points: impl Iterator<Item = (i64, f64)>) {
        let series = self.metrics.entry(name.to_owned()).or_default().entry(labels).or_default();
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
                self.add_points(name, labels.clone(), shifted);
            }
        }
    }

    /// Returns the series of a metric, each with its samples.
    pub fn series(&self, name: &str) -> impl Iterator<Item = (&Labels, Points<'_>)> {
        self.metrics.get(name).into_iter().flatten().map(|(labels, points)| (labels, points.as_slice()))
    }

    /// Returns the series of counters that fell between two of their samples: what counts was started anew.
    pub fn fallen(&self) -> impl Iterator<Item = &String> {
        let fell = |points: Points<'_>| points.windows(2).any(|pair| pair[1].1 < pair[0].1 - RESET_TOLERANCE);
        self.all().filter(move |(name, _, points)| is_counter(name) && fell(points)).map(|(name, ..)| name)
    }

    /// Returns all series: name, labels and samples.
    pub fn all(&self) -> impl Iterator<Item = (&String, &Labels, Points<'_>)> {
        let metrics = self.metrics.iter();
        metrics.flat_map(|(name, series)| series.iter().map(move |(labels, points)| (name, labels, points.as_slice())))
    }

    /// Evaluates a query at a unix time in milliseconds.
    ///
    /// # Errors
    /// If it is no PromQL, or has a function that is not known here.
    pub fn query(&self, query: &str, at: i64) -> Result<Answer<Row>, PromError> {
        let refused = |kind: &str, message: String| PromError::Refused { kind: kind.to_owned(), message };
        let expr = promql_parser::parser::parse(query).map_err(|error| refused("bad_data", error))?;
        let rows = evaluate::Evaluation { recorded: self, earliest: self.earliest() }.vector(&expr, at);
        let rows = rows.map_err(|message| refused("execution", message))?;
        let finite = rows.into_iter().filter(|sample| sample.value.is_finite());
        Ok(finite.map(|sample| Row { labels: sample.labels, value: sample.value }).collect())
    }

    fn earliest(&self) -> i64 {
        self.all().filter_map(|(.., points)| points.first()).map(|(at, _)| *at).min().unwrap_or_default()
    }

    /// Returns the series that a selector matches, with all of their samples.
    fn select<'s>(
        &'s self,
        selector: &'s VectorSelector,
    ) -> impl Iterator<Item = (&'s String, &'s Labels, Points<'s>)> + 's {
        let matchers = &selector.matchers.matchers;
        let named = |name: &str| {
            selector.name.as_deref().is_none_or(|own| own == name)
                && matchers.iter().filter(|m| m.name == NAME).all(|m| m.is_match(name))
        };
        let fits = |labels: &Labels| {
            let value = |name: &str| labels.get(name).map_or("", String::as_str);
            matchers.iter().filter(|m| m.name != NAME).all(|m| m.is_match(value(&m.name)))
        };
        let metrics = self.metrics.iter().filter(move |(name, _)| named(name));
        let series =
            metrics.flat_map(|(name, series)| series.iter().map(move |(labels, points)| (name, labels, points)));
        series
            .filter(move |(_, labels, _)| fits(labels))
            .map(|(name, labels, points)| (name, labels, points.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two reads, a minute apart, of one target that answered 30 requests, and of one that was restarted.
    fn recorded() -> Recorded {
        let mut recorded = Recorded::default();
        let labels = |more: &[(&str, &str)]| -> Labels {
            more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        for (target, reads) in [("a", [10.0, 40.0]), ("b", [100.0, 20.0])] {
            for (at, value) in [0, 60_000].into_iter().zip(reads) {
                recorded.add("requests_total", labels(&[("instance", target), ("code", "200")]), at, value);
                recorded.add("up", labels(&[("instance", target)]), at, 1.0);
                recorded.add("inside", labels(&[("instance", target)]), at, value / 10.0);
                for (le, share) in [("0.5", 0.5), ("1", 0.9), ("+Inf", 1.0)] {
                    recorded.add("wait_bucket", labels(&[("instance", target), ("le", le)]), at, value * share);
                }
            }
        }
        recorded.add("requests_total", labels(&[("instance", "a"), ("code", "500")]), 60_000, 5.0);
        recorded.add("few_total", labels(&[("instance", "a")]), 0, 1.0);
        recorded.add("few_total", labels(&[("instance", "a")]), 60_000, 4.0);
        recorded
    }

    fn rows(query: &str) -> Vec<(String, f64)> {
        let answer = recorded().query(query, 60_000).unwrap_or_else(|error| panic!("{query}: {error}"));
        let label = |row: &Row| row.labels.values().cloned().collect::<Vec<_>>().join(",");
        answer.iter().map(|row| (label(row), row.value)).collect()
    }

    #[test]
    fn a_query_of_two_reads_is_answered_as_prometheus_would() {
        for (query, expected) in [
            ("sum by (instance) (rate(requests_total[1m]))", &[("a", 0.5), ("b", 20.0 / 60.0)][..]),
            ("sum(increase(requests_total{code=~'2..'}[1m]))", &[("", 50.0)]),
            ("sum by (instance) (avg_over_time(inside[1m]))", &[("a", 2.5), ("b", 6.0)]),
            ("max(max_over_time({__name__=~\"ins.*\"}[1m]))", &[("", 10.0)]),
            ("histogram_quantile(0.5, sum by (le) (rate(wait_bucket{instance=\"a\"}[1m])))", &[("", 0.5)]),
            ("sum(requests_total unless requests_total offset 1m and on (instance) (up offset 1m == 1))", &[("", 5.0)]),
            ("inside - on (instance) group_left () up", &[("a", 3.0), ("b", 1.0)]),
            ("sum by (instance) (inside > 3)", &[("a", 4.0)]),
            ("sum by (instance) (inside > bool 3)", &[("a", 1.0), ("b", 0.0)]),
            ("0 * sum(gone) or sum(up)", &[("", 2.0)]),
            ("sum(gone)", &[]),
            ("count(up unless on (instance) (inside > 3))", &[("", 1.0)]),
            ("label_replace(vector(2), \"x\", \"$1-y\", \"\", \"()\")", &[("-y", 2.0)]),
            ("scalar(count_over_time(vector(1)[1m:1s])) - 1", &[("", 60.0)]),
            ("time() - 30", &[("", 30.0)]),
            ("quantile by () (0.5, inside)", &[("", 3.0)]),
            ("max_over_time((sum(inside))[1m:30s])", &[("", 11.0)]),
            ("topk(1, inside) % 3", &[("a", 1.0)]),
            ("-clamp_max(min(inside), 1.5)", &[("", -1.5)]),
            ("rate(requests_total{instance=\"a\", code=\"200\"}[10s])", &[("200,a", 0.5)]),
            ("sum by (code) (requests_total{code=\"500\"} * on (instance) group_left (code) up)", &[("", 5.0)]),
            ("irate(requests_total{instance=\"a\", code=\"200\"}[1m])", &[("200,a", 0.5)]),
        ] {
            let expected: Vec<(String, f64)> =
                expected.iter().map(|(label, value)| ((*label).to_owned(), *value)).collect();
            assert_eq!(rows(query), expected, "{query}");
        }
    }

    #[test]
    fn a_share_and_a_quantile_of_few_events_say_nothing() {
        for query in ["few_total / 2", "rate(few_total[1m])"] {
            assert_eq!(rows(query).len(), 1, "{query}");
        }
        assert!(rows("sum(rate(requests_total[1m])) / sum(rate(few_total[1m]))").is_empty());
        assert_eq!(rows("sum(rate(few_total[1m])) / sum(rate(requests_total[1m]))").len(), 1);
        assert_eq!(
            rows("1 / clamp_min(sum(rate(few_total[1m])), 0.01)"),
            [(String::new(), 20.0)],
            "its floor is meant"
        );
    }

    #[test]
    fn what_cannot_be_evaluated_is_refused_with_its_name() {
        let refused = |query: &str| recorded().query(query, 60_000).map(|_| ()).unwrap_err().to_string();
        assert!(refused("sum(").contains("bad_data"));
        assert!(refused("predict_linear(inside[1m], 60)").contains("predict_linear"));
        assert!(refused("inside * on () up").contains("several series"));
    }
}
