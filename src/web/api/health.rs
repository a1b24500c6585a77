//! `GET /api/v1/health`: the fleet's health, in short unless more is asked for.

use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Json, Response};

use super::parameters;
use crate::api_problem::ApiProblem;
use crate::page_queries;
use crate::state::Shared;
use service::questions::{HealthDetail, HealthQuestion};

/// Returns the fleet's health: 200 for any state, which is in the body.
pub(super) async fn health(State(shared): State<Shared>, uri: Uri) -> Result<Response, ApiProblem> {
    let question: HealthQuestion = parameters::read(&uri)?;
    let health = page_queries::health(&shared, question.scope()).await.map_err(|error| ApiProblem::from(&*error))?;
    Ok(match question.detail {
        HealthDetail::Summary => Json(health.summary()).into_response(),
        HealthDetail::Full => Json(health).into_response(),
    })
}
