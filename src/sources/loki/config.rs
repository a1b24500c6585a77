//! The configuration key `loki:`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use reqwest::header::HeaderMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::LokiError;
use http_client::address;
use prom::headers;

/// One entry of `loki:`.
#[derive(Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The address, with any path prefix, without /loki/api/v1.
    pub url: String,
    /// Labels that all firing alerts must have for this Loki to be queried; if empty, all alerts match.
    pub labels: BTreeMap<String, String>,
    /// Additional headers, such as `X-Scope-OrgID`.
    pub headers: BTreeMap<String, String>,
    /// A file with a bearer token.
    pub bearer_token_file: Option<PathBuf>,
    /// Loki's label for the namespace.
    pub namespace: String,
    /// Loki's label for the pod.
    pub pod: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            url: "http://127.0.0.1:3100".to_owned(),
            labels: BTreeMap::new(),
            headers: BTreeMap::new(),
            bearer_token_file: None,
            namespace: "namespace".to_owned(),
            pod: "pod".to_owned(),
        }
    }
}

/// Prints no password, neither of the address nor of a header.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &address(&self.url))
            .field("labels", &self.labels)
            .field("headers", &self.headers.keys())
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Returns the address for requests, and the address for display: without user and password.
    pub(super) fn address(&self) -> Result<(String, String), LokiError> {
        let wrong = "`loki:` has an `url` that is no address: write it like http://loki-gateway:3100";
        http_client::split_address(&self.url).ok_or_else(|| LokiError::Other(wrong.to_owned()))
    }

    pub(super) fn headers(&self) -> Result<HeaderMap, LokiError> {
        headers(&self.headers, self.bearer_token_file.as_deref()).map_err(LokiError::Other)
    }
}
