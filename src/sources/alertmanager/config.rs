//! The configuration of an Alertmanager.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;

use super::AlertmanagerError;

/// An entry of `alertmanagers:`.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The address with any path prefix, without /api/v2.
    pub url: String,
    /// Labels that all firing alerts must have; if empty, all alerts match.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// A file with a bearer token.
    #[serde(default)]
    pub bearer_token_file: Option<PathBuf>,
    /// User name for basic authentication, instead of a token.
    #[serde(default)]
    pub username: Option<String>,
    /// A file with the password for basic authentication.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
}

/// Prints no password, neither of the address nor of a header.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &http_client::address(&self.url))
            .field("labels", &self.labels)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Returns the address for requests, and the address for display: without user and password.
    pub(super) fn address(&self) -> Result<(String, String), AlertmanagerError> {
        let wrong = "`alertmanagers:` has an `url` that is no address: write it like http://alertmanager:9093";
        http_client::split_address(&self.url).ok_or_else(|| AlertmanagerError::Configuration(wrong.to_owned()))
    }

    pub(super) fn headers(&self) -> Result<HeaderMap, AlertmanagerError> {
        let text = match (&self.bearer_token_file, &self.username, &self.password_file) {
            (None, None, None) => return Ok(HeaderMap::new()),
            (Some(path), None, None) => format!("Bearer {}", secret(path)?),
            (None, Some(user), Some(path)) => {
                format!("Basic {}", STANDARD.encode(format!("{user}:{}", secret(path)?)))
            }
            _ => {
                let text = "`alertmanagers:` takes `bearer_token_file`, or `username` with `password_file`";
                return Err(AlertmanagerError::Configuration(text.to_owned()));
            }
        };
        let mut value = HeaderValue::try_from(text).map_err(|_| {
            AlertmanagerError::Configuration(format!(
                "the secret for {} cannot be sent in a header",
                http_client::address(&self.url)
            ))
        })?;
        value.set_sensitive(true);
        Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
    }
}

fn secret(path: &Path) -> Result<String, AlertmanagerError> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| AlertmanagerError::Configuration(format!("cannot read the secret in {}: {e}", path.display())))?;
    Ok(text.trim().to_owned())
}
