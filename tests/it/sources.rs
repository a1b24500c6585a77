//! Who sent a group: two clusters whose groups have the same key, the members of a highly available pair, and what the
//! second of a pair says late.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use knowledge::alert::AlertGroup;
use knowledge::clock;
use knowledge::incident::{AdmissionRules, AdmitReason};
use llm_diagnose_lab::stack::{Alertmanager, Postgres};
use serde_json::{Value, json};
use store::{AdmissionPlan, Admitted, DuplicateCheck, PendingWork, Store};

use crate::admission::CALM;
use crate::running::{CHANNEL, Running, SOON, group};

const RULES: AdmissionRules =
    AdmissionRules { duplicate_within: Duration::from_secs(60), reopen_within: Duration::from_secs(600) };

fn at(seconds: i64) -> Timestamp {
    "2026-11-20T03:20:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

/// A group of one cluster's alerts; an empty cluster is no label.
fn of(cluster: &str, status: &str, pods: &[&str]) -> Value {
    let mut group = group("LLMHighTTFT", status, "warning", pods);
    for alert in group["alerts"].as_array_mut().unwrap() {
        if !cluster.is_empty() {
            alert["labels"]["cluster"] = cluster.into();
            alert["fingerprint"] = format!("{cluster}-{}", alert["fingerprint"].as_str().unwrap()).into();
        }
    }
    group
}

async fn admit(store: &Store, group: &Value, sender: Option<&str>, seconds: i64) -> Admitted {
    let mut group = AlertGroup::from_webhook(&serde_json::to_vec(group).unwrap()).unwrap();
    group.sender = sender.map(str::to_owned);
    admit_group(store, group, seconds).await
}

async fn admit_group(store: &Store, group: AlertGroup, seconds: i64) -> Admitted {
    let wanted =
        AdmissionPlan { selection: None, sinks: Vec::new(), filtered: Vec::new(), grace: Duration::ZERO, storm: CALM };
    store.admit(&[(group, wanted)], at(seconds), &RULES).await.unwrap().remove(0).unwrap()
}

async fn open(store: &Store, admitted: &Admitted) -> bool {
    store.incident(&admitted.incident).await.unwrap().unwrap().open
}

#[tokio::test]
async fn clusters_with_the_same_group_key_do_not_end_each_others_incidents() {
    let directory = tempfile::tempdir().unwrap();
    let postgres = Postgres::start().unwrap();
    let sqlite = Store::open(&directory.path().join("state.db")).await.unwrap();
    for store in [sqlite, Store::connect(&postgres.url()).await.unwrap()] {
        let (eu, us) = (
            admit(&store, &of("eu", "firing", &["a"]), None, 0).await,
            admit(&store, &of("us", "firing", &["a"]), None, 1).await,
        );
        assert_eq!((eu.reason, us.reason), (AdmitReason::First, AdmitReason::First));
        let over = admit(&store, &of("eu", "resolved", &["a"]), None, 2).await;
        assert_eq!((over.reason, &over.incident), (AdmitReason::Resolved, &eu.incident));
        assert!(open(&store, &us).await && !open(&store, &eu).await);
        // The members of a pair differ in their address alone.
        let mut second = of("us", "firing", &["a"]);
        second["externalURL"] = "http://alertmanager-1".into();
        let second = admit(&store, &second, None, 3).await;
        assert_eq!((second.reason, &second.incident), (AdmitReason::Duplicate, &us.incident));
        // Alerts without the label: who sends them is configured.
        let north = admit(&store, &of("", "firing", &["a"]), Some("north"), 4).await;
        let south = admit(&store, &of("", "firing", &["a"]), Some("south"), 5).await;
        assert_eq!((north.reason, south.reason), (AdmitReason::First, AdmitReason::First));
        admit(&store, &of("", "resolved", &["a"]), Some("south"), 6).await;
        assert!(open(&store, &north).await && !open(&store, &south).await);
        let incident = store.incident(&north.incident).await.unwrap().unwrap();
        assert_eq!((incident.source.as_str(), incident.seen_before), ("north", 0));
        store.close().await;
    }
}

/// A group of two clusters.
fn mixed(eu: &str, us: &str) -> Value {
    let mut both = of("eu", eu, &["a"]);
    both["alerts"].as_array_mut().unwrap().extend(of("us", us, &["a"])["alerts"].as_array().unwrap().clone());
    both
}

#[tokio::test]
async fn what_was_too_large_of_several_clusters_ends_when_the_group_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let postgres = Postgres::start().unwrap();
    let sqlite = Store::open(&directory.path().join("state.db")).await.unwrap();
    for store in [sqlite, Store::connect(&postgres.url()).await.unwrap()] {
        let both = mixed("firing", "firing");
        let mut later = of("us", "firing", &["a"]);
        later["alerts"][0]["startsAt"] = "2026-11-20T03:05:00Z".into();
        let too_large = AlertGroup::too_large(both.to_string().as_bytes()).unwrap();
        // Its first alert is now of the one cluster and now of the other.
        let turned = AlertGroup::too_large(later.to_string().as_bytes()).unwrap();
        let (told, also) = (admit_group(&store, too_large, 0).await, admit_group(&store, turned, 0).await);
        assert_ne!(told.incident, also.incident);
        assert_eq!(store.incident(&told.incident).await.unwrap().unwrap().source, "eu");
        admit(&store, &of("eu-2", "firing", &["b"]), None, 1).await;
        assert!(open(&store, &told).await && open(&store, &also).await, "another cluster's group says nothing of it");
        let read = admit(&store, &both, None, 2).await;
        assert!(open(&store, &read).await && !open(&store, &told).await && !open(&store, &also).await);
        store.close().await;
    }
}

#[tokio::test]
async fn what_was_too_large_ends_when_the_group_is_read_in_the_same_batch() {
    let directory = tempfile::tempdir().unwrap();
    let postgres = Postgres::start().unwrap();
    let sqlite = Store::open(&directory.path().join("state.db")).await.unwrap();
    for store in [sqlite, Store::connect(&postgres.url()).await.unwrap()] {
        let whole = of("eu", "firing", &["a"]);
        let too_large = AlertGroup::too_large(whole.to_string().as_bytes()).unwrap();
        let read = AlertGroup::from_webhook(whole.to_string().as_bytes()).unwrap();
        let other = AlertGroup::from_webhook(of("us", "firing", &["b"]).to_string().as_bytes()).unwrap();
        let plan = || AdmissionPlan {
            selection: None,
            sinks: Vec::new(),
            filtered: Vec::new(),
            grace: Duration::ZERO,
            storm: CALM,
        };
        let batch = [(too_large, plan()), (other, plan()), (read, plan())];
        let admitted = store.admit(&batch, at(0), &RULES).await.unwrap();
        let admitted: Vec<Admitted> = admitted.into_iter().map(Result::unwrap).collect();
        assert!(admitted.iter().all(|admitted| admitted.reason == AdmitReason::First), "{admitted:?}");
        let [first, second, third] = &admitted[..] else { panic!("{admitted:?}") };
        let states = [open(&store, first).await, open(&store, second).await, open(&store, third).await];
        assert_eq!(states, [false, true, true]);
        store.close().await;
    }
}

#[tokio::test]
async fn an_unreadable_incident_ends_with_its_alerts_and_is_looked_for_now() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let store = Store::open(&path).await.unwrap();
    let opened = admit(&store, &of("eu", "firing", &["a"]), None, 0).await;
    let subject = opened.incident.clone();
    let check = DuplicateCheck { subject, channel: CHANNEL.to_owned(), thread: None, since: at(0), checks_done: 3 };
    store.schedule_duplicate_check(&check, at(86_400)).await.unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let mut database = sqlx::ConnectOptions::connect(&options).await.unwrap();
    sqlx::Executor::execute(&mut database, "UPDATE incidents SET notified_ms = 'x'").await.unwrap();
    let next = admit(&store, &of("eu", "firing", &["a"]), None, 10).await;
    assert!(next.reason == AdmitReason::First && next.incident != opened.incident);
    let old = store.incident(&opened.incident).await.unwrap().unwrap();
    assert!(!old.open && old.firing().is_empty(), "{old:?}");
    let due: Vec<PendingWork> =
        store.waiting(at(10), 9).await.unwrap().into_iter().map(|waiting| waiting.work).collect();
    assert!(
        due.iter().any(|work| matches!(work, PendingWork::DuplicateCheck(due) if due.subject == check.subject)),
        "{due:?}"
    );
}

#[tokio::test]
async fn a_group_whose_clusters_come_and_go_stays_one_incident() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("state.db")).await.unwrap();
    let opened = admit(&store, &of("eu", "firing", &["a"]), None, 0).await;
    for (group, reason) in [
        (mixed("firing", "firing"), AdmitReason::NewAlerts),
        (mixed("resolved", "firing"), AdmitReason::FewerAlerts),
        (of("us", "firing", &["a", "b"]), AdmitReason::NewAlerts),
        (of("us", "resolved", &["a", "b"]), AdmitReason::Resolved),
    ] {
        let admitted = admit(&store, &group, None, 1).await;
        assert_eq!((admitted.reason, admitted.incident), (reason, opened.incident.clone()));
    }
}

#[tokio::test]
async fn what_a_pair_says_late_does_not_fire_again_and_what_fires_still_does() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("state.db")).await.unwrap();
    let both = of("eu", "firing", &["a", "b"]);
    let opened = admit(&store, &both, None, 0).await;
    let mut fewer = of("eu", "firing", &["a", "b"]);
    fewer["alerts"][0]["status"] = "resolved".into();
    assert_eq!(admit(&store, &fewer, None, 300).await.reason, AdmitReason::FewerAlerts);
    assert_eq!(admit(&store, &both, None, 315).await.reason, AdmitReason::Late, "one of two had ended");
    assert_eq!(admit(&store, &of("eu", "resolved", &["b"]), None, 400).await.reason, AdmitReason::Resolved);
    let revision = async || store.incident(&opened.incident).await.unwrap().unwrap().revision;
    let before = revision().await;
    for late in [400, 415, 460] {
        assert_eq!(admit(&store, &both, None, late).await.reason, AdmitReason::Late);
    }
    assert_eq!((open(&store, &opened).await, revision().await), (false, before));
    // A new start is a new episode, at once.
    let mut again = of("eu", "firing", &["a"]);
    again["alerts"][0]["startsAt"] = "2026-11-20T03:26:45Z".into();
    let again = admit(&store, &again, None, 405).await;
    assert_eq!((again.reason, &again.incident), (AdmitReason::Refired, &opened.incident));
    admit(&store, &of("eu", "resolved", &["a"]), None, 500).await;
    // The same start is said once more at a later group_interval: Alertmanager had lost sight of it.
    assert_eq!(admit(&store, &both, None, 561).await.reason, AdmitReason::Refired);
}

#[tokio::test]
async fn an_alert_that_was_seen_only_when_it_was_over_is_told_when_it_fires() {
    let run = Running::start("prometheus: [{ url: \"http://127.0.0.1:1\" }]").await;
    assert_eq!(run.send(&group("LLMHighTTFT", "resolved", "warning", &["a"])).await["reason"], "resolved_unseen");
    let mut fires = group("LLMHighTTFT", "firing", "warning", &["a"]);
    fires["alerts"][0]["startsAt"] = "2026-11-20T03:11:00Z".into();
    run.send(&fires).await;
    run.wait_for(CHANNEL, |m| m.starts_with("WARNING")).await;
}

#[tokio::test]
async fn alertmanager_asks_again_for_what_was_late_and_still_fires() {
    let run = Running::start("prometheus: [{ url: \"http://127.0.0.1:1\" }]\nincident: { duplicate_within: 3s }").await;
    let url = format!("{}/webhook/alertmanager/eu-1", run.service.url);
    let alertmanager = Alertmanager::builder().webhook(&url, json!({})).start().await.unwrap();
    let begun = jiff::Timestamp::from_second(clock::now().as_second() - 60).unwrap();
    let labels = json!({ "alertname": "LLMHighTTFT", "namespace": "llm", "severity": "warning" });
    let fires = [json!({ "labels": labels, "startsAt": begun.to_string() })];
    alertmanager.post_alerts(&fires).await.unwrap();
    run.wait_for(CHANNEL, |m| m.starts_with("WARNING")).await;
    let ends = json!({ "labels": labels, "startsAt": begun.to_string(), "endsAt": clock::now().to_string() });
    alertmanager.post_alerts(&[ends]).await.unwrap();
    run.wait_for(CHANNEL, |m| m.contains("RESOLVED")).await;
    alertmanager.post_alerts(&fires).await.unwrap();
    run.wait_for(CHANNEL, |m| m.contains("*fires again*")).await;
    let (_, metrics) = run.get("/metrics").await;
    assert!(metrics.contains("llm_diagnose_webhooks_total{result=\"late\"}"), "{metrics}");
}

#[tokio::test]
async fn a_source_is_named_by_its_path_or_by_a_token_of_its_own() {
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let config = format!(
        "prometheus: [{{ url: \"http://127.0.0.1:1\" }}]\nwebhook: {{ bearer_token_file: {}, \
         sources: [{{ name: eu-1, bearer_token_file: {} }}] }}",
        file("any", "any-token"),
        file("eu", "eu-token")
    );
    let run = Running::start(&config).await;
    let send = async |path: &str, token: &str, status: &str| {
        let url = format!("{}/webhook/alertmanager{path}", run.service.url);
        let body = group("LLMHighTTFT", status, "warning", &["a"]);
        let answer = run.http.post(url).bearer_auth(token).json(&body).timeout(SOON).send().await.unwrap();
        let code = answer.status().as_u16();
        (code, answer.json::<Value>().await.unwrap_or_default()["incident"].clone())
    };
    let (code, eu) = send("", "eu-token", "firing").await;
    let (also, us) = send("/us-1", "any-token", "firing").await;
    assert_eq!((code, also), (200, 200));
    assert_ne!(eu, us, "two sources");
    assert_eq!(send("/eu-1", "eu-token", "resolved").await, (200, eu), "both name the same");
    assert_eq!(send("/us-1", "any-token", "firing").await.1, us);
    for (path, token, refused) in
        [("/us-1", "eu-token", 403), ("", "no-token", 401), ("/us-1", "no-token", 401), ("/a%20b", "any-token", 400)]
    {
        assert_eq!(send(path, token, "firing").await.0, refused, "{path} {token}");
    }
}
