//! Alerts and people that name a pool, a time or a rule that Prometheus does not have, and what they are told instead.

use diagnose::{diagnose, moment};
use findings::{Diagnosis, Request, SymptomVerdict};
use llm_diagnose_lab::stack;
use render::{Phrases, diagnosis_message, slack, terminal};
use serde_json::{Value, json};

use crate::chains::moment as moment_of;
use crate::harness::{at, client, library, request, run, shared, slot};
use crate::mixed_fleet;
use crate::running::{BINARY, group};

/// An alert as the service asks for it.
fn alerted(playbook: &str, labels: &[(&str, &str)], when: i64) -> Diagnosis {
    let request = Request { screen: true, since: Some(at(when - 30)), ..request(playbook, labels, when) };
    run(diagnose(library(), shared(), &request))
}

fn said(diagnosis: &Diagnosis) -> String {
    let coloured = terminal(&diagnosis_message(diagnosis, None, &Phrases::english()));
    anstream::adapter::strip_str(&coloured).to_string()
}

fn command(arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let piped = Stdio::piped;
    let mut child = Command::new(BINARY)
        .args(arguments)
        .env_remove("PROMETHEUS_URL")
        .stdin(piped())
        .stdout(piped())
        .stderr(piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn an_alert_of_a_pool_that_is_not_there_is_told_the_nearest_one() {
    let now = slot(mixed_fleet::CASE) + 60;
    for playbook in ["", "high-ttft"] {
        let diagnosis = alerted(playbook, &[("model_name", "model-of-mixd-a")], now);
        let unknown = diagnosis.scope.unknown.as_ref().unwrap_or_else(|| panic!("{playbook}: {:?}", diagnosis.scope));
        assert_eq!((unknown.dimension.as_str(), unknown.nearest.len(), unknown.more), ("model", 5, 7), "{unknown:?}");
        assert_eq!(unknown.nearest[0], "model-of-mixed-a");
        assert_eq!((diagnosis.symptom.verdict, diagnosis.causes.len()), (SymptomVerdict::NoData, 0));
        let said = said(&diagnosis);
        assert!(said.contains("no model `model-of-mixd-a`; there is `model-of-mixed-a`"), "{said}");
        assert!(said.contains("and 7 more"), "{said}");
    }
    let there = alerted("high-ttft", &[("model_name", "model-of-mixed-a")], now);
    assert_eq!((there.scope.unknown, there.scope.data), (None, None));
}

#[test]
fn an_alert_that_names_no_pool_is_answered_pool_by_pool() {
    let now = slot(mixed_fleet::CASE) + 60;
    let in_trouble = alerted("gateway-errors", &[], now);
    let models: Vec<&str> = in_trouble.pools.iter().map(|pool| pool.labels["model"].as_str()).collect();
    assert_eq!(models, ["tiny"], "{:?}", in_trouble.pools);
    assert_eq!(in_trouble.scope.labels, in_trouble.pools[0].labels, "the rest is about the worst of them alone");
    assert!(said(&in_trouble).contains("No pool is named. One is in trouble, `tiny`:"), "{}", said(&in_trouble));
    let notes = &in_trouble.scope.notes;
    assert!(notes.iter().any(|note| note.starts_with("no pool is named")), "{notes:?}");
}

#[test]
fn what_a_label_holds_is_shown_as_text() {
    let evil = format!("<!channel> `x` {}", "y".repeat(500));
    let diagnosis = alerted("", &[("model_name", &evil)], slot(mixed_fleet::CASE) + 60);
    let unknown = diagnosis.scope.unknown.as_ref().unwrap();
    assert!(unknown.value.chars().count() <= 121, "{unknown:?}");
    let message = slack(&diagnosis_message(&diagnosis, None, &Phrases::english()));
    let message = serde_json::to_string(&message).unwrap();
    assert!(message.contains("&lt;!channel&gt;") && !message.contains("<!channel>"), "{message}");
}

#[test]
fn labels_of_nobody_here_do_not_stand_for_the_whole_prometheus() {
    let now = slot(mixed_fleet::CASE) + 60;
    let of_node = [("job", "node"), ("instance", "10.9.9.9:9100")];
    let diagnosis = alerted("", &of_node, now);
    let unknown = diagnosis.scope.unknown.as_ref().unwrap_or_else(|| panic!("{:?}", diagnosis.scope));
    assert_eq!((unknown.dimension.as_str(), unknown.value.as_str()), ("pool", "job=node, 10.9.9.9:9100"));
    assert_eq!((diagnosis.symptom.verdict, diagnosis.engines.len()), (SymptomVerdict::NoData, 0));
    // A known symptom is looked for in each pool by itself, and that is said.
    let known = alerted("gateway-errors", &of_node, now);
    assert!(known.scope.notes.iter().any(|note| note.contains("each pool was checked by itself")), "{:?}", known.scope);
    assert_eq!(known.scope.labels, known.pools[0].labels);
    // A replica that one of the pools has is enough.
    let of_replica = alerted("", &[("job", "node"), ("instance", "mixed-c")], now);
    let note = "the alert names no pool but a replica of `mixed-c/model-of-mixed-c`, which was checked";
    assert!(of_replica.scope.notes.iter().any(|told| told == note), "{:?}", of_replica.scope);
    assert!(of_replica.scope.matchers.contains("mixed-c"), "{:?}", of_replica.scope);
}

#[test]
fn outside_its_time_the_hint_is_when_there_is_data() {
    let then = moment_of("longer-prompts");
    for later in [1_800, 7_200, 3 * 86_400] {
        let diagnosis = alerted("high-ttft", &[("namespace", "longer-prompts")], then + later);
        let data = diagnosis.scope.data.unwrap_or_else(|| panic!("{later}: {:?}", diagnosis.scope));
        assert!((data.to.as_second() - then).abs() <= 90, "{later}: {data:?} and {then}");
        assert!((3_000..4_500).contains(&(then - data.from.as_second())), "{later}: {data:?} and {then}");
        assert_eq!(diagnosis.scope.unknown, None);
        assert!(said(&diagnosis).contains("There is data from"), "{}", said(&diagnosis));
    }
    let before = alerted("", &[("namespace", "longer-prompts")], then - 20_000);
    assert!(before.scope.data.is_some(), "{:?}", before.scope);
    let there = alerted("high-ttft", &[("namespace", "longer-prompts")], then);
    assert_eq!(there.scope.data, None);
}

#[test]
fn without_a_time_the_beginning_of_an_alert_decides() {
    let now = at(1_790_000_000);
    let ago = |seconds: i64| at(1_790_000_000 - seconds);
    assert_eq!(moment(ago(600), None, now), now, "it fires and is young");
    assert_eq!(moment(ago(86_400), None, now), ago(86_340));
    assert_eq!(moment(ago(600), Some(ago(570)), now), ago(570), "it has ended");
    let then = moment_of("longer-prompts");
    let alert = json!({
        "status": "firing", "labels": { "alertname": "LLMHighTTFT", "namespace": "longer-prompts" },
        "startsAt": at(then - 60).to_string(),
    });
    let asked = ["diagnose", "--alert", "-", "--prometheus", &shared().url, "--output", "json"];
    let (status, out, err) = command(&asked, &alert.to_string());
    let diagnosis: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{status:?} {err}"));
    assert_eq!(diagnosis["at"], at(then).to_string());
    assert_eq!(diagnosis["causes"][0]["id"], "longer-prompts");
}

#[test]
fn a_person_is_told_which_label_and_which_value_is_unknown() {
    let when = at(slot(mixed_fleet::CASE) + 60).to_string();
    let prometheus = shared().url.as_str();
    for (asked, expected) in [
        (vec!["--label", "modle=model-of-mixed-a", "--playbook", "high-ttft"], "did you mean `model`?"),
        (vec!["modle=model-of-mixed-a"], "did you mean `model`?"),
        (vec!["model=model-of-mixd-a"], "model-of-mixed-a"),
        (vec!["--label", "model=model-of-mixd-a", "--playbook", "high-ttft"], "there is `model-of-mixed-a`"),
    ] {
        let arguments: Vec<&str> =
            ["diagnose", "--prometheus", prometheus, "--at", &when].into_iter().chain(asked.clone()).collect();
        let (status, out, err) = command(&arguments, "");
        assert_eq!((status, out.as_str()), (Some(2), ""), "{asked:?}: {err}");
        assert!(err.contains(expected), "{asked:?}: {err}");
    }
    let named = ["diagnose", "model=model-of-mixed-a", "--prometheus", prometheus, "--at", &when, "--output", "json"];
    let (status, out, err) = command(&named, "");
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("model-of-mixed-a"), "{out}");
}

#[tokio::test]
async fn an_alert_without_a_link_is_known_by_its_rule() {
    crate::harness::tls();
    let rules = tempfile::Builder::new().suffix(".yml").tempfile().unwrap();
    let text = "groups: [{ name: a, rules: [
        { alert: Other, expr: 'vllm:kv_cache_usage_perc > 0.9' },
        { alert: Checkout \"slow\", expr: 'sum(vllm:num_requests_waiting) > 10' } ] }]";
    std::fs::write(rules.path(), text).unwrap();
    let server = stack::Prometheus::builder().rule_file(rules.path()).start().await.unwrap();
    let mut body = group("Checkout \"slow\"", "firing", "critical", &["a"]);
    let asked = |body: &Value| {
        let (url, body) = (server.url.clone(), body.to_string());
        let asked = move || command(&["diagnose", "--alert", "-", "--prometheus", &url, "--output", "json"], &body);
        async move {
            let (status, out, err) = tokio::task::spawn_blocking(asked).await.unwrap();
            serde_json::from_str::<Value>(&out).unwrap_or_else(|_| panic!("{status:?} {out} {err}"))
        }
    };
    assert_eq!(asked(&body).await["symptom"]["playbook"], "queue-buildup");
    // A server that evaluates no such rule is no error.
    body["alerts"][0]["labels"]["alertname"] = "Nobody".into();
    let unknown = asked(&body).await;
    assert_ne!(unknown["symptom"]["playbook"], "queue-buildup");
    let request = Request {
        screen: true,
        rules: vec!["Checkout \"slow\"".to_owned()],
        ..request("", &[("namespace", "llm")], 1_790_000_000)
    };
    let diagnosis = diagnose(library(), &client(&server.url), &request).await;
    assert_eq!(diagnosis.symptom.playbook, "queue-buildup");
    assert_eq!(diagnosis.screening.unwrap().asked.as_deref(), Some("queue-buildup"));
}
