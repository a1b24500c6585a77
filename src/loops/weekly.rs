//! The start of the weekly and daily summaries: housekeeping writes which are due.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::{info, warn};

use notify::weekly;
use service::Service;
use store::SummaryPeriod;

/// Time without a step of the clock before a week or a day counts as over.
const STEADY: Duration = Duration::from_secs(60);

/// Writes the summaries whose period has ended, so that they are delivered.
pub(super) async fn schedule_weeklies(service: &Service, now: Timestamp) {
    let config = &service.config.slack;
    if service.notifier.slack.is_none() || service.store.steady_until(Instant::now()) < STEADY {
        return;
    }
    if let Some(weekly) = &config.weekly {
        let moments = weekly.moments(now).map(|of| [of.since, of.until, of.next]);
        schedule(service, SummaryPeriod::Week, moments, config.weekly_channels(), now).await;
    }
    if let Some(daily) = &config.daily {
        let moments = daily.moments(now).map(|of| [of.since, of.until, of.next]);
        schedule(service, SummaryPeriod::Day, moments, config.daily_channels(), now).await;
    }
}

/// Writes the summaries of these channels; `moments` are the start and the end of the last period, and the next end.
async fn schedule(
    service: &Service,
    period: SummaryPeriod,
    moments: Result<[Timestamp; 3], String>,
    channels: BTreeSet<&str>,
    now: Timestamp,
) {
    let name = period.as_str();
    let [since, until, next] = match moments {
        Ok(moments) => moments,
        Err(error) => return warn!(error, "cannot tell when the summary of a {name} is due"),
    };
    match weekly::schedule(&service.store, period, channels.into_iter(), [since, until], now).await {
        Ok(0) => {}
        Ok(due) => {
            info!(count = due, "summaries of a {name} are due; the next ones at {}", next);
            service.deliveries.notify_one();
        }
        Err(error) => warn!(%error, "cannot write which summaries of a {name} are due"),
    }
}
