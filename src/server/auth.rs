//! Who may call: bearer or basic, compared in constant time.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::Shared;
use crate::config::{Webhook, secret};

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
            let token = secret(path)?;
            return Ok(Self(Some(format!("Bearer {}", token.expose_secret()).into())));
        }
        if let (Some(user), Some(path)) = (&config.username, &config.password_file) {
            let password = secret(path)?;
            let pair = STANDARD.encode(format!("{user}:{}", password.expose_secret()));
            return Ok(Self(Some(format!("Basic {pair}").into())));
        }
        Ok(Self(None))
    }

    /// Whether anybody is asked for anything.
    pub fn are_set(&self) -> bool {
        self.0.is_some()
    }

    fn allow(&self, headers: &HeaderMap) -> bool {
        let Some(expected) = &self.0 else { return true };
        let given = headers.get(header::AUTHORIZATION).map(axum::http::HeaderValue::as_bytes).unwrap_or_default();
        bool::from(given.ct_eq(expected.expose_secret().as_bytes()))
    }
}

pub(super) async fn webhook(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    if shared.credentials.allow(request.headers()) {
        return next.run(request).await;
    }
    shared.pipeline.metrics.webhook("unauthorized");
    tracing::warn!("refused a webhook call: wrong or missing credentials");
    refusal()
}

/// Pages are open on loopback; elsewhere they need the webhook's credentials, and are closed without any.
pub(super) async fn pages(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    if shared.open_pages {
        return next.run(request).await;
    }
    if !shared.credentials.are_set() {
        let text = "The pages are closed: set `webhook.username` and `webhook.password_file`, or listen on loopback.\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    if shared.credentials.allow(request.headers()) { next.run(request).await } else { refusal() }
}

fn refusal() -> Response {
    let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"llm-diagnose\", charset=\"UTF-8\"")];
    (StatusCode::UNAUTHORIZED, challenge, "wrong or missing credentials\n").into_response()
}
