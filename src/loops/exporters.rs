//! The exporter loop: remembers which exporters each Prometheus scrapes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::every;
use diagnose::discover_exporters;
use knowledge::clock;
use prom::Prometheus;
use service::Service;

/// Interval between two reads of Prometheus' target list; a new exporter is known after this time at the latest.
const LEARN: Duration = Duration::from_secs(30);

/// Reads the target list of each Prometheus every [`LEARN`] and stores it for times when that Prometheus is down.
pub(super) async fn run(service: Arc<Service>, stop: CancellationToken) {
    let learn = async || {
        for (prometheus, _) in &service.prometheus {
            remember(&service, prometheus, Instant::now() + service.config.diagnose.deadline).await;
        }
    };
    every(LEARN, &stop, learn).await;
}

async fn remember(service: &Service, prometheus: &Prometheus, until: Instant) {
    match discover_exporters(&service.library, prometheus, clock::now(), until).await {
        // An empty list may mean that Prometheus has just lost its data, so the stored list stays.
        Ok(targets) if targets.is_empty() => {}
        Ok(targets) => match service.store.remember_exporters(&prometheus.key, &targets).await {
            Ok(()) => _ = service.metrics.exporters.set(i64::try_from(targets.len()).unwrap_or(i64::MAX)),
            Err(error) => warn!(%error, "cannot remember exporters"),
        },
        Err(error) => debug!(prometheus = prometheus.name, %error, "cannot learn the exporters"),
    }
}
