//! How the webhook answers: 200 only when stored, 503 for "not now", 4xx with the reason.

use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::running::{CHANNEL, Running, command, ended, group};

const NOWHERE: &str = "prometheus: [{ url: \"http://127.0.0.1:1\" }]";

#[tokio::test]
async fn bad_bodies_are_refused_with_the_reason() {
    let run = Running::start(&format!("{NOWHERE}\nwebhook: {{ authentication: none, body_limit: 20000 }}")).await;
    let (status, answer) = run.webhook(b"{".to_vec()).await;
    assert_eq!(status, 400);
    assert!(answer["error"].as_str().unwrap().contains("no Alertmanager webhook payload"), "{answer}");
    let mut old = group("A", "firing", "warning", &["a"]);
    old["version"] = json!("3");
    let (status, answer) = run.webhook(serde_json::to_vec(&old).unwrap()).await;
    assert_eq!(
        (status, answer["error"].as_str()),
        (400, Some("payload version is \"3\", expected \"4\" of Alertmanager, or \"1\" of Grafana"))
    );
    let (status, answer) = run.webhook(vec![b' '; 20_001]).await;
    assert_eq!(status, 413);
    assert!(answer["error"].as_str().unwrap().contains("webhook.body_limit (20000 bytes)"), "{answer}");
    let (_, metrics) = run.get("/metrics").await;
    for result in ["malformed\"} 2", "too_large\"} 1"] {
        assert!(metrics.contains(&format!("llm_diagnose_webhooks_total{{result=\"{result}")), "{metrics}");
    }
}

#[tokio::test]
async fn unknown_fields_are_tolerated_and_a_group_is_answered_with_its_incident() {
    let run = Running::start(NOWHERE).await;
    let mut body = group("LLMHighTTFT", "firing", "warning", &["a"]);
    body["somethingNew"] = json!({ "a": [1, 2] });
    body["alerts"][0]["routeLabels"] = json!({});
    let first = run.send(&body).await;
    assert_eq!(first["reason"], "first");
    let again = run.send(&body).await;
    assert_eq!((&again["reason"], &again["incident"]), (&json!("duplicate"), &first["incident"]));
    let (status, page) = run.get(&format!("/api/v1/incidents/{}", first["incident"].as_str().unwrap())).await;
    assert_eq!(status, 200);
    let incident: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(incident["playbook"], "high-ttft");
}

#[tokio::test]
async fn a_wrong_or_missing_token_is_401_and_the_right_one_passes() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "s3cret\n").unwrap();
    let run =
        Running::start(&format!("{NOWHERE}\nwebhook: {{ bearer_token_file: {} }}", secret.path().display())).await;
    let body = serde_json::to_vec(&group("A", "firing", "warning", &["a"])).unwrap();
    let url = format!("{}/webhook/alertmanager", run.service.url);
    let call = async |token: Option<&str>| {
        let request = run.http.post(&url).header("content-type", "application/json").body(body.clone());
        let request = token.iter().fold(request, |r, token| r.bearer_auth(token));
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!([call(None).await, call(Some("wrong")).await, call(Some("s3cret")).await], [401, 401, 200]);
    assert!(!run.service.stderr().contains("s3cret"), "secrets stay out of the log");
}

/// The complaint of a service that does not start with this configuration.
async fn refusal(webhook: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("llm-diagnose.yaml");
    std::fs::write(&config, format!("listen: 127.0.0.1:0\n{NOWHERE}\n{webhook}\n")).unwrap();
    let (config, state) = (config.to_str().unwrap(), directory.path().to_str().unwrap());
    let output = ended(command(&["serve", "--config", config, "--state-dir", state])).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn the_service_starts_without_credentials_only_if_the_configuration_says_so() {
    let without = refusal("").await;
    assert!(without.contains("set `webhook.bearer_token_file`") && without.contains("`webhook.authentication: none`"));
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "s3cret\n").unwrap();
    let both = format!("webhook: {{ authentication: none, bearer_token_file: {} }}", secret.path().display());
    assert!(refusal(&both).await.contains("beside credentials: remove it, or them"));
}

#[tokio::test]
async fn a_web_page_in_somebodys_browser_cannot_send_alerts() {
    let run = Running::start(NOWHERE).await;
    let body = serde_json::to_vec(&group("A", "firing", "warning", &["a"])).unwrap();
    let url = format!("{}/webhook/alertmanager", run.service.url);
    let status = async |headers: &[(&'static str, &'static str)]| {
        let request = run.http.post(&url).body(body.clone());
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.send().await.unwrap().status().as_u16()
    };
    let json = ("content-type", "application/json");
    for (headers, expected) in [
        (vec![], 415),
        (vec![("content-type", "text/plain")], 415),
        (vec![("content-type", "text/plain;application/json")], 415),
        (vec![json, ("origin", "https://page.example")], 403),
        (vec![json, ("origin", "null")], 403),
        (vec![json], 200),
        (vec![("content-type", "Application/JSON; charset=utf-8")], 200),
    ] {
        assert_eq!(status(&headers).await, expected, "{headers:?}");
    }
}

#[tokio::test]
async fn basic_authentication_works_too() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "pässword").unwrap();
    let extra = format!("{NOWHERE}\nwebhook: {{ username: am, password_file: {} }}", secret.path().display());
    let run = Running::start(&extra).await;
    let body = serde_json::to_vec(&group("A", "firing", "warning", &["a"])).unwrap();
    let url = format!("{}/webhook/alertmanager", run.service.url);
    let call = async |password: &str| {
        let request = run
            .http
            .post(&url)
            .header("content-type", "application/json")
            .body(body.clone())
            .basic_auth("am", Some(password));
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!([call("nope").await, call("pässword").await], [401, 200]);
}

#[tokio::test]
async fn a_locked_store_is_503_and_the_retry_is_stored() {
    let run = Running::start(NOWHERE).await;
    let database = run.service.directory().join("state/llm-diagnose.db");
    let mut other = SqliteConnectOptions::new().filename(database).connect().await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let body = serde_json::to_vec(&group("LLMHighTTFT", "firing", "warning", &["a"])).unwrap();
    let (status, answer) = run.webhook(body.clone()).await;
    assert_eq!(status, 503, "{answer}");
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    assert_eq!(run.webhook(body).await.0, 200);
}

#[tokio::test]
async fn readiness_names_every_check_and_fails_only_when_alerts_would_be_lost() {
    let run = Running::start(NOWHERE).await;
    let (status, body) = run.get("/readyz").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    let checks: Vec<(&str, bool)> = body["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["name"].as_str().unwrap(), c["ok"].as_bool().unwrap()))
        .collect();
    assert_eq!((status, body["status"].as_str()), (200, Some("degraded")));
    let channels = [("slack channel #critical", true), ("slack channel #llm-alerts", true)];
    assert_eq!(
        checks,
        [[("store", true), ("prometheus/default", false), ("slack", true)].as_slice(), &channels].concat()
    );
    assert_eq!(run.get("/healthz").await, (200, "ok\n".to_owned()));
}

#[tokio::test]
async fn pages_show_the_incident_and_run_no_script_of_a_label() {
    let run = Running::start(NOWHERE).await;
    let id =
        run.send(&group("LLMHighTTFT", "firing", "warning", &["<script>alert(1)</script>"])).await["incident"].clone();
    let (status, page) = run.get(&format!("/incidents/{}", id.as_str().unwrap())).await;
    assert_eq!(status, 200);
    assert!(page.contains("LLMHighTTFT") && page.contains("&lt;script&gt;alert(1)"), "{page}");
    assert!(!page.contains("<script>"), "{page}");
    assert!(run.get("/incidents").await.1.contains("WARNING"));
    assert_eq!(run.get("/incidents/nope").await.0, 404);
}

#[tokio::test]
async fn probes_do_not_ask_slack_each_time() {
    let run = Running::start(NOWHERE).await;
    let before = run.slack.calls().iter().filter(|call| call.method == "auth.test").count();
    let probes = futures::future::join_all((0..40).map(|_| run.get("/readyz"))).await;
    assert!(probes.iter().all(|(status, body)| *status == 200 && body.contains("\"slack\",\"ok\":true")));
    let after = run.slack.calls().iter().filter(|call| call.method == "auth.test").count();
    assert!(after <= before + 2, "40 probes asked Slack {} times", after - before);
}

#[tokio::test]
async fn an_alert_of_grafana_is_taken_and_its_panel_and_silence_form_are_linked() {
    let run = Running::start(NOWHERE).await;
    // Source: https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/integrations/webhook-notifier/.
    let alert = |pod: &str| {
        json!({
            "status": "firing",
            "labels": { "alertname": "LLMHighTTFT", "grafana_folder": "llm", "namespace": "llm", "severity": "critical", "pod": pod },
            "annotations": { "summary": "first tokens are late" },
            "startsAt": "2026-11-20T09:51:03.157076+02:00", "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "https://grafana.example.org/alerting/1afz29v7z/edit", "fingerprint": format!("c6eadffa33fcdf3{pod}"),
            "silenceURL": format!("https://grafana.example.org/alerting/silence/new?alertmanager=grafana&matchers=pod%3D{pod}"),
            "dashboardURL": "https://grafana.example.org/d/llm", "panelURL": "https://grafana.example.org/d/llm?viewPanel=7",
            "values": { "B": 44.23943737541908, "C": 1 }, "valueString": "[ var='B' labels={} value=44.2 ]",
        })
    };
    let mut sent = json!({
        "receiver": "llm", "status": "firing", "orgId": 1, "alerts": [alert("1")], "groupLabels": {}, "commonLabels": {},
        "commonAnnotations": {}, "externalURL": "https://grafana.example.org/", "version": "1", "truncatedAlerts": 0,
        "groupKey": "{}/{}:{alertname=\"LLMHighTTFT\", grafana_folder=\"llm\"}",
        "title": "[FIRING:1] LLMHighTTFT llm", "state": "alerting", "message": "**Firing**",
    });
    let answer = run.send(&sent).await;
    assert_eq!(answer["reason"], "first");
    let panel = |message: &str| message.contains("https://grafana.example.org/d/llm?viewPanel=7");
    let silence = |message: &str| message.contains("silence/new?alertmanager=grafana");
    run.wait_for(CHANNEL, |message| panel(message) && silence(message) && !message.contains("#/silences")).await;
    let (_, page) = run.get(&format!("/api/v1/incidents/{}", answer["incident"].as_str().unwrap())).await;
    assert_eq!(serde_json::from_str::<Value>(&page).unwrap()["playbook"], "high-ttft");
    // Grafana's form silences one alert, so two alerts get no link to it.
    sent["alerts"].as_array_mut().unwrap().push(alert("2"));
    run.send(&sent).await;
    run.wait_for(CHANNEL, |message| panel(message) && !silence(message) && !message.contains("#/silences")).await;
}
