//! The exporters that a diagnosis may read where its Prometheus is blind.

use tracing::warn;

use diagnose::Exporters;
use prom::Prometheus;
use sources::exporter::{Config, ExporterReader};
use store::Store;

/// Returns the exporters for a diagnosis by a Prometheus: the configured ones, and those that it listed last.
pub async fn known_exporters(
    store: &Store,
    config: &Config,
    reader: &ExporterReader,
    prometheus: &Prometheus,
) -> Exporters {
    let remembered = match config.learn && !prometheus.is_unassigned() {
        true => store.exporters(&prometheus.key).await.unwrap_or_else(|error| {
            warn!(%error, "cannot read the remembered exporters");
            Vec::new()
        }),
        false => Vec::new(),
    };
    Exporters::known(config, reader, prometheus, Some(remembered))
}
