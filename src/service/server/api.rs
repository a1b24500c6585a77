//! The incidents and the fleet's health as JSON.

use std::collections::BTreeMap;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

use super::pages::{redactor_of, uncleaned};
use super::state::Shared;
use diagnose::health::DIMENSIONS;
use knowledge::clock;
use store::{Incident, StoreError};

/// Maximum number of incidents in a list.
const MOST: u32 = 100;

/// Returns the fleet's health: 200 for any state, which is in the body; 400 for a parameter that selects nothing.
pub(super) async fn health(State(shared): State<Shared>, Query(scope): Query<BTreeMap<String, String>>) -> Response {
    if let Some((name, _)) = scope.iter().find(|(name, value)| !DIMENSIONS.contains(&name.as_str()) || value.is_empty())
    {
        let error = format!("`{name}` does not select a pool: expected {} with a value", DIMENSIONS.join(", "));
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    }
    match super::page_queries::health(&shared, scope).await {
        Ok(health) => Json(health).into_response(),
        Err(error) => uncleaned(&error),
    }
}

pub(super) async fn list(State(shared): State<Shared>) -> Response {
    match recent(&shared).await {
        Ok(incidents) => {
            let mut value = Vec::new();
            for incident in &incidents {
                value.push(summary(&shared, incident).await);
            }
            let mut value = json!(value);
            let redactor = redactor_of(&shared, &incidents);
            redactor.learn_from(&value);
            redactor.json("incidents", &mut value);
            Json(value).into_response()
        }
        Err(error) => unavailable(&error),
    }
}

/// Returns the newest incidents with their alerts.
async fn recent(shared: &Shared) -> Result<Vec<Incident>, StoreError> {
    let store = &shared.service.store;
    store.each(&store.recent(MOST).await?).await
}

pub(super) async fn get_incident(State(shared): State<Shared>, Path(id): Path<String>) -> Response {
    match shared.service.store.incident(&id).await {
        Ok(Some(incident)) => {
            let mut value = summary(&shared, &incident).await;
            value["alerts"] = json!(incident.alerts);
            value["diagnosis"] = json!(incident.diagnosis);
            value["impact"] = json!(incident.impact);
            let redactor = redactor_of(&shared, [&incident]);
            redactor.learn_from(&value);
            redactor.json("incident", &mut value);
            Json(value).into_response()
        }
        Ok(None) => (StatusCode::NOT_FOUND, Json(json!({ "error": "there is no such incident" }))).into_response(),
        Err(error) => unavailable(&error),
    }
}

async fn summary(shared: &Shared, incident: &Incident) -> serde_json::Value {
    let root = incident.diagnosis.as_ref().and_then(|d| d.root());
    json!({
        "id": incident.id,
        "open": incident.open,
        "group_key": incident.group_key,
        "playbook": incident.playbook,
        "reason": incident.reason.as_str(),
        "headline": shared.service.notifier.message(incident).await.headline,
        "symptom": incident.diagnosis.as_ref().map(|d| d.symptom.verdict),
        "root": root.map(|c| &c.id),
        "chain": root.map(|c| &c.chain),
        "verdict": root.map(|c| c.verdict),
        "started_at": incident.started_at,
        "opened_at": incident.opened_at,
        "resolved_at": incident.resolved_at,
        "age": clock::human_duration(clock::between(incident.opened_at, clock::now())),
    })
}

fn unavailable(error: &StoreError) -> Response {
    tracing::error!(%error, "cannot read incidents");
    (StatusCode::SERVICE_UNAVAILABLE, "the store cannot be read\n").into_response()
}
