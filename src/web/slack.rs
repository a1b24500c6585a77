//! `POST /slack/…`: Slack's requests over HTTP.
//!
//! Nothing of a request is parsed before its signature is verified. Slack retries with a new signature and the same
//! ids; [`chat::Desk::receive`] recognises those.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use serde_json::Value;
use tracing::{debug, warn};

use super::state::{Shared, SlackState};
use knowledge::clock;
use slack::{Ack, Payload, payload};

/// The largest body, in bytes: Slack's have a few kilobytes, those with a view's state some hundred.
const LARGEST: usize = 1 << 20;
/// The timeout of an answer, within Slack's limit of 3 seconds.
const ANSWER: Duration = Duration::from_millis(2_500);
/// The header that tells Slack not to retry, as the answer would be the same.
const NO_RETRY: (&str, &str) = ("x-slack-no-retry", "1");

/// Builds the routes; without their state there are none, and Slack gets 404.
pub(super) fn routes(state: Option<SlackState>) -> Router<Shared> {
    let Some(state) = state else { return Router::new() };
    Router::new()
        .route("/slack/commands", post(commands))
        .route("/slack/interactions", post(interactions))
        .route("/slack/events", post(events))
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(state)
}

type Body = Result<Bytes, BytesRejection>;

async fn commands(State(state): State<SlackState>, headers: HeaderMap, body: Body) -> Response {
    answer(&state, "command", &headers, body, |body, id| Some(payload::command(&payload::form(body), id))).await
}

async fn interactions(State(state): State<SlackState>, headers: HeaderMap, body: Body) -> Response {
    let read = |body: &[u8], id: &str| {
        let form = payload::form(body);
        if form["ssl_check"] == "1" {
            return Some(Payload::Nothing("ssl_check"));
        }
        let inner: Value = serde_json::from_str(form["payload"].as_str()?).ok()?;
        Some(payload::interaction(&inner, id))
    };
    answer(&state, "interaction", &headers, body, read).await
}

async fn events(State(state): State<SlackState>, headers: HeaderMap, body: Body) -> Response {
    let read = |body: &[u8], id: &str| Some(payload::event(&serde_json::from_slice(body).ok()?, id));
    answer(&state, "event", &headers, body, read).await
}

/// Verifies a request, has the desk handle it, and returns what Slack expects.
async fn answer(
    state: &SlackState,
    kind: &'static str,
    headers: &HeaderMap,
    body: Body,
    read: impl FnOnce(&[u8], &str) -> Option<Payload>,
) -> Response {
    let refuse = |status: StatusCode, result: &str| {
        state.desk.service.metrics.inbound(kind, result);
        (status, [NO_RETRY]).into_response()
    };
    let body = match body {
        Ok(body) => body,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            warn!(kind, "refused a request to Slack's routes: larger than 1 MB");
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, "too_large");
        }
        Err(rejection) => {
            state.desk.service.metrics.inbound(kind, "broken_off");
            return rejection.status().into_response();
        }
    };
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let signature = header("x-slack-signature");
    if let Err(forged) = state.signing.verify(header("x-slack-request-timestamp"), signature, &body, clock::now()) {
        warn!(kind, reason = %forged, "refused a request to Slack's routes");
        state.desk.service.metrics.inbound(kind, forged.as_str());
        // Without `no-retry`: the secret may be about to change.
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if let Some(retry) = headers.get("x-slack-retry-num").and_then(|value| value.to_str().ok()) {
        debug!(kind, retry, reason = header("x-slack-retry-reason"), "Slack repeats itself");
        state.desk.service.metrics.inbound(kind, "slack_retry");
    }
    match read(&body, signature) {
        Some(Payload::Inbound(inbound)) => {
            let desk = Arc::clone(&state.desk);
            // In a task, so that it is not dropped half-way if Slack closes the connection.
            let work = state.desk.tasks.spawn(async move { desk.receive(*inbound).await });
            match tokio::time::timeout(ANSWER, work).await {
                Ok(Ok(ack)) => respond(&ack),
                Ok(Err(_)) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "panicked"),
                Err(_) => {
                    warn!(kind, "handling something from Slack takes longer than Slack waits");
                    state.desk.service.metrics.inbound(kind, "late");
                    StatusCode::OK.into_response()
                }
            }
        }
        Some(Payload::Challenge(challenge)) => Json(serde_json::json!({ "challenge": challenge })).into_response(),
        Some(Payload::Nothing(why)) => {
            state.desk.service.metrics.inbound(kind, why);
            StatusCode::OK.into_response()
        }
        None => refuse(StatusCode::BAD_REQUEST, "malformed"),
    }
}

fn respond(ack: &Ack) -> Response {
    match ack.body() {
        Some(body) => Json(body).into_response(),
        None => StatusCode::OK.into_response(),
    }
}
