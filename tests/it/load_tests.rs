//! `diagnose` on the reports of load tests: whether and where they saturated, for people and for a pipeline.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::running::BINARY;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/load-tests").join(name)
}

fn diagnose(files: &[PathBuf], flags: &[&str]) -> Output {
    Command::new(BINARY).arg("diagnose").args(files).args(flags).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn guidellms_report_tells_where_throughput_stops_and_what_clients_cannot_see() {
    let told = text(&diagnose(&[fixture("guidellm-saturated.json")], &[]));
    assert!(told.starts_with("SATURATED at 7.9"), "{told}");
    for part in [
        "up to 160 at one time",
        "16 s instead of 140 ms",
        "Requests wait before their first token",
        "save the server's /metrics",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let marked: Vec<&str> = told.lines().filter(|line| line.ends_with("← saturated")).collect();
    assert!(marked.len() == 1 && marked[0].contains("25"), "{told}");
    let rising = text(&diagnose(&[fixture("guidellm-rising.json")], &[]));
    assert!(rising.starts_with("NOT SATURATED up to 7.9") && !rising.contains("Limit"), "{rising}");
}

#[test]
fn llm_ds_reports_of_the_stages_tell_the_limit_and_what_does_not_help() {
    let stages = [0, 2, 1].map(|stage| fixture(&format!("llm-d-stage-{stage}.yaml")));
    let told = text(&diagnose(&stages, &[]));
    assert!(
        told.starts_with("SATURATED at 9.9") && told.contains("Limit: the KV cache. 98 % of it is in use, and 44 wait"),
        "{told}"
    );
    assert!(told.contains("Does not help: a higher limit of running requests"), "{told}");
    let output = diagnose(&stages, &["--output", "json"]);
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&verdict["schema"], &verdict["state"]), (&json!("llm-diagnose/load-test/v1"), &json!("saturated")));
    assert_eq!((&verdict["limit"], &verdict["saturated_at"]), (&json!("kv_cache"), &json!(1)));
    let one = text(&diagnose(&stages[..1], &[]));
    assert!(one.starts_with("CANNOT TELL: ") && one.contains("at least two steps"), "{one}");
}

#[test]
fn a_pipeline_fails_on_saturation_and_does_not_pass_what_cannot_be_told() {
    let status = |files: &[PathBuf], flags: &[&str]| diagnose(files, flags).status.code();
    let [saturated, rising] = ["guidellm-saturated.json", "guidellm-rising.json"].map(fixture);
    let flag = ["--fail-on", "saturated"];
    assert_eq!(status(std::slice::from_ref(&saturated), &[]), Some(0));
    assert_eq!(status(&[saturated], &flag), Some(1));
    assert_eq!(status(std::slice::from_ref(&rising), &flag), Some(0));
    assert_eq!(status(&[fixture("llm-d-stage-0.yaml")], &flag), Some(3));
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/aiperf/server_metrics_export.jsonl");
    let other = diagnose(std::slice::from_ref(&record), &flag);
    assert!(other.status.code() == Some(2) && text(&other).contains("--fail-on reads the report"), "{other:?}");
    let mixed = diagnose(&[rising, record], &[]);
    assert!(mixed.status.code() == Some(2) && text(&mixed).contains("is no report of a load test"), "{mixed:?}");
}

#[test]
fn the_workflow_in_the_documentation_runs_and_fails_the_build() {
    let docs = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/load-tests.md")).unwrap();
    let workflow = docs.split("```yaml").nth(1).unwrap().split("```").next().unwrap();
    let steps: Value = serde_saphyr::from_str(workflow).unwrap();
    let step = steps["steps"].as_array().unwrap().last().unwrap();
    let run = step["run"].as_str().unwrap();
    assert_eq!(
        step["shell"], "bash",
        "without it GitHub runs `bash -e` alone, and the status of the pipe is that of tee"
    );
    let directory = tempfile::tempdir().unwrap();
    let path = format!("{}:{}", Path::new(BINARY).parent().unwrap().display(), std::env::var("PATH").unwrap());
    for (report, status) in [("guidellm-saturated.json", 1), ("guidellm-rising.json", 0)] {
        std::fs::copy(fixture(report), directory.path().join("benchmarks.json")).unwrap();
        let summary = directory.path().join("summary");
        // As GitHub runs a step.
        let mut shell = Command::new("bash");
        shell.args(["-e", "-o", "pipefail", "-c", run]).current_dir(&directory).env("PATH", &path);
        let output = shell.env("GITHUB_STEP_SUMMARY", &summary).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", text(&output));
        assert!(std::fs::read_to_string(&summary).unwrap().contains("SATURATED"));
        std::fs::remove_file(summary).unwrap();
    }
}
