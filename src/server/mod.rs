//! The HTTP edge: webhook, health, metrics, and the incident pages.

mod api;
mod auth;
mod bundles;
mod config;
mod looks;
mod pages;
mod slack;
mod webhook;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Json};
use axum::routing::{get, post};
use tokio::sync::mpsc;

use crate::bundle::Workshop;
use crate::pipeline::{Pipeline, Received};
use crate::readiness;
use crate::slack::{Slack, SocketState};
pub use auth::{Access, Credentials};
pub use config::Config;
pub use looks::Pages;
pub use slack::Door;

/// What handlers share.
#[derive(Clone)]
pub struct Shared {
    /// The pipeline.
    pub pipeline: Arc<Pipeline>,
    /// Groups on their way to the store.
    pub inbox: mpsc::Sender<Received>,
    /// Who may call the webhook.
    pub credentials: Arc<Credentials>,
    /// For the readiness check.
    pub slack: Option<Slack>,
    /// Slack's way in by HTTP; none when it is another one.
    pub door: Option<Door>,
    /// How Socket Mode stands, when that is the way in.
    pub socket: Option<SocketState>,
    /// Where bundles stand.
    pub workshop: Arc<Workshop>,
    /// Who may open the pages, and what is kept for them.
    pub pages: Arc<Pages>,
}

/// All routes.
pub fn router(shared: Shared) -> Router {
    let limit = shared.pipeline.config.webhook.body_limit;
    let webhook = Router::new()
        .route("/webhook/alertmanager", post(webhook::receive))
        .route("/webhook/alertmanager/{source}", post(webhook::receive))
        .layer(DefaultBodyLimit::max(limit))
        .route_layer(middleware::from_fn_with_state(shared.clone(), auth::webhook));
    let pages = Router::new()
        .route("/", get(|| async { axum::response::Redirect::temporary("/incidents") }))
        .route("/incidents", get(pages::incidents))
        .route("/incidents/{id}", get(pages::incident))
        .route("/incidents/{id}/tickets/{ticket}", get(pages::ticket))
        .route("/playbooks", get(pages::playbooks))
        .route("/playbooks/{id}", get(pages::playbook))
        .route("/health", get(pages::health))
        .route("/api/v1/health", get(api::health))
        .route("/api/v1/incidents", get(api::list))
        .route("/api/v1/incidents/{id}", get(api::one))
        .route("/api/v1/incidents/{id}/bundles", get(bundles::list))
        .route_layer(middleware::from_fn_with_state(shared.clone(), auth::pages))
        .route_layer(middleware::from_fn(pages::guard));
    let bundles = Router::new()
        .route("/bundles/{name}", get(bundles::download))
        .route_layer(middleware::from_fn_with_state(shared.clone(), bundles::gate));
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .merge(webhook)
        .merge(pages)
        .merge(bundles)
        .merge(slack::routes(shared.door.clone()))
        .fallback(pages::nowhere)
        .with_state(shared)
}

/// 200 as long as alerts can be stored; what else is down is named but does not turn alerts away.
async fn ready(State(shared): State<Shared>) -> impl IntoResponse {
    let prometheus: Vec<_> = shared.pipeline.prometheus.iter().map(|(p, _)| p).collect();
    let Shared { pipeline, slack, socket, .. } = &shared;
    let checks = readiness::checks(&pipeline.store, &prometheus, slack.as_ref(), socket.as_ref(), &pipeline.logs).await;
    let ready = checks.iter().all(|c| c.ok || !c.required);
    let degraded = checks.iter().any(|c| !c.ok);
    let status = match (ready, degraded) {
        (true, false) => "ready",
        (true, true) => "degraded",
        (false, _) => "not ready",
    };
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(serde_json::json!({ "status": status, "checks": checks })))
}

async fn metrics(State(shared): State<Shared>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], shared.pipeline.metrics.page())
}
