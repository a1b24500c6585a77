//! Every alert is diagnosed: one that no playbook knows, and one whose own condition does not hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use axum::http::Uri;
use llm_diagnose::diagnose::{Diagnosis, Request, SymptomVerdict, Verdict, diagnose};
use llm_diagnose::render::{Words, diagnosis_message, terminal};

use crate::chains::asked;
use crate::harness::{client, library, run, shared};
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
fn an_alert_that_its_playbook_explains_keeps_its_story_and_hears_what_else_is_abnormal() {
    let diagnosis = screened("longer-prompts", "high-ttft");
    assert_eq!(
        (diagnosis.symptom.playbook.as_str(), diagnosis.root().unwrap().id.as_str()),
        ("high-ttft", "longer-prompts")
    );
    let screening = diagnosis.screening.as_ref().unwrap();
    assert_eq!(screening.asked_verdict, Some(SymptomVerdict::Confirmed));
    assert!(!screening.also.is_empty() && !screening.also.contains(&diagnosis.symptom.title), "{screening:?}");
    let said = terminal(&diagnosis_message(&diagnosis, None, &Words::english()));
    assert_eq!(said.matches("Also abnormal here").count(), 1, "{said}");
    assert!(!said.contains("explains more"), "{said}");
}

#[test]
fn a_confirmed_symptom_without_a_cause_goes_on_to_the_others_of_its_pool() {
    // Long prompts also make answers late as a whole; nothing in that playbook alone explains it here.
    let mut blind = library().clone();
    blind.playbooks.get_mut("high-ttft").unwrap().causes.clear();
    let request = Request { screen: true, ..asked("longer-prompts", "high-ttft") };
    let diagnosis = run(diagnose(&blind, shared(), &request));
    assert_eq!(diagnosis.root().unwrap().id, "longer-prompts", "{:?}", diagnosis.screening);
    assert_ne!(diagnosis.symptom.playbook, "high-ttft");
    assert_eq!(diagnosis.screening.unwrap().asked_verdict, Some(SymptomVerdict::Confirmed));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_asked_twice_in_one_diagnosis() {
    crate::harness::tls();
    let real = tokio::task::spawn_blocking(|| shared().url.clone()).await.unwrap();
    for (case, playbook) in [("longer-prompts", ""), ("longer-prompts", "replica-down"), ("slot-limit", "high-ttft")] {
        let (url, heard) = recorder(real.clone()).await;
        let request = Request { screen: true, ..asked(case, playbook) };
        let diagnosis = diagnose(library(), &client(&url), &request).await;
        assert!(diagnosis.root().is_some(), "{case} {playbook}");
        let heard = heard.lock().unwrap().clone();
        assert_eq!(heard.len(), diagnosis.queries, "{case} {playbook}: every question is counted");
        let mut seen = BTreeSet::new();
        for question in heard.iter().flat_map(questions) {
            assert!(seen.insert(question.clone()), "{case} {playbook}: asked twice: {question:?}");
        }
        assert!(seen.len() > 50, "{}", seen.len());
    }
}

/// The single questions of a request, each with its path and time.
fn questions((path, body): &(String, String)) -> Vec<(String, String)> {
    let form: BTreeMap<String, String> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let when = ["time", "start", "end"].map(|key| form.get(key).cloned().unwrap_or_default()).concat();
    let marked = |text: &str| match text.strip_prefix("label_replace(").filter(|_| text.contains("llm_diagnose_ask")) {
        Some(inner) => inner.rsplit_once(", \"llm_diagnose_ask\"").unwrap().0.to_owned(),
        None => text.to_owned(),
    };
    form["query"].split("\nor\n").map(|text| (format!("{path} {when}"), marked(text))).collect()
}

/// Stands before a Prometheus and writes down what is asked: path and body.
async fn recorder(real: String) -> (String, Arc<Mutex<Vec<(String, String)>>>) {
    let heard: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let (kept, http) = (Arc::clone(&heard), reqwest::Client::new());
    let pass = move |uri: Uri, body: String| {
        let (kept, http, real) = (Arc::clone(&kept), http.clone(), real.clone());
        async move {
            kept.lock().unwrap().push((uri.path().to_owned(), body.clone()));
            let sent = http.post(format!("{real}{}", uri.path()));
            let sent = sent.header("content-type", "application/x-www-form-urlencoded").body(body).send();
            let answer = sent.await.unwrap();
            (answer.status(), [("content-type", "application/json")], answer.bytes().await.unwrap())
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(pass)).await });
    (url, heard)
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
