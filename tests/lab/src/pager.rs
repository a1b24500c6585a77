//! Local stand-ins for PagerDuty's Events API v2 and for a receiver of Standard Webhooks, which hold every call against
//! the published contract and record what breaks it.
//!
//! Sources: PagerDuty/api-schema, `reference/events-v2/openapiv3.json`; developer.pagerduty.com, "Send an Alert Event";
//! standard-webhooks/standard-webhooks, specification 1.0.0.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State as Shared};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// PagerDuty refuses larger events.
const EVENT_BYTES: usize = 512 << 10;
/// How far a webhook's timestamp may lie from the receiver's clock.
const TOLERANCE_SECONDS: u64 = 300;

/// A call that was answered with success.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// `webhook-id`; empty at PagerDuty.
    pub id: String,
    /// The body.
    pub body: Value,
    /// The sender's `User-Agent`.
    pub agent: String,
}

/// Both receivers; they stop when dropped.
pub struct FakePager {
    /// Where PagerDuty's events go.
    pub events_url: String,
    /// Where webhooks go.
    pub webhook_url: String,
    hub: Arc<Hub>,
    server: JoinHandle<()>,
}

struct Hub {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    routing_key: String,
    secret: String,
}

#[derive(Default)]
struct State {
    events: Vec<Call>,
    webhooks: Vec<Call>,
    breaches: Vec<String>,
    failures: Vec<(u16, Option<u64>)>,
    attempts: usize,
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next planned failure, and the news that somebody called.
    fn planned(&self) -> Option<Response> {
        let mut state = self.lock();
        state.attempts += 1;
        if state.failures.is_empty() {
            return None;
        }
        let (status, after) = state.failures.remove(0);
        drop(state);
        self.changed.send_modify(|n| *n += 1);
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Some(match after {
            Some(seconds) => (status, [("retry-after", seconds.to_string())], "planned").into_response(),
            None => (status, "planned").into_response(),
        })
    }

    fn note(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.send_modify(|n| *n += 1);
    }
}

impl FakePager {
    /// Starts both on a free port of the loopback interface.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(routing_key: &str, secret: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("the pager cannot listen on 127.0.0.1")?;
        let base = format!("http://{}", listener.local_addr()?);
        let hub = Arc::new(Hub {
            state: Mutex::default(),
            changed: watch::Sender::new(0),
            routing_key: routing_key.to_owned(),
            secret: secret.to_owned(),
        });
        let router = Router::new()
            .route("/v2/enqueue", post(enqueue))
            .route("/hook", post(hook))
            .layer(DefaultBodyLimit::max(16 << 20))
            .with_state(Arc::clone(&hub));
        let server = tokio::spawn(async move {
            // It ends only with the task.
            axum::serve(listener, router).await.ok();
        });
        let (events_url, webhook_url) = (format!("{base}/v2/enqueue"), format!("{base}/hook"));
        Ok(Self { events_url, webhook_url, hub, server })
    }

    /// PagerDuty's events that were accepted.
    pub fn events(&self) -> Vec<Call> {
        self.hub.lock().events.clone()
    }

    /// Webhooks that were accepted.
    pub fn webhooks(&self) -> Vec<Call> {
        self.hub.lock().webhooks.clone()
    }

    /// What broke the contracts.
    pub fn breaches(&self) -> Vec<String> {
        self.hub.lock().breaches.clone()
    }

    /// Calls so far, refused ones among them.
    pub fn attempts(&self) -> usize {
        self.hub.lock().attempts
    }

    /// Lets the next call fail with a status, and perhaps a `Retry-After`.
    pub fn fail_next(&self, status: u16, retry_after: Option<u64>) {
        self.hub.lock().failures.push((status, retry_after));
    }

    /// Waits until `condition` holds, which is looked at after every call.
    ///
    /// # Errors
    /// With everything that arrived, when it does not hold within the time.
    pub async fn wait_for(&self, condition: impl Fn(&Self) -> bool, within: Duration) -> anyhow::Result<()> {
        let mut changes = self.hub.changed.subscribe();
        let met = async {
            while !condition(self) {
                if changes.changed().await.is_err() {
                    break;
                }
            }
        };
        match tokio::time::timeout(within, met).await {
            Ok(()) => Ok(()),
            Err(_) => Err(anyhow::anyhow!(
                "not seen at the pager within {within:?}; events {:#?}, webhooks {:#?}, breaches {:?}",
                self.events(),
                self.webhooks(),
                self.breaches()
            )),
        }
    }
}

impl Drop for FakePager {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn enqueue(Shared(hub): Shared<Arc<Hub>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(failure) = hub.planned() {
        return failure;
    }
    let event: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let mut errors = event_errors(&event, &hub.routing_key);
    if body.len() > EVENT_BYTES {
        errors.push(format!("the event has {} bytes, more than 512 kB", body.len()));
    }
    if !errors.is_empty() {
        hub.note(|state| state.breaches.extend(errors.clone()));
        let body = json!({ "status": "invalid event", "message": "Event object is invalid", "errors": errors });
        return (StatusCode::BAD_REQUEST, Json(body)).into_response();
    }
    let key = event["dedup_key"].clone();
    hub.note(|state| state.events.push(Call { id: String::new(), body: event, agent: agent(&headers) }));
    let body = json!({ "status": "success", "message": "Event processed", "dedup_key": key });
    (StatusCode::ACCEPTED, Json(body)).into_response()
}

fn agent(headers: &HeaderMap) -> String {
    headers.get("user-agent").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
}

/// What the Events API would refuse.
fn event_errors(event: &Value, routing_key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            errors.push(what.to_owned());
        }
    };
    expect(text("/routing_key").len() == 32, "Length of 'routing_key' is incorrect (should be 32 characters)");
    expect(text("/routing_key") == routing_key, "'routing_key' belongs to no integration");
    let action = text("/event_action");
    expect(["trigger", "acknowledge", "resolve"].contains(&action), "'event_action' is missing or unknown");
    expect(text("/dedup_key").len() <= 255, "'dedup_key' has more than 255 characters");
    expect(action == "trigger" || !text("/dedup_key").is_empty(), "'dedup_key' is missing");
    if action == "trigger" {
        let summary = text("/payload/summary").chars().count();
        expect((1..=1_024).contains(&summary), "'payload.summary' is missing or longer than 1024 characters");
        expect(!text("/payload/source").is_empty(), "'payload.source' is missing or blank");
        let severity = text("/payload/severity");
        expect(["critical", "warning", "error", "info"].contains(&severity), "'payload.severity' is invalid");
        let details = &event["payload"]["custom_details"];
        expect(details.is_null() || details.is_object(), "'payload.custom_details' is no object");
        let links = event["links"].as_array().cloned().unwrap_or_default();
        expect(links.iter().all(|link| link["href"].as_str().is_some_and(is_address)), "a link has no 'href'");
        expect(event["client_url"].is_null() || is_address(text("/client_url")), "'client_url' is no address");
    }
    errors
}

fn is_address(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

#[expect(clippy::disallowed_methods, reason = "a receiver compares with the wall clock")]
async fn hook(Shared(hub): Shared<Arc<Hub>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(failure) = hub.planned() {
        return failure;
    }
    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    let (id, at, signature) = (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    let fresh = at.parse::<u64>().is_ok_and(|at| at.abs_diff(now) <= TOLERANCE_SECONDS);
    let key = hub.secret.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
    let signed = [id.as_bytes(), b".", at.as_bytes(), b".", &body].concat();
    let valid = signature
        .split(' ')
        .filter_map(|s| STANDARD.decode(s.strip_prefix("v1,")?).ok())
        .any(|tag| hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &key), &signed, &tag).is_ok());
    let json = serde_json::from_slice::<Value>(&body);
    let breach = match &json {
        _ if id.is_empty() => Some("webhook-id is missing"),
        _ if !fresh => Some("webhook-timestamp is missing or stale"),
        _ if !valid => Some("webhook-signature does not match"),
        Err(_) => Some("the body is no JSON"),
        Ok(body) if !body["type"].is_string() || !body["timestamp"].is_string() || !body["data"].is_object() => {
            Some("the body lacks type, timestamp or data")
        }
        Ok(_) => None,
    };
    if let Some(breach) = breach {
        hub.note(|state| state.breaches.push(breach.to_owned()));
        return (StatusCode::UNAUTHORIZED, breach).into_response();
    }
    let body = json.unwrap_or(Value::Null);
    hub.note(|state| state.webhooks.push(Call { id, body, agent: agent(&headers) }));
    StatusCode::NO_CONTENT.into_response()
}
