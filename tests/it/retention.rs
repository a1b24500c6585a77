//! What is old or too much is deleted, a little at a time.

use std::time::Duration;

use sqlx::{AnyPool, AssertSqlSafe};
use store::{AuditEntry, DigestEffects, INCIDENTS_AT_ONCE, KEPT_OF_EACH, ROWS_AT_ONCE, Storm};

use crate::admission::CALM;
use crate::stores::{Both, admit, at, take, there};

/// Runs one statement.
async fn run(database: &AnyPool, sql: &str) {
    sqlx::query(AssertSqlSafe(sql.to_owned())).execute(database).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

async fn count(database: &AnyPool, what: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(format!("SELECT COUNT(*) FROM {what}"))).fetch_one(database).await.unwrap()
}

/// Rows made from the numbers `i` below `n`.
async fn fill(database: &AnyPool, table: &str, values: &str, n: i64) {
    let numbers = format!("WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {n} - 1)");
    run(database, &format!("{numbers} INSERT INTO {table} SELECT {values} FROM n")).await;
}

/// So many incidents that were over long ago, a hundred of one digest each, with everything that belongs to them.
async fn fill_old(database: &AnyPool, n: i64) {
    let opened = at(-1_000_000).as_millisecond();
    let times = format!("{opened}, {opened}, {opened}, {opened} + i");
    for (table, values) in [
        (
            "incidents (id, group_key, state, reason, started_ms, opened_ms, notified_ms, resolved_ms)",
            format!("'old' || i, 'g' || i, 'resolved', 'resolved', {times}").as_str(),
        ),
        ("alerts (incident_id, fingerprint, starts_ns, status, alert)", "'old' || i, 'f', '1', 'resolved', '{}'"),
        ("events (incident_id, at_ms, what)", "'old' || i, 1, 'notified'"),
        ("posts (id, incident_id, kind, body, state, due_ms)", "'p' || i, 'old' || i, 'note', '', 'done', 1"),
        ("followups (id, incident_id, kind, data, due_ms)", "'f' || i, 'old' || i, 'verify', '', 1"),
        ("feedback (incident_id, who, at_ms, is_right, named)", "'old' || i, 'u', 1, 1, 'c'"),
        ("traits (incident_id, trait)", "'old' || i, 't'"),
        (
            "deliveries (incident_id, sink, channel, state, due_ms, digest_id)",
            "'old' || i, 'slack', '#a', 'digested', 1, 'd' || (i / 100)",
        ),
    ] {
        fill(database, table, values, n).await;
    }
    let digests = "digests (id, channel, topic, opened_ms, joined_ms, due_ms)";
    fill(database, digests, "'d' || i, '#a', 't', 1, 1, 1", n / 100).await;
}

#[tokio::test]
async fn old_incidents_are_deleted_in_slices_between_which_webhooks_are_stored() {
    const OLD: i64 = 20_000;
    const SLICE: u64 = INCIDENTS_AT_ONCE as u64;
    let both = Both::start();
    let stores = both.stores("old").await;
    for (store, database) in stores.iter().zip(both.databases("old").await) {
        fill_old(&database, OLD).await;
        assert_eq!(store.forget(at(-500_000)).await.unwrap(), SLICE);
        let left = OLD - INCIDENTS_AT_ONCE;
        for table in ["incidents", "alerts", "events", "posts", "followups", "feedback", "traits", "deliveries"] {
            assert_eq!(count(&database, table).await, left, "{table}: one slice takes so many");
        }
        assert_eq!(count(&database, "incidents WHERE id = 'old49'").await, 0, "the oldest go first");
        assert_eq!(count(&database, "digests").await, OLD / 100, "a digest stays while it has incidents");
        // Somebody who writes gets in between.
        let (id, _) = admit(store, "New", "firing", &CALM, 0).await;
        assert_eq!(store.forget(at(-500_000)).await.unwrap(), SLICE);
        assert_eq!(count(&database, "digests").await, OLD / 100 - 1);
        run(&database, "DELETE FROM incidents WHERE id LIKE 'old%' AND id NOT IN ('old100', 'old101')").await;
        assert_eq!(store.forget(at(-500_000)).await.unwrap(), 2);
        assert_eq!(store.forget(at(-500_000)).await.unwrap(), 0);
        assert!(store.incident(&id).await.unwrap().is_some());
        assert_eq!(count(&database, "events WHERE incident_id IN ('old100', 'old101')").await, 0);
    }
}

#[tokio::test]
async fn the_audit_log_is_deleted_in_slices() {
    let both = Both::start();
    let stores = both.stores("audit").await;
    for (store, database) in stores.iter().zip(both.databases("audit").await) {
        let lines = "'a' || i, i, 'u', 'p', 'w', 'done'";
        fill(&database, "audit (id, at_ms, who, place, what, result)", lines, ROWS_AT_ONCE + 10).await;
        store.audit(&AuditEntry::new_attempt("u", "p", "w", None, at(0))).await.unwrap();
        assert_eq!(store.forget_audit(at(-1)).await.unwrap(), ROWS_AT_ONCE as u64);
        assert_eq!(count(&database, &format!("audit WHERE at_ms < {ROWS_AT_ONCE}")).await, 0, "the oldest go first");
        assert_eq!(store.forget_audit(at(-1)).await.unwrap(), 10);
        assert_eq!((store.forget_audit(at(-1)).await.unwrap(), count(&database, "audit").await), (0, 1));
    }
}

#[tokio::test]
async fn an_incident_that_flaps_for_ever_keeps_the_first_and_the_newest() {
    const MANY: i64 = ROWS_AT_ONCE + 2 * KEPT_OF_EACH;
    let both = Both::start();
    let stores = both.stores("flaps").await;
    for (store, database) in stores.iter().zip(both.databases("flaps").await) {
        let (id, _) = admit(store, "A", "firing", &CALM, 0).await;
        assert_eq!(store.thin().await.unwrap(), 0, "what is normal is left alone");
        let begin = at(1).as_millisecond();
        let events = "events (incident_id, at_ms, what)";
        fill(&database, events, &format!("'{id}', {begin} + i, 'notified'"), MANY).await;
        run(&database, &format!("INSERT INTO {events} VALUES ('{id}', {begin}, 'message gone')")).await;
        let alert: String = sqlx::query_scalar("SELECT alert FROM alerts LIMIT 1").fetch_one(&database).await.unwrap();
        let ended = format!("'{id}', 'f', CAST(1000000000000000000 + i AS TEXT), 'resolved', '{alert}'");
        fill(&database, "alerts (incident_id, fingerprint, starts_ns, status, alert)", &ended, 2 * KEPT_OF_EACH).await;
        let posts = format!("'p' || (10000 + i), '{id}', 'note', '', 'done', 1");
        fill(&database, "posts (id, incident_id, kind, body, state, due_ms)", &posts, 2 * KEPT_OF_EACH).await;
        store.queue_change(&id, "#llm-alerts", at(1)).await.unwrap();

        let mut slices = Vec::new();
        while let rows @ 1.. = store.thin().await.unwrap() {
            slices.push(rows);
        }
        assert_eq!(slices.len(), 2, "the events need two slices: {slices:?}");
        assert!(slices.iter().all(|rows| *rows <= MANY as u64), "{slices:?}");
        assert_eq!(count(&database, "events WHERE what <> 'message gone'").await, KEPT_OF_EACH + 1);
        assert_eq!(count(&database, "events WHERE what = 'message gone'").await, 1, "it decides about the next one");
        assert_eq!(count(&database, &format!("events WHERE at_ms = {begin} + {MANY} - 1")).await, 1, "the newest");
        assert_eq!(count(&database, "alerts WHERE status = 'resolved'").await, KEPT_OF_EACH + 1);
        assert_eq!(count(&database, "alerts WHERE status = 'firing'").await, 2, "what fires is kept");
        assert_eq!(count(&database, "alerts WHERE starts_ns = '1000000000000000000'").await, 1, "the first");
        assert_eq!(count(&database, "posts WHERE state = 'done'").await, KEPT_OF_EACH + 1);
        assert_eq!(count(&database, "posts WHERE state = 'pending'").await, 1, "what was not posted yet is kept");
        assert_eq!(store.incident(&id).await.unwrap().unwrap().alerts.len() as i64, KEPT_OF_EACH + 3);
    }
}

#[tokio::test]
async fn a_digest_that_somebody_deletes_is_posted_anew_so_often_and_once_more_when_it_is_over() {
    let both = Both::start();
    let storm = Storm { incidents: 1, within: Duration::from_secs(60), queue: u32::MAX, topic: "t".to_owned() };
    for store in both.stores("digests").await {
        admit(&store, "A", "firing", &storm, 0).await;
        let (id, _) = admit(&store, "B", "firing", &storm, 1).await;
        let (_, mut digests, _) = take(&store, 2).await;
        let digest = digests.remove(0);
        for again in 0..4 {
            let told = store.digest_incidents(&digest.id, |incident| incident).await.unwrap().revisions;
            store
                .digest_delivered(&digest, &there(&format!("9.{again}")), told, &DigestEffects::default(), at(3))
                .await
                .unwrap();
            assert_eq!(store.forget_digest_message(&digest, 2, at(3)).await.unwrap(), again < 2, "{again}");
        }
        admit(&store, "B", "resolved", &storm, 4).await;
        assert_eq!(store.incident(&id).await.unwrap().map(|incident| incident.open), Some(false));
        assert!(store.forget_digest_message(&digest, 2, at(5)).await.unwrap(), "its last word");
        assert!(!store.forget_digest_message(&digest, 2, at(6)).await.unwrap());
    }
}
