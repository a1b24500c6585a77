//! The configuration of a connection to Prometheus: address, headers, token.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{PartialAnswers, PromError};
use http_client::address;

/// One entry of `prometheus:`.
#[derive(Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The name in logs and metrics; defaults to `default`.
    pub name: String,
    /// The address, with any path prefix.
    pub url: String,
    /// Labels that the alerts must carry for this Prometheus to be queried; empty takes every alert. Of several entries
    /// the first that fits is queried; an only one is queried for every alert.
    pub labels: BTreeMap<String, String>,
    /// Additional headers, such as `X-Scope-OrgID`.
    pub headers: BTreeMap<String, String>,
    /// The path of a file with a bearer token.
    pub bearer_token_file: Option<PathBuf>,
    /// Concurrent queries; defaults to 8. Entries with one server (scheme, host and port) share the largest of theirs;
    /// each takes at most half of it.
    pub concurrency: usize,
    /// The memory that answers may take, in bytes, of which one answer takes at most half: 16 MiB are some 22,000
    /// series. Defaults to an eighth of the memory limit of the process, at least 32 MiB, shared with the other entries.
    pub answer_bytes: Option<usize>,
    /// `note` (the default): an answer that lacks a part of the data, as Thanos and VictoriaMetrics give it while a store
    /// is away, rules nothing out. `ignore`: warnings about stores are only noted in diagnoses, verdicts are as if the data
    /// were complete; for pairs of stores of which each has all data.
    pub partial: PartialAnswers,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            url: "http://127.0.0.1:9090".to_owned(),
            labels: BTreeMap::new(),
            headers: BTreeMap::new(),
            bearer_token_file: None,
            concurrency: 8,
            answer_bytes: None,
            partial: PartialAnswers::Note,
        }
    }
}

/// Formats the configuration without passwords: neither the address' nor one in a header.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("url", &self.shown_url())
            .field("labels", &self.labels)
            .field("headers", &self.headers.keys())
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Returns the address without any password in it.
    pub fn shown_url(&self) -> String {
        address(&self.url)
    }

    pub(super) fn headers(&self) -> Result<HeaderMap, PromError> {
        headers(&self.headers, self.bearer_token_file.as_deref()).map_err(PromError::Configuration)
    }
}

/// Builds the headers of each request, marked as sensitive: configured ones, and a bearer token from a file.
///
/// # Errors
/// A sentence that says what is wrong, without any value.
pub fn headers(given: &BTreeMap<String, String>, token_file: Option<&Path>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let header = HeaderName::try_from(name).map_err(|_| format!("`{name}` is no header name"))?;
        let mut value =
            HeaderValue::try_from(value).map_err(|_| format!("header `{name}` has a value that cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    if let Some(path) = token_file {
        let token =
            std::fs::read_to_string(path).map_err(|e| format!("cannot read the token file {}: {e}", path.display()))?;
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
            .map_err(|_| format!("the token in {} cannot be sent in a header", path.display()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}
