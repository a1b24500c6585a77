//! Maintenance windows: keeps the known ones up to date, and looks again at what an ended one kept quiet.

use std::time::Duration;

use jiff::Timestamp;
use tracing::{info, warn};

use knowledge::clock::{after, before};
use service::Service;
use store::StoreError;

/// The time after the end of a window from which no replica takes it for a lasting one: two rounds of housekeeping.
const KNOWN_EVERYWHERE: Duration = Duration::from_secs(10);

/// Reads the windows; calls people for the open incidents of those that have ended.
pub(super) async fn check(service: &Service, now: Timestamp) {
    match renew(service, now).await {
        Ok(0) => {}
        Ok(n) => {
            info!(count = n, "maintenance windows have ended: their open incidents may call people now");
            service.deliveries.notify_one();
        }
        Err(error) => warn!(%error, "cannot read the maintenance windows"),
    }
}

async fn renew(service: &Service, now: Timestamp) -> Result<usize, StoreError> {
    let store = &service.store;
    service.notifier.renew_maintenance(now).await?;
    let ended = store.ended_maintenance(before(now, KNOWN_EVERYWHERE)).await?;
    if ended.is_empty() {
        return Ok(0);
    }
    for id in store.incidents(true, None, u32::MAX).await? {
        let incident = match store.incident(&id).await {
            Ok(Some(incident)) => incident,
            Ok(None) => continue,
            Err(error) if error.is_unreadable() => continue,
            Err(error) => return Err(error),
        };
        let about = ended.iter().filter(|window| window.is_about(&incident.firing()));
        // A call of the first seconds came from a replica that did not know the window.
        let Some(since) = about.map(|window| after(window.since, KNOWN_EVERYWHERE)).min() else { continue };
        let taken = incident.acknowledged.as_ref().map(|taken| taken.at);
        let is_taken = taken.is_some_and(|at| incident.critical_at.is_none_or(|since| at >= since));
        store.go_on_after_maintenance(&id, !is_taken, since, now).await?;
    }
    // Only now: a call that was lost on the way here is made in the next round, and a second one changes nothing.
    store.see_maintenance(&ended).await?;
    Ok(ended.len())
}
