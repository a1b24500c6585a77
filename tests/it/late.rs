//! A Prometheus that is too slow for some questions: the others are answered, and what was not looked at is told.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Router;
use axum::http::Uri;
use diagnose::diagnose;
use findings::{Diagnosis, Request, SymptomVerdict};
use render::{Phrases, diagnosis_message, terminal};
use tokio::net::TcpListener;

use crate::chains::asked;
use crate::harness::{client, library, shared};

/// A diagnosis by a Prometheus that never answers what names `slow`.
async fn diagnosed(name: &str, playbook: &str, slow: &'static str) -> Diagnosis {
    crate::harness::tls();
    let real = tokio::task::spawn_blocking(|| shared().url.clone()).await.unwrap();
    let http = reqwest::Client::new();
    let pass = move |uri: Uri, body: String| {
        let (http, real) = (http.clone(), real.clone());
        async move {
            if body.contains(slow) {
                std::future::pending::<()>().await;
            }
            let sent = http.post(format!("{real}{}", uri.path()));
            let sent = sent.header("content-type", "application/x-www-form-urlencoded").body(body).send();
            let answer = sent.await.unwrap();
            (answer.status(), [("content-type", "application/json")], answer.bytes().await.unwrap())
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(pass)).await });
    let request = Request { deadline: Duration::from_secs(6), ..asked(name, playbook) };
    diagnose(library(), &client(&url), &request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn histograms_that_come_too_late_cost_only_the_causes_that_need_them() {
    let late = diagnosed("longer-prompts", "queue-buildup", "_bucket").await;
    assert!(late.degraded && late.problems.iter().any(|p| p.ends_with("queries timed out")), "{:?}", late.problems);
    // What counters and gauges tell is judged as ever.
    assert_eq!(late.symptom.verdict, SymptomVerdict::Confirmed);
    assert_eq!(late.root().unwrap().chain, ["queue-buildup", "kv-cache-full", "longer-prompts"]);
    let cut: BTreeSet<&str> = late.not_looked_at.iter().map(|cause| cause.id.as_str()).collect();
    assert!(cut.contains("bad-replica"), "{cut:?}");
    assert!(
        !late.unchecked.iter().any(|u| u.why == "timed out"),
        "late is not the same as no data: {:?}",
        late.unchecked
    );
    let told = terminal(&diagnosis_message(&late, None, &Phrases::english()));
    let line = told.lines().find(|line| line.contains("Not checked: ")).unwrap();
    assert!(
        line.contains("one replica is much worse than its peers")
            && told.contains("(Prometheus did not answer in time)")
    );
    let json = serde_json::to_value(&late).unwrap();
    assert!(json["not_looked_at"].as_array().unwrap().iter().any(|cause| cause["id"] == "bad-replica"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_time_has_looked_at_everything() {
    let whole = diagnosed("longer-prompts", "queue-buildup", "nothing has this name").await;
    assert_eq!(whole.not_looked_at, []);
    assert!(!terminal(&diagnosis_message(&whole, None, &Phrases::english())).contains("Not checked"));
    assert!(serde_json::to_value(&whole).unwrap().get("not_looked_at").is_none());
}
