//! `GET /api/v1/incidents/{id}/bundles`: the bundles of an incident.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::parameters::PathId;
use crate::api_problem::ApiProblem;
use crate::state::Shared;
use knowledge::clock;

/// A bundle of an incident on this replica.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct IncidentBundle {
    /// The name of the file.
    name: String,
    /// The time at which it was made.
    made_at: Timestamp,
    /// Its size.
    bytes: u64,
    /// Its path at this service; takes the same credentials as this answer, and is audited.
    path: String,
    /// A signed address that needs no credentials; `null` without `public_url`.
    link: Option<String>,
    /// The time until which that address is valid.
    link_expires_at: Option<Timestamp>,
}

/// Lists the bundles of an incident on this replica, oldest first, each with a signed link.
pub(super) async fn list(State(shared): State<Shared>, PathId(id): PathId) -> Result<Response, ApiProblem> {
    let bundles = shared.bundles.directory.list(Some(&id)).map_err(|error| {
        tracing::error!(%error, "cannot list bundles");
        ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, "the directory of the bundles cannot be read")
    })?;
    let now = clock::now();
    let listed = bundles.into_iter().map(|bundle| {
        let (link, link_expires_at) = shared.bundles.links.link(&bundle.name, now).unzip();
        let (name, made_at) = (bundle.name.to_string(), bundle.name.at);
        let path = format!("/bundles/{name}");
        IncidentBundle { name, made_at, bytes: bundle.bytes, path, link, link_expires_at }
    });
    Ok(Json(listed.collect::<Vec<_>>()).into_response())
}
