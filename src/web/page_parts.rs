//! The parts that all pages share, and the pages that state a problem and lead on.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

use super::state::Shared;
use render::Phrases;

/// Builds the page that states a problem and leads on.
pub(super) fn problem_line(
    shared: &Shared,
    status: StatusCode,
    title: &str,
    why: &message::Line,
    back: &[(String, String)],
) -> Response {
    let words = words(shared);
    let page = render::problem_page(&words.text(title, &[]), why, back, words);
    with_security_headers((status, Html(page)).into_response())
}

/// Returns the links that lead on from a problem: to the incident, if there is one, and to the list.
pub(super) fn back_to(shared: &Shared, incident: &str) -> Vec<(String, String)> {
    let words = words(shared);
    let list = (words.text("page-back-list", &[]), "/incidents".to_owned());
    let one = (!incident.is_empty())
        .then(|| (words.text("page-back-incident", &[]), format!("/incidents/{}", urlencoded(incident))));
    one.into_iter().chain([list]).collect()
}

fn urlencoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Builds the page for something that is not there.
pub(super) fn not_there(shared: &Shared, title: &str, why: &str) -> Response {
    problem_line(shared, StatusCode::NOT_FOUND, title, &words(shared).line(why, &[]), &back_to(shared, ""))
}

/// Builds the page for an address that leads nowhere.
pub(super) fn lost(shared: &Shared) -> Response {
    not_there(shared, "page-nowhere", "page-nowhere-why")
}

pub(super) fn words(shared: &Shared) -> &Phrases {
    &shared.service.notifier.words
}

pub(super) fn with_security_headers(mut answer: Response) -> Response {
    let rules = [
        (header::CONTENT_SECURITY_POLICY, render::policy()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Our own forms need the header Origin, which no-referrer takes away.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in rules {
        answer.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    answer
}
