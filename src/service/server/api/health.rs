//! `GET /api/v1/health`: the fleet's health, in short unless more is asked for.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Json, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::parameters;
use super::problem::ApiProblem;
use crate::server::page_queries;
use crate::server::state::Shared;

/// The detail of the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum HealthDetail {
    /// The checks at warning or critical.
    #[default]
    Summary,
    /// All checks, with their queries and every replica.
    Full,
}

/// The parameters of the fleet's health.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HealthParameters {
    /// Only pools of this cluster.
    #[serde(deserialize_with = "value")]
    #[schemars(with = "String")]
    cluster: Option<String>,
    /// Only pools of this namespace.
    #[serde(deserialize_with = "value")]
    #[schemars(with = "String")]
    namespace: Option<String>,
    /// Only pools of this model.
    #[serde(deserialize_with = "value")]
    #[schemars(with = "String")]
    model: Option<String>,
    /// `summary`: of the checks only those at warning or critical; `full`: all of them, some hundred kilobytes.
    #[schemars(extend("default" = "summary"))]
    detail: HealthDetail,
}

/// Returns the fleet's health: 200 for any state, which is in the body.
pub(super) async fn health(State(shared): State<Shared>, uri: Uri) -> Result<Response, ApiProblem> {
    let HealthParameters { cluster, namespace, model, detail } = parameters::read(&uri)?;
    let scope = [("cluster", cluster), ("namespace", namespace), ("model", model)];
    let scope: BTreeMap<String, String> =
        scope.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    let health = page_queries::health(&shared, scope).await.map_err(|error| ApiProblem::unclean(&error))?;
    Ok(match detail {
        HealthDetail::Summary => Json(health.summary()).into_response(),
        HealthDetail::Full => Json(health).into_response(),
    })
}

/// Reads a value of a pool's label. An empty one selects nothing.
fn value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match String::deserialize(deserializer)? {
        empty if empty.is_empty() => Err(serde::de::Error::custom("expected a value: an empty one selects no pool")),
        value => Ok(Some(value)),
    }
}
