//! Errors of the API as `application/problem+json` (RFC 9457).

use axum::extract::OriginalUri;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::inquiry::InquiryError;
use store::StoreError;

/// The media type of [`ApiProblem`].
pub(super) const MEDIA_TYPE: &str = "application/problem+json";
/// Seconds after which a temporary failure is worth another try.
const RETRY_AFTER: &str = "5";

/// An error of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(in crate::server) struct ApiProblem {
    /// Always `about:blank`: the status says what kind of error it is.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The name of the status.
    title: String,
    /// The HTTP status.
    status: u16,
    /// A sentence: what is wrong, and what was expected.
    detail: String,
    /// The same as `detail`, under the name that it had before there was `detail`.
    error: String,
}

impl ApiProblem {
    /// Creates the error with this status.
    pub(in crate::server) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let title = status.canonical_reason().unwrap_or_default().to_owned();
        Self { kind: "about:blank", title, status: status.as_u16(), error: detail.clone(), detail }
    }

    /// Creates the error of a wrong request.
    pub(super) fn wrong(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Logs that an answer cannot be redacted, and creates the error.
    pub(super) fn unclean(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "cannot clean an answer of secrets");
        let detail = "the answer cannot be cleaned of secrets: see the log of llm-diagnose";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }
}

impl From<StoreError> for ApiProblem {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "cannot read incidents");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the store cannot be read: see the log of llm-diagnose")
    }
}

impl From<InquiryError> for ApiProblem {
    fn from(error: InquiryError) -> Self {
        let status = match &error {
            InquiryError::Question(_) => StatusCode::BAD_REQUEST,
            InquiryError::Unanswered(_) => StatusCode::BAD_GATEWAY,
            InquiryError::Late(_) => StatusCode::GATEWAY_TIMEOUT,
            InquiryError::Unclean(why) => return Self::unclean(why),
        };
        Self::new(status, error.to_string())
    }
}

impl IntoResponse for ApiProblem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut answer = (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], json!(self).to_string()).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        answer
    }
}

/// Answers for a path that does not exist.
pub(super) async fn not_found(OriginalUri(uri): OriginalUri) -> ApiProblem {
    let detail = format!("there is nothing at `{}`: /api/v1 lists the addresses", uri.path());
    ApiProblem::new(StatusCode::NOT_FOUND, detail)
}

/// Answers for a method that a path does not have; the header `Allow` lists those that it has.
pub(super) async fn method_not_allowed(method: Method, OriginalUri(uri): OriginalUri) -> ApiProblem {
    let detail = format!("`{}` does not take {method}: the header `Allow` lists the methods", uri.path());
    ApiProblem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
}
