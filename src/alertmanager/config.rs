//! How to reach an Alertmanager.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// An entry of `alertmanagers:`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Its address with any path prefix, without /api/v2.
    pub url: String,
    /// Labels on which all firing alerts must agree; empty takes every alert.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// A file with a bearer token.
    #[serde(default)]
    pub bearer_token_file: Option<PathBuf>,
    /// Basic authentication instead: the user.
    #[serde(default)]
    pub username: Option<String>,
    /// Basic authentication instead: a file with the password.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
}
