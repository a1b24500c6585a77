//! The keys `http:` and `pages:`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use reqwest::header::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;

use super::OidcConfig;
use knowledge::clock::duration;
use sources::exporter::Allowed;

/// The entry of `pages.act` that lets everybody act who may open the pages.
pub const ANYBODY: &str = "anybody";

/// The key `http:`: the limits for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerLimits {
    /// Maximum number of open connections, at least 1. At the limit a new one closes the one that has gone longest
    /// without a complete request.
    pub connections: usize,
    /// The longest time from the start of a connection or request to the end of its head; defaults to 10s.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub header_timeout: Duration,
    /// The longest time from the head to the end of the body, and the longest time in which a client reads nothing of
    /// its response; defaults to 30s.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub body_timeout: Duration,
    /// The longest pause between two requests; defaults to 1m.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub idle_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 1_024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
        }
    }
}

impl ServerLimits {
    /// Checks the values.
    ///
    /// # Errors
    /// When a limit is 0.
    pub fn validate(&self) -> anyhow::Result<()> {
        let Self { connections, header_timeout, body_timeout, idle_timeout } = self;
        if *connections == 0 || header_timeout.min(body_timeout).min(idle_timeout).is_zero() {
            bail!("`http:` limits are above 0: with less nobody could call");
        }
        Ok(())
    }
}

/// The requirement of credentials.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Authentication {
    /// Callers need credentials.
    #[default]
    Required,
    /// Everybody who reaches the port has access.
    None,
}

/// The credentials for the pages and their JSON.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PagesConfig {
    /// `required`, or `none`: everybody on this machine may read, and everybody who reaches a proxy on it. `none` is refused
    /// unless `listen` is on loopback.
    pub authentication: Authentication,
    /// A file with a bearer token, for programs.
    pub bearer_token_file: Option<PathBuf>,
    /// Basic authentication, for browsers: the user.
    pub username: Option<String>,
    /// Basic authentication: a file with the password.
    pub password_file: Option<PathBuf>,
    /// A header in which an authenticating proxy sends the user's name, such as `X-Forwarded-User`.
    pub proxy_header: Option<String>,
    /// The addresses of that proxy; the header is ignored from any other address.
    pub proxy_from: Vec<Allowed>,
    /// Login of people by an OpenID Connect provider; none if not set.
    pub oidc: Option<OidcConfig>,
    /// The visitors who may do everything on an incident's page, silence and collect bundles too, by the name that the
    /// pages know; others only read. `anybody` means everybody who may open the pages, `program:token` whoever has the
    /// pages' token, `program:webhook` the webhook's credentials. While it and `slack.act` are empty, people with a name
    /// may acknowledge, note and run again.
    pub act: Vec<String>,
}

impl PagesConfig {
    /// Checks the values.
    ///
    /// # Errors
    /// When keys contradict each other, with what to set.
    pub fn validate(&self) -> anyhow::Result<()> {
        if self.username.is_some() != self.password_file.is_some() {
            bail!("`pages:` needs both `username` and `password_file`, or neither");
        }
        if self.username.as_ref().is_some_and(|user| user.is_empty() || user.contains(':')) {
            bail!("`pages.username` is empty or has a colon, which basic authentication cannot tell from the password");
        }
        let are_set = self.username.is_some() || self.bearer_token_file.is_some() || self.proxy_header.is_some();
        let are_set = are_set || self.oidc.is_some();
        if self.authentication == Authentication::None && are_set {
            bail!("`pages.authentication: none` beside credentials: remove it, or them");
        }
        match (&self.proxy_header, self.proxy_from.as_slice()) {
            (Some(header), []) => bail!(
                "`pages.proxy_header: {header}` without `pages.proxy_from`: anybody could send it; name the proxy's \
                 addresses, such as [10.0.0.7]"
            ),
            (None, [_, ..]) => bail!(
                "`pages.proxy_from` without `pages.proxy_header`: name the header in which the proxy sends the user's name"
            ),
            (Some(header), _) if HeaderName::try_from(header.as_str()).is_err() => {
                bail!("`pages.proxy_header: {header}` is no name of a header: write it like X-Forwarded-User")
            }
            _ => {}
        }
        if let Some(oidc) = &self.oidc {
            oidc.validate()?;
        }
        if let Some(name) = self.act.iter().find(|name| name.trim() != *name || name.is_empty()) {
            bail!("`pages.act` has {name:?}: write each name as the pages know it, or `anybody`");
        }
        if self.authentication == Authentication::None && self.act.iter().any(|name| name != ANYBODY) {
            bail!(
                "`pages.act` names people, but `pages.authentication: none` has no names: write [anybody], or require credentials"
            );
        }
        for from in &self.proxy_from {
            match from {
                Allowed::Host(name) => bail!(
                    "`pages.proxy_from: {name}` is a host's name: a connection has an address only; write it like 10.0.0.7"
                ),
                Allowed::Network(network) if network.prefix_len() == 0 => bail!(
                    "`pages.proxy_from` with every address in it would let everybody send any name: name the proxy's own address"
                ),
                Allowed::Network(_) => {}
            }
        }
        Ok(())
    }
}
