//! The key `bundle:`.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::clock::duration;

/// Bundles: how large they may be, and how long they are kept.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where they are kept; empty takes `bundles` in the state directory.
    pub dir: PathBuf,
    /// How much time before and after an incident they hold; defaults to 30m.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub margin: Duration,
    /// When all sources must have answered; defaults to 60s.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub deadline: Duration,
    /// Bytes of one bundle's series before compression, at most; defaults to 2 GiB.
    pub series_bytes: u64,
    /// Bytes of logs in one bundle before compression, at most; defaults to 64 MiB.
    pub log_bytes: u64,
    /// Bytes of all kept bundles together; the oldest go first. Defaults to 2 GiB.
    pub keep_bytes: u64,
    /// How long bundles are kept; defaults to 14d.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub keep: Duration,
    /// Bytes that must stay free on the disk; a bundle that would take them is refused. Defaults to 512 MiB.
    pub min_free_bytes: u64,
    /// Bytes up to which a bundle is uploaded to Slack; larger ones are linked. Defaults to 50 MiB.
    pub upload_bytes: u64,
    /// How long a download link is good; defaults to 24h.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub link_expires: Duration,
    /// A file with the secret that signs download links; not set, one is made in the state directory.
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
