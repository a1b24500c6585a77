//! Socket Mode against a Slack whose every frame the test writes: what a well-behaved one would never send.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::{Json, Router, routing::post};
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use slack::socket::{Socket, SocketTiming};
use slack::{Ack, Slack, SlackAction, SlackRequest, SocketState, socket};
use telemetry::Metrics;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};
use tokio_util::sync::CancellationToken;

use crate::running::{SOON, tls};

type Line = WebSocketStream<TcpStream>;

/// Slack's side of Socket Mode, by hand, with a client that runs in this process.
struct Wire {
    lines: mpsc::Receiver<Line>,
    state: SocketState,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
    asked: Arc<AtomicUsize>,
}

/// Answers `apps.connections.open` with `answer`, in which `$URL` stands for the WebSocket's address.
async fn start(connections: u32, timing: SocketTiming, answer: Value) -> Wire {
    tls();
    let sockets = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/link/?ticket=1", sockets.local_addr().unwrap());
    let body: Value = serde_json::from_str(&answer.to_string().replace("$URL", &url)).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let open = post(move || {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Json(body.clone()))
    });
    let api = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api_url = format!("http://{}/api", api.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(api, Router::new().route("/api/apps.connections.open", open)).await });
    let (accepted, lines) = mpsc::channel(16);
    tokio::spawn(async move {
        while let Ok((tcp, _)) = sockets.accept().await {
            accepted.send(accept_async(tcp).await.unwrap()).await.unwrap();
        }
    });
    let metrics = Arc::new(Metrics::default());
    let state = SocketState::new(connections, Arc::clone(&metrics));
    let stop = CancellationToken::new();
    let socket = Socket {
        slack: Slack::new(&api_url, "xoxb-1").unwrap(),
        app_token: "xapp-1".into(),
        state: state.clone(),
        metrics: Arc::clone(&metrics),
        timing,
        handle,
    };
    let running = tokio::spawn(socket::run(socket, stop.clone()));
    Wire { lines, state, metrics, stop, running, asked }
}

async fn connect(connections: u32, timing: SocketTiming) -> Wire {
    start(connections, timing, json!({ "ok": true, "url": "$URL" })).await
}

/// `never` takes for ever, `panic` panics, everything else is said back.
async fn handle(inbound: SlackRequest) -> Ack {
    match inbound.what {
        SlackAction::Command { text } if text == "never" => std::future::pending().await,
        SlackAction::Command { text } if text == "panic" => panic!("as the test asked"),
        SlackAction::Command { text } => Ack::Say(text),
        _ => Ack::Received,
    }
}

impl Wire {
    /// The next connection, greeted.
    async fn line(&mut self) -> Line {
        let mut line = tokio::time::timeout(SOON, self.lines.recv()).await.unwrap().unwrap();
        send(&mut line, &json!({ "type": "hello", "num_connections": 1 })).await;
        line
    }

    fn counted(&self, kind: &str, result: &str) -> bool {
        let series = format!("llm_diagnose_slack_inbound_total{{kind=\"{kind}\",result=\"{result}\"}} 1");
        self.metrics.page().contains(&series)
    }
}

async fn send(line: &mut Line, frame: &Value) {
    line.send(Message::text(frame.to_string())).await.unwrap();
}

async fn command(line: &mut Line, id: &str, text: &str) {
    let payload = json!({ "user_id": "U1", "text": text, "trigger_id": id });
    let envelope =
        json!({ "envelope_id": id, "type": "slash_commands", "payload": payload, "accepts_response_payload": true });
    send(line, &envelope).await;
}

/// The next text that the client sends; none when the connection ends first.
async fn next(line: &mut Line) -> Option<Value> {
    let text = async {
        loop {
            match line.next().await {
                Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    };
    tokio::time::timeout(SOON, text).await.unwrap()
}

#[tokio::test]
async fn a_handler_that_hangs_or_panics_delays_nobody_and_is_acknowledged_in_time() {
    let mut wire = connect(1, SocketTiming { ack: Duration::from_millis(300), ..SocketTiming::default() }).await;
    let mut line = wire.line().await;
    let sent = Instant::now();
    for (id, text) in [("1", "never"), ("2", "panic"), ("3", "quick")] {
        command(&mut line, id, text).await;
    }
    let first = [next(&mut line).await.unwrap(), next(&mut line).await.unwrap()];
    let quick = json!({ "envelope_id": "3", "payload": { "response_type": "ephemeral", "text": "quick" } });
    assert!(first.contains(&quick) && first.contains(&json!({ "envelope_id": "2" })), "{first:?}");
    assert_eq!(next(&mut line).await.unwrap(), json!({ "envelope_id": "1" }));
    assert!(sent.elapsed() < Duration::from_secs(3), "{:?}", sent.elapsed());
    command(&mut line, "4", "still there").await;
    assert_eq!(next(&mut line).await.unwrap()["payload"]["text"], "still there");
    assert!(wire.counted("command", "panicked") && wire.counted("command", "late"));
}

#[tokio::test]
async fn garbage_is_counted_and_what_is_unknown_is_acknowledged() {
    let mut wire = connect(1, SocketTiming::default()).await;
    let mut line = wire.line().await;
    for garbage in ["", "{", "[]", "null", r#"{"type":"interactive"}"#, r#"{"envelope_id":7}"#, "\u{0}\u{202e}"] {
        line.send(Message::text(garbage)).await.unwrap();
    }
    line.send(Message::binary(vec![0xff; 1_000])).await.unwrap();
    send(&mut line, &json!({ "envelope_id": "new", "type": "tomorrows", "payload": {} })).await;
    assert_eq!(next(&mut line).await.unwrap(), json!({ "envelope_id": "new" }));
    send(&mut line, &json!({ "envelope_id": "odd", "type": "interactive", "payload": { "type": "x" } })).await;
    assert_eq!(next(&mut line).await.unwrap(), json!({ "envelope_id": "odd" }));
    assert!(wire.counted("envelope", "unknown") && wire.counted("interaction", "unknown"));
    assert!(wire.metrics.page().contains("kind=\"frame\",result=\"malformed\"} 8"), "{}", wire.metrics.page());
    // One that is larger than anything of Slack's ends the connection, and another one comes.
    let _ = line.send(Message::text("x".repeat(3 << 20))).await;
    let mut line = wire.line().await;
    command(&mut line, "5", "again").await;
    assert_eq!(next(&mut line).await.unwrap()["payload"]["text"], "again");
    assert!(wire.counted("frame", "too_large"));
}

#[tokio::test]
async fn the_next_connection_is_there_before_the_announced_end_and_nothing_between_is_lost() {
    let mut wire = connect(1, SocketTiming { linger: Duration::from_millis(300), ..SocketTiming::default() }).await;
    let mut old = wire.line().await;
    wire.state.wait_for(|status| status.connected == 1).await;
    send(&mut old, &json!({ "type": "disconnect", "reason": "warning" })).await;
    command(&mut old, "1", "before").await;
    assert_eq!(next(&mut old).await.unwrap()["payload"]["text"], "before");
    let mut new = wire.line().await;
    command(&mut old, "2", "on the old one").await;
    command(&mut new, "3", "on the new one").await;
    assert_eq!(next(&mut old).await.unwrap()["payload"]["text"], "on the old one");
    assert_eq!(next(&mut new).await.unwrap()["payload"]["text"], "on the new one");
    assert_eq!(next(&mut old).await, None, "the old one is closed by us");
    wire.state.wait_for(|status| status.connected == 1 && status.error.is_none()).await;
}

#[tokio::test]
async fn a_lost_connection_comes_back_and_a_silent_one_is_noticed() {
    let timing =
        SocketTiming { ping: Duration::from_millis(50), idle: Duration::from_millis(400), ..SocketTiming::default() };
    let mut wire = connect(2, timing).await;
    let (one, mut two) = (wire.line().await, wire.line().await);
    wire.state.wait_for(|status| status.connected == 2).await;
    // Its answers to pings are what keeps a line alive.
    let alive = tokio::spawn(async move { while let Some(Ok(_)) = two.next().await {} });
    drop(one.into_inner());
    // This one is never read, so our pings are not answered.
    let silent = wire.line().await;
    wire.state.wait_for(|status| status.connected == 2).await;
    let mut third = wire.line().await;
    command(&mut third, "1", "back").await;
    assert_eq!(next(&mut third).await.unwrap()["payload"]["text"], "back");
    drop(silent);
    assert!(!alive.is_finished(), "the one that answered pings was left alone");
}

#[tokio::test]
async fn a_connection_without_a_hello_does_not_count() {
    let mut wire = connect(1, SocketTiming { open: Duration::from_millis(200), ..SocketTiming::default() }).await;
    let mute = tokio::time::timeout(SOON, wire.lines.recv()).await.unwrap().unwrap();
    wire.state.wait_for(|status| status.error.as_deref().is_some_and(|error| error.contains("no hello"))).await;
    assert_eq!(wire.state.status().connected, 0);
    drop(mute);
    let _line = wire.line().await;
    wire.state.wait_for(|status| status.connected == 1 && status.error.is_none()).await;
}

#[tokio::test]
async fn what_only_a_person_can_change_is_told_and_not_asked_again_and_again() {
    let mut wire = connect(1, SocketTiming::default()).await;
    let mut line = wire.line().await;
    wire.state.wait_for(|status| status.connected == 1).await;
    send(&mut line, &json!({ "type": "disconnect", "reason": "link_disabled" })).await;
    wire.state.wait_for(|status| status.connected == 0 && status.error.is_some()).await;
    let error = wire.state.status().error.unwrap();
    assert!(error.contains("Socket Mode is off") && error.contains("slack.transport: http"), "{error}");

    let revoked = start(2, SocketTiming::default(), json!({ "ok": false, "error": "token_revoked" })).await;
    revoked.state.wait_for(|status| status.error.is_some()).await;
    let error = revoked.state.status().error.unwrap();
    assert!(error.contains("token_revoked") && error.contains("SLACK_APP_TOKEN"), "{error}");
    let begun = Instant::now();
    revoked.stop.cancel();
    revoked.running.await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5) && revoked.asked.load(Ordering::SeqCst) <= 2);
}

#[tokio::test]
async fn a_stop_acknowledges_what_was_taken_and_closes() {
    let mut wire = connect(2, SocketTiming { ack: Duration::from_millis(500), ..SocketTiming::default() }).await;
    let (mut one, mut two) = (wire.line().await, wire.line().await);
    wire.state.wait_for(|status| status.connected == 2).await;
    command(&mut one, "1", "never").await;
    command(&mut one, "2", "quick").await;
    assert_eq!(next(&mut one).await.unwrap()["envelope_id"], "2");
    wire.stop.cancel();
    assert_eq!(next(&mut one).await.unwrap(), json!({ "envelope_id": "1" }));
    assert_eq!((next(&mut one).await, next(&mut two).await), (None, None));
    tokio::time::timeout(SOON, wire.running).await.unwrap().unwrap();
    assert_eq!(wire.state.status().connected, 0);
}
