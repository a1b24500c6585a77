//! Socket Mode, by an app that acknowledges as it is told.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::blocks::Rule;
use super::tests::{Bot, CHANNEL, SOON, block};
use super::{Kind, Options, Press};

pub(super) struct Socket(WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>);

impl Socket {
    pub(super) async fn open(bot: &Bot) -> Self {
        let mut socket = Self(connect_async(url(bot).await).await.unwrap().0);
        assert_eq!(socket.next().await["type"], "hello");
        socket
    }

    pub(super) async fn next(&mut self) -> Value {
        self.try_next().await.expect("a message")
    }

    async fn try_next(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await?.ok()? {
                Frame::Text(text) => return Some(serde_json::from_str(&text).unwrap_or_else(|_| text.as_str().into())),
                Frame::Close(_) => return None,
                _ => {}
            }
        }
    }

    pub(super) async fn ack(&mut self, envelope: &Value, payload: Value) {
        let mut answer = json!({ "envelope_id": envelope["envelope_id"] });
        if !payload.is_null() {
            answer["payload"] = payload;
        }
        self.0.send(Frame::text(answer.to_string())).await.unwrap();
    }

    /// Takes one envelope.
    pub(super) async fn take(&mut self, payload: Value) -> Value {
        let envelope = self.next().await;
        self.ack(&envelope, payload).await;
        envelope
    }
}

async fn url(bot: &Bot) -> String {
    let answer = bot.request("apps.connections.open").bearer_auth("xapp-lab").send().await.unwrap();
    assert_eq!(answer.headers()["x-oauth-scopes"], "connections:write");
    assert!(answer.headers().contains_key("date"));
    let answer: Value = answer.json().await.unwrap();
    answer["url"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn hasty() -> Options {
    Options { ack_within: Duration::from_millis(200), ..Options::unlimited() }
}

#[tokio::test]
async fn a_socket_needs_the_apps_own_token_and_a_fresh_ticket() {
    let bot = Bot::start(Options::default()).await;
    assert_eq!(bot.error("apps.connections.open", json!({})).await, "not_allowed_token_type");
    let answer = bot.request("auth.test").bearer_auth("xapp-lab").send().await.unwrap();
    assert_eq!(answer.json::<Value>().await.unwrap()["error"], "not_allowed_token_type");
    let url = url(&bot).await;
    let (mut first, _) = connect_async(&url).await.unwrap();
    let hello: Value = serde_json::from_str(first.next().await.unwrap().unwrap().to_text().unwrap()).unwrap();
    assert_eq!((&hello["num_connections"], &hello["connection_info"]["app_id"]), (&json!(1), &json!("A0LAB")));
    assert!(connect_async(&url).await.is_err(), "the ticket was used");
}

#[tokio::test]
async fn an_eleventh_socket_is_sent_away() {
    let bot = Bot::start(Options::default()).await;
    let mut open = Vec::new();
    for _ in 0..10 {
        open.push(Socket::open(&bot).await);
    }
    let mut one_more = Socket(connect_async(url(&bot).await).await.unwrap().0);
    assert_eq!(one_more.next().await["reason"], "too_many_websockets");
    assert_eq!(one_more.try_next().await, None);
}

#[tokio::test]
async fn a_command_goes_to_one_socket_and_its_answer_is_seen_by_its_author() {
    let bot = Bot::start(Options::default()).await;
    let (mut one, mut other) = (Socket::open(&bot).await, Socket::open(&bot).await);
    let app = async {
        tokio::select! {
            envelope = one.next() => { one.ack(&envelope, json!({ "text": "all is well" })).await; envelope }
            envelope = other.next() => { other.ack(&envelope, json!({ "text": "all is well" })).await; envelope }
        }
    };
    let (ack, envelope) = tokio::join!(bot.slack.command("U0ANN", "llm-alerts", "health"), app);
    assert_eq!((&envelope["type"], &envelope["accepts_response_payload"]), (&json!("slash_commands"), &json!(true)));
    let fields = ["command", "text", "user_id", "user_name", "channel_id", "channel_name", "team_id", "api_app_id"];
    let told = fields.map(|field| envelope["payload"][field].as_str().unwrap());
    assert_eq!(told, ["/llm-diagnose", "health", "U0ANN", "ann", CHANNEL, "llm-alerts", "T0LAB", "A0LAB"]);
    let ack = ack.unwrap();
    assert_eq!((ack.retries, &ack.body), (0, &Some(json!({ "text": "all is well" }))));
    assert_eq!(bot.slack.transcript(CHANNEL), "(only visible to U0ANN)\nall is well");
    assert_eq!(bot.slack.violations(), []);
    assert_eq!(bot.slack.with(|state| state.deliveries().len()), 1);
}

#[tokio::test]
async fn what_is_not_acknowledged_in_time_is_a_violation_and_sent_again_elsewhere() {
    let bot = Bot::start(hasty()).await;
    let (mut one, mut other) = (Socket::open(&bot).await, Socket::open(&bot).await);
    let app = async {
        let (first, second) = tokio::select! {
            first = one.next() => (first, other.take(Value::Null).await),
            first = other.next() => (first, one.take(Value::Null).await),
        };
        assert_eq!(first["payload"]["event_id"], second["payload"]["event_id"]);
        assert_eq!((&second["retry_attempt"], &second["retry_reason"]), (&json!(1), &json!("timeout")));
    };
    let (ack, ()) = tokio::join!(bot.slack.mention("U0ANN", CHANNEL, None, "why?"), app);
    assert_eq!(ack.unwrap().retries, 1);
    assert_eq!(bot.slack.violations()[0].violation.rule, Rule::Late);
    assert_eq!(bot.slack.transcript(CHANNEL), "@ann: @U0LAB why?");
}

#[tokio::test]
async fn a_lost_socket_loses_nothing_and_a_mute_one_answers_nothing() {
    let bot = Bot::start(hasty()).await;
    let mut lost = Socket::open(&bot).await;
    let app = async {
        lost.next().await;
        bot.slack.drop_sockets();
        Socket::open(&bot).await.take(Value::Null).await
    };
    let (ack, envelope) = tokio::join!(bot.slack.command("U0ANN", CHANNEL, ""), app);
    assert_eq!((ack.unwrap().retries, &envelope["retry_reason"]), (1, &json!("connection_failed")));
    bot.slack.wait_for(|state| state.connections() == 0, SOON).await.unwrap();

    let mut deaf = Socket::open(&bot).await;
    bot.slack.mute();
    deaf.0.send(Frame::Ping("are you there".into())).await.unwrap();
    let mut hearing = Socket::open(&bot).await;
    let (ack, _) = tokio::join!(bot.slack.command("U0ANN", CHANNEL, ""), hearing.take(Value::Null));
    ack.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(100), deaf.0.next()).await.is_err(), "no pong, no envelope");
    assert_eq!(bot.slack.violations(), [], "neither was the app's fault");
}

#[tokio::test]
async fn a_farewell_comes_before_the_end_and_nothing_new_after_it() {
    let bot = Bot::start(Options::default()).await;
    let mut old = Socket::open(&bot).await;
    assert_eq!(bot.slack.disconnect("refresh_requested"), 1);
    assert_eq!(old.next().await["reason"], "refresh_requested");
    let mut new = Socket::open(&bot).await;
    let (ack, _) = tokio::join!(bot.slack.dm("U0BEN", "hello"), new.take(Value::Null));
    ack.unwrap();
    bot.slack.disconnect("link_disabled");
    assert_eq!(new.next().await["reason"], "link_disabled");
    assert_eq!(new.try_next().await, None);
}

#[tokio::test]
async fn garbage_duplicates_and_replays_arrive_as_they_are() {
    let bot = Bot::start(Options::default()).await;
    let mut socket = Socket::open(&bot).await;
    bot.slack.send_raw("{not json");
    assert_eq!(socket.next().await, json!("{not json"));
    bot.slack.duplicate_next();
    let app = async {
        let first = socket.take(Value::Null).await;
        (first, socket.take(Value::Null).await)
    };
    let (ack, (first, second)) = tokio::join!(bot.slack.command("U0ANN", CHANNEL, ""), app);
    ack.unwrap();
    assert_eq!(first, second);
    bot.slack.replay(0).await.unwrap();
    assert_eq!(socket.next().await, first);
    socket.ack(&json!({ "envelope_id": "never sent" }), Value::Null).await;
    bot.slack.wait_for(|state| state.violations().len() == 1, SOON).await.unwrap();
    assert_eq!(bot.slack.violations()[0].violation.rule, Rule::Acknowledgement);
}

#[tokio::test]
async fn only_a_button_that_is_there_can_be_pressed_and_its_question_must_be_answered() {
    let bot = Bot::start(Options::default()).await;
    let mut socket = Socket::open(&bot).await;
    let plain = |text: &str| json!({ "type": "plain_text", "text": text });
    let button =
        |id: &str, value: &str| json!({ "type": "button", "text": plain(id), "action_id": id, "value": value });
    let mut silence = button("silence", "7");
    silence["confirm"] = json!({ "text": plain("Sure?") });
    let actions = json!([
        { "type": "actions", "elements": [button("ack", "7"), silence] },
        { "type": "actions", "elements": [button("verify", "7/0")] },
        { "type": "actions", "elements": [button("verify", "7/1")] },
    ]);
    let attachments = json!([{ "color": "danger", "fallback": "f", "blocks": actions }]);
    let ts = bot.post(json!({ "channel": CHANNEL, "text": "t", "attachments": attachments })).await;
    let press = |press: Press| bot.slack.press("U0ANN", CHANNEL, &ts, press);
    assert!(press("gone".into()).await.unwrap_err().to_string().contains("no button"));
    assert!(press("silence".into()).await.unwrap_err().to_string().contains("Sure?"));
    let (ack, envelope) = tokio::join!(press(Press::new("verify").value("7/1")), socket.take(Value::Null));
    ack.unwrap();
    let payload = &envelope["payload"];
    assert_eq!((&envelope["type"], &payload["type"]), (&json!("interactive"), &json!("block_actions")));
    assert_eq!(payload["actions"][0]["value"], "7/1");
    assert_eq!(payload["actions"][0]["block_id"], "a0b2");
    assert_eq!(payload["container"]["type"], "message_attachment");
    assert_eq!((&payload["container"]["message_ts"], &payload["message"]["ts"]), (&json!(ts), &json!(ts)));
    assert_eq!(payload["user"]["id"], "U0ANN");
    let (ack, _) = tokio::join!(press(Press::new("silence").confirmed()), socket.take(Value::Null));
    ack.unwrap();
    bot.call("chat.update", json!({ "channel": CHANNEL, "ts": ts, "text": "t", "attachments": [{ "fallback": "f", "blocks": block("done") }] })).await;
    assert!(press("ack".into()).await.is_err(), "the button is gone");
    assert!(bot.slack.with(|state| state.deliveries().iter().all(|d| d.kind == Kind::Interaction)));
}
