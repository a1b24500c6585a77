//! The parameters of requests: unknown, repeated and wrong ones are errors of the API.

use std::error::Error;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::Uri;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::api_problem::ApiProblem;

/// Reads the parameters of a request's query.
///
/// # Errors
/// When one is unknown, repeated or wrong; with the expected ones.
pub(super) fn read<T: DeserializeOwned>(uri: &Uri) -> Result<T, ApiProblem> {
    Query::<T>::try_from_uri(uri).map(|Query(parameters)| parameters).map_err(|rejection| {
        let why = rejection.source().map_or_else(|| rejection.body_text(), ToString::to_string);
        ApiProblem::wrong(why.replacen("unknown field", "unknown parameter", 1).replacen(
            "duplicate field",
            "repeated parameter",
            1,
        ))
    })
}

/// The id of an incident in a path.
pub(super) struct PathId(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiProblem> {
        let id = Path::<String>::from_request_parts(parts, state).await;
        id.map(|Path(id)| Self(id)).map_err(|rejection| ApiProblem::new(rejection.status(), rejection.body_text()))
    }
}
