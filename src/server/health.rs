//! `GET /api/v1/health`: how the fleet stands, for machines.

use std::collections::BTreeMap;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

use super::Shared;
use crate::clock;
use crate::health::{DIMENSIONS, Look, Source, look};

/// 200 whatever the state, which the body tells: the question was answered. 400 for a parameter that narrows nothing.
pub(super) async fn health(State(shared): State<Shared>, Query(scope): Query<BTreeMap<String, String>>) -> Response {
    if let Some((name, _)) = scope.iter().find(|(name, value)| !DIMENSIONS.contains(&name.as_str()) || value.is_empty())
    {
        let error = format!("`{name}` names no pool: expected {} with a value", DIMENSIONS.join(", "));
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    }
    let config = &shared.pipeline.config.diagnose;
    let at = clock::floor(clock::now(), crate::pipeline::SHARED_STEP);
    let what = Look { scope, at, window: config.window, deadline: config.deadline };
    let sources: Vec<Source<'_>> = shared.pipeline.prometheus.iter().map(|(p, labels)| (p, labels)).collect();
    Json(look(&shared.pipeline.library, &sources, &what).await).into_response()
}
