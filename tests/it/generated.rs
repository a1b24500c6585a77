//! What is generated and committed is fresh and is taken by the programs it is made for.

use std::path::Path;
use std::process::{Command, Output};

use crate::running::BINARY;

const RULES: &str = "config/prometheus/llm-diagnose.rules.yaml";
const OPERATORS: &str = "config/kubernetes/llm-diagnose.prometheusrule.yaml";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).current_dir(root()).output();
    output.unwrap_or_else(|e| panic!("cannot run {program}: {e}; apt-get install prometheus prometheus-alertmanager"))
}

fn assert_passes(program: &str, arguments: &[&str]) {
    let output = run(program, arguments);
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {}: {said}", arguments.join(" "));
}

fn assert_fresh(file: &str, arguments: &[&str]) {
    let made = run(BINARY, arguments);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let committed = std::fs::read(root().join(file)).unwrap();
    assert!(made.stdout == committed, "{file} is stale: run `make generate`");
}

#[test]
fn the_committed_rules_are_what_the_playbooks_say() {
    assert_fresh(RULES, &["generate", "rules"]);
}

#[test]
fn the_committed_prometheus_rule_is_the_same_rules_for_the_operator() {
    assert_fresh(OPERATORS, &["generate", "rules", "--kind", "prometheus-rule"]);
    let read = |file: &str| -> serde_json::Value {
        serde_saphyr::from_str(&std::fs::read_to_string(root().join(file)).unwrap()).unwrap()
    };
    let (resource, plain) = (read(OPERATORS), read(RULES));
    assert!(plain["groups"].as_array().is_some_and(|groups| groups.len() > 10));
    assert!(resource["spec"] == plain, "{OPERATORS} has other rules than {RULES}");
}

#[test]
fn the_committed_dashboard_is_what_the_playbooks_say() {
    assert_fresh("config/grafana/llm-diagnose.dashboard.json", &["generate", "dashboard"]);
}

#[test]
fn the_committed_schema_is_what_the_types_say() {
    assert_fresh("playbooks/schema.json", &["generate", "schema"]);
}

#[test]
fn the_committed_runbooks_are_what_the_playbooks_say() {
    let fresh = tempfile::tempdir().unwrap();
    let directory = fresh.path().to_str().unwrap();
    assert!(run(BINARY, &["generate", "runbooks", "--output", directory]).status.success());
    let pages = |path: &Path| -> Vec<(String, String)> {
        let mut pages: Vec<_> = std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(&p).unwrap()))
            .collect();
        pages.sort();
        pages
    };
    assert!(pages(fresh.path()) == pages(&root().join("docs/runbooks")), "docs/runbooks is stale: run `make generate`");
}

#[test]
fn prometheus_takes_the_rules_and_every_alert_fires_but_not_on_its_near_miss() {
    assert_passes("promtool", &["check", "rules", RULES]);
    assert_passes("promtool", &["test", "rules", "config/prometheus/llm-diagnose.rules.test.yaml"]);
}

#[test]
fn alertmanager_takes_the_example() {
    assert_passes("amtool", &["check-config", "config/alertmanager/llm-diagnose.yaml"]);
}

#[test]
fn every_generated_alert_leads_back_to_its_playbook() {
    let library = llm_diagnose::playbook::load(None).unwrap();
    let rules = std::fs::read_to_string(root().join(RULES)).unwrap();
    let mut checked = 0;
    for playbook in library.playbooks.values() {
        for alert in &playbook.alerts {
            let name = &alert.alert;
            let rule = rules.split("      - alert: ").find(|rule| rule.starts_with(&format!("{name}\n"))).unwrap();
            assert!(rule.contains(&format!("playbook: \"{}\"", playbook.playbook)), "{rule}");
            assert!(
                root().join(format!("docs/runbooks/{}.md", playbook.playbook)).exists(),
                "{name} has no runbook page"
            );
            checked += 1;
        }
    }
    assert!(checked >= 10, "{checked}");
}
