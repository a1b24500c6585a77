//! `POST /webhook/alertmanager`: answered with 200 only after the group is stored.
//!
//! Alertmanager repeats a notification after a 4xx at the next `group_interval`, and retries at once after a 5xx. So a
//! temporary failure is 503, and alerts that count only if they still fire later are 409.

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tracing::warn;

use super::auth::Sender;
use super::body::BodyError;
use super::state::Shared;
use knowledge::alert::AlertGroup;
use knowledge::incident::AdmitReason;
use service::config::is_source;
use service::watchdog;
use store::failpoint;
use store::{Admitted, StoreError};

/// An accepted call: the result for the metrics, and the answer.
type Accepted = (&'static str, Value);

/// A refused call: the status, the result for the metrics, and a sentence.
type Refused = (StatusCode, &'static str, String);

pub(super) async fn receive(
    State(shared): State<Shared>,
    Extension(Sender(owner)): Extension<Sender>,
    path: Option<Path<String>>,
    body: Body,
) -> Response {
    let answered = match source(owner, path.map(|Path(name)| name)) {
        Ok(sender) => answer(&shared, sender, body).await,
        Err(refused) => Err(refused),
    };
    match answered {
        Ok((result, answer)) => {
            shared.service.metrics.webhook(result);
            Json(answer).into_response()
        }
        Err((status, result, error)) => {
            shared.service.metrics.webhook(result);
            warn!(status = status.as_u16(), error, "refused a webhook call");
            (status, Json(json!({ "error": error }))).into_response()
        }
    }
}

/// Returns the source: the owner of the token, else the name in the path.
fn source(owner: Option<String>, named: Option<String>) -> Result<Option<String>, Refused> {
    if let Some(name) = named.as_ref().filter(|name| !is_source(name)) {
        let hint = format!("`{}` is no name of a source: 1 to 100 letters, digits, `.`, `_`, `-`", name.escape_debug());
        return Err((StatusCode::BAD_REQUEST, "malformed", hint));
    }
    if let (Some(owner), Some(name)) = (&owner, &named)
        && owner != name
    {
        let hint = format!("the token is that of the source `{owner}`, the path names `{name}`: use one of both");
        return Err((StatusCode::FORBIDDEN, "unauthorized", hint));
    }
    Ok(owner.or(named))
}

async fn answer(shared: &Shared, sender: Option<String>, body: Body) -> Result<Accepted, Refused> {
    let limit = shared.service.config.webhook.body_limit;
    match shared.budget.read(body, limit).await {
        // The memory is released once the group is stored.
        Ok((group, _held)) => {
            failpoint("webhook read");
            let group = AlertGroup { sender, ..group };
            let failed = |error: StoreError| not_now("store_unavailable", error.to_string());
            let received = watchdog::receive(&shared.service, group).await.map_err(failed)?;
            let Some(group) = received else { return Ok(("watchdog", json!({ "reason": "watchdog" }))) };
            let admitted = store(shared, group).await?;
            Ok(("stored", json!({ "incident": admitted.incident, "reason": admitted.reason })))
        }
        Err(BodyError::Malformed(error)) => Err((StatusCode::BAD_REQUEST, "malformed", error.to_string())),
        Err(BodyError::BrokenOff(error)) => Err((StatusCode::BAD_REQUEST, "broken_off", error)),
        Err(BodyError::Busy) => Err(not_now("busy", "too many large bodies at once: retry".to_owned())),
        Err(BodyError::TooLarge(beginning)) => {
            // Alertmanager resends such a body silently, so an incident reports it; repetitions join this incident.
            if let Some(group) = AlertGroup::too_large(&beginning) {
                store(shared, AlertGroup { sender, ..group }).await?;
            }
            let error = format!(
                "the body is larger than webhook.body_limit ({limit} bytes), or one alert in it than 4 MiB: raise the limit, \
                 or set max_alerts in Alertmanager"
            );
            Err((StatusCode::PAYLOAD_TOO_LARGE, "too_large", error))
        }
    }
}

fn not_now(result: &'static str, why: String) -> Refused {
    (StatusCode::SERVICE_UNAVAILABLE, result, why)
}

async fn store(shared: &Shared, group: AlertGroup) -> Result<Admitted, Refused> {
    let (reply, stored) = oneshot::channel();
    if shared.inbox.try_send((group, reply)).is_err() {
        return Err(not_now("queue_full", "too many webhooks at once: retry".to_owned()));
    }
    match stored.await {
        Ok(Ok(Admitted { reason: AdmitReason::Late, .. })) => {
            let hint = "these alerts ended a moment ago and may be told late: send them again at the next group_interval, if they still fire then";
            Err((StatusCode::CONFLICT, "late", hint.to_owned()))
        }
        Ok(Ok(admitted)) => Ok(admitted),
        Ok(Err(error)) => Err(not_now("store_unavailable", error)),
        Err(_) => Err(not_now("not_stored", "the service is stopping, or storing it broke off: retry".to_owned())),
    }
}
