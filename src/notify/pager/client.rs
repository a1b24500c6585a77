//! The HTTP client of one pager.

use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use reqwest::StatusCode;
use reqwest::header::RETRY_AFTER;
use secrecy::{ExposeSecret, SecretString};

use super::{Call, Pager, PagerKind, PagerUpdate, pagerduty, webhook};
use crate::outgoing::{SendFailure, Trouble};
use http_client::{read_beginning, unreachable_reason};
use store::Incident;

/// The timeout of one call.
const CALL: Duration = Duration::from_secs(10);
/// Maximum number of characters of an error response in the log.
const SHOWN: usize = 300;
/// Maximum size of an error response that is read, in bytes.
const REFUSAL_BYTES: usize = 16 << 10;

/// The client of a configured pager.
#[derive(Debug)]
pub struct PagerClient {
    config: Pager,
    url: String,
    key: SecretString,
    http: reqwest::Client,
}

impl PagerClient {
    /// Creates a client; sends nothing.
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
        let http = http_client::builder(Duration::from_secs(5))
            .timeout(CALL)
            .build()
            .with_context(|| format!("pager `{name}`: cannot prepare the HTTP client"))?;
        Ok(Self { config: config.clone(), url, key, http })
    }

    /// Returns the configured name.
    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns true if the pager gets the incident without an escalation.
    pub(super) fn takes(&self, incident: &Incident) -> bool {
        self.config.takes(&incident.firing())
    }

    /// Prepares the next call; `None` if there is nothing new for this pager.
    pub(super) fn call(&self, news: &PagerUpdate<'_>, now: Timestamp) -> Option<Call> {
        let key = self.key.expose_secret();
        match self.config.kind {
            PagerKind::Pagerduty => pagerduty::call(key, &self.config, news),
            PagerKind::Webhook => Some(webhook::call(key, news, now)),
        }
    }

    /// Sends a call.
    ///
    /// # Errors
    /// The error of the pager or the network. It names only the host of the address, because the path may hold a token.
    pub(super) async fn send(&self, call: &Call) -> Result<(), SendFailure> {
        let mut request = self.http.post(&self.url).header("content-type", "application/json").body(call.body.clone());
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        let response = request.send().await.map_err(|error| {
            SendFailure::passing(format!("the pager cannot be reached: {}", unreachable_reason(&error)))
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let after = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
        let retry =
            status.is_server_error() || [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(&status);
        let beginning = read_beginning(response, REFUSAL_BYTES).await;
        // The key goes before the text is cut, so that no part of it stays.
        let text = String::from_utf8_lossy(&beginning).replace(self.key.expose_secret(), "…");
        let text: String = text.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
        let trouble = if retry { Trouble::Passing(after.map(Duration::from_secs)) } else { Trouble::Lasting };
        let note = format!("the pager answered {} {text}", status.as_u16());
        Err(SendFailure { trouble, ..SendFailure::passing(note) })
    }
}
