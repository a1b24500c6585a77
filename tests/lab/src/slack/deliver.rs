//! Sends the app what people do, over whichever transport it chose, and waits for the acknowledgement.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::blocks::Rule;
use super::server::Hub;
use super::sign;
use super::socket::{Order, Waiting};

/// How long a person waits for the app to connect at all.
const CONNECTED: Duration = Duration::from_secs(10);

/// What kind of thing is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A slash command.
    Command,
    /// A press, a modal's submission, a menu's question.
    Interaction,
    /// A mention or a direct message.
    Event,
}

impl Kind {
    fn envelope(self) -> &'static str {
        match self {
            Self::Command => "slash_commands",
            Self::Interaction => "interactive",
            Self::Event => "events_api",
        }
    }

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Command => "commands",
            Self::Interaction => "interactions",
            Self::Event => "events",
        }
    }
}

/// One thing on its way to the app, in one attempt.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// What kind of thing.
    pub kind: Kind,
    /// Socket Mode's `envelope_id`; empty over HTTP.
    pub envelope: String,
    /// The payload as Slack has it.
    pub payload: Value,
    /// 0 for the first.
    pub attempt: usize,
    /// The WebSocket it went over; none is HTTP.
    pub connection: Option<u64>,
    /// When it was sent.
    pub at: Instant,
    /// How long the acknowledgement took, once there is one.
    pub acknowledged_after: Option<Duration>,
    /// What the acknowledgement carried.
    pub answer: Option<Value>,
    /// The HTTP status.
    pub status: Option<u16>,
    pub(super) raw: String,
    pub(super) headers: Vec<(String, String)>,
}

/// How the app acknowledged.
#[derive(Debug, Clone, PartialEq)]
pub struct Ack {
    /// How long it took, from the attempt that was acknowledged.
    pub delay: Duration,
    /// What it carried; plain text is `{"text": …}`.
    pub body: Option<Value>,
    /// How often it had been sent before.
    pub retries: usize,
}

/// What a connection's reader tells.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) at: Instant,
    pub(super) body: Option<Value>,
}

/// Delivers, with Slack's retries.
pub(super) async fn deliver(hub: &Arc<Hub>, kind: Kind, payload: Value) -> anyhow::Result<Ack> {
    let (url, retries) = {
        let state = hub.lock();
        (state.options.request_url.clone(), state.options.event_retries.clone())
    };
    match url {
        None => over_socket(hub, kind, &payload).await,
        Some(url) => over_http(hub, kind, &payload, &format!("{url}/{}", kind.path()), &retries).await,
    }
}

async fn over_socket(hub: &Arc<Hub>, kind: Kind, payload: &Value) -> anyhow::Result<Ack> {
    // Of events Slack tries three more; of the rest we try one, to show what the app makes of it.
    let attempts = if kind == Kind::Event { 4 } else { 2 };
    let (mut tried, mut envelope, mut reason) = (Vec::new(), String::new(), "");
    for attempt in 0..attempts {
        connected(hub).await?;
        let (answer, sent, within) = {
            let mut state = hub.lock();
            // An event's repetition is known by its event_id, of the rest by the same envelope_id.
            if envelope.is_empty() || kind == Kind::Event {
                envelope = state.new_id("11111111-2222-3333-4444-");
            }
            let mut wrapped = json!({
                "envelope_id": envelope, "type": kind.envelope(), "payload": payload,
                "accepts_response_payload": accepts(kind, payload),
            });
            if kind == Kind::Event || attempt > 0 {
                wrapped["retry_attempt"] = attempt.into();
                wrapped["retry_reason"] = reason.into();
            }
            let text = wrapped.to_string();
            let Some(connection) = state.sockets.pick(&tried) else { continue };
            let (id, orders, is_muted) = (connection.id, connection.orders.clone(), connection.is_muted);
            tried.push(id);
            let (reply, answer) = oneshot::channel();
            state.sockets.waiting.insert(envelope.clone(), Waiting { connection: id, reply });
            let sent = Instant::now();
            let delivery = Delivery::new(kind, payload, attempt, text.clone());
            state.deliveries.push(Delivery { envelope: envelope.clone(), connection: Some(id), ..delivery });
            let copies = if state.sockets.duplicates > 0 { 2 } else { 1 };
            state.sockets.duplicates = state.sockets.duplicates.saturating_sub(1);
            for _ in 0..copies {
                orders.send(Order::Send(text.clone())).ok();
            }
            (answer, (sent, is_muted), state.options.ack_within)
        };
        hub.tell();
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(reply)) => {
                return Ok(Ack { delay: reply.at - sent.0, body: reply.body, retries: attempt });
            }
            Ok(Err(_)) => reason = "connection_failed",
            Err(_) => {
                reason = "timeout";
                hub.lock().sockets.waiting.remove(&envelope);
                if !sent.1 {
                    late(hub, kind, within);
                }
            }
        }
    }
    bail!("the app did not acknowledge a thing of kind {} in {attempts} attempts", kind.envelope())
}

/// Whether the acknowledgement may carry an answer.
fn accepts(kind: Kind, payload: &Value) -> bool {
    match kind {
        Kind::Command => true,
        Kind::Event => false,
        Kind::Interaction => payload["type"] != "block_actions" && payload["type"] != "view_closed",
    }
}

async fn connected(hub: &Arc<Hub>) -> anyhow::Result<()> {
    let mut changes = hub.changed.subscribe();
    let is_there = async {
        while !hub.lock().sockets.open.iter().any(|connection| !connection.is_leaving) {
            if changes.changed().await.is_err() {
                break;
            }
        }
    };
    tokio::time::timeout(CONNECTED, is_there).await.context("the app has no WebSocket open and no request_url")
}

fn late(hub: &Arc<Hub>, kind: Kind, within: Duration) {
    hub.lock().breach(kind.envelope(), Rule::Late, format!("not acknowledged within {within:?}"));
    hub.tell();
}

async fn over_http(
    hub: &Arc<Hub>,
    kind: Kind,
    payload: &Value,
    url: &str,
    retries: &[Duration],
) -> anyhow::Result<Ack> {
    let body = match kind {
        Kind::Event => payload.to_string(),
        Kind::Interaction => form([("payload", payload.to_string().as_str())]),
        Kind::Command => {
            let fields = payload.as_object().into_iter().flatten();
            form(fields.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default())))
        }
    };
    let retries = if kind == Kind::Event { retries } else { &[] };
    let mut reason = "";
    for attempt in 0..=retries.len() {
        if attempt > 0 {
            tokio::time::sleep(retries[attempt - 1]).await;
        }
        let within = hub.lock().options.ack_within;
        let secret = hub.lock().options.signing_secret.clone();
        let mut headers = sign::headers(&secret, sign::now(), &body);
        let content = if kind == Kind::Event { "application/json" } else { "application/x-www-form-urlencoded" };
        headers.push(("content-type".into(), content.into()));
        if attempt > 0 {
            headers.push(("x-slack-retry-num".into(), attempt.to_string()));
            headers.push(("x-slack-retry-reason".into(), reason.into()));
        }
        let index = {
            let mut state = hub.lock();
            let delivery = Delivery::new(kind, payload, attempt, body.clone());
            state.deliveries.push(Delivery { headers: headers.clone(), ..delivery });
            state.deliveries.len() - 1
        };
        hub.tell();
        let sent = Instant::now();
        match tokio::time::timeout(within, post(hub, url, &headers, body.clone())).await {
            Ok(Ok(answer)) => {
                {
                    let mut state = hub.lock();
                    let delivery = &mut state.deliveries[index];
                    delivery.status = Some(answer.status);
                    delivery.acknowledged_after = Some(sent.elapsed());
                    delivery.answer.clone_from(&answer.body);
                }
                hub.tell();
                if (200..300).contains(&answer.status) {
                    return Ok(Ack { delay: sent.elapsed(), body: answer.body, retries: attempt });
                }
                if answer.no_retry || attempt == retries.len() {
                    bail!("{url} answered with HTTP {}", answer.status);
                }
                reason = "http_error";
            }
            Ok(Err(_)) => reason = "connection_failed",
            Err(_) => {
                reason = "http_timeout";
                late(hub, kind, within);
            }
        }
    }
    bail!("{url} was not reached: {reason}")
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Option<Value>,
    no_retry: bool,
}

/// Posts as it is.
pub(super) async fn post(
    hub: &Arc<Hub>,
    url: &str,
    headers: &[(String, String)],
    body: String,
) -> anyhow::Result<Answer> {
    let request = headers.iter().fold(hub.http.post(url), |request, (name, value)| request.header(name, value));
    let answer = request.body(body).send().await?;
    let status = answer.status().as_u16();
    let no_retry = answer.headers().contains_key("x-slack-no-retry");
    let text = answer.text().await?;
    let body = match text.trim() {
        "" => None,
        text => Some(serde_json::from_str(text).unwrap_or_else(|_| json!({ "text": text }))),
    };
    Ok(Answer { status, body, no_retry })
}

fn form<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let encode = |text: &str| -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        text.bytes()
            .map(|byte| match byte {
                b' ' => "+".to_owned(),
                byte if plain(byte) => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect()
    };
    let pairs: Vec<_> = fields.into_iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    pairs.join("&")
}

impl Delivery {
    fn new(kind: Kind, payload: &Value, attempt: usize, raw: String) -> Self {
        Self {
            kind,
            envelope: String::new(),
            payload: payload.clone(),
            attempt,
            connection: None,
            at: Instant::now(),
            acknowledged_after: None,
            answer: None,
            status: None,
            raw,
            headers: Vec::new(),
        }
    }
}
