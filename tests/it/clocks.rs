//! Clocks that are set, machines that are suspended, and replicas whose clocks disagree.

use std::time::{Duration, Instant};

use jiff::SignedDuration;
use knowledge::alert::AlertGroup;
use knowledge::clock;
use knowledge::incident::{AdmissionRules, AdmitReason};
use store::{AdmissionPlan, LongestWaits, PendingWork, PostponeReason, Sink, Store};

use crate::admission::CALM;
use crate::running::{CHANNEL, group};
use crate::stores::{Both, LEASE_MS};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const RULES: AdmissionRules =
    AdmissionRules { duplicate_within: Duration::from_secs(60), reopen_within: Duration::from_secs(600) };
const LONGEST: LongestWaits = LongestWaits {
    diagnosis: Duration::from_secs(180),
    delivery: Duration::from_secs(120),
    followup: Duration::from_secs(960),
    duplicate_check: Duration::from_secs(86_460),
};

async fn admit(store: &Store, name: &str, status: &str) -> (String, AdmitReason) {
    let body = serde_json::to_vec(&group(name, status, "critical", &["a"])).unwrap();
    let wanted = AdmissionPlan {
        selection: Some(("high-ttft".to_owned(), "its name".to_owned())),
        sinks: vec![(Sink::Slack, CHANNEL.to_owned())],
        filtered: Vec::new(),
        grace: Duration::ZERO,
        storm: CALM,
    };
    let groups = [(AlertGroup::from_webhook(&body).unwrap(), wanted)];
    let admitted = store.admit(&groups, store.now(), &RULES).await.unwrap().remove(0).unwrap();
    (admitted.incident, admitted.reason)
}

/// How much is due in so many seconds by the store's clock.
async fn due_in(store: &Store, seconds: i64) -> usize {
    store.waiting(store.now() + SignedDuration::from_secs(seconds), 9).await.unwrap().len()
}

/// The clock is set by `step`.
async fn set(store: &Store, step: SignedDuration) {
    store.follow(store.now() + step, Instant::now()).await.unwrap();
}

async fn sqlite() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("x.db")).await.unwrap();
    (directory, store)
}

#[tokio::test]
async fn a_clock_that_is_set_forward_ends_no_lease() {
    let (_directory, store) = sqlite().await;
    admit(&store, "A", "firing").await;
    for waiting in store.waiting(store.now(), 9).await.unwrap() {
        assert!(store.take(&waiting, store.now(), LEASE_MS).await.unwrap());
    }
    assert_eq!(store.take_diagnoses(store.now(), LEASE_MS, 9).await.unwrap().len(), 1);
    set(&store, HOUR).await;
    assert_eq!(due_in(&store, 0).await, 0, "somebody is posting it");
    assert_eq!(store.take_diagnoses(store.now(), LEASE_MS, 9).await.unwrap(), []);
    assert_eq!(due_in(&store, 61).await, 1);
}

#[tokio::test]
async fn time_that_a_clock_skips_or_a_machine_sleeps_is_not_listened_to() {
    let (_directory, store) = sqlite().await;
    let opened = Instant::now();
    let later = opened + Duration::from_secs(7 * 3_600);
    // Seven hours pass evenly: silence now means something (the rule itself is in src/loops/housekeeping.rs).
    store.follow(store.now() + HOUR * 7, later).await.unwrap();
    let listened = store.steady_until(later);
    assert!(listened >= Duration::from_secs(7 * 3_600 - 60), "{listened:?}");
    // Then the clock jumps by a day, as it does when it is set and when a machine wakes up.
    store.follow(store.now() + HOUR * 24, later).await.unwrap();
    assert_eq!(store.steady_until(later), Duration::ZERO);
}

#[tokio::test]
async fn a_clock_that_is_set_back_delays_nothing() {
    let (_directory, store) = sqlite().await;
    admit(&store, "A", "firing").await;
    let waiting = store.waiting(store.now(), 9).await.unwrap();
    assert!(store.take(&waiting[0], store.now(), LEASE_MS).await.unwrap());
    let PendingWork::Message(delivery) = &waiting[0].work else { panic!("{waiting:?}") };
    let soon = store.now() + SignedDuration::from_secs(30);
    store
        .postpone(&PendingWork::Message(delivery.clone()), soon, PostponeReason::Failed, "Slack was busy")
        .await
        .unwrap();
    set(&store, -HOUR).await;
    assert_eq!((due_in(&store, 0).await, due_in(&store, 31).await), (0, 1));
    assert_eq!(store.take_diagnoses(store.now(), LEASE_MS, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_was_resolved_before_the_clock_was_set_back_is_not_reopened_for_an_hour() {
    let (_directory, store) = sqlite().await;
    let (first, _) = admit(&store, "A", "firing").await;
    admit(&store, "A", "resolved").await;
    set(&store, -HOUR).await;
    let incident = store.incident(&first).await.unwrap().unwrap();
    let now = store.now();
    assert!(incident.resolved_at.is_some_and(|at| at <= now) && incident.opened_at <= now, "{incident:?}");
    // Eleven minutes later it fires again; within ten it would be the same incident.
    set(&store, SignedDuration::from_mins(11)).await;
    assert_eq!(admit(&store, "A", "firing").await.1, AdmitReason::First);
}

#[tokio::test]
async fn what_an_earlier_start_planned_by_a_wrong_clock_is_due_now() {
    let both = Both::start();
    let stores = both.stores("late").await;
    for (store, database) in stores.iter().zip(both.databases("late").await) {
        admit(store, "A", "firing").await;
        let far = (store.now() + HOUR * 24).as_millisecond();
        for table in ["UPDATE deliveries SET due_ms = $1, tries = 3", "UPDATE incidents SET diagnose_due_ms = $1"] {
            sqlx::query(table).bind(far).execute(&database).await.unwrap();
        }
        assert_eq!(due_in(store, 3_600).await, 0);
        assert_eq!(store.reschedule_far_future(&LONGEST, store.now()).await.unwrap(), 2);
        assert_eq!(due_in(store, 0).await, 1);
        assert_eq!(store.take_diagnoses(store.now(), LEASE_MS, 9).await.unwrap().len(), 1);
        assert_eq!(store.reschedule_far_future(&LONGEST, store.now()).await.unwrap(), 0, "a lease is no mistake");
    }
}

#[tokio::test]
async fn replicas_whose_machines_disagree_keep_the_databases_time() {
    let both = Both::start();
    let url = both.postgres.database("skewed").unwrap();
    // A database whose clock is ten minutes ahead of this machine's.
    for sql in [
        "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
         'SELECT pg_catalog.clock_timestamp() + interval ''10 minutes'''",
        "ALTER DATABASE skewed SET search_path = public, pg_catalog",
    ] {
        both.postgres.query("skewed", sql).unwrap();
    }
    let (one, other) = (Store::connect(&url).await.unwrap(), Store::connect(&url).await.unwrap());
    let ahead = |store: &Store| store.now().duration_since(clock::now()).as_secs();
    assert!((590..=610).contains(&ahead(&one)), "{}", ahead(&one));
    admit(&one, "A", "firing").await;
    // The other's machine is an hour ahead; it asks the database before it takes anything.
    other.follow(clock::now() + HOUR, Instant::now()).await.unwrap();
    let waiting = one.waiting(one.now(), 9).await.unwrap();
    assert!(one.take(&waiting[0], one.keep_time().await.unwrap(), LEASE_MS).await.unwrap());
    let now = other.keep_time().await.unwrap();
    assert!((590..=610).contains(&ahead(&other)), "{}", ahead(&other));
    assert!(!other.take(&waiting[0], now, LEASE_MS).await.unwrap(), "the first one's lease holds");
}

#[tokio::test]
async fn what_a_clock_that_was_ahead_heard_or_expected_of_an_alertmanager_is_not_in_the_future() {
    let expected = ["main", "eu"].map(str::to_owned);
    let both = Both::start();
    for store in both.stores("ahead").await {
        store.expect_watchdogs(&expected, store.now()).await.unwrap();
        store.record_watchdog("eu", true, store.now()).await.unwrap();
        set(&store, -HOUR).await;
        store.expect_watchdogs(&expected, store.now()).await.unwrap();
        let watchdogs = store.watchdogs().await.unwrap();
        assert_eq!(watchdogs.len(), 2);
        for watchdog in watchdogs {
            assert!(watchdog.expected_at.max(watchdog.seen_at.unwrap_or_default()) <= store.now(), "{watchdog:?}");
        }
    }
}

#[tokio::test]
async fn an_alertmanager_that_is_expected_again_is_expected_from_then_on() {
    let main = ["main".to_owned()];
    let both = Both::start();
    for store in both.stores("again").await {
        let (first, again) = (store.now(), store.now() + HOUR * 24 * 7);
        store.expect_watchdogs(&main, first).await.unwrap();
        store.record_watchdog("main", true, first).await.unwrap();
        store.expect_watchdogs(&main, again).await.unwrap();
        assert!(store.watchdogs().await.unwrap()[0].seen_at.is_some(), "it is expected as before");
        store.expect_watchdogs(&[], again).await.unwrap();
        assert_eq!(store.watchdogs().await.unwrap(), []);
        store.expect_watchdogs(&main, again).await.unwrap();
        let watchdogs = store.watchdogs().await.unwrap();
        assert_eq!((watchdogs[0].seen_at, watchdogs[0].expected_at.as_second()), (None, again.as_second()));
    }
}

#[tokio::test]
async fn a_store_that_is_opened_again_continues_the_time_without_a_clock_step() {
    let (directory, store) = sqlite().await;
    let opened = store.clock();
    store.close().await;
    let again = Store::open(&directory.path().join("x.db")).await.unwrap();
    let later = Instant::now() + Duration::from_secs(60);
    assert!(again.steady_until(later) < store.steady_until(later));
    again.continue_clock(opened);
    assert_eq!(again.steady_until(later), store.steady_until(later));
    // A clock that was set meanwhile is found as without a reload.
    again.follow(clock::now() + HOUR, Instant::now()).await.unwrap();
    assert!(again.steady_until(later) < store.steady_until(later));
}
