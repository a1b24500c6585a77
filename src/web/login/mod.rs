//! Login of people by an OpenID Connect provider, without state in this process: any replica can finish what another began,
//! because what must come back is in signed cookies.

mod provider;
mod session;

use std::net::SocketAddr;

use anyhow::Context;
use axum::http::StatusCode;

pub(crate) use provider::{LoginAttempt, Provider};
use service::RequestLimits;
use service::config::OidcConfig;
pub(crate) use session::{Cookies, local_path};

/// Requests for a login per minute: of one address, and of all. A login takes two; behind a proxy people share its address.
const PER_MINUTE: (u32, u32) = (60, 300);

/// The reason why nobody is signed in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginError {
    #[error("the identity provider gives no usable answer: {0}")]
    Away(String),
    #[error("the attempt is too old, or another browser began it")]
    Stale,
    #[error("the identity provider refused: {0}")]
    Denied(String),
    #[error("the identity provider's answer is not to be trusted: {0}")]
    Untrusted(String),
    #[error("the answer has no usable name: {0}")]
    Nameless(String),
    #[error("neither a group nor the e-mail address is among those of the configuration")]
    Stranger,
    #[error("there are too many attempts")]
    TooOften,
}

impl LoginError {
    /// Returns the status, and the key of the phrase that says what to do.
    pub(crate) fn page(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Away(_) => (StatusCode::BAD_GATEWAY, "login-away"),
            Self::Stale => (StatusCode::BAD_REQUEST, "login-stale"),
            Self::Denied(_) => (StatusCode::FORBIDDEN, "login-denied"),
            Self::Untrusted(_) => (StatusCode::BAD_GATEWAY, "login-untrusted"),
            Self::Nameless(_) => (StatusCode::FORBIDDEN, "login-nameless"),
            Self::Stranger => (StatusCode::FORBIDDEN, "login-stranger"),
            Self::TooOften => (StatusCode::TOO_MANY_REQUESTS, "login-too-often"),
        }
    }
}

/// The login of people, as `pages.oidc` has it.
#[derive(Debug)]
pub struct Login {
    pub(crate) provider: Provider,
    pub(crate) cookies: Cookies,
    limits: RequestLimits<1>,
}

impl Login {
    /// Prepares the login; asks nobody.
    ///
    /// # Errors
    /// Without a `public_url`, or when the secret's file cannot be read.
    pub fn new(config: &OidcConfig, public_url: &str) -> anyhow::Result<Self> {
        let public = url::Url::parse(public_url)
            .context("`pages.oidc` needs `public_url`: the provider sends people back to its /login/callback")?;
        let (one, all) = PER_MINUTE;
        Ok(Self {
            provider: Provider::new(config, public_url)?,
            cookies: Cookies::new(config, public.scheme() == "https"),
            limits: RequestLimits::new([one], all),
        })
    }

    /// Counts a request against the limits.
    pub(crate) fn admit(&self, from: SocketAddr) -> Result<(), LoginError> {
        self.limits.admit([Some(&from.ip().to_string())]).then_some(()).ok_or(LoginError::TooOften)
    }
}
