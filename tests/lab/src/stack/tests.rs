use std::time::Duration;

use axum::{Json, Router, extract::State, routing::post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::backfill::{Series, openmetrics};
use super::{Alertmanager, Prometheus, Service, find_binary, stamp_exposition};

const START: i64 = 1_700_000_000;
const SOON: Duration = Duration::from_secs(30);

/// A webhook that hands on what it receives.
async fn webhook() -> (String, mpsc::Receiver<Value>) {
    let (sender, receiver) = mpsc::channel(100);
    async fn hand_on(State(sender): State<mpsc::Sender<Value>>, Json(body): Json<Value>) {
        sender.send(body).await.ok();
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let router = Router::new().route("/hook", post(hand_on)).with_state(sender);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, receiver)
}

async fn next(receiver: &mut mpsc::Receiver<Value>) -> Value {
    tokio::time::timeout(SOON, receiver.recv()).await.expect("a notification in time").expect("an open channel")
}

#[tokio::test]
async fn prometheus_answers_from_a_backfilled_past_even_after_a_kill() {
    let history = openmetrics([
        Series::new("up", &[("job", "vllm"), ("pod", "a")]).steady(START, START + 90_000, 60, 1.0),
        Series::new("requests_total", &[("pod", "a")]).counter(START, START + 600, 15, 2.5),
    ]);
    let mut prometheus = Prometheus::builder().backfill_text(&history).unwrap().start().await.unwrap();
    assert_eq!(prometheus.value("up{job='vllm'}", START + 89_000).await.unwrap(), Some(1.0));
    assert_eq!(prometheus.value("rate(requests_total[5m])", START + 600).await.unwrap(), Some(2.5));
    assert_eq!(prometheus.value("up", START - 600).await.unwrap(), None);
    assert_eq!(prometheus.value("scalar(up)", START).await.unwrap(), Some(1.0));
    let range = prometheus.query_range("up", START, START + 600, 60).await.unwrap();
    assert_eq!(range[0]["values"].as_array().unwrap().len(), 11);
    let error = prometheus.query("up{", START).await.unwrap_err();
    assert!(format!("{error:#}").contains("parse error"), "{error:#}");

    let url = prometheus.url.clone();
    prometheus.kill().await.unwrap();
    assert!(prometheus.query("up", START).await.is_err());
    prometheus.restart().await.unwrap();
    assert_eq!((prometheus.url.as_str(), prometheus.value("up", START).await.unwrap()), (url.as_str(), Some(1.0)));
}

#[tokio::test]
async fn two_captured_pages_become_queryable_history() {
    let page = |running: u32, tokens: u32| {
        format!(
            r#"# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="tiny"}} {running}
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{{engine="0",model_name="tiny"}} {tokens}
"#
        )
    };
    let target = [("job", "vllm"), ("instance", "10.0.0.1:8000"), ("pod", "vllm-0"), ("namespace", "prod")];
    let mut history = stamp_exposition(&page(1, 1000), &target, START).unwrap();
    history.extend(stamp_exposition(&page(3, 1600), &target, START + 60).unwrap());
    let prometheus = Prometheus::builder().backfill_text(&openmetrics(history)).unwrap().start().await.unwrap();
    let rate = prometheus.value("rate(vllm:prompt_tokens_total{pod='vllm-0'}[1m])", START + 60).await.unwrap();
    assert_eq!(rate, Some(10.0));
    assert_eq!(prometheus.value("vllm:num_requests_running", START + 60).await.unwrap(), Some(3.0));
}

#[tokio::test]
async fn a_rule_fires_through_alertmanager_into_a_webhook() {
    let (url, mut received) = webhook().await;
    let auth = json!({ "authorization": { "credentials": "secret" } });
    let alertmanager =
        Alertmanager::builder().webhook(&url, auth).group_by(&["alertname", "namespace"]).start().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("rules.yaml");
    let rule = |name: &str| {
        let rule = json!({ "alert": name, "expr": "vector(1) > 0", "labels": { "namespace": "prod" } });
        json!({ "groups": [{ "name": "lab", "rules": [rule] }] }).to_string()
    };
    std::fs::write(&rules, rule("LLMSlow")).unwrap();
    let prometheus = Prometheus::builder()
        .rule_file(&rules)
        .alertmanager(&alertmanager.address)
        .external_labels(&[("cluster", "east")])
        .start()
        .await
        .unwrap();
    let body = next(&mut received).await;
    assert_eq!((&body["status"], &body["version"]), (&json!("firing"), &json!("4")));
    assert_eq!(body["groupKey"], r#"{}:{alertname="LLMSlow", namespace="prod"}"#);
    assert_eq!(body["commonLabels"], json!({ "alertname": "LLMSlow", "namespace": "prod", "cluster": "east" }));

    std::fs::write(&rules, rule("LLMSlower")).unwrap();
    prometheus.reload().await.unwrap();
    loop {
        if next(&mut received).await["groupLabels"]["alertname"] == "LLMSlower" {
            break;
        }
    }
    let known = alertmanager.alerts().await.unwrap();
    assert!(known.as_array().unwrap().iter().any(|alert| alert["labels"]["alertname"] == "LLMSlower"), "{known}");
}

#[tokio::test]
async fn alerts_can_be_posted_by_hand_and_a_killed_alertmanager_tells_again() {
    let (url, mut received) = webhook().await;
    let builder = Alertmanager::builder().webhook(&url, Value::Null).max_alerts(1);
    let mut alertmanager = builder.group_wait(Duration::from_millis(300)).start().await.unwrap();
    let alert =
        |pod: &str| json!({ "labels": { "alertname": "LLMSlow", "pod": pod }, "annotations": { "summary": "s" } });
    alertmanager.post_alerts(&[alert("a"), alert("b")]).await.unwrap();
    let body = next(&mut received).await;
    assert_eq!((body["alerts"].as_array().unwrap().len(), &body["truncatedAlerts"]), (1, &json!(1)));
    assert_eq!(alertmanager.silences().await.unwrap(), json!([]));

    alertmanager.kill().await.unwrap();
    alertmanager.restart().await.unwrap();
    alertmanager.post_alerts(&[alert("a")]).await.unwrap();
    assert_eq!(next(&mut received).await["status"], "firing");
}

#[tokio::test]
async fn a_service_is_started_stopped_killed_and_started_again() {
    // Prometheus stands for the product here: a program with a port, a configuration and a readiness path.
    let binary = find_binary(&["prometheus"]).unwrap();
    let arguments = ["--config.file=$CONFIG", "--storage.tsdb.path=$DIR/data", "--web.listen-address=127.0.0.1:$PORT"];
    let builder = Service::builder(&binary).args(arguments).env("GOGC", "50").ready_path("/-/ready");
    let mut service = builder.config("global: {external_labels: {port: '$PORT'}}").start().await.unwrap();
    let (url, first) = (service.url.clone(), service.id());
    service.kill9().await.unwrap();
    assert_eq!(service.id(), None);
    service.restart().await.unwrap();
    assert_eq!(service.url, url);
    assert_ne!(service.id(), first);
    let status = service.terminate(SOON).await.unwrap();
    assert!(status.success(), "{status}");
    assert!(service.stderr().contains("SIGTERM"), "{}", service.stderr());
    assert_eq!(service.stdout(), "");
    assert!(service.terminate(SOON).await.is_err());
}

#[tokio::test]
async fn a_program_that_does_not_start_shows_its_log() {
    let error = Alertmanager::builder().config("route: {receiver: nobody}").start().await.err().unwrap().to_string();
    assert!(error.contains("alertmanager ended before it was ready") && error.contains("nobody"), "{error}");
    let error = Prometheus::builder().scrape_config("- job: x").start().await.err().unwrap().to_string();
    assert!(error.contains("field job not found"), "{error}");
    let error = Prometheus::builder().backfill_text("# EOF\n").unwrap().start().await.err().unwrap().to_string();
    assert!(error.contains("no samples"), "{error}");
}

#[test]
fn a_missing_program_is_named_with_what_installs_it() {
    let error = find_binary(&["no-such-program"]).unwrap_err().to_string();
    assert_eq!(error, "no-such-program is not in PATH: sh tests/lab/scripts/ensure-packages.sh installs it");
}
