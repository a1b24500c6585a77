//! Entity tags: a client that has the current version of an answer gets 304.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Answers with 304 if the client has the version with this tag, else with what `answer` makes; the tag is in both.
pub(super) fn unless_current<T: IntoResponse>(
    headers: &HeaderMap,
    tag: String,
    answer: impl FnOnce() -> T,
) -> Response {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_current =
        known.flat_map(|value| value.split(',')).any(|known| known.trim() == "*" || opaque(known) == opaque(&tag));
    let tag = [(header::ETAG, tag)];
    if is_current { (StatusCode::NOT_MODIFIED, tag).into_response() } else { (tag, answer()).into_response() }
}
