//! The deliver loop: sends the messages that are due.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

use super::{ms, pause};
use notify::Taken;
use service::Service;
use store::StoreError;
use telemetry::supervise::guard;

/// Maximum number of messages that are sent concurrently.
const DELIVER_MOST: usize = 16;
/// Lease of a delivery: time for the search for an earlier copy in Slack, the post, and a shorter post if Slack refuses
/// the first. After it another worker may try.
pub(super) const DELIVERY_LEASE: Duration = Duration::from_secs(90);

/// Delivers the messages that are due, several concurrently, until stopped.
pub(super) async fn run(service: Arc<Service>, stop: CancellationToken, tasks: TaskTracker) {
    let slots = Arc::new(Semaphore::new(DELIVER_MOST));
    while !stop.is_cancelled() {
        let free = u32::try_from(slots.available_permits()).unwrap_or(u32::MAX);
        let taken = match take(&service, free).await {
            Ok(taken) => taken,
            Err(error) => {
                error!(%error, "cannot look for deliveries that are due");
                Taken::default()
            }
        };
        if taken.work.is_empty() {
            pause(&service.store, &service.deliveries, &stop, taken.wait, |due| due.1).await;
            continue;
        }
        for work in taken.work {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            let service = Arc::clone(&service);
            tasks.spawn(async move {
                guard("delivery", &service.metrics, service.notifier.deliver(work)).await;
                drop(slot);
                service.deliveries.notify_one();
            });
        }
    }
}

async fn take(service: &Service, most: u32) -> Result<Taken, StoreError> {
    let now = service.store.keep_time().await?;
    service.notifier.take(now, ms(DELIVERY_LEASE), most).await
}
