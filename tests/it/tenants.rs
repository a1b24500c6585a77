//! Several Prometheus servers, one for each tenant: which one an alert group is diagnosed by.

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use diagnose::Exporters;
use serde_json::Value;
use sources::exporter::{Config, ConfiguredExporter, ExporterReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::harness::{client, tls};
use crate::running::{CHANNEL, Running, group};

/// A Prometheus without data, which reports each request.
async fn empty_prometheus() -> (String, mpsc::UnboundedReceiver<String>) {
    let (tell, asked) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = async |State(tell): State<mpsc::UnboundedSender<String>>, uri: Uri| {
        let _ = tell.send(uri.path().to_owned());
        r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#
    };
    let router = Router::new().fallback(answer).with_state(tell);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, asked)
}

fn of(tenants: &[&str], number: u32) -> Value {
    let mut group = group(&format!("LLMHighTTFT{number}"), "firing", "warning", &["a", "b"][..tenants.len()]);
    for (alert, tenant) in group["alerts"].as_array_mut().unwrap().iter_mut().zip(tenants) {
        alert["labels"]["tenant"] = (*tenant).into();
    }
    group
}

#[tokio::test]
async fn an_alert_of_a_tenant_without_an_entry_asks_nobody_and_says_so() {
    let ((a, mut asked_a), (b, mut asked_b)) = (empty_prometheus().await, empty_prometheus().await);
    let running = Running::start(&format!(
        "prometheus: [{{ name: eu, url: \"{a}\", labels: {{ tenant: a }} }}, {{ name: us, url: \"{b}\", labels: {{ tenant: b }} }}]\n\
         exporters: {{ learn: false }}"
    ))
    .await;
    let drain = |asked: &mut mpsc::UnboundedReceiver<String>| std::iter::from_fn(|| asked.try_recv().ok()).count();
    drain(&mut asked_a);
    drain(&mut asked_b);
    running.send(&of(&["c"], 1)).await;
    let reason = |text: &str| {
        text.contains("LLMHighTTFT1")
            && text.contains("none of the 2 entries of `prometheus:` has the labels of these alerts")
    };
    running.wait_for(CHANNEL, reason).await;
    running.send(&of(&["a", "b"], 2)).await;
    let reason = |text: &str| text.contains("LLMHighTTFT2") && text.contains("add `tenant` to `group_by`");
    running.wait_for(CHANNEL, reason).await;
    assert_eq!((drain(&mut asked_a), drain(&mut asked_b)), (0, 0), "another tenant's data explains nothing");
    running.send(&of(&["b"], 3)).await;
    let diagnosed = |text: &str| text.contains("LLMHighTTFT3") && text.contains("no serving engine was found");
    running.wait_for(CHANNEL, diagnosed).await;
    assert!(drain(&mut asked_b) > 0);
    assert_eq!(drain(&mut asked_a), 0);
}

/// Whoever asks, a chat, a program or the command line: nobody knows whose engines these are.
#[tokio::test]
async fn for_a_tenant_without_an_entry_no_engine_is_read_directly() {
    tls();
    let url = "http://10.0.0.7:8000/metrics".to_owned();
    let targets = vec![ConfiguredExporter { engine: "vllm".to_owned(), url, labels: Default::default() }];
    let (config, reader) = (Config { targets, ..Config::default() }, ExporterReader::new(&[]).unwrap());
    let (own, nobodys) = (client("http://p"), client("http://p").unassigned(String::new()));
    let remembered: Vec<_> = config.given().collect();
    let known = |prometheus, remembered| {
        let known = Exporters::known(&config, &reader, prometheus, remembered);
        (known.targets.len(), known.learn)
    };
    assert_eq!(known(&own, None), (1, true));
    assert_eq!(known(&own, Some(remembered.clone())), (2, false));
    assert_eq!([known(&nobodys, None), known(&nobodys, Some(remembered))], [(0, false); 2]);
}
