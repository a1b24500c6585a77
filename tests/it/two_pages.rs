//! Public reports of failing servers, retold as two pages of the server: what the product says of them without Prometheus.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::running::BINARY;

fn diagnose(pages: &[&str]) -> Output {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reports");
    let mut command = Command::new(BINARY);
    command.current_dir(directory).env_remove("PROMETHEUS_URL").arg("diagnose").args(pages);
    command.args(["--apart", "60s", "--output", "json"]).output().unwrap()
}

/// The links of the best chain, from the symptom to the root.
fn chain(report: &str) -> Vec<String> {
    let pages = ["first", "second"].map(|which| format!("{report}-{which}.prom"));
    let output = diagnose(&[&pages[0], &pages[1]]);
    let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap();
    let chain = diagnosis["causes"][0]["chain"].as_array().cloned().unwrap_or_default();
    chain.iter().filter_map(|link| link.as_str().map(str::to_owned)).collect()
}

#[test]
fn two_pages_tell_what_people_reported() {
    for (report, cause) in [
        ("vllm-ranks-uneven", "ranks-uneven"),
        ("vllm-scheduler-stuck", "engine-stalled"),
        ("vllm-grammars", "deferred-queue"),
        ("sglang-decode-transfers-stuck", "kv-transfer-slow"),
        ("sglang-prefill-transfers-slow", "kv-transfer-slow"),
        ("triton-slots-taken", "slot-limit"),
    ] {
        let chain = chain(report);
        assert!(chain.iter().any(|link| link == cause), "{report}: expected {cause} in {chain:?}");
    }
}

#[test]
fn json_is_named_as_json_with_where_the_page_is() {
    let output = diagnose(&["trtllm-metrics.json", "trtllm-metrics.json"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("this is JSON") && error.contains("/prometheus/metrics"), "{error}");
}
