//! The start of the weekly summaries: housekeeping writes which are due.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::{info, warn};

use notify::weekly;
use service::Service;

/// Time without a step of the clock before a week counts as over.
const STEADY: Duration = Duration::from_secs(60);

/// Writes the summaries whose week has ended, so that they are delivered.
pub(super) async fn schedule_weeklies(service: &Service, now: Timestamp) {
    let Some(config) = &service.config.slack.weekly else { return };
    if service.notifier.slack.is_none() || service.store.steady_until(Instant::now()) < STEADY {
        return;
    }
    let moments = match config.moments(now) {
        Ok(moments) => moments,
        Err(error) => return warn!(error, "cannot tell when the weekly summaries are due"),
    };
    let channels = service.config.slack.weekly_channels();
    match weekly::schedule(&service.store, channels.into_iter(), [moments.since, moments.until], now).await {
        Ok(0) => {}
        Ok(due) => {
            info!(count = due, "weekly summaries are due; the next ones at {}", moments.next);
            service.deliveries.notify_one();
        }
        Err(error) => warn!(%error, "cannot write which weekly summaries are due"),
    }
}
