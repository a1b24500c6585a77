//! The key `pages:`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::exporter::Allowed;

/// Who may open the pages and their JSON.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// A file with a bearer token, for programs.
    pub bearer_token_file: Option<PathBuf>,
    /// Basic authentication, for browsers: the user.
    pub username: Option<String>,
    /// Basic authentication: a file with the password.
    pub password_file: Option<PathBuf>,
    /// A header in which an authenticating proxy tells who somebody is, such as `X-Forwarded-User`.
    pub proxy_header: Option<String>,
    /// The addresses of that proxy; from elsewhere the header counts for nothing.
    pub proxy_from: Vec<Allowed>,
}
