//! The admit loop: stores what webhooks bring, in batches.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};

use super::IDLE;
use knowledge::alert::AlertGroup;
use service::{Service, admit_groups};
use store::Admitted;
use telemetry::supervise::guard;

/// Maximum number of webhooks that are committed in one transaction.
const COMMIT_MOST: usize = 64;

/// A received alert group, and the channel that returns the result to the waiting webhook.
pub type Received = (AlertGroup, oneshot::Sender<Result<Admitted, String>>);

/// Stores groups as they arrive, in batches, until all senders are dropped. The inbox outlives this loop.
pub(super) async fn run(service: Arc<Service>, inbox: Arc<Mutex<mpsc::Receiver<Received>>>) {
    let mut inbox = inbox.lock().await;
    loop {
        let mut batch = Vec::with_capacity(COMMIT_MOST);
        match tokio::time::timeout(IDLE, inbox.recv_many(&mut batch, COMMIT_MOST)).await {
            // No message; the timeout lets the supervisor see that this loop is alive.
            Err(_) => continue,
            Ok(0) => return,
            Ok(_) => {}
        }
        service.metrics.webhook_queue.set(i64::try_from(inbox.len()).unwrap_or(i64::MAX));
        // If a batch panics, its senders get 503 and retry, most likely in another batch.
        guard("admission", &service.metrics, admit(&service, batch)).await;
    }
}

async fn admit(service: &Service, batch: Vec<Received>) {
    let (groups, waiting): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    for (answer, reply) in admit_groups(service, groups).await.into_iter().zip(waiting) {
        // The caller may have closed the connection; the group is stored anyway.
        let _ = reply.send(answer);
    }
}
