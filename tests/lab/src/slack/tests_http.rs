//! HTTP mode, by an app that checks signatures and answers as it is told; and `response_url`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State as Shared};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::blocks::Rule;
use super::tests::{Bot, CHANNEL, block};
use super::{Forgery, Kind, Options, sign};

/// What came: path, headers and body.
type Came = (String, HeaderMap, String);

/// An app that is reached by HTTP.
#[derive(Debug, Clone, Default)]
struct App {
    came: Arc<Mutex<Vec<Came>>>,
    /// How it answers next: status, body, and for how long it thinks.
    answers: Arc<Mutex<VecDeque<(u16, String, Duration)>>>,
}

async fn take(Shared(app): Shared<App>, Path(path): Path<String>, headers: HeaderMap, body: Bytes) -> Response {
    let body = String::from_utf8(body.to_vec()).unwrap();
    let told = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let sent: i64 = told("x-slack-request-timestamp").parse().unwrap_or_default();
    let signed = sign::headers("lab-signing-secret", sent, &body);
    let is_signed = signed.iter().any(|(name, value)| name == "x-slack-signature" && *value == told(name));
    let is_fresh = (sign::now() - sent).abs() < 300;
    app.came.lock().unwrap().push((path, headers.clone(), body.clone()));
    if !is_signed || !is_fresh {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if let Ok(event) = serde_json::from_str::<Value>(&body)
        && event["type"] == "url_verification"
    {
        return event["challenge"].as_str().unwrap().to_owned().into_response();
    }
    let answer = app.answers.lock().unwrap().pop_front();
    let (status, body, pause) = answer.unwrap_or((200, String::new(), Duration::ZERO));
    tokio::time::sleep(pause).await;
    let mut answer = (StatusCode::from_u16(status).unwrap(), body).into_response();
    if status == 418 {
        answer.headers_mut().insert("x-slack-no-retry", 1.into());
    }
    answer
}

impl App {
    /// An app, and the Slack that reaches it.
    async fn start(options: Options) -> (Self, Bot) {
        let app = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/slack", listener.local_addr().unwrap());
        let router = axum::Router::new().route("/slack/{path}", axum::routing::post(take)).with_state(app.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let retries = vec![Duration::ZERO; 3];
        let options = Options { request_url: Some(url), event_retries: retries, ..options };
        (app, Bot::start(options).await)
    }

    fn answer(&self, status: u16, body: &str, pause: Duration) {
        self.answers.lock().unwrap().push_back((status, body.to_owned(), pause));
    }

    fn came(&self) -> Vec<Came> {
        self.came.lock().unwrap().clone()
    }
}

/// The value of a field of a form.
fn field(body: &str, name: &str) -> String {
    let address = format!("http://form?{body}");
    let pairs = reqwest::Url::parse(&address).unwrap();
    let found = pairs.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    found.unwrap_or_default()
}

fn button(id: &str) -> Value {
    json!([{ "type": "actions", "elements": [
        { "type": "button", "text": { "type": "plain_text", "text": "b" }, "action_id": id, "value": "7" },
    ] }])
}

#[tokio::test]
async fn each_kind_comes_to_its_address_signed_and_in_its_own_form() {
    let (app, bot) = App::start(Options::unlimited()).await;
    app.answer(200, r#"{"text":"all is well"}"#, Duration::ZERO);
    let ack = bot.slack.command("U0ANN", CHANNEL, "health & <more>=ü").await.unwrap();
    assert_eq!((ack.retries, ack.body), (0, Some(json!({ "text": "all is well" }))));
    assert_eq!(bot.slack.transcript(CHANNEL), "(only visible to U0ANN)\nall is well");
    let ts = bot.post(json!({ "channel": CHANNEL, "text": "t", "blocks": button("ack") })).await;
    bot.slack.press("U0ANN", CHANNEL, &ts, "ack").await.unwrap();
    bot.slack.mention("U0BEN", CHANNEL, None, "why?").await.unwrap();
    let came = app.came();
    assert_eq!(came.iter().map(|(path, ..)| path.as_str()).collect::<Vec<_>>(), ["commands", "interactions", "events"]);
    assert_eq!(field(&came[0].2, "text"), "health & <more>=ü");
    assert_eq!(field(&came[0].2, "user_id"), "U0ANN");
    let press: Value = serde_json::from_str(&field(&came[1].2, "payload")).unwrap();
    assert_eq!((&press["type"], &press["actions"][0]["value"]), (&json!("block_actions"), &json!("7")));
    let event: Value = serde_json::from_str(&came[2].2).unwrap();
    assert_eq!(
        (&event["event"]["type"], &came[2].1["content-type"]),
        (&json!("app_mention"), &"application/json".parse().unwrap())
    );
    assert_eq!(bot.slack.violations(), []);
    let deliveries = bot.slack.with(|state| state.deliveries().to_vec());
    assert_eq!(deliveries.iter().map(|d| d.kind).collect::<Vec<_>>(), [Kind::Command, Kind::Interaction, Kind::Event]);
    assert!(
        deliveries.iter().all(|d| d.status == Some(200) && d.connection.is_none() && d.acknowledged_after.is_some())
    );
}

#[tokio::test]
async fn an_event_is_sent_again_and_the_rest_is_not() {
    let (app, bot) = App::start(Options { ack_within: Duration::from_millis(300), ..Options::unlimited() }).await;
    app.answer(500, "", Duration::ZERO);
    app.answer(200, "", Duration::from_secs(2));
    let ack = bot.slack.mention("U0ANN", CHANNEL, None, "why?").await.unwrap();
    assert_eq!(ack.retries, 2);
    let told: Vec<(String, String)> = app
        .came()
        .iter()
        .skip(1)
        .map(|(_, headers, _)| {
            let told = |name: &str| headers[name].to_str().unwrap().to_owned();
            (told("x-slack-retry-num"), told("x-slack-retry-reason"))
        })
        .collect();
    assert_eq!(told, [("1".into(), "http_error".into()), ("2".into(), "http_timeout".into())]);
    let bodies: Vec<String> = app.came().into_iter().map(|(_, _, body)| body).collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]), "the same event");
    let late: Vec<Rule> = bot.slack.violations().iter().map(|breach| breach.violation.rule).collect();
    assert_eq!(late, [Rule::Late]);
    for status in [500, 418] {
        let before = app.came().len();
        for _ in 0..4 {
            app.answer(status, "", Duration::ZERO);
        }
        let error = bot.slack.mention("U0ANN", CHANNEL, None, "why?").await.unwrap_err().to_string();
        assert!(error.contains(&format!("HTTP {status}")), "{error}");
        let tried = if status == 500 { 4 } else { 1 };
        assert_eq!(app.came().len() - before, tried, "an app may ask not to be asked again");
        app.answers.lock().unwrap().clear();
    }
    let before = app.came().len();
    app.answer(503, "", Duration::ZERO);
    assert!(bot.slack.command("U0ANN", CHANNEL, "help").await.is_err());
    assert_eq!(app.came().len() - before, 1);
}

#[tokio::test]
async fn forgeries_are_told_apart_from_what_slack_signed() {
    let (app, bot) = App::start(Options::unlimited()).await;
    for forgery in [Forgery::WrongSecret, Forgery::Stale, Forgery::Early, Forgery::Unsigned, Forgery::OtherBody] {
        assert_eq!(bot.slack.forge(forgery).await.unwrap(), 401, "{forgery:?}");
    }
    let bodies: Vec<String> = app.came().into_iter().map(|(_, _, body)| field(&body, "response_url")).collect();
    assert!(bodies.iter().all(|url| url.starts_with("http://127.0.0.1:9/")), "{bodies:?}");
    assert!(bot.slack.verify_url().await.unwrap());
    bot.slack.command("U0ANN", CHANNEL, "help").await.unwrap();
    assert_eq!(bot.slack.replay(0).await.unwrap(), Some(200));
    let came = app.came();
    let [.., first, again] = came.as_slice() else { panic!("{came:?}") };
    let signature = "x-slack-signature";
    assert_eq!((&first.2, &first.1[signature]), (&again.2, &again.1[signature]), "letter by letter");
    assert!(bot.slack.replay(9).await.is_err());
}

#[tokio::test]
async fn without_an_address_nothing_can_be_forged_and_an_app_that_is_away_is_an_error() {
    let bot = Bot::start(Options::unlimited()).await;
    assert!(bot.slack.forge(Forgery::Unsigned).await.unwrap_err().to_string().contains("request_url"));
    assert!(bot.slack.verify_url().await.is_err());
    bot.slack.configure(|options| options.request_url = Some("http://127.0.0.1:1/slack".into()));
    let error = bot.slack.command("U0ANN", CHANNEL, "help").await.unwrap_err().to_string();
    assert!(error.contains("connection_failed"), "{error}");
}

#[tokio::test]
async fn a_response_url_answers_five_times_in_whichever_way() {
    let (app, bot) = App::start(Options::unlimited()).await;
    let ts = bot.post(json!({ "channel": CHANNEL, "text": "pressed", "blocks": button("ack") })).await;
    bot.slack.press("U0ANN", CHANNEL, &ts, "ack").await.unwrap();
    let press: Value = serde_json::from_str(&field(&app.came()[0].2, "payload")).unwrap();
    let url = press["response_url"].as_str().unwrap().to_owned();
    let respond = async |url: &str, body: Value| bot.http.post(url).json(&body).send().await.unwrap();
    let ok = async |body: Value| {
        let answer = respond(&url, body).await;
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    };
    ok(json!({ "text": "for you" })).await;
    ok(json!({ "text": "for all", "response_type": "in_channel" })).await;
    ok(json!({ "text": "below", "response_type": "in_channel", "thread_ts": ts })).await;
    ok(json!({ "text": "replaced", "replace_original": true, "blocks": block("new") })).await;
    assert_eq!(
        bot.slack.transcript(CHANNEL),
        "new\n(edited 1×)\n  ↳ below\n\n(only visible to U0ANN)\nfor you\n\nfor all"
    );
    ok(json!({ "delete_original": true })).await;
    assert!(bot.slack.messages(CHANNEL).iter().all(|message| message.ts != ts || message.is_deleted));
    let sixth = respond(&url, json!({ "text": "too much" })).await;
    assert!(!sixth.status().is_success(), "{}", sixth.status());
    assert!(sixth.text().await.unwrap().contains("used_url"));
    // A command has no message that could be replaced: it is answered anew.
    bot.slack.command("U0ANN", CHANNEL, "help").await.unwrap();
    let command = field(&app.came()[1].2, "response_url");
    assert_eq!(respond(&command, json!({ "text": "help", "replace_original": true })).await.status(), 200);
    assert!(bot.slack.transcript(CHANNEL).ends_with("(only visible to U0ANN)\nhelp"));
    assert!(!respond(&command, json!({ "delete_original": true })).await.status().is_success());
    assert!(!respond(&command.replace("/respond/", "/respond/x"), json!({ "text": "t" })).await.status().is_success());
}
