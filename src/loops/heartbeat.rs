//! Heartbeat: tells the other replicas that this one lives, and takes over the work of those that are silent.
//!
//! A loop of its own: nothing that the service does may delay it, else the others would repeat what this replica still does.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::every;
use service::Service;

/// Interval between two heartbeats.
const TICK: Duration = Duration::from_secs(2);
/// Time for a heartbeat and the releases: the next one tries again.
const WITHIN: Duration = Duration::from_secs(5);

/// Writes a heartbeat every [`TICK`] until stopped.
pub(crate) async fn run(service: Arc<Service>, stop: CancellationToken) {
    every(TICK, &stop, || beat(&service)).await;
}

async fn beat(service: &Service) {
    let store = &service.store;
    match tokio::time::timeout(WITHIN, store.heartbeat(store.now())).await {
        Ok(Ok(heartbeat)) => {
            service.notifier.share(heartbeat.alive);
            if heartbeat.released > 0 {
                info!(count = heartbeat.released, "took over the work of replicas that are gone");
                service.diagnoses.notify_one();
                service.deliveries.notify_one();
            }
        }
        Ok(Err(error)) => warn!(%error, "cannot tell the other replicas that this one lives"),
        Err(_) => warn!(seconds = WITHIN.as_secs(), "the heartbeat for the other replicas took too long"),
    }
}
