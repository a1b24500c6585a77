//! Every alert is diagnosed: one that no playbook knows, and one whose own condition does not hold.

use llm_diagnose::diagnose::{Diagnosis, Request, SymptomVerdict, Verdict, diagnose};

use crate::chains::asked;
use crate::harness::{library, run, shared};
use crate::running::{CHANNEL, Running, group};

/// A case as an alert of it would enter, with its pool screened where the playbook explains nothing.
fn screened(name: &str, playbook: &str) -> Diagnosis {
    run(diagnose(library(), shared(), &Request { screen: true, ..asked(name, playbook) }))
}

#[test]
fn an_alert_that_no_playbook_knows_gets_the_cause_all_the_same() {
    for (name, root) in [
        ("longer-prompts", "longer-prompts"),
        ("runaway-generation", "runaway-generation"),
        ("lost-replicas", "lost-replica"),
        ("slot-limit", "limit-lowered"),
    ] {
        let diagnosis = screened(name, "");
        let found = diagnosis.root().map(|root| (root.id.as_str(), root.verdict));
        assert_eq!(found, Some((root, Verdict::Likely)), "{name}: {:?}", diagnosis.symptom);
        assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::Confirmed, "{name}");
        let screening = diagnosis.screening.unwrap();
        assert_eq!((screening.asked, screening.asked_verdict), (None, None), "{name}");
        assert!(!screening.also.contains(&diagnosis.symptom.title), "{name}: {:?}", screening.also);
    }
}

#[test]
fn a_healthy_pool_is_told_to_be_healthy_with_what_was_looked_at() {
    let diagnosis = screened("healthy", "");
    assert_eq!((diagnosis.symptom.verdict, diagnosis.symptom.playbook.as_str()), (SymptomVerdict::Absent, ""));
    assert_eq!((diagnosis.causes.len(), diagnosis.problems.len()), (0, 0), "{:?}", diagnosis.problems);
    let screening = diagnosis.screening.unwrap();
    assert!(screening.looked_at.len() >= 10 && screening.also.is_empty(), "{screening:?}");
    assert!(screening.looked_at.iter().any(|title| title == "first tokens come late"), "{screening:?}");
}

#[test]
fn an_alert_whose_own_condition_does_not_hold_leads_to_the_symptom_that_does() {
    let diagnosis = screened("longer-prompts", "replica-down");
    assert_eq!(diagnosis.root().unwrap().id, "longer-prompts");
    assert_ne!(diagnosis.symptom.playbook, "replica-down");
    let screening = diagnosis.screening.unwrap();
    assert_eq!(screening.asked.as_deref(), Some("replica-down"));
    assert_eq!(screening.asked_verdict, Some(SymptomVerdict::Absent));
}

#[test]
fn an_alert_that_its_playbook_explains_is_not_screened() {
    let diagnosis = screened("longer-prompts", "high-ttft");
    assert_eq!((diagnosis.symptom.playbook.as_str(), diagnosis.screening), ("high-ttft", None));
}

#[tokio::test]
async fn chat_says_why_an_unknown_alert_could_not_be_looked_at_and_which_alert_names_no_pool() {
    let run = Running::start("prometheus: [{ url: \"http://127.0.0.1:1\" }]").await;
    run.send(&group("CheckoutBurnsItsBudget", "firing", "warning", &["a"])).await;
    run.wait_for(CHANNEL, |m| m.contains("CheckoutBurnsItsBudget") && m.contains("no symptom of this pool")).await;
    let mut nobodys = group("DiskFull", "firing", "warning", &["a"]);
    for alert in nobodys["alerts"].as_array_mut().unwrap() {
        alert["labels"] = serde_json::json!({ "alertname": "DiskFull", "severity": "warning" });
    }
    run.send(&nobodys).await;
    run.wait_for(CHANNEL, |m| m.contains("DiskFull") && m.contains("No playbook for this alert")).await;
    assert_eq!(run.slack.violations(), []);
}
