//! `POST /api/v1/diagnose`: a diagnosis now, of a pool or by a playbook. It only reads; its number at one time is bounded.

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::Json;

use super::problem::ApiProblem;
use crate::inquiry::{DiagnosisAnswer, DiagnosisQuestion, Fleet};
use crate::server::state::Shared;
use knowledge::clock;

/// Diagnoses what the body names.
pub(super) async fn diagnose(
    State(shared): State<Shared>,
    question: Result<Json<DiagnosisQuestion>, JsonRejection>,
) -> Result<Json<DiagnosisAnswer>, ApiProblem> {
    let Json(question) = question.map_err(|rejection| ApiProblem::new(rejection.status(), rejection.body_text()))?;
    let Ok(_turn) = shared.pages.inquiries.try_acquire() else {
        let detail = "too many diagnoses at once: ask again in some seconds";
        return Err(ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    };
    Ok(Json(Fleet::of(&shared.service).diagnose(&question, clock::now()).await?))
}
