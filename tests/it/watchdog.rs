//! An always-firing alert is expected of each Alertmanager: its silence is an incident like any other.

use std::time::{Duration, Instant};

use llm_diagnose_lab::slack::{FakeSlack, Options, State};
use llm_diagnose_lab::stack::{Alertmanager, Postgres, Service};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::running::{CHANNEL, Running, group, serve, tls, whole};

const NOWHERE: &str = "prometheus: [{ url: \"http://127.0.0.1:1\" }]";
/// Silence is noticed after `within`, at the next round of five seconds; and a busy machine is slow.
const NOTICED: Duration = Duration::from_secs(40);

/// Waits until the only message of the channel shows this.
async fn only_message(slack: &FakeSlack, shown: &[&str]) {
    let met = |state: &State| {
        let tops: Vec<String> = state.messages(CHANNEL).filter(|m| m.thread_ts.is_none()).map(whole).collect();
        tops.len() == 1 && shown.iter().all(|part| tops[0].contains(part))
    };
    if let Err(error) = slack.wait_for(met, NOTICED).await {
        panic!("{shown:?}: {error}\n{:#?}", slack.messages(CHANNEL).iter().map(whole).collect::<Vec<_>>());
    }
}

async fn post(service: &Service, path: &str, body: &Value) -> (u16, Value) {
    let url = format!("{}{path}", service.url);
    let response = reqwest::Client::new().post(url).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn tell(running: &Running, body: &Value) -> Value {
    let (status, answer) = post(&running.service, "/webhook/alertmanager/main", body).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

#[tokio::test]
async fn two_replicas_tell_once_that_an_alertmanager_is_silent_and_that_it_returned() {
    tls();
    let postgres = Postgres::start().unwrap();
    let address = postgres.file(&postgres.url()).unwrap();
    let options = Options { allowed_mentions: vec!["!subteam^S0123456789".into()], ..Options::unlimited() };
    let slack = FakeSlack::start(options).await.unwrap();
    let config = format!(
        "{NOWHERE}\ndatabase: {{ url_file: {} }}\nwatchdog: {{ sources: [main], within: 6s }}",
        address.path().display()
    );
    let (one, other) =
        tokio::join!(serve(&slack, "mention: S0123456789,", &config), serve(&slack, "mention: S0123456789,", &config));
    let (one, _other) = (one.unwrap(), other.unwrap());
    only_message(
        &slack,
        &["CRITICAL", "LLMDiagnoseAlertmanagerSilent", "no Watchdog from main yet", "alertmanager=main"],
    )
    .await;

    let watchdog = [json!({ "labels": { "alertname": "Watchdog", "severity": "none" } })];
    let mut alertmanager = Alertmanager::builder()
        .webhook(&format!("{}/webhook/alertmanager/main", one.url), json!({}))
        .repeat_interval(Duration::from_secs(1))
        .start()
        .await
        .unwrap();
    alertmanager.post_alerts(&watchdog).await.unwrap();
    only_message(&slack, &["RESOLVED", "This silence is over"]).await;

    alertmanager.kill().await.unwrap();
    only_message(&slack, &["CRITICAL", "no Watchdog from main since", "one is expected at least every 6 s"]).await;

    alertmanager.restart().await.unwrap();
    alertmanager.post_alerts(&watchdog).await.unwrap();
    only_message(&slack, &["RESOLVED", "This silence is over"]).await;
    let calls = |state: &State| {
        let posts = state.calls().iter().filter(|call| call.method == "chat.postMessage");
        posts
            .filter(|call| call.args["text"].as_str().is_some_and(|text| text.contains("<!subteam^S0123456789>")))
            .count()
    };
    // One call for each silence: two, or one more where this machine was so slow that Alertmanager was silent.
    let silences =
        || postgres.query("postgres", "SELECT SUM(refired + 1) FROM incidents").unwrap().parse::<usize>().unwrap();
    slack.wait_for(|state| calls(state) >= 2 && calls(state) == silences(), NOTICED).await.unwrap();
    let incidents = postgres.query("postgres", "SELECT COUNT(*) FROM incidents").unwrap();
    assert_eq!((incidents.as_str(), slack.violations()), ("1", vec![]));
}

#[tokio::test]
async fn a_watchdog_opens_no_incident_and_its_end_is_told_at_once() {
    // In a storm too it has a message of its own.
    let config = format!("{NOWHERE}\nwatchdog: {{ sources: [main, eu], within: 1h }}");
    let running = Running::start_slack(Options::unlimited(), "storm: { incidents: 1 }", &config).await;
    let firing = group("Watchdog", "firing", "none", &[""]);
    assert_eq!(tell(&running, &firing).await, json!({ "reason": "watchdog" }));
    // In a group with others it is taken out, or the incident would never end.
    let mut mixed = group("LLMHighTTFT", "firing", "warning", &["a"]);
    mixed["alerts"].as_array_mut().unwrap().push(firing["alerts"][0].clone());
    let id = tell(&running, &mixed).await["incident"].as_str().unwrap().to_owned();
    let incident: Value = serde_json::from_str(&running.get(&format!("/api/v1/incidents/{id}")).await.1).unwrap();
    assert_eq!(incident["alerts"].as_array().unwrap().len(), 1, "{incident:#}");
    let mut over = group("LLMHighTTFT", "resolved", "warning", &["a"]);
    over["alerts"].as_array_mut().unwrap().push(firing["alerts"][0].clone());
    assert_eq!(tell(&running, &over).await["reason"], "resolved");

    assert_eq!(tell(&running, &group("Watchdog", "resolved", "none", &[""])).await["reason"], "watchdog");
    running
        .slack
        .wait_for(|s| s.messages(CHANNEL).any(|m| whole(m).contains("main reported that Watchdog ended")), NOTICED)
        .await
        .unwrap();
    let (status, ready) = running.get("/readyz").await;
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let check =
        |name: &str| ready["checks"].as_array().unwrap().iter().find(|c| c["name"] == name).unwrap()["ok"].clone();
    assert_eq!((status, &ready["status"]), (200, &json!("degraded")));
    assert_eq!((check("alertmanager/main"), check("alertmanager/eu")), (json!(false), json!(true)), "{ready:#}");
    let metrics = running.get("/metrics").await.1;
    assert!(metrics.contains("llm_diagnose_watchdog_age_seconds{source=\"eu\"}"), "{metrics}");

    tell(&running, &firing).await;
    running
        .slack
        .wait_for(|s| s.messages(CHANNEL).any(|m| whole(m).contains("This silence is over")), NOTICED)
        .await
        .unwrap();
    assert_eq!(running.tops(CHANNEL).len(), 2, "one of the other alert, one of the silence");
}

/// Waits until a round has told such an age of the watchdog, in seconds.
async fn age(running: &Running, met: impl Fn(f64) -> bool) {
    let until = Instant::now() + NOTICED;
    loop {
        let page = running.get("/metrics").await.1;
        let age = |line: &str| line.strip_prefix("llm_diagnose_watchdog_age_seconds{source=\"main\"} ")?.parse().ok();
        if page.lines().find_map(age).is_some_and(&met) {
            return;
        }
        assert!(Instant::now() < until, "{page}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn an_alertmanager_is_not_silent_because_our_store_was_away() {
    let running = Running::start(&format!("{NOWHERE}\nwatchdog: {{ sources: [main], within: 8s }}")).await;
    let firing = group("Watchdog", "firing", "none", &[""]);
    let told = Instant::now();
    tell(&running, &firing).await;
    let database = running.service.directory().join("state/llm-diagnose.db");
    let mut other = SqliteConnectOptions::new().filename(database).connect().await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let away = Instant::now();
    while away.elapsed() < Duration::from_secs(11) {
        let (status, answer) = post(&running.service, "/webhook/alertmanager/main", &firing).await;
        assert_eq!(status, 503, "{answer}");
    }
    let checks = running.get("/readyz").await.1;
    assert!(!checks.contains("no Watchdog from main"), "{checks}");
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    let away = told.elapsed().as_secs_f64();
    other.close().await.unwrap();
    // The first round after that comes before the sender repeats, and a second one after that.
    age(&running, |age| age > away).await;
    let repeated = async {
        let mut interval = tokio::time::interval(Duration::from_secs(1));
        loop {
            interval.tick().await;
            tell(&running, &firing).await;
        }
    };
    tokio::select! {
        () = age(&running, |age| age < 8.0) => {}
        () = repeated => {}
    }
    let incidents = running.get("/api/v1/incidents").await.1;
    assert!(!incidents.contains("LLMDiagnoseAlertmanagerSilent"), "{incidents}");
}

#[tokio::test]
async fn an_incident_that_cannot_be_read_keeps_no_other_silence_from_being_told() {
    let running = Running::start(&format!("{NOWHERE}\nwatchdog: {{ sources: [main, eu], within: 1h }}")).await;
    let (firing, ended) = ["firing", "resolved"].map(|status| group("Watchdog", status, "none", &[""])).into();
    tell(&running, &ended).await;
    running.wait_for(CHANNEL, |text| text.contains("main reported that Watchdog ended")).await;
    let database = running.service.directory().join("state/llm-diagnose.db");
    let mut other = SqliteConnectOptions::new().filename(database).connect().await.unwrap();
    sqlx::query("UPDATE incidents SET started_ms = 'never'").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    // Its end would be read from the incident.
    tell(&running, &firing).await;
    assert_eq!(post(&running.service, "/webhook/alertmanager/eu", &ended).await.0, 200);
    running.wait_for(CHANNEL, |text| text.contains("eu reported that Watchdog ended")).await;
}

#[tokio::test]
async fn a_watchdog_beside_alerts_that_were_left_out_is_shown_with_them() {
    let running = Running::start(NOWHERE).await;
    let mut firing = group("Watchdog", "firing", "none", &[""]);
    firing["truncatedAlerts"] = json!(5);
    assert_eq!(running.send(&firing).await["reason"], "first");
    running.wait_for(CHANNEL, |text| text.contains("Watchdog")).await;
}

#[tokio::test]
async fn without_an_expected_source_a_watchdog_is_only_kept_quiet_and_it_can_be_an_alert_like_others() {
    let body = group("Watchdog", "firing", "none", &[""]);
    let running = Running::start(NOWHERE).await;
    assert_eq!(running.send(&body).await, json!({ "reason": "watchdog" }));
    let running = Running::start(&format!("{NOWHERE}\nwatchdog: {{ alert: \"\" }}")).await;
    assert_eq!(running.send(&body).await["reason"], "first");
    running.wait_for(CHANNEL, |text| text.contains("Watchdog")).await;
}
