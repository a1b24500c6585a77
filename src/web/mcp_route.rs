//! `POST /mcp`: the Model Context Protocol over streamable HTTP, for whom the pages are open.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post_service;
use axum::{Router, middleware};
use rmcp::model::{ClientJsonRpcMessage, ErrorCode};
use serde_json::{Value, json};

use super::state::Shared;
use super::{api_problem, guard, pages};
use crate::mcp::{LARGEST, McpServer, McpSources};

/// Builds the route.
pub(super) fn routes(shared: &Shared) -> Router<Shared> {
    let service = &shared.service;
    let server = McpServer::new(McpSources {
        config: service.config.clone(),
        library: Arc::clone(&service.library),
        prometheus: service.prometheus.clone(),
        reader: service.reader.clone(),
        logs: service.logs.clone(),
        store: Some(service.store.clone()),
        redactor: service.notifier.redactor.another(&service.library.redaction, false),
        words: Arc::clone(&service.words),
        bundles: Some(Arc::clone(&shared.bundles)),
        turns: shared.turns.clone(),
    });
    // The last layer comes first.
    let asked = post_service(server.over_http())
        .route_layer(middleware::from_fn(refuse_broken))
        .route_layer(middleware::from_fn(guard::refuse_pages));
    Router::new()
        .route("/mcp", asked)
        .method_not_allowed_fallback(api_problem::method_not_allowed)
        .route_layer(middleware::from_fn_with_state((shared.clone(), guard::Reader::Program), guard::admit_visitor))
        .route_layer(middleware::from_fn(pages::add_security_headers))
}

/// Answers a body that is no message with an error of JSON-RPC (https://www.jsonrpc.org/specification#error_object); the
/// transport would answer with plain text.
async fn refuse_broken(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let refused = |status: StatusCode, code: ErrorCode, message: String| {
        (status, Json(json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } })))
            .into_response()
    };
    // Of a connection that broke nobody reads the answer.
    let Ok(body) = to_bytes(body, LARGEST).await else {
        let message = format!("a message has at most {LARGEST} bytes");
        return refused(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::INVALID_REQUEST, message);
    };
    if let Err(error) = serde_json::from_slice::<Value>(&body) {
        return refused(StatusCode::BAD_REQUEST, ErrorCode::PARSE_ERROR, format!("the body is no JSON: {error}"));
    }
    if let Err(error) = serde_json::from_slice::<ClientJsonRpcMessage>(&body) {
        return refused(
            StatusCode::BAD_REQUEST,
            ErrorCode::INVALID_REQUEST,
            format!("no message of JSON-RPC 2.0: {error}"),
        );
    }
    next.run(Request::from_parts(head, Body::from(body))).await
}
