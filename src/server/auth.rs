//! Who may call: bearer or basic, compared in constant time; and, for pages, an authenticating proxy.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};
use subtle::{Choice, ConstantTimeEq};

use super::config::Config;
use super::{Shared, pages};
use crate::config::{Webhook, secret};
use crate::exporter::Allowed;

/// The exact `Authorization` value that is expected; none lets everybody in.
#[derive(Debug, Default)]
pub struct Credentials(Option<SecretString>);

impl Credentials {
    /// Reads the configured secrets.
    ///
    /// # Errors
    /// When a secret's file cannot be read or is empty.
    pub fn new(config: &Webhook) -> anyhow::Result<Self> {
        if let Some(path) = &config.bearer_token_file {
            return Ok(Self(Some(bearer(&secret(path)?))));
        }
        if let (Some(user), Some(path)) = (&config.username, &config.password_file) {
            return Ok(Self(Some(basic(user, &secret(path)?))));
        }
        Ok(Self(None))
    }

    /// Whether anybody is asked for anything.
    pub fn are_set(&self) -> bool {
        self.0.is_some()
    }

    fn allow(&self, headers: &HeaderMap) -> bool {
        self.0.as_ref().is_none_or(|expected| bool::from(same(headers, expected)))
    }
}

fn bearer(token: &SecretString) -> SecretString {
    format!("Bearer {}", token.expose_secret()).into()
}

fn basic(user: &str, password: &SecretString) -> SecretString {
    let pair = STANDARD.encode(format!("{user}:{}", password.expose_secret()));
    format!("Basic {pair}").into()
}

/// Whether this is the `Authorization` that was sent; takes as long for a wrong one as for the right one.
fn same(headers: &HeaderMap, expected: &SecretString) -> Choice {
    let given = headers.get(header::AUTHORIZATION).map(axum::http::HeaderValue::as_bytes).unwrap_or_default();
    given.ct_eq(expected.expose_secret().as_bytes())
}

/// Who may open the pages.
#[derive(Debug)]
pub struct Access {
    accepted: Vec<SecretString>,
    proxy: Option<(HeaderName, Vec<Allowed>)>,
    /// Nothing is asked for, because only this machine can reach us and nothing was configured for the pages.
    open: bool,
}

impl Access {
    /// Reads the configured secrets. The webhook's credentials open the pages as well; on loopback they are open until
    /// something is configured for them.
    ///
    /// # Errors
    /// When a secret's file cannot be read or is empty, or the header's name is none.
    pub fn new(config: &Config, webhook: &Webhook, loopback: bool) -> anyhow::Result<Self> {
        let mut accepted = Vec::new();
        if let Some(path) = &config.bearer_token_file {
            accepted.push(bearer(&secret(path)?));
        }
        if let (Some(user), Some(path)) = (&config.username, &config.password_file) {
            accepted.push(basic(user, &secret(path)?));
        }
        let proxy = match &config.proxy_header {
            Some(name) => Some((HeaderName::try_from(name.as_str())?, config.proxy_from.clone())),
            None => None,
        };
        let open = loopback && accepted.is_empty() && proxy.is_none();
        accepted.extend(Credentials::new(webhook)?.0);
        Ok(Self { accepted, proxy, open })
    }

    /// Whether somebody can be let in at all.
    pub fn is_possible(&self) -> bool {
        self.open || self.proxy.is_some() || !self.accepted.is_empty()
    }

    fn allow(&self, headers: &HeaderMap, from: SocketAddr) -> bool {
        // Every one is compared, so that the time does not tell which of them was nearly right.
        let known = self.accepted.iter().fold(Choice::from(0), |known, expected| known | same(headers, expected));
        let vouched = self.proxy.as_ref().is_some_and(|(name, proxies)| {
            let mut told = headers.get_all(name).iter();
            // A proxy that appends rather than replaces would pass on what a visitor claims.
            let one =
                matches!((told.next(), told.next()), (Some(who), None) if !who.as_bytes().trim_ascii().is_empty());
            one && proxies.iter().any(|proxy| proxy.holds(from.ip()))
        });
        self.open || bool::from(known) || vouched
    }

    /// What a browser is asked for; none where no browser could give it.
    fn challenge(&self) -> Option<&'static str> {
        let asks = |scheme: &str| self.accepted.iter().any(|secret| secret.expose_secret().starts_with(scheme));
        match () {
            () if asks("Basic ") => Some("Basic realm=\"llm-diagnose\", charset=\"UTF-8\""),
            () if asks("Bearer ") => Some("Bearer realm=\"llm-diagnose\""),
            () => None,
        }
    }
}

pub(super) async fn webhook(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    if shared.credentials.allow(request.headers()) {
        return next.run(request).await;
    }
    shared.pipeline.metrics.webhook("unauthorized");
    tracing::warn!("refused a webhook call: wrong or missing credentials");
    let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"llm-diagnose\", charset=\"UTF-8\"")];
    (StatusCode::UNAUTHORIZED, challenge, "wrong or missing credentials\n").into_response()
}

/// Pages are for those who may; everybody else gets a page that says what is missing.
pub(super) async fn pages(
    State(shared): State<Shared>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let access = &shared.pages.access;
    if access.allow(request.headers(), from) {
        return next.run(request).await;
    }
    if !access.is_possible() {
        return pages::problem(&shared, StatusCode::FORBIDDEN, "page-closed", "page-closed-why");
    }
    let mut refusal = pages::problem(&shared, StatusCode::UNAUTHORIZED, "page-refused", "page-refused-why");
    // Without anything to be asked for, only the proxy can let somebody in.
    match access.challenge().and_then(|challenge| challenge.parse().ok()) {
        Some(challenge) => _ = refusal.headers_mut().insert(header::WWW_AUTHENTICATE, challenge),
        None => *refusal.status_mut() = StatusCode::FORBIDDEN,
    }
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxys_word_counts_only_from_its_own_address_and_only_once() {
        let config = Config {
            proxy_header: Some("X-Forwarded-User".into()),
            proxy_from: vec![Allowed::try_from("10.0.0.7".to_owned()).unwrap()],
            ..Config::default()
        };
        let access = Access::new(&config, &Webhook::default(), true).unwrap();
        let may = |from: &str, told: &[&str]| {
            let mut headers = HeaderMap::new();
            told.iter().for_each(|who| _ = headers.append("x-forwarded-user", who.parse().unwrap()));
            access.allow(&headers, from.parse().unwrap())
        };
        assert!(may("10.0.0.7:1", &["anna"]) && may("[::ffff:10.0.0.7]:1", &["anna"]));
        assert!(!may("10.0.0.8:1", &["anna"]), "somebody else says so");
        assert!(!may("127.0.0.1:1", &["anna"]), "loopback is no proxy unless named");
        assert!(!may("10.0.0.7:1", &[]) && !may("10.0.0.7:1", &[" "]) && !may("10.0.0.7:1", &["eve", "anna"]));
    }

    #[test]
    fn without_anything_configured_pages_are_open_on_loopback_alone() {
        let may = |loopback| {
            let access = Access::new(&Config::default(), &Webhook::default(), loopback).unwrap();
            (access.allow(&HeaderMap::new(), "127.0.0.1:1".parse().unwrap()), access.is_possible())
        };
        assert_eq!([may(true), may(false)], [(true, true), (false, false)]);
    }
}
