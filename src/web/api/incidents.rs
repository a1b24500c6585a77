//! `GET /api/v1/incidents` and below: the list with filters and pages, and an incident.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{Json, Response};
use serde_json::{Value, json};

use super::parameters::{self, PathId};
use crate::api_problem::ApiProblem;
use crate::etag::unless_current;
use crate::state::Shared;
use service::questions::{Fleet, IncidentDetail, IncidentQuestion, IncidentSummaries};

/// The number of incidents in a list unless another is asked for.
const LISTED: u32 = 100;

/// Lists incidents, newest first; the header `Link` names the next page.
pub(super) async fn list(State(shared): State<Shared>, uri: Uri, headers: HeaderMap) -> Result<Response, ApiProblem> {
    let question: IncidentQuestion = parameters::read(&uri)?;
    let IncidentSummaries { incidents, next, .. } =
        Fleet::of(&shared.service, None).incidents(&shared.service.store, &question, LISTED).await?;
    let mut answer = tagged(&headers, &json!(incidents));
    let link = next.map(|cursor| next_link(&uri, &cursor));
    if let Some(link) = link.and_then(|link| HeaderValue::try_from(link).ok()) {
        answer.headers_mut().insert(header::LINK, link);
    }
    Ok(answer)
}

/// Returns the value of `Link` for the next page: the same query with another cursor, relative to the request, so that
/// it holds behind a proxy with a prefix too.
fn next_link(uri: &Uri, cursor: &str) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    let same = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    query.extend_pairs(same.filter(|(name, _)| name != "cursor"));
    query.append_pair("cursor", cursor);
    format!("<?{}>; rel=\"next\"", query.finish())
}

/// Returns an incident.
pub(super) async fn get_incident(
    State(shared): State<Shared>,
    PathId(id): PathId,
    headers: HeaderMap,
) -> Result<Response, ApiProblem> {
    let Some(incident) = shared.service.store.incident(&id).await? else {
        return Err(ApiProblem::new(StatusCode::NOT_FOUND, "there is no such incident"));
    };
    let (summary, incident) = Fleet::of(&shared.service, None).cleaned_incident(&incident).await?;
    Ok(tagged(&headers, &json!(IncidentDetail::of(summary, incident))))
}

/// Answers with JSON; 304 if the client has the current version. The ages do not count, because they always change.
fn tagged(headers: &HeaderMap, value: &Value) -> Response {
    let mut content = value.clone();
    let incidents = match &mut content {
        Value::Array(incidents) => incidents.as_mut_slice(),
        incident => std::slice::from_mut(incident),
    };
    incidents.iter_mut().filter_map(Value::as_object_mut).for_each(|incident| _ = incident.remove("age"));
    let mut answer = unless_current(headers, weak_tag(&content.to_string()), || Json(value));
    // It may be kept, and is asked for anew each time.
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    answer
}

/// Returns the weak entity tag of a content.
fn weak_tag(content: &str) -> String {
    use base64::Engine;
    let digest = ring::digest::digest(&ring::digest::SHA256, content.as_bytes());
    let short = digest.as_ref().get(..15).unwrap_or_default();
    format!("W/\"{}\"", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(short))
}
