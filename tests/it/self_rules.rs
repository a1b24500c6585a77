//! The alert rules about the service itself: Prometheus takes them, and the service exports what they read.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use telemetry::{DiagnosisLabels, Metrics};

const RULES: &str = "config/prometheus/llm-diagnose-self.rules.yaml";
const CASES: &str = "config/prometheus/llm-diagnose-self.test.yaml";

fn promtool(arguments: &[&str]) {
    let output = Command::new("promtool").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
}

fn rules() -> Vec<Value> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(RULES)).unwrap();
    let rules: Value = serde_saphyr::from_str(&text).unwrap();
    rules["groups"][0]["rules"].as_array().unwrap().clone()
}

#[test]
fn prometheus_takes_the_rules_and_each_fires_for_what_it_names_alone() {
    promtool(&["check", "rules", RULES]);
    promtool(&["test", "rules", CASES]);
}

#[test]
fn each_rule_tells_what_is_wrong_and_what_to_do_and_is_tried_by_a_case() {
    let cases = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(CASES)).unwrap();
    for rule in rules() {
        let name = rule["alert"].as_str().unwrap();
        for text in ["summary", "description"] {
            assert!(rule["annotations"][text].as_str().is_some_and(|text| text.ends_with('.')), "{name} has no {text}");
        }
        assert!(matches!(rule["labels"]["severity"].as_str(), Some("critical" | "warning")), "{name}");
        assert!(cases.contains(name), "{CASES} has no case of {name}");
    }
}

/// The texts of a source file before its tests that consist of small letters and `_` alone.
fn words(file: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let product = text.split("#[cfg(test)]").next().unwrap();
    let is_word = |text: &&str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    product.lines().flat_map(|line| line.split('"').skip(1).step_by(2)).filter(is_word).map(str::to_owned).collect()
}

#[test]
fn every_result_of_a_webhook_is_one_that_is_alerted_about_or_a_known_exception() {
    let rules = rules();
    let rule = rules.iter().find(|rule| rule["alert"] == "LLMDiagnoseWebhooksRefused").unwrap();
    let results = rule["expr"].as_str().unwrap().split("=~\"").nth(1).unwrap().split('"').next().unwrap();
    let alerted: BTreeSet<String> = results.split('|').map(str::to_owned).collect();
    let mut known = words("src/web/webhook.rs");
    known.extend(words("src/web/guard.rs"));
    let unknown: BTreeSet<_> = alerted.iter().filter(|result| !known.contains(*result)).collect();
    assert!(unknown.is_empty(), "{unknown:?} is no result");
    // Taken, late, and a browser; then the keys of the answers.
    let exceptions = ["stored", "watchdog", "late", "web_page", "incident", "reason", "error"];
    let missed: Vec<_> =
        known.iter().filter(|word| !alerted.contains(*word) && !exceptions.contains(&word.as_str())).collect();
    assert!(missed.is_empty(), "{missed:?}: add them to the rule, or to the exceptions");
}

#[test]
fn the_service_exports_every_metric_that_its_rules_read() {
    // A family without a label set is not on the page.
    let metrics = Metrics::default();
    metrics.webhook("stored");
    metrics.restart("deliver");
    metrics.delivery("slack", "posted", None);
    metrics.refused([("#pages", "not_in_channel")].into_iter());
    metrics.watchdogs([("main", Duration::ZERO)].into_iter());
    metrics.circuits([("mimir:8080", (true, 1))]);
    let none = String::new;
    metrics.diagnosis(DiagnosisLabels { playbook: none(), verdict: none(), cause: none() }, 1, true, 0.0);
    let page = metrics.page();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let exported: BTreeSet<&str> = page.lines().filter_map(|line| line.split(|c| !is_name(c)).next()).collect();
    let rules = rules();
    let read: BTreeSet<&str> = rules
        .iter()
        .flat_map(|rule| rule["expr"].as_str().unwrap().split(|c| !is_name(c)))
        .filter(|name| name.starts_with("llm_diagnose_"))
        .collect();
    assert!(read.len() >= 9, "{read:?}");
    let missing: Vec<_> = read.difference(&exported).collect();
    assert!(missing.is_empty(), "{missing:?} are not on the page:\n{page}");
}
