//! The HTTP side: reads calls, lets them fail as planned, answers.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequest, Path, Request, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use axum::{Form, Json, Router};
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::limits::Rate;
use super::options::Failure;
use super::state::{Outcome, State};
use super::{directory, files, methods, respond};

/// Enough for any picture or bundle.
const MAX_BODY_BYTES: usize = 64 << 20;
/// Arguments that may come as JSON text in a form.
const NESTED: [&str; 5] = ["blocks", "attachments", "metadata", "files", "view"];

/// The state, and the news that it changed.
pub(super) struct Hub {
    state: Mutex<State>,
    pub(super) changed: watch::Sender<u64>,
    /// As many late calls as were released and have not had their effect.
    pub(super) released: Semaphore,
    /// Posts to the app.
    pub(super) http: reqwest::Client,
}

impl Hub {
    pub(super) fn new(state: State, http: reqwest::Client) -> Arc<Self> {
        let (changed, released) = (watch::Sender::new(0), Semaphore::new(0));
        Arc::new(Self { state: Mutex::new(state), changed, released, http })
    }

    /// Locks the state, which everybody keeps for moments only.
    ///
    /// # Panics
    /// After a minute: a test asks inside a question of its own, and would wait for ever.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::Poisoned(state)) => return state.into_inner(),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(50)),
            }
            assert!(Instant::now() < until, "the state is asked inside another question, or nobody ends one");
        }
    }

    fn end(&self, call: usize, outcome: Outcome) {
        self.lock().calls[call].outcome = outcome;
        self.tell();
    }

    pub(super) fn tell(&self) {
        self.changed.send_modify(|version| *version += 1);
    }
}

pub(super) fn router(hub: Arc<Hub>) -> Router {
    Router::new()
        .route("/api/upload/{id}", post(upload))
        .route("/api/{method}", any(call))
        .route("/respond/{id}", post(respond))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(hub)
}

async fn upload(Shared(hub): Shared<Arc<Hub>>, Path(id): Path<String>, body: Bytes) -> Response {
    let planned = hub.lock().planned_failure("upload");
    if let Some(Failure::Status(status)) = planned {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return (status, "the planned failure").into_response();
    }
    let received = files::receive(&mut hub.lock(), &id, &body);
    hub.tell();
    match received {
        // Text, not JSON, as Slack's upload host answers.
        Some(length) => format!("OK - {length}").into_response(),
        None => (StatusCode::BAD_REQUEST, "no such upload").into_response(),
    }
}

async fn respond(Shared(hub): Shared<Arc<Hub>>, Path(id): Path<String>, request: Request) -> Response {
    let args = arguments(request).await.map(Value::Object);
    let (index, failure) = {
        let mut state = hub.lock();
        let index = state.called("response_url", args.clone().unwrap_or_default());
        (index, state.planned_failure("response_url"))
    };
    let answer = match (failure, args) {
        (Some(Failure::Hang | Failure::LostReply), _) => std::future::pending().await,
        (Some(Failure::Reset | Failure::Late), _) => return reset(),
        (Some(Failure::Status(status)), _) => {
            hub.end(index, Outcome::Status(status));
            return StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR).into_response();
        }
        (Some(Failure::RateLimited(seconds)), _) => return slow_down(&hub, index, seconds),
        (Some(Failure::Error(error)), _) => Err(error.as_str().into()),
        (Some(Failure::Slow(_)) | None, Err(error)) => Err(error.into()),
        (Some(Failure::Slow(_)) | None, Ok(args)) => respond::respond(&mut hub.lock(), &id, &args),
    };
    match answer {
        Ok(_) => {
            hub.end(index, Outcome::Ok);
            "ok".into_response()
        }
        Err(refusal) => {
            let is_over = matches!(refusal.error.as_str(), "used_url" | "expired_url" | "no_such_url");
            let status = if is_over { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST };
            (status, refuse(&hub, index, refusal.error, &refusal.messages)).into_response()
        }
    }
}

async fn call(Shared(hub): Shared<Arc<Hub>>, Path(method): Path<String>, request: Request) -> Response {
    let mut response = answer(&hub, &method, request).await;
    let granted = match method.as_str() {
        "apps.connections.open" => "connections:write".to_owned(),
        _ => hub.lock().options.scopes.join(","),
    };
    if let Ok(granted) = granted.parse() {
        response.headers_mut().insert("x-oauth-scopes", granted);
    }
    response
}

async fn answer(hub: &Arc<Hub>, method: &str, request: Request) -> Response {
    let headers = request.headers().clone();
    let (mut args, unreadable) = match arguments(request).await {
        Ok(args) => (args, None),
        Err(error) => (Map::new(), Some(error)),
    };
    let token = bearer(&headers).map(str::to_owned);
    let token = token.or_else(|| args.remove("token").and_then(|token| token.as_str().map(str::to_owned)));
    args.remove("token");
    let args = Value::Object(args);

    let (index, latency) = {
        let mut state = hub.lock();
        (state.called(method, args.clone()), state.options.latency)
    };
    hub.tell();
    if latency > Duration::ZERO {
        tokio::time::sleep(latency).await;
    }

    let failure = hub.lock().planned_failure(method);
    match failure {
        None | Some(Failure::LostReply | Failure::Reset | Failure::Slow(_) | Failure::Late) => {}
        Some(Failure::Hang) => std::future::pending().await,
        Some(Failure::Error(error)) => return refuse(hub, index, error, &[]),
        Some(Failure::RateLimited(seconds)) => return slow_down(hub, index, seconds),
        Some(Failure::Status(status)) => {
            hub.end(index, Outcome::Status(status));
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return (status, "<html><body>the planned failure</body></html>").into_response();
        }
    }
    if let Some(error) = unreadable {
        return refuse(hub, index, error.into(), &[]);
    }
    let admitted = admit(&hub.lock(), method, token.as_deref());
    if let Err(error) = admitted {
        return refuse(hub, index, error.into(), &[]);
    }
    if let Some(needed) = directory::scope(method) {
        let provided = hub.lock().options.scopes.clone();
        if !provided.iter().any(|scope| scope == needed) {
            hub.end(index, Outcome::Error("missing_scope".into()));
            let provided = provided.join(",");
            let body = json!({ "ok": false, "error": "missing_scope", "needed": needed, "provided": provided });
            return Json(body).into_response();
        }
    }
    let too_soon = take_rate(&mut hub.lock(), method, &args);
    if let Err(wait) = too_soon {
        return slow_down(hub, index, wait.as_millis().div_ceil(1000).max(1) as u64);
    }
    // Who hangs up does not undo it.
    let effect = tokio::spawn(effect(Arc::clone(hub), index, method.to_owned(), args, failure.clone()));
    if matches!(failure, Some(Failure::Late)) {
        return reset();
    }
    let answered = effect.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response());
    match failure {
        Some(Failure::LostReply) => std::future::pending().await,
        Some(Failure::Reset) => reset(),
        _ => answered,
    }
}

/// What a call does, when it is time for it.
async fn effect(hub: Arc<Hub>, index: usize, method: String, args: Value, failure: Option<Failure>) -> Response {
    match failure {
        Some(Failure::Slow(slow)) => tokio::time::sleep(slow).await,
        // It is never closed.
        Some(Failure::Late) => _ = hub.released.acquire().await.map(SemaphorePermit::forget),
        _ => {}
    }
    let lost = matches!(failure, Some(Failure::LostReply | Failure::Reset | Failure::Late));
    let answer = methods::run(&mut hub.lock(), &method, &args);
    match answer {
        Ok(mut body) => {
            body["ok"] = true.into();
            hub.end(index, if lost { Outcome::LostReply } else { Outcome::Ok });
            Json(body).into_response()
        }
        Err(refusal) => refuse(&hub, index, refusal.error, &refusal.messages),
    }
}

/// The connection ends in the middle of the answer.
fn reset() -> Response {
    let cut = futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("reset")) });
    Body::from_stream(cut).into_response()
}

/// Whether the token is the right one for the method.
fn admit(state: &State, method: &str, token: Option<&str>) -> Result<(), &'static str> {
    let (options, is_socket) = (&state.options, method == "apps.connections.open");
    match token {
        _ if method == "api.test" => Ok(()),
        None => Err("not_authed"),
        Some(token) if token == options.app_token && is_socket => Ok(()),
        Some(token) if token == options.token && !is_socket => Ok(()),
        Some(token) if token == options.app_token || token == options.token => Err("not_allowed_token_type"),
        Some(_) => Err("invalid_auth"),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

fn refuse(hub: &Hub, call: usize, error: String, messages: &[String]) -> Response {
    let mut body = json!({ "ok": false, "error": error });
    if !messages.is_empty() {
        body["response_metadata"] = json!({ "messages": messages });
    }
    hub.end(call, Outcome::Error(error));
    Json(body).into_response()
}

fn slow_down(hub: &Hub, call: usize, seconds: u64) -> Response {
    hub.end(call, Outcome::RateLimited(seconds));
    let body = Json(json!({ "ok": false, "error": "ratelimited" }));
    (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, seconds.to_string())], body).into_response()
}

fn take_rate(state: &mut State, method: &str, args: &Value) -> Result<(), Duration> {
    let (rate, key): (Option<Rate>, String) = match method {
        "chat.postMessage" => match state.channel(methods::text_of(args, "channel")) {
            Some(channel) => (state.options.post_rate, format!("post {}", channel.id)),
            None => return Ok(()),
        },
        "chat.update" => (state.options.update_rate, "update".into()),
        _ => match (state.options.tiers, directory::tier(method)) {
            (Some(tiers), Some(tier)) => {
                let calls = tiers[tier - 1];
                (Some(Rate::Window { calls, per: Duration::from_secs(60) }), method.to_owned())
            }
            _ => return Ok(()),
        },
    };
    match rate {
        Some(rate) => state.usage.entry(key).or_default().take(rate, tokio::time::Instant::now()),
        None => Ok(()),
    }
}

/// The arguments of a JSON body, a form body or a query; Slack's error if unreadable.
async fn arguments(request: Request) -> Result<Map<String, Value>, &'static str> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let mut args = if kind.starts_with("application/json") {
        let body = Bytes::from_request(request, &()).await.map_err(|_| "request_timeout")?;
        match serde_json::from_slice(&body) {
            Ok(Value::Object(args)) => args,
            Ok(_) => return Err("json_not_object"),
            Err(_) => return Err("invalid_json"),
        }
    } else if kind.starts_with("application/x-www-form-urlencoded") || request.method() == "GET" {
        let Form(pairs) =
            Form::<Vec<(String, String)>>::from_request(request, &()).await.map_err(|_| "invalid_form_data")?;
        pairs.into_iter().map(|(name, value)| (name, Value::String(value))).collect()
    } else {
        Map::new()
    };
    for name in NESTED {
        if let Some(Value::String(text)) = args.get(name)
            && let Ok(value) = serde_json::from_str(text)
        {
            args.insert(name.into(), value);
        }
    }
    Ok(args)
}
