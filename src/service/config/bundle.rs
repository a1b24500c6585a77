//! The configuration key `bundle:`.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use knowledge::clock::duration;

/// Bundles: size limits and retention.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Directory of the bundles; empty takes `bundles` in the state directory.
    pub dir: PathBuf,
    /// Time before and after an incident that a bundle covers; defaults to 30m.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub margin: Duration,
    /// Time within which all sources must have answered; defaults to 60s.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub deadline: Duration,
    /// Maximum bytes of a bundle's series before compression; defaults to 2 GiB.
    pub series_bytes: u64,
    /// Maximum bytes of a bundle's logs before compression; defaults to 64 MiB.
    pub log_bytes: u64,
    /// Maximum bytes of all stored bundles together; the oldest are removed first. Defaults to 2 GiB.
    pub keep_bytes: u64,
    /// Retention of bundles; defaults to 14d.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub keep: Duration,
    /// Bytes that must stay free on the disk; a bundle that would take them is refused. Defaults to 512 MiB.
    pub min_free_bytes: u64,
    /// Maximum bytes of a bundle that is uploaded to Slack; a larger one is linked. Defaults to 50 MiB.
    pub upload_bytes: u64,
    /// Validity of a download link; defaults to 24h.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub link_expires: Duration,
    /// A file with the secret that signs download links; if not set, a secret is created in the state directory.
    pub link_key_file: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dir: PathBuf::new(),
            margin: Duration::from_secs(30 * 60),
            deadline: Duration::from_secs(60),
            series_bytes: 2 << 30,
            log_bytes: 64 << 20,
            keep_bytes: 2 << 30,
            keep: Duration::from_secs(14 * 86_400),
            min_free_bytes: 512 << 20,
            upload_bytes: 50 << 20,
            link_expires: Duration::from_secs(86_400),
            link_key_file: None,
        }
    }
}
