//! The configuration of exporters that may be read directly.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

use super::allow::{Allowed, private};
use findings::ExporterTarget;
use http_client::address;

/// The key `exporters:`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// True to learn the addresses from Prometheus' targets and store them for its outages; defaults to true.
    pub learn: bool,
    /// Networks, addresses or host names that may be read; defaults to private networks, without loopback.
    pub allow: Vec<Allowed>,
    /// Exporters that are not Prometheus targets, or that must be known without it.
    pub targets: Vec<ConfiguredExporter>,
}

impl Default for Config {
    fn default() -> Self {
        Self { learn: true, allow: private(), targets: Vec::new() }
    }
}

/// One entry of `exporters.targets`.
#[derive(Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredExporter {
    /// The engine or exporter, by the name of its signal file: `vllm`, `dcgm`.
    pub engine: String,
    /// The URL of its metrics page: `http://10.0.0.7:9400/metrics`.
    pub url: String,
    /// Labels that a scrape would attach: `namespace`, `pod`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// Formats the entry without secrets of the URL.
impl fmt::Debug for ConfiguredExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = address(&self.url);
        f.debug_struct("Given").field("engine", &self.engine).field("url", &url).field("labels", &self.labels).finish()
    }
}

impl Config {
    /// Returns the configured exporters.
    pub fn given(&self) -> impl Iterator<Item = ExporterTarget> {
        self.targets.iter().map(|given| {
            let mut labels = given.labels.clone();
            let target = ExporterTarget {
                engine: given.engine.clone(),
                url: given.url.clone(),
                labels: BTreeMap::new(),
                seen: None,
            };
            labels.entry("instance".to_owned()).or_insert_with(|| target.place());
            ExporterTarget { labels, ..target }
        })
    }
}
