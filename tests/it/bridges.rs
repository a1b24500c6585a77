//! The bridges of `config/bridges` as processes, between the real service and fakes of the programs that they write to.
//! Each fake takes what the program's documented schema takes; the sources are named in the bridges.

use std::path::Path;
use std::process::Stdio;

use axum::http::{Method, StatusCode, Uri};
use llm_diagnose_lab::slack::{FakeSlack, Options, Press};
use llm_diagnose_lab::stack::Service;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;

use crate::running::{BINARY, CHANNEL, NOWHERE, Running, SOON, group, tls};

/// Standard Webhooks' form: base64 after the prefix.
const SECRET: &str = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cw==";
/// SHA-256 of the group key `{}:{alertname="LLMHighTTFT"}` by coreutils.
const HASH: &str = "853cc5ec9efb07e44d8fda6c6d44db531ab692253304085da2a4f4bbcd8e2ded";

/// A call that a fake got.
#[derive(Debug)]
struct Call {
    place: String,
    authorization: String,
    body: Value,
}

/// A program of another vendor, which answers as `answer` says.
struct Vendor {
    url: String,
    calls: mpsc::Receiver<Call>,
}

impl Vendor {
    async fn start(answer: impl Fn(&str) -> Value + Clone + Send + Sync + 'static) -> Self {
        let (sender, calls) = mpsc::channel(64);
        let got = move |method: Method, uri: Uri, headers: axum::http::HeaderMap, body: String| {
            let (sender, answer) = (sender.clone(), answer.clone());
            async move {
                let place = format!("{method} {uri}");
                let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
                let authorization = authorization.unwrap_or_default();
                let body = serde_json::from_str(&body).unwrap_or(Value::Null);
                let answer = answer(&place);
                sender.send(Call { place, authorization, body }).await.map_err(|_| StatusCode::GONE)?;
                Ok::<_, StatusCode>(axum::Json(answer))
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(got)).await });
        Self { url, calls }
    }

    async fn next(&mut self) -> Call {
        tokio::time::timeout(SOON, self.calls.recv()).await.expect("a call").unwrap()
    }

    /// The next call to this place; reads in between are passed over, other writes are not expected.
    async fn next_to(&mut self, place: &str) -> Call {
        loop {
            let call = self.next().await;
            if call.place.starts_with(place) {
                return call;
            }
            assert!(call.place.starts_with("GET ") || call.place.ends_with("/search/jql"), "{call:?}");
        }
    }
}

/// A bridge as a process; it ends when dropped.
struct Bridge {
    address: String,
    /// Lines of the configuration of a service that calls it.
    config: String,
    _keys: tempfile::TempDir,
    _process: tokio::process::Child,
}

impl Bridge {
    /// Starts a bridge with these variables; `$TOKEN` is a file with a token.
    async fn start(name: &str, variables: &[(&str, &str)]) -> Self {
        let keys = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = keys.path().join(name);
            std::fs::write(&path, format!("{text}\n")).unwrap();
            path.display().to_string()
        };
        let (secret, token) = (file("secret", SECRET), file("token", "t0ken"));
        let variables = variables.iter().map(|(name, value)| (name, value.replace("$TOKEN", &token)));
        let mut process = tokio::process::Command::new("python3")
            .args(["-B", &format!("config/bridges/{name}.py")])
            .env("SECRET_FILE", &secret)
            .envs(variables)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).await.unwrap();
        let address = address.trim().to_owned();
        let config = format!(
            "{NOWHERE}\npublic_url: https://diagnose.example.org\npagers:\n\
             - {{ name: bridge, kind: webhook, url: \"{address}\", key_file: {secret} }}\n"
        );
        Self { address, config, _keys: keys, _process: process }
    }
}

fn texts(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let own = object.get("text").and_then(Value::as_str).map(|text| format!("{text}\n")).unwrap_or_default();
            object.values().map(texts).fold(own, |all, more| all + &more)
        }
        Value::Array(items) => items.iter().map(texts).collect(),
        _ => String::new(),
    }
}

#[tokio::test]
async fn mattermost_gets_what_is_signed_and_new_and_nothing_else() {
    let mut vendor = Vendor::start(|_| json!("ok")).await;
    let bridge = Bridge::start("mattermost", &[("MATTERMOST_URL", &format!("{}/hooks/x", vendor.url))]).await;
    let run = Running::start(&bridge.config).await;
    run.send(&group("LLMHighTTFT", "firing", "critical", &["a"])).await;
    let first = vendor.next_to("POST /hooks/x").await;
    let text = first.body["text"].as_str().unwrap();
    for part in ["#### CRITICAL", "LLMHighTTFT", "### Alerts", "(https://diagnose.example.org/incidents/"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let now = knowledge::clock::now().as_second();
    let forged = run.http.post(&bridge.address).header("webhook-id", "x").header("webhook-timestamp", now);
    let forged = forged.header("webhook-signature", "v1,AAAA").body("{}").send().await.unwrap();
    assert_eq!(forged.status(), 401);
    run.send(&group("LLMHighTTFT", "resolved", "critical", &["a"])).await;
    loop {
        // In between the diagnosis may be told.
        let call = vendor.next_to("POST /hooks/x").await;
        let text = call.body["text"].as_str().unwrap();
        if text.contains("#### RESOLVED") {
            break;
        }
        assert!(text.contains("#### CRITICAL"), "{text}");
    }
}

#[tokio::test]
async fn teams_gets_an_adaptive_card_in_which_no_text_of_an_alert_is_markup() {
    let mut vendor = Vendor::start(|_| Value::Null).await;
    let bridge = Bridge::start("teams", &[("TEAMS_URL", &format!("{}/workflows/x", vendor.url))]).await;
    let run = Running::start(&bridge.config).await;
    let pods: Vec<String> = (0..400).map(|n| format!("pod-*{n}*-{}", "ü".repeat(40))).collect();
    run.send(&group("LLMHighTTFT", "firing", "critical", &pods.iter().map(String::as_str).collect::<Vec<_>>())).await;
    let call = vendor.next_to("POST /workflows/x").await;
    assert!(call.body.to_string().len() < 28 << 10, "Teams takes 28 KB: {}", call.body.to_string().len());
    let [attachment] = call.body["attachments"].as_array().unwrap().as_slice() else { panic!("{call:?}") };
    assert_eq!(
        (&call.body["type"], &attachment["contentType"], &attachment["contentUrl"]),
        (&json!("message"), &json!("application/vnd.microsoft.card.adaptive"), &Value::Null)
    );
    let card = &attachment["content"];
    assert_eq!((&card["type"], &card["version"]), (&json!("AdaptiveCard"), &json!("1.2")));
    for block in card["body"].as_array().unwrap() {
        let runs = block["inlines"].as_array().unwrap();
        assert_eq!(block["type"], "RichTextBlock", "{block}");
        assert!(runs.iter().all(|run| run["type"] == "TextRun" && run["text"].is_string()), "{block}");
    }
    let text = texts(card);
    assert!(text.starts_with("CRITICAL") && text.contains("LLMHighTTFT") && !text.contains("###"), "{text}");
    let open = &card["actions"][0];
    assert_eq!(open["type"], "Action.OpenUrl");
    assert!(open["url"].as_str().unwrap().starts_with("https://diagnose.example.org/incidents/"), "{open}");
}

/// A document of Atlassian's format: its texts.
fn document(value: &Value) -> String {
    assert_eq!((&value["type"], &value["version"]), (&json!("doc"), &json!(1)), "{value}");
    for node in value["content"].as_array().unwrap() {
        assert!(["paragraph", "heading"].contains(&node["type"].as_str().unwrap()), "{node}");
        assert!(node["type"] != "heading" || node["attrs"]["level"] == 3, "{node}");
        for text in node["content"].as_array().unwrap() {
            assert!(text["type"] == "text" && !text["text"].as_str().unwrap().is_empty(), "{node}");
        }
    }
    texts(value)
}

#[tokio::test]
async fn jira_gets_an_issue_when_somebody_acknowledges_and_its_end_with_the_incident() {
    let answer = |place: &str| match place {
        "POST /rest/api/3/search/jql" => json!({ "issues": [] }),
        "POST /rest/api/3/issue" => json!({ "id": "10000", "key": "OPS-24" }),
        "GET /rest/api/3/issue/OPS-24/transitions" => json!({ "transitions": [
            { "id": "11", "to": { "statusCategory": { "key": "indeterminate" } } },
            { "id": "31", "to": { "statusCategory": { "key": "done" } } },
        ] }),
        _ => Value::Null,
    };
    let mut vendor = Vendor::start(answer).await;
    let url = vendor.url.clone();
    let variables =
        [("JIRA_URL", &*url), ("JIRA_USER", "me@example.org"), ("JIRA_TOKEN_FILE", "$TOKEN"), ("JIRA_PROJECT", "OPS")];
    let bridge = Bridge::start("jira", &variables).await;
    tls();
    let slack = FakeSlack::start(Options::unlimited()).await.unwrap();
    let config = format!(
        "listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\nstate_dir: $DIR/state\n{}slack: {{ api_url: \
         \"{}\", channel: \"{CHANNEL}\", act: {{ users: [U0ANN] }} }}\n",
        bridge.config, slack.base_url
    );
    let secrets = [("SLACK_BOT_TOKEN", slack.token.as_str()), ("SLACK_APP_TOKEN", "xapp-lab")];
    let service =
        Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &secrets, &config).await.unwrap();
    let run = Running { service, slack, http: reqwest::Client::new() };
    run.send(&group("LLMHighTTFT", "firing", "critical", &["a"])).await;
    let looked = vendor.next().await;
    assert_eq!(looked.place, "POST /rest/api/3/search/jql");
    assert!(
        looked.body["jql"].as_str().unwrap().contains("project = \"OPS\" AND labels = \"llm-diagnose-"),
        "{looked:?}"
    );
    assert_eq!(looked.authorization, "Basic bWVAZXhhbXBsZS5vcmc6dDBrZW4=");
    run.wait_for(CHANNEL, |message| message.contains("CRITICAL")).await;
    let message = run.tops(CHANNEL).remove(0);
    run.slack.press("U0ANN", &message.channel, &message.ts, Press::new("acknowledge")).await.unwrap();
    let fields = vendor.next_to("POST /rest/api/3/issue").await.body["fields"].clone();
    assert_eq!((&fields["project"]["key"], &fields["issuetype"]["name"]), (&json!("OPS"), &json!("Task")));
    assert!(fields["summary"].as_str().unwrap().starts_with("CRITICAL"), "{fields}");
    assert!(fields["labels"][0].as_str().unwrap().starts_with("llm-diagnose-"), "{fields}");
    assert!(document(&fields["description"]).contains("LLMHighTTFT"));
    run.send(&group("LLMHighTTFT", "resolved", "critical", &["a"])).await;
    let mut call = vendor.next_to("POST /rest/api/3/issue/OPS-24/").await;
    while call.place.ends_with("/comment") {
        // The diagnosis, if it came after the issue.
        call = vendor.next_to("POST /rest/api/3/issue/OPS-24/").await;
    }
    assert_eq!(
        (call.place.as_str(), &call.body["transition"]["id"]),
        ("POST /rest/api/3/issue/OPS-24/transitions", &json!("31"))
    );
    let comment = vendor.next_to("POST /rest/api/3/issue/OPS-24/comment").await;
    assert!(document(&comment.body["body"]).starts_with("RESOLVED"), "{comment:?}");
}

#[tokio::test]
async fn opsgenie_gets_a_note_on_the_alert_that_alertmanager_opened() {
    let mut vendor = Vendor::start(|_| json!({ "result": "Request will be processed" })).await;
    let url = vendor.url.clone();
    let bridge = Bridge::start("opsgenie", &[("OPSGENIE_URL", &url), ("OPSGENIE_KEY_FILE", "$TOKEN")]).await;
    let run = Running::start(&bridge.config).await;
    run.send(&group("LLMHighTTFT", "firing", "critical", &["a"])).await;
    let call = vendor.next().await;
    assert_eq!(call.place, format!("POST /v2/alerts/{HASH}/notes?identifierType=alias"));
    assert_eq!((call.authorization.as_str(), &call.body["source"]), ("GenieKey t0ken", &json!("llm-diagnose")));
    let note = call.body["note"].as_str().unwrap();
    assert!(note.starts_with("CRITICAL") && note.contains("https://diagnose.example.org/incidents/"), "{note}");
    assert!(!note.contains('\\') && !note.contains("**") && note.chars().count() <= 25_000, "{note}");
}

#[tokio::test]
async fn incident_io_gets_one_alert_that_fires_and_resolves_with_the_incident() {
    let mut vendor = Vendor::start(|_| json!({ "status": "success" })).await;
    let url = format!("{}/v2/alert_events/http/01GW", vendor.url);
    let bridge = Bridge::start("incident_io", &[("INCIDENT_IO_URL", &url), ("INCIDENT_IO_TOKEN_FILE", "$TOKEN")]).await;
    let run = Running::start(&bridge.config).await;
    let id = run.send(&group("LLMHighTTFT", "firing", "critical", &["a"])).await["incident"].clone();
    let fired = vendor.next_to("POST /v2/alert_events/http/01GW").await;
    assert_eq!((fired.authorization.as_str(), &fired.body["status"]), ("Bearer t0ken", &json!("firing")));
    assert_eq!(fired.body["deduplication_key"], id);
    assert!(fired.body["title"].as_str().unwrap().starts_with("CRITICAL"), "{fired:?}");
    assert!(fired.body["source_url"].as_str().unwrap().ends_with(id.as_str().unwrap()), "{fired:?}");
    run.send(&group("LLMHighTTFT", "resolved", "critical", &["a"])).await;
    let mut call = vendor.next().await;
    while call.body["status"] == "firing" {
        call = vendor.next().await;
    }
    assert_eq!((&call.body["status"], &call.body["deduplication_key"]), (&json!("resolved"), &id));
}

#[tokio::test]
async fn grafana_irm_gets_a_note_on_the_alert_group_as_soon_as_there_is_one() {
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let answer = move |place: &str| {
        let is_there = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) > 0;
        let group = |id: &str, key: &str| json!({ "id": id, "last_alert": { "payload": { "groupKey": key } } });
        let groups = [group("I1", "{}:{alertname=\"Other\"}"), group("I2", "{}:{alertname=\"LLMHighTTFT\"}")];
        match place {
            "GET /api/v1/alert_groups/?integration_id=C1" => {
                json!({ "results": if is_there { &groups[..] } else { &groups[..1] } })
            }
            _ => json!({ "id": "M4" }),
        }
    };
    let mut vendor = Vendor::start(answer).await;
    let url = vendor.url.clone();
    let variables =
        [("GRAFANA_IRM_URL", &*url), ("GRAFANA_IRM_TOKEN_FILE", "$TOKEN"), ("GRAFANA_IRM_INTEGRATION", "C1")];
    let bridge = Bridge::start("grafana_irm", &variables).await;
    let run = Running::start(&bridge.config).await;
    run.send(&group("LLMHighTTFT", "firing", "critical", &["a"])).await;
    let note = vendor.next_to("POST /api/v1/resolution_notes/").await;
    assert_eq!((note.authorization.as_str(), &note.body["alert_group_id"]), ("t0ken", &json!("I2")));
    assert!(note.body["text"].as_str().unwrap().starts_with("CRITICAL"), "{note:?}");
}

#[test]
fn a_bridge_without_its_settings_names_them_and_does_not_start() {
    for bridge in std::fs::read_dir("config/bridges").unwrap() {
        let path = bridge.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_none_or(|extension| extension != "py") || name == "bridge" {
            continue;
        }
        let told = std::process::Command::new("python3").arg("-B").arg(&path).env_clear().output().unwrap();
        let error = String::from_utf8(told.stderr).unwrap();
        assert!(!told.status.success() && error.starts_with("set SECRET_FILE, "), "{name}: {error}");
        let own = &error[error.find(", ").unwrap() + 2..error.find(": ").unwrap()];
        let text = std::fs::read_to_string(&path).unwrap();
        let top = text.split("\"\"\"").nth(1).unwrap();
        assert!(own.split(", ").all(|variable| top.contains(variable)), "{name} explains {own}");
        assert!(text.lines().count() <= 80 && top.contains("https://"), "{name} is short and names its source");
        let docs = std::fs::read_to_string("docs/webhook.md").unwrap();
        assert!(docs.contains(&format!("config/bridges/{name}.py")), "docs/webhook.md lists {name}");
    }
}
