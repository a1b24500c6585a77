//! `POST /webhook/alertmanager`: answered 200 only after the group is stored.
//!
//! Alertmanager re-sends after a 4xx at every `group_interval` and retries at once after a 5xx, so "not now" is 503, and
//! "only if that is still so later" is 409.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;
use tokio::sync::oneshot;
use tracing::warn;

use super::Shared;
use super::auth::Sender;
use crate::alert::{AlertGroup, PayloadError};
use crate::config::is_source;
use crate::incident::AdmitReason;
use crate::store::Admitted;

pub(super) async fn receive(
    State(shared): State<Shared>,
    Extension(Sender(owner)): Extension<Sender>,
    path: Option<Path<String>>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let refuse = |status: StatusCode, result: &str, error: String| {
        shared.pipeline.metrics.webhook(result);
        warn!(status = status.as_u16(), error, "refused a webhook call");
        (status, Json(json!({ "error": error }))).into_response()
    };
    let named = path.map(|Path(name)| name);
    if let Some(name) = named.as_ref().filter(|name| !is_source(name)) {
        let hint = format!("`{}` is no name of a source: 1 to 100 letters, digits, `.`, `_`, `-`", name.escape_debug());
        return refuse(StatusCode::BAD_REQUEST, "malformed", hint);
    }
    if let (Some(owner), Some(name)) = (&owner, &named)
        && owner != name
    {
        let hint = format!("the token is that of the source `{owner}`, the path names `{name}`: use one of both");
        return refuse(StatusCode::FORBIDDEN, "unauthorized", hint);
    }
    let body = match body {
        Ok(body) => body,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let limit = shared.pipeline.config.webhook.body_limit;
            let hint = format!(
                "the body is larger than webhook.body_limit ({limit} bytes): raise it, or set max_alerts in Alertmanager"
            );
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, "too_large", hint);
        }
        Err(rejection) => return refuse(rejection.status(), "broken_off", rejection.body_text()),
    };
    let mut group = match AlertGroup::from_webhook(&body) {
        Ok(group) => group,
        Err(error @ (PayloadError::Shape(_) | PayloadError::Version(_) | PayloadError::Empty)) => {
            return refuse(StatusCode::BAD_REQUEST, "malformed", error.to_string());
        }
    };
    group.sender = owner.or(named);
    let (reply, stored) = oneshot::channel();
    if shared.inbox.try_send((group, reply)).is_err() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "queue_full", "too many webhooks at once: retry".into());
    }
    match stored.await {
        Ok(Ok(Admitted { reason: AdmitReason::Late, .. })) => {
            let hint = "these alerts ended a moment ago and may be told late: send them again at the next group_interval, if they still fire then";
            refuse(StatusCode::CONFLICT, "late", hint.into())
        }
        Ok(Ok(admitted)) => {
            shared.pipeline.metrics.webhook("stored");
            Json(json!({ "incident": admitted.incident, "reason": admitted.reason })).into_response()
        }
        Ok(Err(error)) => refuse(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", error),
        Err(_) => refuse(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the service is stopping: retry".into()),
    }
}
