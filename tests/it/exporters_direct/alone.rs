//! `diagnose http://host:8000`: engines read on a laptop, without Prometheus.

use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::routing::get;
use serde_json::Value;
use sources::exporter::{Sample, parse};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{serve, showing};
use crate::harness::fixture;
use crate::running::{SOON, command, ended};

pub(super) async fn diagnose(arguments: &[&str]) -> Output {
    let mut command = command(&["diagnose"]);
    command.args(arguments).env("NO_COLOR", "1");
    ended(command).await
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// An engine whose counters grow at each read as they did between these pages, and whose gauges are those of the second.
async fn growing(pages: [String; 2]) -> String {
    counted(pages, Arc::default()).await
}

/// As [`growing`]; the number of reads is counted.
async fn counted([first, second]: [String; 2], reads: Arc<AtomicU32>) -> String {
    let samples = |page: &str| parse(page, |_| true).unwrap();
    let before: Vec<Sample> = samples(&first);
    let grown = move |reads: f64| {
        let line = |now: Sample| {
            let is_counter = ["_total", "_sum", "_count", "_bucket"].iter().any(|end| now.name.ends_with(end));
            let then = before.iter().find(|then| then.name == now.name && then.labels == now.labels);
            let growth = then.filter(|_| is_counter).map_or(0.0, |then| now.value - then.value);
            let labels: Vec<String> = now.labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
            format!("{}{{{}}} {}\n", now.name, labels.join(","), now.value + reads * growth)
        };
        samples(&second).into_iter().map(line).collect::<String>()
    };
    let page = Arc::new(move || grown(f64::from(reads.fetch_add(1, Ordering::Relaxed))));
    serve(Router::new().route("/metrics", get(move || async move { page() }))).await
}

fn pages() -> [String; 2] {
    ["t0", "t1"].map(|t| fixture(&format!("vllm/0.32-kv-exhaustion-{t}.prom")))
}

#[tokio::test]
async fn an_engine_alone_tells_its_symptom_and_cause_by_its_address() {
    let url = growing(pages()).await;
    let found = diagnose(&[&url]).await;
    let message = text(&found.stdout);
    assert_eq!(found.status.code(), Some(0), "{found:?}");
    for part in ["KV cache is exhausted", "(read directly)", "Without Prometheus: read 1 engine directly"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("• Prometheus was not asked"), "the note says it: {message}");
    let nobody = diagnose(&["http://127.0.0.1:1"]).await;
    assert_eq!(nobody.status.code(), Some(3));
    assert!(text(&nobody.stderr).contains("http://127.0.0.1:1/metrics refuses connections"), "{nobody:?}");
}

#[tokio::test]
async fn a_page_is_read_twice_a_diagnosis_however_often_it_is_asked() {
    let reads = Arc::new(AtomicU32::new(0));
    let found = diagnose(&[&counted(pages(), Arc::clone(&reads)).await]).await;
    assert!(text(&found.stdout).contains("KV cache is exhausted"), "symptoms, causes and kinds: {found:?}");
    // The first one shows whose page it is.
    assert_eq!(reads.load(Ordering::Relaxed), 1 + 2);
}

#[tokio::test]
async fn with_watch_an_engine_is_diagnosed_again_and_again_until_ctrl_c() {
    let url = growing(pages()).await;
    let mut watch = command(&["diagnose", &url, "--watch=1s", "--output", "json"]);
    let mut watch = watch.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut printed = String::new();
    let two = async {
        let mut answers = Vec::new();
        while answers.len() < 2 {
            let line = lines.next_line().await.unwrap().unwrap();
            printed.push_str(&line);
            // The end of an answer.
            if line == "}" {
                answers.push(serde_json::from_str::<Value>(&printed).unwrap());
                printed.clear();
            }
        }
        answers
    };
    let answers = tokio::time::timeout(3 * SOON, two).await.unwrap();
    for answer in &answers {
        assert_eq!(answer["symptom"]["verdict"], "confirmed", "{answer:#}");
    }
    assert!(answers[0]["at"].as_str() < answers[1]["at"].as_str(), "{answers:#?}");
    let id = watch.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let status = tokio::time::timeout(SOON, watch.wait()).await.unwrap().unwrap();
    assert!(!status.success(), "{status}");

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("page.prom");
    std::fs::write(&file, &pages()[0]).unwrap();
    for (what, complaint) in [
        (file.to_str().unwrap(), "--watch reads addresses, and these are files"),
        ("llama", "--watch reads addresses of engines"),
    ] {
        let refused = diagnose(&[what, "--watch"]).await;
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stderr).contains(complaint), "{refused:?}");
    }
}

#[tokio::test]
async fn a_healthy_engine_is_said_to_be_so() {
    // Without a request between the reads nothing would be measured.
    let pages = || ["t0", "t1"].map(|t| fixture(&format!("vllm/0.32-healthy-{t}.prom")));
    let found = diagnose(&[&growing(pages()).await, "--output", "json"]).await;
    let diagnosis: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!((&diagnosis["symptom"]["verdict"], &diagnosis["degraded"]), (&"absent".into(), &false.into()));
    let message = text(&diagnose(&[&growing(pages()).await]).await.stdout);
    assert!(!message.contains("Cannot tell"), "{message}");
}

#[tokio::test]
async fn a_dead_one_among_several_is_a_replica_that_does_not_answer() {
    let [t0, t1] = pages();
    let url = showing(t0, t1).await;
    let found = diagnose(&[&url, "http://127.0.0.1:1"]).await;
    let message = text(&found.stdout);
    assert!(message.contains("read 1 of 2 engines directly"), "{message}");
    assert!(message.contains("127.0.0.1:1 refuses connections"), "{message}");
}

#[tokio::test]
async fn two_saved_pages_tell_what_their_counters_did_between() {
    let directory = tempfile::tempdir().unwrap();
    let files = ["first.prom", "second.prom"].map(|name| directory.path().join(name).display().to_string());
    for (file, page) in files.iter().zip(pages()) {
        std::fs::write(file, page).unwrap();
    }
    let [first, second] = [files[0].as_str(), files[1].as_str()];
    let found = diagnose(&[first, second, "--apart", "60s", "--output", "json"]).await;
    let diagnosis: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(diagnosis["direct"]["because"], "no_prometheus");
    assert_eq!(diagnosis["symptom"]["verdict"], "confirmed", "{diagnosis:#}");
    assert!(diagnosis["causes"][0]["chain"].to_string().contains("kv-cache-full"), "{diagnosis:#}");
    let once = diagnose(&[first]).await;
    assert!(text(&once.stdout).contains("first.prom was read only once"), "{once:?}");
    let refused = diagnose(&[first, second]).await;
    assert!(text(&refused.stderr).contains("pass --apart DURATION"), "{refused:?}");
    let refused = diagnose(&["http://user:secret@127.0.0.1:1"]).await;
    let complaint = text(&refused.stderr);
    assert!(complaint.contains("leave user and password out") && !complaint.contains("secret"), "{complaint}");
    let refused = diagnose(&[first, "--last", "1h"]).await;
    assert!(text(&refused.stderr).contains("--last"), "{refused:?}");
    let refused = diagnose(&[first, "nobody"]).await;
    assert!(text(&refused.stderr).contains("`nobody` is neither an address such as http://host:8000 nor a file"));
}

#[tokio::test]
async fn a_page_of_no_known_program_is_refused_by_name() {
    let url = showing("process_open_fds 7\n", "process_open_fds 7\n").await;
    let unknown = diagnose(&[&url]).await;
    assert!(text(&unknown.stderr).contains("metrics of no engine, no gateway and no GPU exporter"), "{unknown:?}");
}
