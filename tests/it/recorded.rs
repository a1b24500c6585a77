//! A diagnosis on the recorded series of the generated rules, and when it asks the engines all the same.

use std::path::Path;
use std::time::Duration;

use llm_diagnose::diagnose::{Diagnosis, Request, diagnose};
use llm_diagnose_lab::sim::history::History;
use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec};
use llm_diagnose_lab::stack;

use crate::harness::{at, client, evidence, library, request, run};

/// The judged moment, in unix seconds; 2024, so that nothing depends on the present.
const NOW: i64 = 1_710_000_000;
const MINUTE: i64 = 60;
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/prometheus/llm-diagnose.rules.yaml");
const GROUP: &str = "llm-diagnose.record.vllm";

/// A fleet of four replicas whose prompts became longer ten minutes ago.
async fn fleet() -> stack::Prometheus {
    let mut fleet = Fleet::new(FleetSpec::sized(4), 7, (NOW - 90 * MINUTE) as f64).unwrap();
    let mut history = History::new(30.0);
    history.record(&mut fleet, (NOW - 10 * MINUTE) as f64);
    fleet.inject("longer-prompts".parse::<Fault>().unwrap()).unwrap();
    history.record(&mut fleet, NOW as f64);
    let mut text = Vec::new();
    history.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    stack::Prometheus::builder().backfill_text(&text).unwrap().start().await.unwrap()
}

fn asked() -> Request {
    Request { since: Some(at(NOW - 5 * MINUTE)), ..request("high-ttft", &[("namespace", "llm")], NOW) }
}

/// What is read from histograms: whether each question asks for a recorded series.
fn of_quantiles(diagnosis: &Diagnosis) -> Vec<(&str, bool)> {
    let told =
        evidence(diagnosis).into_iter().filter(|e| ["ttft_p99", "ttft_p50", "itl_p50"].contains(&e.signal.as_str()));
    told.map(|e| (e.signal.as_str(), e.query.as_deref().is_some_and(|query| query.contains("(llm:")))).collect()
}

/// What a reader is told: the chains, and each check with its outcome.
fn told(diagnosis: &Diagnosis) -> (Vec<Vec<String>>, Vec<String>) {
    let checks = evidence(diagnosis).into_iter().map(|e| format!("{} {} {:?}", e.signal, e.when, e.outcome));
    (diagnosis.causes.iter().map(|cause| cause.chain.clone()).collect(), checks.collect())
}

#[test]
fn where_rules_are_loaded_their_series_are_read_and_the_answer_is_the_same() {
    run(async {
        let mut server = fleet().await;
        let diagnosed = async |server: &stack::Prometheus, request: &Request| -> Diagnosis {
            diagnose(library(), &client(&server.url), request).await
        };
        let raw = diagnosed(&server, &asked()).await;
        assert_eq!(raw.root().unwrap().chain, ["high-ttft", "kv-cache-exhaustion", "longer-prompts"]);
        assert!(of_quantiles(&raw).iter().all(|(_, recorded)| !recorded));

        server.record(Path::new(RULES), GROUP, NOW - 45 * MINUTE, NOW - 5 * MINUTE).await.unwrap();
        let stale = diagnosed(&server, &asked()).await;
        assert!(of_quantiles(&stale).iter().all(|(_, recorded)| !recorded), "nobody records any more");
        assert_eq!(told(&stale), told(&raw));

        server.record(Path::new(RULES), GROUP, NOW - 45 * MINUTE, NOW).await.unwrap();
        let recorded = diagnosed(&server, &asked()).await;
        assert_eq!(recorded.problems, Vec::<String>::new());
        assert!(of_quantiles(&recorded).iter().all(|(_, recorded)| *recorded), "{:?}", of_quantiles(&recorded));
        assert_eq!(told(&recorded), told(&raw));
        assert_eq!(recorded.replicas.total, raw.replicas.total);

        let narrow = Request { window: Duration::from_secs(120), ..asked() };
        let narrow = diagnosed(&server, &narrow).await;
        assert!(of_quantiles(&narrow).iter().all(|(_, recorded)| !recorded), "rates over another window are asked for");
    });
}
