//! `/login`, `/login/callback` and `/logout`: the way to the provider of identities and back.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{ConnectInfo, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;

use super::auth::{Visitor, person};
use super::login::{Login, LoginError, local_path};
use super::page_parts::{problem_line, with_security_headers};
use super::state::Shared;
use knowledge::clock;

/// Returns the person whose session the cookie proves.
pub(super) fn visitor(shared: &Shared, headers: &HeaderMap) -> Option<Visitor> {
    let name = shared.login.as_ref()?.cookies.session(&shared.signer, headers, clock::now())?;
    Some(person(&name))
}

/// Returns the answer that leads somebody without a session to the login, and then back to `path`; `None` for programs and
/// for the script of a page, which cannot sign in.
pub(super) fn redirect(shared: &Shared, request: &Request) -> Option<Response> {
    shared.login.as_ref()?;
    let headers = request.headers();
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_navigation = text("sec-fetch-mode")
        .map_or_else(|| text("accept").is_some_and(|kinds| kinds.contains("text/html")), |mode| mode == "navigate");
    let is_person = is_navigation && !headers.contains_key(header::AUTHORIZATION);
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    (request.method() == Method::GET && is_person).then(|| to(&login_address(path), []))
}

fn login_address(path: &str) -> String {
    format!("/login?to={}", url::form_urlencoded::byte_serialize(path.as_bytes()).collect::<String>())
}

/// Builds the routes; without `pages.oidc` there are none.
pub(super) fn routes(shared: &Shared) -> Router<Shared> {
    match shared.login {
        None => Router::new(),
        Some(_) => {
            Router::new().route("/login", get(begin)).route("/login/callback", get(finish)).route("/logout", get(leave))
        }
    }
}

/// The parameter of `/login`: where to go afterwards.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wanted {
    to: String,
}

/// Sends somebody to the provider.
async fn begin(
    State(shared): State<Shared>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    Query(wanted): Query<Wanted>,
) -> Response {
    let Some(login) = &shared.login else { return StatusCode::NOT_FOUND.into_response() };
    let to_path = local_path(&wanted.to);
    let begun = async {
        login.admit(from)?;
        login.provider.begin(&to_path).await
    };
    match begun.await {
        Ok((address, attempt)) => {
            to(address.as_str(), [login.cookies.of_attempt(&shared.signer, &attempt, clock::now())])
        }
        Err(error) => failed(&shared, login, &error, &to_path),
    }
}

/// The parameters with which the provider sends somebody back.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    code: String,
    state: String,
    error: String,
}

/// Checks the provider's answer and begins a session.
async fn finish(
    State(shared): State<Shared>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    Query(answer): Query<Answer>,
    headers: HeaderMap,
) -> Response {
    let Some(login) = &shared.login else { return StatusCode::NOT_FOUND.into_response() };
    let attempt = login.cookies.attempt(&shared.signer, &headers, clock::now());
    let back = attempt.as_ref().map_or_else(|| local_path(""), |attempt| attempt.to.clone());
    let finished = async {
        login.admit(from)?;
        let attempt = attempt.filter(|attempt| attempt.is_answered_by(&answer.state)).ok_or(LoginError::Stale)?;
        if !answer.error.is_empty() || answer.code.is_empty() {
            return Err(LoginError::Denied(answer.error.chars().take(100).collect()));
        }
        login.provider.finish(answer.code, attempt).await
    };
    match finished.await {
        Ok(name) => {
            tracing::info!(user = person(&name).who, "signed in");
            let session = login.cookies.of_session(&shared.signer, &name, clock::now());
            to(&back, [session, login.cookies.no_attempt()])
        }
        Err(error) => failed(&shared, login, &error, &back),
    }
}

/// Ends the session in this browser. A link on another site ends nothing.
async fn leave(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let Some(login) = &shared.login else { return StatusCode::NOT_FOUND.into_response() };
    let foreign = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site");
    if foreign {
        return to("/incidents", []);
    }
    let mut page = told(&shared, StatusCode::OK, "login-over", "login-over-why", "/incidents");
    add(&mut page, login.cookies.no_session());
    page
}

/// Logs why nobody is signed in, and says so on a page without the answer's words.
fn failed(shared: &Shared, login: &Login, error: &LoginError, back: &str) -> Response {
    tracing::warn!(%error, "nobody is signed in");
    let (status, why) = error.page();
    let mut page = told(shared, status, "login-failed", why, back);
    add(&mut page, login.cookies.no_attempt());
    page
}

fn told(shared: &Shared, status: StatusCode, title: &str, why: &str, back: &str) -> Response {
    let words = &shared.service.words;
    let again = (words.text("login-again", &[]), login_address(back));
    problem_line(shared, status, title, &words.line(why, &[]), &[again])
}

/// Builds a redirect with cookies; no cache keeps it.
fn to<const N: usize>(address: &str, cookies: [String; N]) -> Response {
    let mut answer = (StatusCode::SEE_OTHER, [(header::LOCATION, address.to_owned())]).into_response();
    cookies.into_iter().for_each(|cookie| add(&mut answer, cookie));
    with_security_headers(answer)
}

/// Adds a cookie; ours are base64 and attributes, which a header takes.
fn add(answer: &mut Response, cookie: String) {
    match HeaderValue::try_from(cookie) {
        Ok(value) => _ = answer.headers_mut().append(header::SET_COOKIE, value),
        Err(error) => tracing::error!(%error, "cannot set a cookie"),
    }
}
