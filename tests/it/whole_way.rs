//! The whole way on real parts: exporter ─▶ Prometheus rule ─▶ Alertmanager ─▶ us ─▶ Slack ─▶ resolved.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::routing::get;
use axum::{Router, serve};
use llm_diagnose_lab::stack::{Alertmanager, Prometheus};
use serde_json::json;
use tokio::net::TcpListener;

use crate::running::{BINARY, CHANNEL, Running, lead_on, whole};

/// A vLLM page as Prometheus scrapes it; only what the KV-pressure playbook turns on.
fn page(kv: f64, waiting: u32, preemptions: f64) -> String {
    let labels = "model_name=\"llama\",engine=\"0\"";
    format!(
        "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{{labels}}} 30\n\
         # TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{{{labels}}} {waiting}\n\
         # TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{{{labels}}} {kv}\n\
         # TYPE vllm:num_preemptions counter\nvllm:num_preemptions_total{{{labels}}} {preemptions}\n"
    )
}

#[tokio::test]
async fn a_rule_fires_and_the_diagnosis_reaches_slack_and_turns_green() {
    let now_shown = Arc::new(Mutex::new(page(0.4, 0, 0.0)));
    let shown = Arc::clone(&now_shown);
    let exporter = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = exporter.local_addr().unwrap().to_string();
    let app = Router::new().route("/metrics", get(move || async move { shown.lock().unwrap().clone() }));
    let exporting = tokio::spawn(async move { serve(exporter, app).await });

    let rules = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    let made = std::process::Command::new(BINARY)
        .args(["generate", "rules", "--window", "4s", "--for", "1s", "--output"])
        .arg(rules.path())
        .status()
        .unwrap();
    assert!(made.success());

    let second = Duration::from_secs(1);
    let scrape = format!(
        "- job_name: vllm\n  static_configs: [{{ targets: ['{target}'], labels: {{ namespace: llm, pod: llama-0 }} }}]"
    );
    // Each of the three must know the next before it starts, so Prometheus is given an address that leads on later.
    let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let prometheus = Prometheus::builder()
        .scrape_config(&scrape)
        .rule_file(rules.path())
        .alertmanager(&door.local_addr().unwrap().to_string())
        .scrape_interval(second)
        .evaluation_interval(second)
        .start()
        .await
        .unwrap();
    // Firing again is an incident of its own, which names the one before.
    let settings = format!(
        "prometheus: [{{ url: \"{}\" }}]\ndiagnose: {{ window: 4s, refresh: 2s }}\n\
         incident: {{ reopen_within: 0s }}\npublic_url: http://pages.example",
        prometheus.url
    );
    let running = Running::start(&settings).await;
    let alertmanager = Alertmanager::builder()
        .webhook(&format!("{}/webhook/alertmanager", running.service.url), json!({}))
        .group_by(&["alertname", "namespace"])
        .group_wait(second)
        .group_interval(2 * second)
        .start()
        .await
        .unwrap();
    let leading_on = tokio::spawn(lead_on(door, alertmanager.address.clone()));

    *now_shown.lock().unwrap() = page(0.99, 41, 0.0);
    running
        .wait_for(CHANNEL, |m| {
            m.contains("KV cache is exhausted") && m.contains("LLMKVCachePressure") && m.contains("41")
        })
        .await;
    *now_shown.lock().unwrap() = page(0.3, 0, 0.0);
    running.wait_for(CHANNEL, |m| m.contains("RESOLVED after") && m.contains("LLMKVCachePressure")).await;
    *now_shown.lock().unwrap() = page(0.99, 41, 0.0);
    running.wait_for(CHANNEL, |m| m.contains("Same cause here last time") && m.contains("LLMKVCachePressure")).await;
    let told = running.tops(CHANNEL).iter().map(whole).find(|m| m.contains("Same cause here last time")).unwrap();
    let pages: Vec<&str> =
        told.split("http://pages.example").skip(1).filter_map(|link| link.split('|').next()).collect();
    let [last, ..] = pages.as_slice() else { panic!("{told}") };
    let (status, page) = running.get(last).await;
    assert!(
        status == 200 && page.contains("RESOLVED after") && page.contains("KV cache is exhausted"),
        "{last}: {page}"
    );
    assert_eq!(running.slack.violations(), []);
    leading_on.abort();
    exporting.abort();
}
