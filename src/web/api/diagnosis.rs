//! `POST /api/v1/diagnose`: a diagnosis now, of a pool or by a playbook. It only reads; its number at one time is bounded.

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::Json;

use crate::api_problem::ApiProblem;
use crate::state::Shared;
use knowledge::clock;
use service::questions::{DiagnosisAnswer, DiagnosisQuestion, Fleet};

/// Diagnoses what the body names.
pub(super) async fn diagnose(
    State(shared): State<Shared>,
    question: Result<Json<DiagnosisQuestion>, JsonRejection>,
) -> Result<Json<DiagnosisAnswer>, ApiProblem> {
    let Json(question) = question.map_err(|rejection| ApiProblem::new(rejection.status(), rejection.body_text()))?;
    let fleet = Fleet::of(&shared.service, Some(&shared.turns));
    Ok(Json(fleet.diagnose(&question, clock::now()).await?))
}
