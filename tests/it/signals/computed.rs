//! What is computed here from sums by bucket is what Prometheus computes itself.

use std::collections::BTreeMap;
use std::time::Duration;

use diagnose::{ObserveResult, Pool, plan};
use findings::Request;
use knowledge::playbook::Library;
use llm_diagnose_lab::stack::backfill::{Series, openmetrics};
use prom::{Prometheus, Row};

use super::{EVERYTHING, with_everything};
use crate::harness::{DEADLINE, at, client, request, run};

/// Every question of a plan has the rows that Prometheus gives for its PromQL, but for float noise.
pub(super) async fn assert_as_prometheus_does(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    seen: &ObserveResult,
) {
    let deadline = std::time::Instant::now() + DEADLINE;
    let pool = Pool::find(library, prometheus, request, deadline).await.unwrap();
    let asks: Vec<_> =
        plan(library, request, &seen.detection).queries.into_iter().map(|ask| (ask.query, ask.at)).collect();
    let computed = pool.query(prometheus, asks.clone(), deadline).await;
    for ((query, when), computed) in asks.iter().zip(computed) {
        let told = prometheus.query(query, *when, deadline).await.unwrap();
        assert_same(query, &computed.unwrap(), &told);
    }
}

fn assert_same(query: &str, computed: &[Row], told: &[Row]) {
    // Prometheus writes a bound as the exporter did.
    let labels = |row: &Row| {
        let mut labels = row.labels.clone();
        if let Some(le) = labels.get_mut("le") {
            *le = le.parse::<f64>().unwrap().to_string();
        }
        labels
    };
    let rows = |rows: &[Row]| rows.iter().map(|row| (labels(row), row.value)).collect::<BTreeMap<_, _>>();
    let (computed, told) = (rows(computed), rows(told));
    assert!(computed.keys().eq(told.keys()), "{query}: {computed:?}, but Prometheus says {told:?}");
    for (labels, value) in &told {
        let off = (computed[labels] - value).abs();
        assert!(off <= 1e-9 * value.abs().max(1e-3), "{query}: {computed:?}, but Prometheus says {told:?}");
    }
}

#[test]
fn odd_histograms_have_the_quantiles_that_prometheus_finds_in_them() {
    const END: i64 = 1_790_000_000;
    let name = "vllm:time_to_first_token_seconds";
    let series = |pod: &str, metric: &str, le: Option<&str>, rate: f64| {
        let all = [("namespace", "odd"), ("pod", pod), ("instance", pod), ("job", "vllm"), ("model_name", "m")];
        let labels: Vec<(&str, &str)> = all.into_iter().chain(le.map(|le| ("le", le))).collect();
        Series::new(metric, &labels).counter(END - 900, END, 30, rate)
    };
    let mut all = Vec::new();
    let pods: [(&str, &[(&str, f64)]); 7] = [
        ("even", &[("0.1", 1.0), ("1.0", 2.0), ("2.5", 3.0), ("+Inf", 4.0)]),
        ("idle", &[("0.1", 0.0), ("1.0", 0.0), ("2.5", 0.0), ("+Inf", 0.0)]),
        ("all-above", &[("0.1", 0.0), ("1.0", 0.0), ("2.5", 0.0), ("+Inf", 5.0)]),
        ("other-bounds", &[("0.5", 1.0), ("5", 2.0), ("+Inf", 2.0)]),
        ("without-the-last", &[("0.1", 1.0), ("1.0", 2.0)]),
        ("only-the-last", &[("+Inf", 2.0)]),
        ("falling", &[("0.1", 2.0), ("1.0", 1.0), ("2.5", 3.0), ("+Inf", 3.0)]),
    ];
    for (pod, buckets) in pods {
        all.push(series(pod, "vllm:num_requests_running", None, 0.01));
        all.extend(buckets.iter().map(|(le, rate)| series(pod, &format!("{name}_bucket"), Some(le), *rate)));
        all.extend(["_sum", "_count"].map(|end| series(pod, &format!("{name}{end}"), None, buckets[0].1)));
    }
    let text = openmetrics(all);
    run(async {
        let builder = llm_diagnose_lab::stack::Prometheus::builder().backfill_text(&text).unwrap();
        let server = builder.start().await.unwrap();
        let (library, prometheus) = (with_everything(), client(&server.url));
        let mut request = request(EVERYTHING, &[("namespace", "odd")], END);
        (request.window, request.since) = (Duration::from_secs(300), Some(at(END)));
        let seen = diagnose::observe(&library, &prometheus, &request, None).await;
        let replicas: Vec<&str> =
            seen.observations.signals["ttft_p99"].replicas.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(replicas, ["all-above", "even", "falling", "other-bounds"]);
        assert_as_prometheus_does(&library, &prometheus, &request, &seen).await;
    });
}
