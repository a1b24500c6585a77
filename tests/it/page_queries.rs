//! Queries of series that are held here: pages that were read get the answers that Prometheus would give.

use std::time::{Duration, Instant};

use knowledge::alert::Labels;
use prom::{Recorded, Row};

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
    for (target, le) in [("a", "1"), ("b", "1.0")] {
        recorded.add("size_bucket", labels(&[("instance", target), ("le", le)]), 60_000, 30.0);
        recorded.add("size_bucket", labels(&[("instance", target), ("le", "+Inf")]), 60_000, 40.0);
    }
    recorded.add("few_total", labels(&[("instance", "a")]), 0, 1.0);
    recorded.add("few_total", labels(&[("instance", "a")]), 60_000, 4.0);
    recorded
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn rows(query: &str) -> Vec<(String, f64)> {
    let answer = recorded().query(query, 60_000, soon()).unwrap_or_else(|error| panic!("{query}: {error}"));
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
        ("histogram_quantile(0.75, sum by (le) (size_bucket))", &[("", 1.0)]),
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
    assert_eq!(rows("1 / clamp_min(sum(rate(few_total[1m])), 0.01)"), [(String::new(), 20.0)], "its floor is meant");
}

#[test]
fn what_cannot_be_evaluated_is_refused_with_its_name() {
    let refused = |query: &str| recorded().query(query, 60_000, soon()).map(|_| ()).unwrap_err().to_string();
    let unclosed = refused("sum(");
    assert!(unclosed.contains("pages") && !unclosed.contains("Prometheus"), "{unclosed}");
    assert!(refused("predict_linear(inside[1m], 60)").contains("predict_linear"));
    assert!(refused("inside * on () up").contains("several series"));
}

#[test]
fn what_takes_longer_than_its_deadline_is_late_and_not_wrong() {
    let deadline = Instant::now() + Duration::from_millis(20);
    assert!(recorded().query("max_over_time(sum(inside)[1m:3ms])", 60_000, deadline).unwrap_err().is_late());
}
