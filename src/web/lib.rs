//! The HTTP server: webhook, Slack, health, metrics, the incident pages, and the API.

#![recursion_limit = "256"]

mod api;
mod api_problem;
mod auth;
mod body;
mod bundles;
mod connection;
mod etag;
mod guard;
mod listen;
mod login;
mod login_routes;
pub mod mcp;
mod mcp_route;
mod page_acts;
mod page_bundles;
mod page_forms;
mod page_parts;
mod page_pictures;
mod page_queries;
mod pages;
mod pages_state;
mod slack;
mod state;
mod webhook;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json};
use axum::routing::{get, post};
use axum::{Router, middleware};
use serde_json::json;

pub use api::openapi;
pub use auth::{Access, Credentials};
pub use body::Budget;
pub use listen::listen;
pub use login::Login;
pub use pages_state::Pages;
use service::check::ServiceCheck;
use service::readiness::Readiness;
use service::{Service, readiness};
pub use state::{Shared, SlackState};
use store::Store;
use telemetry::supervise::Supervisor;

/// Builds the router of all routes.
pub fn router(shared: Shared) -> Router {
    let webhook = Router::new()
        .route("/webhook/alertmanager", post(webhook::receive))
        .route("/webhook/alertmanager/{source}", post(webhook::receive))
        .route_layer(middleware::from_fn_with_state(shared.clone(), guard::admit_sender));
    let pages = Router::new()
        .route("/", get(|| async { axum::response::Redirect::temporary("/incidents") }))
        .route("/incidents", get(pages::incidents))
        .route("/incidents/{id}", get(pages::incident))
        .route("/incidents/{id}/tickets/{ticket}", get(pages::ticket))
        .route("/incidents/{id}/{act}", get(page_acts::form))
        .route("/incidents/{id}/acts/{act}", post(page_acts::act).layer(DefaultBodyLimit::max(page_forms::FORM_BYTES)))
        .route("/playbooks", get(pages::playbooks))
        .route("/playbooks/{id}", get(pages::playbook))
        .route("/health", get(pages::health))
        .route_layer(middleware::from_fn_with_state((shared.clone(), guard::Reader::Person), guard::admit_visitor))
        .route_layer(middleware::from_fn(pages::add_security_headers));
    let alive = liveness(shared.service.store.clone(), shared.supervisor.clone());
    Router::new()
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .merge(webhook)
        .merge(pages)
        // Below `/api` everything is the API's, also what does not exist.
        .merge(api::router(&shared))
        .merge(mcp_route::routes(&shared))
        .merge(bundles::routes(&shared))
        .merge(login_routes::routes(&shared))
        .merge(slack::routes(shared.slack_state.clone()))
        .fallback(pages::nowhere)
        .with_state(shared)
        .merge(alive)
}

/// Builds the router of `/healthz`: 200 while the process is alive, 503 with the failed part when a restart may help.
pub fn liveness(store: Store, supervisor: Supervisor) -> Router {
    let alive = move || async move {
        match readiness::dead(&store, &supervisor) {
            None => (StatusCode::OK, "ok\n".to_owned()),
            Some(dead) => (StatusCode::SERVICE_UNAVAILABLE, format!("{dead}\n")),
        }
    };
    Router::new().route("/healthz", get(alive))
}

/// Handles `/readyz`: 200 as long as alerts can be stored; other failures are listed only.
async fn ready(State(shared): State<Shared>) -> impl IntoResponse {
    let Shared { service, slack, socket, .. } = &shared;
    let checks = readiness::checks(service, slack.as_deref(), socket.as_ref()).await;
    let Readiness { store, others } = &checks;
    let (status, code) = match (store.is_ok(), others.iter().all(ServiceCheck::is_ok)) {
        (true, true) => ("ready", StatusCode::OK),
        (true, false) => ("degraded", StatusCode::OK),
        (false, _) => ("not ready", StatusCode::SERVICE_UNAVAILABLE),
    };
    let entry = |check: &ServiceCheck, required: bool| match check.is_ok() {
        true => json!({ "name": check.name, "ok": true, "required": required }),
        false => json!({ "name": check.name, "ok": false, "required": required, "detail": check.found }),
    };
    let all = std::iter::once(entry(store, true)).chain(others.iter().map(|check| entry(check, false)));
    (code, Json(json!({ "status": status, "checks": all.collect::<Vec<_>>() })))
}

async fn metrics(State(shared): State<Shared>) -> impl IntoResponse {
    let Service { store, metrics, prometheus, .. } = &*shared.service;
    metrics.unreadable_rows.set(i64::try_from(store.unreadable().len()).unwrap_or(i64::MAX));
    metrics.store_failing.set(i64::from(store.trouble().is_some()));
    metrics.circuits(prom::Prometheus::servers(prometheus.iter().map(|(client, _)| client)));
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], metrics.page())
}
