//! Slack's requests: only what Slack signed lately is read, and only once.

use std::path::Path;

use llm_diagnose_lab::slack::{FakeSlack, Options};
use llm_diagnose_lab::stack::Service;
use reqwest::{RequestBuilder, Response};
use ring::hmac;
use serde_json::{Value, json};

use crate::running::{BINARY, CHANNEL, tls};

const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

struct Door {
    service: Service,
    _slack: FakeSlack,
    http: reqwest::Client,
}

fn now() -> i64 {
    knowledge::clock::now().as_second()
}

fn signature(secret: &str, at: i64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, &[format!("v0:{at}:").as_bytes(), body].concat());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v0={hex}")
}

async fn start(secret: Option<&str>) -> Door {
    tls();
    let slack = FakeSlack::start(Options::unlimited()).await.unwrap();
    let config = format!(
        "listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\nstate_dir: $DIR/state\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n\
         slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\" }}\n",
        slack.base_url
    );
    let token = slack.token.clone();
    let mut environment = vec![("SLACK_BOT_TOKEN", token.as_str())];
    environment.extend(secret.map(|secret| ("SLACK_SIGNING_SECRET", secret)));
    let arguments = ["serve", "--config", "$CONFIG"];
    let service = Service::start(Path::new(BINARY), &arguments, &environment, &config).await.unwrap();
    Door { service, _slack: slack, http: reqwest::Client::new() }
}

impl Door {
    fn post(&self, path: &str, body: &[u8]) -> RequestBuilder {
        self.http.post(format!("{}/slack/{path}", self.service.url)).body(body.to_vec())
    }

    fn signed(&self, path: &str, secret: &str, at: i64, body: &[u8]) -> RequestBuilder {
        let request = self.post(path, body).header("x-slack-request-timestamp", at.to_string());
        request.header("x-slack-signature", signature(secret, at, body))
    }

    async fn send(&self, path: &str, body: &[u8]) -> Response {
        self.signed(path, SECRET, now(), body).send().await.unwrap()
    }

    async fn counted(&self, kind: &str, result: &str) -> u64 {
        let page = self.http.get(format!("{}/metrics", self.service.url)).send().await.unwrap().text().await.unwrap();
        let series = format!("llm_diagnose_slack_inbound_total{{kind=\"{kind}\",result=\"{result}\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |value| value.parse().unwrap())
    }
}

fn command(trigger: &str) -> Vec<u8> {
    format!("user_id=U1&team_id=T0LAB&channel_id=C1&command=%2Fllm-diagnose&text=help&trigger_id={trigger}")
        .into_bytes()
}

#[tokio::test]
async fn forged_stale_and_unsigned_requests_are_refused_and_counted() {
    let door = start(Some(SECRET)).await;
    let body = command("1.1");
    assert_eq!(door.send("commands", &body).await.status(), 200);
    let refused = |request: RequestBuilder| async { request.send().await.unwrap().status().as_u16() };
    assert_eq!(refused(door.signed("commands", "another app's", now(), &body)).await, 401);
    assert_eq!(refused(door.signed("commands", SECRET, now() - 310, &body)).await, 401);
    assert_eq!(refused(door.signed("commands", SECRET, now() + 310, &body)).await, 401);
    assert_eq!(refused(door.post("commands", &body)).await, 401);
    // A right signature of another body.
    let request = door.signed("commands", SECRET, now(), &body).body(command("1.2"));
    assert_eq!(refused(request).await, 401);
    for (result, times) in [("forged", 2), ("stale", 2), ("unsigned", 1)] {
        assert_eq!(door.counted("command", result).await, times, "{result}");
    }
    // Not one byte of an unsigned body is understood.
    assert_eq!(refused(door.post("events", br#"{"type":"url_verification","challenge":"x"}"#)).await, 401);
    assert!(!door.service.stderr().contains(SECRET));
}

#[tokio::test]
async fn a_replayed_request_and_slacks_own_repetitions_are_done_once() {
    let mut door = start(Some(SECRET)).await;
    let (at, body) = (now(), command("7.7"));
    for _ in 0..3 {
        assert_eq!(door.signed("commands", SECRET, at, &body).send().await.unwrap().status(), 200);
    }
    assert_eq!(door.counted("command", "repeated").await, 2);
    let event = json!({
        "type": "event_callback", "team_id": "T0LAB", "event_id": "Ev7",
        "event": { "type": "app_mention", "user": "U1", "text": "<@U0LAB> why?", "channel": "C1", "ts": "1.1" },
    });
    let body = serde_json::to_vec(&event).unwrap();
    assert_eq!(door.send("events", &body).await.status(), 200);
    let again = door.signed("events", SECRET, now() - 1, &body).header("x-slack-retry-num", "1");
    let again = again.header("x-slack-retry-reason", "http_timeout").send().await.unwrap();
    assert_eq!(again.status(), 200);
    assert_eq!(door.counted("mention", "repeated").await, 1);
    assert_eq!(door.counted("event", "slack_retry").await, 1);
    // Its signature is still valid after a restart, which counts anew.
    door.service.restart().await.unwrap();
    let replayed = door.signed("commands", SECRET, at, &command("7.7")).send().await.unwrap();
    assert_eq!(replayed.status(), 200);
    assert_eq!(door.counted("command", "repeated").await, 1);
}

#[tokio::test]
async fn slacks_question_is_answered_and_what_nobody_understands_does_no_harm() {
    let door = start(Some(SECRET)).await;
    let asked = br#"{"type":"url_verification","token":"x","challenge":"3eZbrw1aB"}"#;
    let answer: Value = door.send("events", asked).await.json().await.unwrap();
    assert_eq!(answer, json!({ "challenge": "3eZbrw1aB" }));
    for (path, body, status) in [
        ("events", b"{".to_vec(), 400),
        ("events", b"\xff\xfe".to_vec(), 400),
        ("events", b"[]".to_vec(), 200),
        ("interactions", b"payload=%7B".to_vec(), 400),
        ("interactions", b"".to_vec(), 400),
        ("interactions", b"payload=%7B%22type%22%3A%22tomorrow%22%7D".to_vec(), 200),
        ("interactions", b"ssl_check=1".to_vec(), 200),
        ("commands", b"ssl_check=1&token=x".to_vec(), 200),
        ("commands", b"\0\xff&&==".to_vec(), 200),
    ] {
        let answer = door.send(path, &body).await;
        assert_eq!(answer.status().as_u16(), status, "{path} {body:?}");
        assert_eq!(answer.headers().contains_key("x-slack-no-retry"), status == 400, "{path} {body:?}");
    }
    assert_eq!(door.send("commands", &vec![b'a'; (1 << 20) + 1]).await.status(), 413);
    let flood = format!("user_id=U1&text={}", "a%E2%80%AE".repeat(100_000 / 10));
    assert_eq!(door.send("commands", flood.as_bytes()).await.status(), 200);
    let unknown = json!({
        "type": "block_actions", "user": { "id": "U1" }, "team": null, "trigger_id": "9.9", "channel": { "id": "C1" },
        "actions": [{ "action_id": "no such button", "value": "<!channel>" }],
    });
    let body =
        url::form_urlencoded::Serializer::new(String::new()).append_pair("payload", &unknown.to_string()).finish();
    assert_eq!(door.send("interactions", body.as_bytes()).await.status(), 200);
}

/// Every way to leave a field out, or to give it another type.
fn spoilt(whole: &Value) -> Vec<Value> {
    let mut out = vec![json!(null), json!([]), json!("x"), json!(-1), json!({ "deep": whole })];
    if let Value::Object(fields) = whole {
        for (name, inner) in fields {
            let mut without = whole.clone();
            without.as_object_mut().unwrap().remove(name);
            out.push(without);
            for other in spoilt(inner) {
                let mut changed = whole.clone();
                changed[name] = other;
                out.push(changed);
            }
        }
    }
    out
}

#[tokio::test]
async fn payloads_that_are_deep_long_or_of_other_types_do_no_harm() {
    let door = start(Some(SECRET)).await;
    for deep in ["[".repeat(200_000), "{\"a\":".repeat(60_000)] {
        assert_eq!(door.send("events", deep.as_bytes()).await.status(), 400);
        let form = url::form_urlencoded::Serializer::new(String::new()).append_pair("payload", &deep).finish();
        assert_eq!(door.send("interactions", form.as_bytes()).await.status(), 400);
    }
    let press = json!({
        "type": "block_actions", "user": { "id": "U1", "team_id": "T0LAB" }, "trigger_id": "", "response_url": "no address",
        "channel": { "id": "C0LLMALERTS" }, "container": { "message_ts": "x" }, "message": { "ts": "1.2", "thread_ts": "y" },
        "actions": { "0": { "action_id": "acknowledge", "value": "01J" } },
    });
    let form = json!({
        "type": "view_submission", "user": { "id": "U1" }, "view": {
            "callback_id": "no such form", "private_metadata": "{\"incident\":\"01J\",\"page\":-1}",
            "state": { "values": { "b": { "labels": { "value": "x" } } } },
        },
    });
    let mention = json!({
        "type": "event_callback", "event": { "type": "app_mention", "user": "U1", "text": "<@U0LAB>", "channel": "C1", "ts": "1" },
        "authorizations": { "0": { "user_id": "U0LAB" } },
    });
    for (path, whole) in [("interactions", &press), ("interactions", &form), ("events", &mention)] {
        for payload in spoilt(whole) {
            let text = payload.to_string();
            let body = match path {
                "events" => text,
                _ => url::form_urlencoded::Serializer::new(String::new()).append_pair("payload", &text).finish(),
            };
            let status = door.send(path, body.as_bytes()).await.status();
            assert_eq!(status, 200, "{payload}");
        }
    }
    let page = door.http.get(format!("{}/metrics", door.service.url)).send().await.unwrap().text().await.unwrap();
    let log = door.service.stderr();
    assert!(!page.contains("panicked") && !log.contains("panicked") && !log.contains(SECRET), "{log}");
}

#[tokio::test]
async fn without_a_signing_secret_there_are_no_routes_and_the_log_says_how_to_get_them() {
    let door = start(None).await;
    for path in ["commands", "interactions", "events"] {
        assert_eq!(door.send(path, b"x").await.status(), 404);
    }
    let log = door.service.stderr();
    assert!(log.contains("/slack/* answers 404") && log.contains("SLACK_SIGNING_SECRET"), "{log}");
}
