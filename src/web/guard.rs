//! Middleware that admits authorised senders to the webhook, and authorised visitors to the pages and the API.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::api_problem::ApiProblem;
use super::auth::Visitor;
use super::login_routes;
use super::pages;
use super::state::Shared;

/// Admits authorised senders of webhooks; all others get 401, and web pages 403 or 415.
pub(super) async fn admit_sender(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    if let Some((status, result, why)) = sent_by_page(request.headers()) {
        shared.service.metrics.webhook(result);
        tracing::warn!(status = status.as_u16(), "refused a webhook call: {why}");
        return (status, format!("{why}\n")).into_response();
    }
    if let Some(sender) = shared.credentials.allow(request.headers()) {
        request.extensions_mut().insert(sender);
        return next.run(request).await;
    }
    shared.service.metrics.webhook("unauthorized");
    tracing::warn!("refused a webhook call: wrong or missing credentials");
    let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"llm-diagnose\", charset=\"UTF-8\"")];
    (StatusCode::UNAUTHORIZED, challenge, "wrong or missing credentials\n").into_response()
}

/// Returns why a call may come from a web page in somebody's browser, with its status and its result for the
/// metrics; `None` if it cannot.
///
/// A page elsewhere can make a browser send text to a service on loopback or behind a VPN. It cannot do so as JSON
/// without being asked first (https://fetch.spec.whatwg.org/#cors-preflight-fetch), and a browser names the page.
fn sent_by_page(headers: &HeaderMap) -> Option<(StatusCode, &'static str, &'static str)> {
    if headers.contains_key(header::ORIGIN) {
        let why = "programs may call this, web pages may not (header Origin)";
        return Some((StatusCode::FORBIDDEN, "web_page", why));
    }
    let why = "send the body with Content-Type: application/json";
    let is_json = http_client::media_type(headers) == "application/json";
    (!is_json).then_some((StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", why))
}

/// Returns the requested host without its port; `None` if there are several.
fn host(request: &Request) -> Option<String> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let authority = match (request.uri().authority(), hosts.next(), hosts.next()) {
        (Some(authority), ..) => authority.clone(),
        (None, Some(host), None) => Authority::try_from(host.as_bytes()).ok()?,
        _ => return None,
    };
    Some(authority.host().to_owned())
}

/// A refused visitor: the status, and the keys of the phrases that say why.
struct RefusedVisit {
    status: StatusCode,
    title: &'static str,
    why: &'static str,
}

/// Decides about a request: the visitor, or the refusal.
fn visitor(shared: &Shared, from: SocketAddr, request: &Request) -> Result<Visitor, RefusedVisit> {
    let access = &shared.pages.access;
    let anybody = || access.is_open_for(host(request).as_deref()).then(|| Visitor::unknown("page:anybody"));
    let anybody = || login_routes::visitor(shared, request.headers()).or_else(anybody);
    if let Some(visitor) = access.allow(request.headers(), from).or_else(anybody) {
        return Ok(visitor);
    }
    let (status, title, why) = match () {
        () if access.is_open() => (StatusCode::FORBIDDEN, "page-host", "page-host-why"),
        () if shared.login.is_some() && access.challenge().is_none() => {
            (StatusCode::FORBIDDEN, "page-refused", "page-refused-why")
        }
        () if !access.is_possible() => (StatusCode::FORBIDDEN, "page-closed", "page-closed-why"),
        // Without a challenge, only the proxy can authenticate the visitor.
        () if access.challenge().is_none() => (StatusCode::FORBIDDEN, "page-refused", "page-refused-why"),
        () => (StatusCode::UNAUTHORIZED, "page-refused", "page-refused-why"),
    };
    Err(RefusedVisit { status, title, why })
}

/// The reader of a refusal.
#[derive(Clone, Copy)]
pub(super) enum Reader {
    /// A person, who gets a page.
    Person,
    /// A program, which gets an error of the API.
    Program,
}

/// Admits authorised visitors and their programs; all others get what says what is missing.
pub(super) async fn admit_visitor(
    State((shared, reader)): State<(Shared, Reader)>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let RefusedVisit { status, title, why } = match visitor(&shared, from, &request) {
        Ok(visitor) => {
            request.extensions_mut().insert(visitor);
            return next.run(request).await;
        }
        Err(refused) => refused,
    };
    if let Some(answer) = login_routes::redirect(&shared, &request).filter(|_| matches!(reader, Reader::Person)) {
        return answer;
    }
    let words = &shared.service.words;
    let mut answer = match reader {
        Reader::Person => pages::problem(&shared, status, title, why),
        Reader::Program => {
            let detail = format!("{}. {}", words.text(title, &[]), words.text(why, &[]));
            ApiProblem::new(status, detail).into_response()
        }
    };
    if let Some(challenge) = shared.pages.access.challenge().filter(|_| status == StatusCode::UNAUTHORIZED) {
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    answer
}

/// Refuses questions that a web page elsewhere made a browser send; reading is protected by the browser itself.
pub(super) async fn refuse_pages(request: Request, next: Next) -> Response {
    let foreign = (!request.method().is_safe()).then(|| sent_by_page(request.headers())).flatten();
    match foreign {
        Some((status, _, why)) => ApiProblem::new(status, why).into_response(),
        None => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Access, Credentials};
    use service::config::{Authentication, PagesConfig};

    #[test]
    fn a_page_elsewhere_whose_name_leads_here_is_not_let_in() {
        let public = "https://triage.example.org/llm";
        let config = PagesConfig { authentication: Authentication::None, ..PagesConfig::default() };
        let access = Access::new(&config, &Credentials::default(), "127.0.0.1:9095".parse().unwrap(), public).unwrap();
        for (host, may) in [
            ("localhost:9095", true),
            ("LOCALHOST.", true),
            ("127.0.0.1:9095", true),
            ("127.8.8.8", true),
            ("[::1]:9095", true),
            ("triage.example.org", true),
            ("rebound.example.net:9095", false),
            ("localhost.example.net", false),
            ("127.0.0.1.example.net", false),
            ("192.0.2.7", false),
            ("", false),
        ] {
            let request = Request::builder().uri("/incidents").header("host", host);
            let request = request.body(axum::body::Body::empty()).unwrap();
            assert_eq!(access.is_open_for(super::host(&request).as_deref()), may, "{host}");
        }
        let twice = Request::builder().header("host", "localhost").header("host", "rebound.example.net");
        assert_eq!(super::host(&twice.body(axum::body::Body::empty()).unwrap()), None);
        assert!(!access.is_open_for(None), "whoever names no host is no browser of ours");
    }
}
