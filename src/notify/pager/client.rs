//! One pager over HTTP.

use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use reqwest::StatusCode;
use reqwest::header::RETRY_AFTER;
use secrecy::{ExposeSecret, SecretString};

use super::{Pager, PagerKind, pagerduty, webhook};
use crate::redact::unreached;
use crate::render::Message;
use crate::store::Incident;

/// Of one call, how long a pager may take.
const CALL: Duration = Duration::from_secs(10);
/// Of a refusal's text, what is kept for the log.
const SHOWN: usize = 300;

/// A pager that can be called.
#[derive(Debug)]
pub struct PagerClient {
    config: Pager,
    url: String,
    key: SecretString,
    http: reqwest::Client,
}

/// What there may be to tell.
pub(super) struct News<'a> {
    pub(super) incident: &'a Incident,
    pub(super) message: &'a Message,
    /// The incident's page.
    pub(super) page: Option<&'a str>,
    /// The last call's key, and what it told.
    pub(super) posted: Option<&'a (String, String)>,
    /// Somebody asks for a call, whatever was told before: the id of their line in the audit log.
    pub(super) escalation: Option<&'a str>,
}

/// What is to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    /// The incident's name at the pager.
    pub(super) key: String,
    /// What this call tells, in short: the next one that tells the same is not made.
    pub(super) said: String,
    body: String,
    headers: Vec<(&'static str, String)>,
}

impl Call {
    pub(super) fn new(key: String, said: String, body: String, headers: Vec<(&'static str, String)>) -> Self {
        Self { key, said, body, headers }
    }
}

/// Why a call did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pager {what}")]
pub(super) struct PagerError {
    what: String,
    /// Whether sending the same again can help.
    pub(super) retry: bool,
    /// When, if the pager says so.
    pub(super) after: Option<Duration>,
}

impl PagerClient {
    /// Prepares a client; nothing is sent.
    ///
    /// # Errors
    /// When the key cannot be read, or the address is missing or malformed.
    pub fn new(config: &Pager, key: SecretString) -> anyhow::Result<Self> {
        let name = &config.name;
        let url = match (&config.url, config.kind) {
            (Some(url), _) => url.clone(),
            (None, PagerKind::Pagerduty) => pagerduty::URL.to_owned(),
            (None, PagerKind::Webhook) => bail!("pager `{name}`: a webhook needs a `url`"),
        };
        let parsed = url::Url::parse(&url).with_context(|| format!("pager `{name}`: `url` is no address"))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            bail!("pager `{name}`: `url` begins with https://");
        }
        let http = reqwest::Client::builder()
            .timeout(CALL)
            .connect_timeout(Duration::from_secs(5))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("llm-diagnose/", env!("CARGO_PKG_VERSION")))
            .build()
            .with_context(|| format!("pager `{name}`: cannot prepare the HTTP client"))?;
        Ok(Self { config: config.clone(), url, key, http })
    }

    /// The configured name.
    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    /// Whether it hears of the incident without anybody's escalation.
    pub(super) fn takes(&self, incident: &Incident) -> bool {
        self.config.takes(&incident.firing())
    }

    /// What is to be told now; none when there is nothing new for this pager.
    pub(super) fn call(&self, news: &News<'_>, now: Timestamp) -> Option<Call> {
        let key = self.key.expose_secret();
        match self.config.kind {
            PagerKind::Pagerduty => pagerduty::call(key, &self.config, news),
            PagerKind::Webhook => Some(webhook::call(key, news, now)),
        }
    }

    /// Sends it.
    ///
    /// # Errors
    /// What the pager or the network said. Of its address only the host, because the path may hold a token.
    pub(super) async fn send(&self, call: &Call) -> Result<(), PagerError> {
        let mut request = self.http.post(&self.url).header("content-type", "application/json").body(call.body.clone());
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        let unreachable = |e: reqwest::Error| PagerError {
            what: format!("cannot be reached: {}", unreached(&e)),
            retry: true,
            after: None,
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let after = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
        let retry =
            status.is_server_error() || [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(&status);
        let text = response.text().await.unwrap_or_default();
        let text: String = text.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
        let text = text.replace(self.key.expose_secret(), "…");
        Err(PagerError {
            what: format!("answered {} {text}", status.as_u16()),
            retry,
            after: after.map(Duration::from_secs),
        })
    }
}
