//! `POST /mcp`: the Model Context Protocol over streamable HTTP, for whom the pages are open.

use std::sync::Arc;

use axum::routing::post_service;
use axum::{Router, middleware};

use super::state::Shared;
use super::{api_problem, guard, pages};
use crate::mcp::{McpServer, McpSources};

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
    Router::new()
        .route("/mcp", post_service(server.over_http()).route_layer(middleware::from_fn(guard::refuse_pages)))
        .method_not_allowed_fallback(api_problem::method_not_allowed)
        .route_layer(middleware::from_fn_with_state((shared.clone(), guard::Reader::Program), guard::admit_visitor))
        .route_layer(middleware::from_fn(pages::add_security_headers))
}
