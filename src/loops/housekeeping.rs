//! Housekeeping: periodic maintenance of the store.
//!
//! Work that may be large is done in slices with a pause between them, so that webhooks are not blocked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::deliver::DELIVERY_LEASE;
use super::diagnose::RETRY;
use super::every;
use super::maintenance;
use super::weekly::schedule_weeklies;
use chat::LONGEST_FOLLOWUP;
use knowledge::clock;
use notify::{LAST_SEARCH_DELAY, REFUSED};
use service::Service;
use service::config::Config;
use service::watchdog;
use store::failpoint;
use store::{LongestWaits, REQUEST_RETENTION, StoreError};

/// Interval between two rounds.
const TICK: Duration = Duration::from_secs(5);
/// The pause between two slices; SQLite's longest pause before a waiting writer tries again is 100 ms.
const BETWEEN_SLICES: Duration = Duration::from_millis(150);
/// Time of one round that slices may use.
const SLICES_WITHIN: Duration = Duration::from_secs(4);
/// Time that a post waits for the incident message whose thread it belongs to.
const ORPHANED: Duration = Duration::from_secs(3 * 3_600);
/// Time since the last clock step that is required before anything is deleted because of its age.
const STEADY_TO_FORGET: Duration = Duration::from_secs(3_600);

/// Runs a round every [`TICK`] until stopped: updates the store's clock and the gauges, reschedules work
/// that a clock step moved, closes stale incidents, looks for silent Alertmanagers and for weeks that have
/// ended, and deletes old data.
pub(crate) async fn run(service: Arc<Service>, stop: CancellationToken) {
    every(TICK, &stop, || once(&service)).await;
}

/// Runs one round.
async fn once(service: &Service) {
    let (store, config) = (&service.store, &service.config);
    let now = match store.keep_time().await {
        Ok(now) => now,
        Err(error) => return warn!(%error, "cannot read the store's clock: housekeeping waits for the next round"),
    };
    measure_disk(service);
    match store.depths(now).await {
        Ok((open, diagnoses, deliveries)) => {
            service.metrics.open_incidents.set(open);
            service.metrics.diagnosis_queue.set(diagnoses);
            service.metrics.delivery_queue.set(deliveries);
        }
        Err(error) => warn!(%error, "cannot read the queues' depths"),
    }
    match store.refusals().await {
        Ok(refusals) => service.metrics.refused(refusals.iter().map(|r| (r.channel.as_str(), r.code.as_str()))),
        Err(error) => warn!(%error, "cannot read which channels do not take messages"),
    }
    match store.reschedule_far_future(&longest(config), now).await {
        Ok(0) => {}
        Ok(n) => warn!(count = n, "work was scheduled too far in the future by a clock that was ahead: it is due now"),
        Err(error) => warn!(%error, "cannot look for work that is due in the far future"),
    }
    failpoint("housekeeping");
    let steady = store.steady_until(Instant::now());
    if may_close(store.receiving_until(Instant::now()), config.incident.stale_after) {
        match store.resolve_stale(clock::before(now, config.incident.stale_after), now).await {
            Ok(0) => {}
            Ok(n) => info!(count = n, "closed incidents of which Alertmanager has said nothing for long"),
            Err(error) => warn!(%error, "cannot look for stale incidents"),
        }
    }
    match store.give_up_orphans(clock::before(now, ORPHANED)).await {
        Ok(0) => {}
        Ok(n) => warn!(count = n, "gave up posts for threads of incidents that have no message in Slack"),
        Err(error) => warn!(%error, "cannot look for posts without a thread"),
    }
    match service.notifier.end_escalations(now).await {
        Ok(0) => {}
        Ok(n) => info!(count = n, "wrote down how escalations ended"),
        Err(error) => warn!(%error, "cannot look for escalations that have ended"),
    }
    if let Some(remind) = config.slack.remind.filter(|_| service.notifier.slack.is_some()) {
        match store.remind(remind.after, remind.times, now).await {
            Ok(0) => {}
            Ok(n) => {
                info!(count = n, "reminded of critical incidents that nobody has acknowledged");
                service.deliveries.notify_one();
            }
            Err(error) => warn!(%error, "cannot look for critical incidents that nobody has acknowledged"),
        }
    }
    maintenance::check(service, now).await;
    watchdog::check(service, now).await;
    schedule_weeklies(service, now).await;
    let until = Instant::now() + SLICES_WITHIN;
    let before = clock::before(now, config.incident.keep);
    delete("rows of incidents that flap", until, || store.thin()).await;
    let is_steady = steady >= STEADY_TO_FORGET;
    // Too many go at any time, old ones by a clock that can be trusted.
    let requests = if is_steady { clock::before(now, REQUEST_RETENTION) } else { Timestamp::UNIX_EPOCH };
    delete("old ids of requests", until, || store.forget_requests(requests)).await;
    if is_steady {
        delete("old incidents", until, || store.forget(before)).await;
        delete("old lines of the audit log", until, || store.forget_audit(before)).await;
        delete("old summaries", until, || store.forget_weeklies(before)).await;
        delete("old maintenance windows", until, || store.forget_maintenance(before)).await;
    }
}

/// Sets the gauges of the disk with the state directory.
fn measure_disk(service: &Service) {
    let bytes = |blocks: u64, size: u64| i64::try_from(blocks.saturating_mul(size)).unwrap_or(i64::MAX);
    match rustix::fs::statvfs(&service.config.state_dir) {
        Ok(disk) => {
            service.metrics.state_disk_free.set(bytes(disk.f_bavail, disk.f_frsize));
            service.metrics.state_disk_size.set(bytes(disk.f_blocks, disk.f_frsize));
        }
        Err(error) => debug!(%error, "cannot measure the disk of the state directory"),
    }
}

/// Returns true if a missing notification means that Alertmanager no longer has the alert. `stale_after` is longer than
/// two `repeat_interval`s, so a process that ran for half of it has received a notification for everything that still
/// fires. Time in which this process did not run or its store failed, or that a clock step skipped, does not count.
fn may_close(receiving: Duration, stale_after: Duration) -> bool {
    receiving >= stale_after / 2
}

/// Returns the longest intended waiting time of each kind of work, plus one minute.
fn longest(config: &Config) -> LongestWaits {
    let minute = Duration::from_secs(60);
    let diagnosis = config.diagnose.refresh.max(config.diagnose.lease()).max(RETRY.longest);
    LongestWaits {
        diagnosis: diagnosis.saturating_add(minute),
        delivery: config.diagnose.grace.max(DELIVERY_LEASE).max(REFUSED.longest).saturating_add(minute),
        followup: LONGEST_FOLLOWUP.saturating_add(minute),
        duplicate_check: LAST_SEARCH_DELAY.saturating_add(minute),
    }
}

/// Deletes slice by slice until nothing is left or the time is used up; the next round continues.
async fn delete<F: Future<Output = Result<u64, StoreError>>>(named: &str, until: Instant, slice: impl Fn() -> F) {
    let mut deleted = 0;
    while Instant::now() < until {
        match slice().await {
            Ok(0) => break,
            Ok(n) => deleted += n,
            Err(error) => {
                warn!(%error, "cannot delete {named}");
                break;
            }
        }
        tokio::time::sleep(BETWEEN_SLICES).await;
    }
    if deleted > 0 {
        info!(count = deleted, "deleted {named}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{DuplicateCheck, Store};

    #[tokio::test]
    async fn the_last_look_of_a_day_is_no_mistake_of_a_clock_and_a_later_one_is() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("state.db")).await.unwrap();
        let (now, longest) = (store.now(), longest(&Config::default()));
        let check = |subject: &str| DuplicateCheck {
            subject: subject.to_owned(),
            channel: "C0LLMALERTS".to_owned(),
            thread: None,
            since: now,
            checks_done: 3,
        };
        store.schedule_duplicate_check(&check("last"), clock::after(now, LAST_SEARCH_DELAY)).await.unwrap();
        assert_eq!(store.reschedule_far_future(&longest, now).await.unwrap(), 0);
        store.schedule_duplicate_check(&check("mistaken"), clock::after(now, 2 * LAST_SEARCH_DELAY)).await.unwrap();
        assert_eq!(store.reschedule_far_future(&longest, now).await.unwrap(), 1);
    }

    #[test]
    fn silence_counts_only_while_somebody_listened() {
        let hours = |h: u64| Duration::from_secs(h * 3_600);
        assert!(!may_close(Duration::ZERO, hours(12)), "after a start, a suspended machine, or a clock that was set");
        assert!(!may_close(hours(5), hours(12)) && may_close(hours(6), hours(12)));
    }
}
