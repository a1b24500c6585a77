//! Questions to Prometheus: `GET /api/v1/health`, and `POST /api/v1/diagnose`, whose number at one time is bounded.

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::Uri;
use axum::response::{IntoResponse, Json, Response};

use super::parameters;
use crate::api_problem::ApiProblem;
use crate::page_queries;
use crate::state::Shared;
use knowledge::clock;
use service::questions::{DiagnosisAnswer, DiagnosisQuestion, Fleet, HealthDetail, HealthQuestion};

/// Returns the fleet's health: 200 for any state, which is in the body.
pub(super) async fn health(State(shared): State<Shared>, uri: Uri) -> Result<Response, ApiProblem> {
    let question: HealthQuestion = parameters::read(&uri)?;
    let health = page_queries::health(&shared, question.scope()).await.map_err(|error| ApiProblem::from(&*error))?;
    Ok(match question.detail {
        HealthDetail::Summary => Json(health.summary()).into_response(),
        HealthDetail::Full => Json(health).into_response(),
    })
}

/// Diagnoses what the body names.
pub(super) async fn diagnose(
    State(shared): State<Shared>,
    question: Result<Json<DiagnosisQuestion>, JsonRejection>,
) -> Result<Json<DiagnosisAnswer>, ApiProblem> {
    let Json(question) = question.map_err(|rejection| ApiProblem::new(rejection.status(), rejection.body_text()))?;
    let fleet = Fleet::of(&shared.service, Some(&shared.turns));
    Ok(Json(fleet.diagnose(&question, clock::now()).await?))
}
