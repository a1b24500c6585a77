//! A Prometheus that many tenants share, and that goes away and comes back.

use llm_diagnose_lab::stack::Prometheus;
use serde_json::Value;

use crate::running::{CHANNEL, Running, SOON, check, group, until};

/// The value of a metric.
fn value(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

async fn readiness(run: &Running) -> Value {
    let (status, ready) = run.get("/readyz").await;
    assert_eq!(status, 200, "{ready}");
    serde_json::from_str(&ready).unwrap()
}

#[tokio::test]
async fn a_prometheus_that_many_share_is_told_once_and_diagnoses_go_on_when_it_is_back() {
    let mut prometheus = Prometheus::builder().start().await.unwrap();
    let server = prometheus.url.trim_start_matches("http://").to_owned();
    let entry = |n: usize| {
        // The last one takes the alerts.
        let labels = if n < 19 { format!("{{ tenant: t{n} }}") } else { "{}".to_owned() };
        let headers = format!("{{ X-Scope-OrgID: t{n} }}");
        format!("{{ name: t{n}, url: \"http://user:hidden@{server}\", labels: {labels}, headers: {headers} }}")
    };
    let entries: Vec<String> = (0..20).map(entry).collect();
    let run = Running::start(&format!("prometheus: [{}]\nexporters: {{ learn: false }}", entries.join(", "))).await;
    let open = format!("llm_diagnose_prometheus_circuit_open{{server=\"{server}\"}}");
    // A service that is busy gives an empty page.
    let is = async |metric: &str, is_met: fn(f64) -> bool| {
        until(2 * SOON, async || value(&run.metrics().await, metric), |value| value.is_some_and(is_met)).await
    };
    is(&open, |value| value == 0.0).await;
    // No answer is about others, so eight are asked.
    let is_ok = |ready: &Value, n: usize| check(ready, &format!("prometheus/t{n}"))["ok"] == true;
    until(SOON, async || readiness(&run).await, |ready| (0..8).all(|n| is_ok(ready, n))).await;

    prometheus.kill().await.unwrap();
    run.send(&group("LLMHighTTFT", "firing", "critical", &["a"])).await;
    run.wait_for(CHANNEL, |text| text.contains("Prometheus cannot be reached")).await;
    // Each look asks it, until it is not asked any more.
    let told = |ready: &Value| check(ready, "prometheus/t0")["detail"].as_str().unwrap_or_default().to_owned();
    let ready = until(SOON, async || readiness(&run).await, |ready| told(ready).contains("times in a row")).await;
    let why = format!("Prometheus cannot be reached: Connection refused (http://{server}), ");
    let others = "; diagnoses wait for it, and those of 19 other entries with this address";
    assert!(told(&ready).starts_with(&why) && told(&ready).ends_with(others), "{ready}");
    let of_prometheus = |check: &&Value| check["name"].as_str().is_some_and(|name| name.starts_with("prometheus/"));
    assert_eq!(ready["checks"].as_array().unwrap().iter().filter(of_prometheus).count(), 1, "{ready}");
    is(&open, |value| value == 1.0).await;
    // Of the diagnosis that is tried again; checks do not count.
    is(&format!("llm_diagnose_prometheus_queries_unsent_total{{server=\"{server}\"}}"), |value| value >= 1.0).await;
    let page = run.metrics().await;
    assert!(!page.contains("hidden") && !ready.to_string().contains("hidden"), "{page}");

    prometheus.restart().await.unwrap();
    // The longest pause is most of one `SOON`, and the diagnosis follows its end.
    is(&open, |value| value == 0.0).await;
    run.wait_for(CHANNEL, |text| !text.contains("cannot be reached") && text.contains("no serving engine was found"))
        .await;
    until(SOON, async || readiness(&run).await, |ready| is_ok(ready, 0)).await;
}
