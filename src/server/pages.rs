//! The incidents for people, as Slack would show them, and for programs.

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Json, Response};
use serde_json::json;

use super::Shared;
use crate::clock;
use crate::render;
use crate::store::{Incident, StoreError};

/// How many incidents a list shows.
const MOST: u32 = 100;
/// Pages load nothing from anywhere and run no script.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The newest incidents with their alerts.
async fn recent(shared: &Shared) -> Result<Vec<Incident>, StoreError> {
    let mut out = Vec::new();
    for id in shared.pipeline.store.recent(MOST).await? {
        out.extend(shared.pipeline.store.incident(&id).await?);
    }
    Ok(out)
}

pub(super) async fn index(State(shared): State<Shared>) -> Response {
    match recent(&shared).await {
        Ok(incidents) => {
            let words = &shared.pipeline.notifier.words;
            let entries: Vec<_> = incidents
                .iter()
                .map(|incident| {
                    let message = shared.pipeline.notifier.message(incident);
                    let key = if incident.open { "incident-open" } else { "incident-resolved" };
                    let since = incident.started_at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
                    let note = words.text(key, &[("since", since.into()), ("id", incident.id.as_str().into())]);
                    (format!("/incidents/{}", incident.id), message.headline, note)
                })
                .collect();
            html(render::index_page(&entries, words))
        }
        Err(error) => unavailable(&error),
    }
}

pub(super) async fn incident(State(shared): State<Shared>, Path(id): Path<String>) -> Response {
    match shared.pipeline.store.incident(&id).await {
        Ok(Some(incident)) => {
            let notifier = &shared.pipeline.notifier;
            let mut message = notifier.message(&incident);
            if let Some(diagnosis) = &incident.diagnosis {
                message.parts.extend(render::evidence_parts(diagnosis, &notifier.words));
            }
            html(render::message_page(&message.headline, &message))
        }
        Ok(None) => (StatusCode::NOT_FOUND, "there is no such incident\n").into_response(),
        Err(error) => unavailable(&error),
    }
}

pub(super) async fn list(State(shared): State<Shared>) -> Response {
    match recent(&shared).await {
        Ok(incidents) => Json(incidents.iter().map(|i| summary(&shared, i)).collect::<Vec<_>>()).into_response(),
        Err(error) => unavailable(&error),
    }
}

pub(super) async fn one(State(shared): State<Shared>, Path(id): Path<String>) -> Response {
    match shared.pipeline.store.incident(&id).await {
        Ok(Some(incident)) => {
            let mut value = summary(&shared, &incident);
            value["alerts"] = json!(incident.alerts);
            value["diagnosis"] = json!(incident.diagnosis);
            value["impact"] = json!(incident.impact);
            Json(value).into_response()
        }
        Ok(None) => (StatusCode::NOT_FOUND, Json(json!({ "error": "there is no such incident" }))).into_response(),
        Err(error) => unavailable(&error),
    }
}

fn summary(shared: &Shared, incident: &Incident) -> serde_json::Value {
    let root = incident.diagnosis.as_ref().and_then(|d| d.root());
    json!({
        "id": incident.id,
        "open": incident.open,
        "group_key": incident.group_key,
        "playbook": incident.playbook,
        "reason": incident.reason,
        "headline": shared.pipeline.notifier.message(incident).headline,
        "symptom": incident.diagnosis.as_ref().map(|d| d.symptom.verdict),
        "root": root.map(|c| &c.id),
        "chain": root.map(|c| &c.chain),
        "verdict": root.map(|c| c.verdict),
        "started_at": incident.started_at,
        "opened_at": incident.opened_at,
        "resolved_at": incident.resolved_at,
        "age": clock::spoken(clock::between(incident.opened_at, clock::now())),
    })
}

fn html(page: String) -> Response {
    ([(header::CONTENT_SECURITY_POLICY, POLICY), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")], Html(page))
        .into_response()
}

fn unavailable(error: &StoreError) -> Response {
    tracing::error!(%error, "cannot read incidents");
    (StatusCode::SERVICE_UNAVAILABLE, "the store cannot be read\n").into_response()
}
