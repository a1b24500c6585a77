//! Errors of the API as `application/problem+json` (RFC 9457).

use axum::extract::OriginalUri;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use service::questions::QuestionError;
use store::StoreError;

/// The media type of [`ApiProblem`].
pub(super) const MEDIA_TYPE: &str = "application/problem+json";
/// Seconds after which a temporary failure is worth another try.
const RETRY_AFTER: &str = "5";

/// An error of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct ApiProblem {
    /// Always `about:blank`: the status says what kind of error it is.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The name of the status.
    title: String,
    /// The HTTP status.
    status: u16,
    /// A sentence: what is wrong, and what was expected.
    detail: String,
}

impl ApiProblem {
    /// Creates the error with this status.
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or_default().to_owned();
        Self { kind: "about:blank", title, status: status.as_u16(), detail: detail.into() }
    }

    /// Creates the error of a wrong request.
    pub(super) fn wrong(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }
}

impl From<&QuestionError> for ApiProblem {
    fn from(error: &QuestionError) -> Self {
        let status = match error {
            QuestionError::Wrong(_) => StatusCode::BAD_REQUEST,
            QuestionError::Unanswered(_) => StatusCode::BAD_GATEWAY,
            QuestionError::Late(_) => StatusCode::GATEWAY_TIMEOUT,
            QuestionError::Busy | QuestionError::StoreFailed => StatusCode::SERVICE_UNAVAILABLE,
            QuestionError::Unclean => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl From<QuestionError> for ApiProblem {
    fn from(error: QuestionError) -> Self {
        Self::from(&error)
    }
}

impl From<StoreError> for ApiProblem {
    fn from(error: StoreError) -> Self {
        QuestionError::from(error).into()
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
