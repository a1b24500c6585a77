//! A diagnosis on the recorded series of the generated rules, and when it asks the engines all the same.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use diagnose::diagnose;
use findings::{Diagnosis, Request};
use llm_diagnose_lab::sim::history::History;
use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec};
use llm_diagnose_lab::stack;

use crate::harness::{at, client, evidence, library, request, run};

/// The judged moment, in unix seconds; 2024, so that nothing depends on the present.
const NOW: i64 = 1_710_000_000;
const MINUTE: i64 = 60;
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/prometheus/llm-diagnose.rules.yaml");
const GROUP: &str = "llm-diagnose.record.vllm";

/// A fleet of four replicas whose prompts became longer ten minutes ago, and in another namespace two models that are like it.
async fn fleet() -> stack::Prometheus {
    let mut fleet = Fleet::new(FleetSpec::sized(4), 7, (NOW - 90 * MINUTE) as f64).unwrap();
    let mut history = History::new(30.0);
    history.record(&mut fleet, (NOW - 10 * MINUTE) as f64);
    fleet.inject("longer-prompts".parse::<Fault>().unwrap()).unwrap();
    history.record(&mut fleet, NOW as f64);
    let mut text = Vec::new();
    history.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut builder = stack::Prometheus::builder().backfill_text(&text).unwrap();
    let own = FleetSpec::sized(4).model_name;
    for model in [own.as_str(), "another"] {
        let text = text.replace("namespace=\"llm\"", "namespace=\"two\"");
        builder = builder.backfill_text(&text.replace(&format!("\"{own}\""), &format!("\"{model}\""))).unwrap();
    }
    builder.start().await.unwrap()
}

fn asked() -> Request {
    scoped(&[("namespace", "llm")])
}

fn scoped(labels: &[(&str, &str)]) -> Request {
    Request { since: Some(at(NOW - 5 * MINUTE)), ..request("high-ttft", labels, NOW) }
}

/// The checks whose signals the rules record that asked for a recorded series, and those that asked the engines.
fn read(diagnosis: &Diagnosis) -> (usize, usize) {
    let told = evidence(diagnosis).into_iter();
    let told = told.filter(|e| {
        ["ttft_p99", "ttft_p50", "itl_p50", "kv_cache_peak", "queue_time_mean", "requests_running"]
            .contains(&e.signal.as_str())
    });
    let queries: Vec<&str> = told.filter_map(|e| e.query.as_deref()).collect();
    let recorded = queries.iter().filter(|query| query.contains("(llm:")).count();
    (recorded, queries.len() - recorded)
}

/// What a reader is told: the chains, each check with its outcome, and the replicas that are affected.
fn told(diagnosis: &Diagnosis) -> (Vec<Vec<String>>, Vec<String>, BTreeSet<String>) {
    let checks = evidence(diagnosis).into_iter().map(|e| format!("{} {} {:?}", e.signal, e.when, e.outcome));
    let chains = diagnosis.causes.iter().map(|cause| cause.chain.clone());
    (chains.collect(), checks.collect(), diagnosis.replicas.affected.iter().cloned().collect())
}

#[test]
fn where_rules_are_loaded_their_series_are_read_and_the_answer_is_the_same() {
    run(async {
        let mut server = fleet().await;
        let diagnosed = async |server: &stack::Prometheus, request: &Request| -> Diagnosis {
            diagnose(library(), &client(&server.url), request).await
        };
        let raw = diagnosed(&server, &asked()).await;
        assert_eq!(raw.root().unwrap().chain, ["high-ttft", "kv-cache-full", "longer-prompts"]);
        let (none, some) = read(&raw);
        assert!(none == 0 && some > 0);

        server.record(Path::new(RULES), GROUP, NOW - 45 * MINUTE, NOW - 5 * MINUTE).await.unwrap();
        let stale = diagnosed(&server, &asked()).await;
        assert_eq!(read(&stale), (0, some), "nobody records any more");
        assert_eq!(told(&stale), told(&raw));
        assert!(!raw.replicas.affected.is_empty());

        server.record(Path::new(RULES), GROUP, NOW - 45 * MINUTE, NOW).await.unwrap();
        let recorded = diagnosed(&server, &asked()).await;
        assert_eq!(recorded.problems, Vec::<String>::new());
        assert_eq!(read(&recorded), (some, 0));
        assert_eq!(told(&recorded), told(&raw));

        for (why, request) in [
            ("rates over another window are other numbers", Request { window: Duration::from_secs(120), ..asked() }),
            ("no recorded series tells the job", scoped(&[("namespace", "llm"), ("job", "vllm")])),
        ] {
            let (recorded, raw) = read(&diagnosed(&server, &request).await);
            assert!(recorded == 0 && raw > 0, "{why}");
        }
        let one_of_two = diagnosed(&server, &scoped(&[("namespace", "two"), ("model_name", "another")])).await;
        assert_eq!(read(&one_of_two), (some, 0));
    });
}
