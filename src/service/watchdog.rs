//! The dead man's switch: every expected Alertmanager sends an always-firing alert, and its silence is an incident.
//!
//! The notification of such an alert opens no incident; its time is stored. Silence is admitted like an alert group, so
//! that message, calls, edits and resolution are those of every incident, whichever replica notices it first.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::{info, warn};

use crate::check::ServiceCheck;
use crate::config::WatchdogConfig;
use crate::{Service, admit_groups};
use knowledge::alert::AlertGroup;
use knowledge::clock::{self, human_duration};
use store::{OpenIncident, Store, StoreError, Watchdog};

/// An expected source that is silent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilentSource {
    /// The name of the source.
    pub source: String,
    /// The time of its last notification; the time from which it is expected if there is none.
    pub since: Timestamp,
    /// The problem, in words.
    pub detail: String,
}

/// Records the always-firing alert of a group. Returns the rest of the group; `None` if nothing else is in it.
///
/// # Errors
/// When the store fails.
pub async fn receive(service: &Service, mut group: AlertGroup) -> Result<Option<AlertGroup>, StoreError> {
    let WatchdogConfig { alert, sources, within: _ } = &service.config.watchdog;
    let source = group.source();
    let Some(fires) = (if alert.is_empty() { None } else { group.take_watchdog(alert) }) else {
        return Ok(Some(group));
    };
    // Names come from callers, so only the expected ones are stored.
    if sources.contains(&source) {
        service.store.record_watchdog(&source, fires, service.store.now()).await?;
    }
    Ok((!group.is_empty()).then_some(group))
}

/// Returns the expected sources that are silent. `receiving` is the time for which webhooks could be stored.
///
/// # Errors
/// When the store fails.
pub async fn silent(
    store: &Store,
    config: &WatchdogConfig,
    now: Timestamp,
    receiving: Duration,
) -> Result<Vec<SilentSource>, StoreError> {
    let watchdogs = if config.sources.is_empty() { Vec::new() } else { store.watchdogs().await? };
    Ok(silent_sources(&watchdogs, config, now, receiving))
}

/// Tells for each expected source whether it is silent. All replicas tell the same.
///
/// # Errors
/// When the store fails.
pub(crate) async fn checks(store: &Store, config: &WatchdogConfig) -> Result<Vec<ServiceCheck>, StoreError> {
    let silent = silent(store, config, store.now(), store.receiving_until(Instant::now())).await?;
    let named = config.sources.iter().map(|source| {
        let problem = silent.iter().find(|silent| silent.source == *source);
        let problem = problem.map(|silent| format!("{}: alerts of it may not arrive", silent.detail));
        ServiceCheck::probed(format!("alertmanager/{source}"), problem)
    });
    Ok(named.collect())
}

/// Checks the expected sources: begins to expect new ones, opens and resolves incidents, and sets the metrics.
pub async fn check(service: &Service, now: Timestamp) {
    if let Err(error) = try_check(service, now).await {
        warn!(%error, "cannot check which Alertmanagers are silent");
    }
}

async fn try_check(service: &Service, now: Timestamp) -> Result<(), StoreError> {
    let (store, config) = (&service.store, &service.config.watchdog);
    store.expect_watchdogs(&config.sources, now).await?;
    let watchdogs = store.watchdogs().await?;
    let ages = expected(&watchdogs, config).map(|w| (w.source.as_str(), clock::between(last(w), now)));
    service.metrics.watchdogs(ages);
    let open = store.open_of_group(AlertGroup::SILENT_KEY).await?;
    let mut groups = Vec::new();
    for silent in silent_sources(&watchdogs, config, now, store.receiving_until(Instant::now())) {
        let told = open.iter().find(|incident| incident.source == silent.source);
        if told.is_none_or(|incident| must_repeat(incident, now, service.config.incident.stale_after)) {
            warn!(source = silent.source, "an Alertmanager is silent");
            groups.push(AlertGroup::alertmanager_silent(&silent.source, silent.since, silent.detail));
        }
    }
    for incident in open {
        if expected(&watchdogs, config).any(|w| w.source == incident.source && !heard(w, config, now)) {
            continue;
        }
        // One that cannot be read keeps nothing else from being told.
        let found = store.each(std::slice::from_ref(&incident.id)).await?.pop();
        let Some(alert) = found.and_then(|incident| incident.alerts.into_iter().last()) else { continue };
        info!(source = incident.source, "an Alertmanager is heard again, or expected no longer");
        groups.push(AlertGroup::alertmanager_heard(&incident.source, &alert, now));
    }
    if !groups.is_empty() {
        // A failure is logged there; the next round tries again.
        admit_groups(service, groups).await;
    }
    Ok(())
}

fn expected<'a>(watchdogs: &'a [Watchdog], config: &WatchdogConfig) -> impl Iterator<Item = &'a Watchdog> {
    watchdogs.iter().filter(|watchdog| config.sources.contains(&watchdog.source))
}

fn silent_sources(
    watchdogs: &[Watchdog],
    config: &WatchdogConfig,
    now: Timestamp,
    receiving: Duration,
) -> Vec<SilentSource> {
    expected(watchdogs, config).filter_map(|watchdog| silent_source(watchdog, config, now, receiving)).collect()
}

/// Returns true if the open incident needs another notification, so that it is not closed as stale.
fn must_repeat(incident: &OpenIncident, now: Timestamp, stale_after: Duration) -> bool {
    clock::between(incident.notified_at, now) >= stale_after / 4
}

/// Returns the last notification that said firing, or else the time from which it is expected.
fn last(watchdog: &Watchdog) -> Timestamp {
    watchdog.seen_at.unwrap_or(watchdog.expected_at)
}

/// Returns true if the source sent the alert in time.
fn heard(watchdog: &Watchdog, config: &WatchdogConfig, now: Timestamp) -> bool {
    watchdog.ended_at.is_none() && watchdog.seen_at.is_some_and(|at| clock::between(at, now) <= config.within)
}

fn silent_source(
    watchdog: &Watchdog,
    config: &WatchdogConfig,
    now: Timestamp,
    receiving: Duration,
) -> Option<SilentSource> {
    let since = last(watchdog);
    let is_late = clock::between(since, now) > config.within && receiving > config.within;
    let (alert, source) = (&config.alert, &watchdog.source);
    let at = since.strftime("%Y-%m-%d %H:%M UTC");
    let every = format!("one is expected at least every {}", human_duration(config.within));
    let detail = match (watchdog.ended_at, watchdog.seen_at) {
        (Some(_), Some(_)) => format!("{source} reported that {alert} ended; it was received last at {at}"),
        (Some(_), None) => format!("{source} reported that {alert} ended; it was never received before"),
        (None, _) if !is_late => return None,
        (None, Some(_)) => format!("no {alert} from {source} since {at}; {every}"),
        (None, None) => format!("no {alert} from {source} yet, expected since {at}; {every}"),
    };
    Some(SilentSource { source: source.clone(), since, detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(900);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn watchdog(seen: Option<i64>, ended: Option<i64>) -> Watchdog {
        let source = "main".to_owned();
        Watchdog { source, expected_at: at(0), seen_at: seen.map(at), ended_at: ended.map(at) }
    }

    fn detail(watchdog: &Watchdog, now: i64, receiving: Duration) -> Option<String> {
        silent_source(watchdog, &WatchdogConfig::default(), at(now), receiving).map(|silent| silent.detail)
    }

    #[test]
    fn silence_counts_only_while_this_process_could_hear() {
        let seen = watchdog(Some(100), None);
        assert_eq!(detail(&seen, 1_000, Duration::MAX), None, "exactly in time");
        assert_eq!(detail(&seen, 1_001, WITHIN), None, "it started, or its clock was set, 15 minutes ago");
        let told = detail(&seen, 1_001, Duration::from_secs(901)).unwrap();
        assert_eq!(told, "no Watchdog from main since 2027-01-15 08:01 UTC; one is expected at least every 15 min");
    }

    #[test]
    fn a_source_that_was_never_heard_is_silent_from_when_it_was_expected() {
        assert_eq!(detail(&watchdog(None, None), 900, Duration::MAX), None);
        let told = detail(&watchdog(None, None), 901, Duration::MAX).unwrap();
        assert!(told.starts_with("no Watchdog from main yet, expected since 2027-01-15 08:00 UTC"), "{told}");
    }

    #[test]
    fn an_end_that_is_told_is_silence_at_once_and_no_life() {
        let ended = watchdog(Some(100), Some(110));
        let told = detail(&ended, 111, Duration::ZERO).unwrap();
        assert!(told.starts_with("main reported that Watchdog ended"), "{told}");
        assert!(!heard(&ended, &WatchdogConfig::default(), at(111)));
        let told = detail(&watchdog(None, Some(110)), 111, Duration::ZERO).unwrap();
        assert_eq!(told, "main reported that Watchdog ended; it was never received before");
    }
}
