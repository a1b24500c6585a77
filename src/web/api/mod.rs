//! `/api`: incidents, health and diagnoses as JSON, for programs. docs/api.md describes it.

mod bundles;
mod incidents;
mod openapi;
mod operations;
mod parameters;
mod questions;

use axum::extract::{DefaultBodyLimit, State};
use axum::response::Json;
use axum::routing::any;
use axum::{Router, middleware};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::state::Shared;
use super::{api_problem, guard, pages};
pub use openapi::openapi;
use operations::{ApiMethod, operations};

/// The largest body of a question, in bytes.
const LARGEST: usize = 64 << 10;

/// The addresses of the API, below that of the service.
#[derive(Debug, Serialize, JsonSchema)]
struct ApiIndex {
    /// The program: `llm-diagnose`.
    name: &'static str,
    /// Its version.
    version: &'static str,
    /// The path of the OpenAPI document.
    openapi: &'static str,
    /// The operations.
    operations: Vec<ApiLink>,
}

/// An operation, as the index lists it.
#[derive(Debug, Serialize, JsonSchema)]
struct ApiLink {
    /// The method.
    method: ApiMethod,
    /// The path; `{id}` is the id of an incident.
    path: String,
    /// Its purpose.
    summary: &'static str,
}

/// Builds the router of everything below `/api`; what does not exist there is an error of the API as well.
pub(super) fn router(shared: &Shared) -> Router<Shared> {
    let routes = operations()
        .into_iter()
        // Only where the method exists: another one is answered 405, whatever its body is.
        .map(|operation| (operation.path, (operation.route)().route_layer(middleware::from_fn(guard::refuse_pages))))
        .fold(Router::new(), |routes, (path, route)| routes.route(path, route));
    let below = routes
        .fallback(api_problem::not_found)
        .method_not_allowed_fallback(api_problem::method_not_allowed)
        .layer(DefaultBodyLimit::max(LARGEST))
        .layer(middleware::from_fn_with_state((shared.clone(), guard::Reader::Program), guard::admit_visitor))
        .layer(middleware::from_fn(pages::add_security_headers));
    // The only path that `nest` leaves out.
    let slash = Router::new()
        .route("/api/", any(api_problem::not_found))
        .route_layer(middleware::from_fn_with_state((shared.clone(), guard::Reader::Program), guard::admit_visitor))
        .route_layer(middleware::from_fn(pages::add_security_headers));
    Router::new().nest("/api", below).merge(slash)
}

/// Lists the operations.
async fn index() -> Json<ApiIndex> {
    let operations = operations().into_iter().map(|operation| ApiLink {
        method: operation.method,
        path: format!("/api{}", operation.path),
        summary: operation.summary,
    });
    let (name, version) = ("llm-diagnose", env!("CARGO_PKG_VERSION"));
    Json(ApiIndex { name, version, openapi: "/api/v1/openapi.json", operations: operations.collect() })
}

async fn openapi_document(State(shared): State<Shared>) -> Json<Value> {
    Json(openapi(&shared.service.config.public_url))
}
