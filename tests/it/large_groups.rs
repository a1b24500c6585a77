//! Groups of any size: what can be kept is kept, chat says what is not, and the end of all of them is told.

use serde_json::{Value, json};

use crate::running::{CHANNEL, NOWHERE, Running, SOON, group, whole};

/// A group of alerts of some 1.2 kB each, as Alertmanager sends it with `max_alerts: 0`; the last one is critical.
pub(crate) fn many(n: usize, status: impl Fn(usize) -> &'static str) -> Value {
    let mut body = group("LLMHighTTFT", "firing", "warning", &[]);
    let alerts: Vec<Value> = (0..n)
        .map(|i| {
            let severity = if i + 1 == n { "critical" } else { "warning" };
            json!({
                "status": status(i),
                "labels": { "alertname": "LLMHighTTFT", "namespace": "llm", "severity": severity, "pod": format!("pod-{i}") },
                "annotations": { "summary": "first tokens are late", "description": "x".repeat(900) },
                "startsAt": "2026-11-20T03:00:00Z",
                "endsAt": "0001-01-01T00:00:00Z",
                "generatorURL": "http://prometheus/graph",
                "fingerprint": format!("{i:016x}"),
            })
        })
        .collect();
    body["alerts"] = json!(alerts);
    body
}

/// The body in Alertmanager's order of keys: the group is named after its alerts.
pub(crate) fn sent(body: &Value) -> Vec<u8> {
    let mut rest = body.clone();
    let mut take = |key: &str| rest.as_object_mut().unwrap().remove(key).unwrap();
    let (receiver, status, alerts) = (take("receiver"), take("status"), take("alerts"));
    let rest = serde_json::to_string(&rest).unwrap();
    format!("{{\"receiver\":{receiver},\"status\":{status},\"alerts\":{alerts},{}", &rest[1..]).into_bytes()
}

#[tokio::test]
async fn ten_thousand_alerts_are_admitted_marked_and_resolved() {
    // On a slow machine a body takes seconds.
    let run = Running::start(&format!("{NOWHERE}\nincident: {{ duplicate_within: 10m }}")).await;
    let body = sent(&many(10_000, |_| "firing"));
    assert!(body.len() > 11_000_000);
    let (status, answer) = run.webhook(body.clone()).await;
    assert_eq!((status, &answer["reason"]), (200, &json!("first")), "{answer}");
    run.wait_for(CHANNEL, |text| text.contains("8000 more alerts were left out")).await;
    let id = answer["incident"].as_str().unwrap().to_owned();
    let incident: Value = serde_json::from_str(&run.get(&format!("/api/v1/incidents/{id}")).await.1).unwrap();
    let alerts = incident["alerts"].as_array().unwrap();
    assert_eq!(alerts.len(), 2_000);
    assert!(alerts.iter().any(|alert| alert["labels"]["severity"] == "critical"), "the most severe are kept");

    let (_, again) = run.webhook(body).await;
    assert_eq!((&again["reason"], &again["incident"]), (&json!("duplicate"), &json!(id)));
    // Every kept alert ends; others fire on.
    let (_, fewer) = run.webhook(sent(&many(10_000, |i| if i < 5_000 { "resolved" } else { "firing" }))).await;
    assert_eq!((&fewer["reason"], &fewer["incident"]), (&json!("fewer_alerts"), &json!(id)));
    let (_, over) = run.webhook(sent(&many(10_000, |_| "resolved"))).await;
    assert_eq!((&over["reason"], &over["incident"]), (&json!("resolved"), &json!(id)));
    let done =
        |s: &llm_diagnose_lab::slack::State| s.messages(CHANNEL).any(|m| whole(m).to_lowercase().contains("resolved"));
    run.slack.wait_for(done, SOON).await.unwrap();
}

#[tokio::test]
async fn a_body_above_the_limit_is_refused_and_chat_says_so_once() {
    let run = Running::start(&format!("{NOWHERE}\nwebhook: {{ authentication: none, body_limit: 20000 }}")).await;
    for _ in 0..3 {
        let (status, answer) = run.webhook(sent(&many(100, |_| "firing"))).await;
        assert_eq!(status, 413);
        assert!(answer["error"].as_str().unwrap().contains("webhook.body_limit (20000 bytes)"), "{answer}");
    }
    run.wait_for(CHANNEL, |text| text.contains("Too large to read") && text.contains("max_alerts")).await;
    assert_eq!(run.tops(CHANNEL).len(), 1);
    let (_, metrics) = run.get("/metrics").await;
    assert!(metrics.contains("llm_diagnose_webhooks_total{result=\"too_large\"} 3"), "{metrics}");
}

/// As [`many`], over; and the group says so.
fn over(n: usize) -> Value {
    let mut body = many(n, |_| "resolved");
    body["status"] = "resolved".into();
    body
}

/// A service that has told of a notification which was too large to be read.
async fn too_large() -> Running {
    let run = Running::start(&format!("{NOWHERE}\nwebhook: {{ authentication: none, body_limit: 20000 }}")).await;
    assert_eq!(run.webhook(sent(&many(100, |_| "firing"))).await.0, 413);
    run.wait_for(CHANNEL, |text| text.contains("Too large to read")).await;
    run
}

#[tokio::test]
async fn what_was_too_large_ends_with_a_notification_of_the_end_that_is_too_large_as_well() {
    let run = too_large().await;
    // Some alerts ended, and the first of the body is one of them: the group fires on.
    assert_eq!(run.webhook(sent(&many(100, |i| if i == 0 { "resolved" } else { "firing" }))).await.0, 413);
    let (_, listed) = run.get("/api/v1/incidents").await;
    assert!(!listed.contains("resolved_at\":\""), "{listed}");
    assert_eq!(run.webhook(sent(&over(100))).await.0, 413);
    run.wait_for(CHANNEL, |text| text.contains("Too large to read") && text.contains("RESOLVED")).await;
    assert_eq!(run.tops(CHANNEL).len(), 1);
}

#[tokio::test]
async fn what_was_too_large_ends_when_its_group_can_be_read() {
    let run = too_large().await;
    // Another group of the same alert says nothing of it.
    let mut other = group("LLMHighTTFT", "firing", "warning", &["z"]);
    other["groupLabels"]["namespace"] = "other".into();
    other["groupKey"] = "{}:{alertname=\"LLMHighTTFT\", namespace=\"other\"}".into();
    run.send(&other).await;
    run.wait_for(CHANNEL, |text| text.contains("WARNING") && !text.contains("Too large to read")).await;
    assert!(!run.tops(CHANNEL).iter().any(|message| whole(message).contains("RESOLVED")));
    // It fires on, and has an incident of its own.
    run.send(&group("LLMHighTTFT", "firing", "warning", &["a"])).await;
    run.wait_for(CHANNEL, |text| text.contains("Too large to read") && text.contains("RESOLVED")).await;
    run.wait_for(CHANNEL, |text| text.contains("the group can be read again")).await;
    let fires = |m: &&llm_diagnose_lab::slack::Message| m.thread_ts.is_none() && !whole(m).contains("RESOLVED");
    run.slack.wait_for(|s| s.messages(CHANNEL).filter(fires).count() == 2, SOON).await.unwrap();
}

#[tokio::test]
async fn the_late_half_of_a_pair_is_known_in_a_group_of_more_alerts_than_are_kept() {
    let run = Running::start(&format!("{NOWHERE}\nincident: {{ duplicate_within: 10m }}")).await;
    let send = async |body: &Value| {
        let (status, answer) = run.webhook(sent(body)).await;
        (status, answer["reason"].as_str().unwrap_or_default().to_owned())
    };
    let firing = many(3_000, |_| "firing");
    assert_eq!(send(&firing).await, (200, "first".to_owned()));
    // Some end, those that are kept among them; the other Alertmanager of the pair still says what was before.
    assert_eq!(send(&many(3_000, |i| if i < 2_500 { "resolved" } else { "firing" })).await.1, "fewer_alerts");
    assert_eq!(send(&firing).await.0, 409);
    assert_eq!(send(&over(3_000)).await.1, "resolved");
    assert_eq!(send(&firing).await.0, 409);
    // More than were ever left out are news.
    assert_eq!(send(&many(5_000, |_| "firing")).await, (200, "refired".to_owned()));
}

#[tokio::test]
async fn several_long_bodies_at_once_are_stored_each() {
    let run = Running::start(NOWHERE).await;
    let bodies = (0..4).map(|n| {
        let mut body = many(2_000, |_| "firing");
        body["groupKey"] = json!(format!("{{}}:{{n=\"{n}\"}}"));
        sent(&body)
    });
    let answers = futures::future::join_all(bodies.map(|body| run.webhook(body))).await;
    assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
}
