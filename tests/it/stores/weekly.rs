//! Weekly summaries on both databases: each is due once, and tells what the channel's week was.

use findings::Diagnosis;
use jiff::Timestamp;
use knowledge::alert::Labels;
use knowledge::incident::{Act, CauseHistory, PoolCause};
use knowledge::playbook;
use notify::weekly::{schedule, summary};
use sqlx::AssertSqlSafe;
use store::{
    AuditEntry, AuditResult, LongestWaits, PendingWork, PostponeReason, Store, SummaryPeriod, SummaryPost,
    ValidMessages, WeeklyEnd,
};

use super::{Both, LEASE_MS, admit, at, deliver, take, there};
use crate::admission::CALM;
use crate::harness::fixture;
use crate::running::CHANNEL;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

fn diagnosis() -> Diagnosis {
    let mut diagnosis: Diagnosis = serde_json::from_str(&fixture("diagnoses/bad-replica.high-itl.json")).unwrap();
    diagnosis.causes[0].fallback = false;
    diagnosis
}

/// The week that ended that many weeks after the first.
fn week(n: i64) -> [Timestamp; 2] {
    [at((n - 1) * WEEK), at(n * WEEK)]
}

/// Writes what is due that many seconds after the end of the week; the number of what is.
async fn due(store: &Store, [since, until]: [Timestamp; 2], seconds: i64) -> u64 {
    let now = at((until.as_second() - at(0).as_second()) + seconds);
    schedule(store, SummaryPeriod::Week, [CHANNEL].into_iter(), [since, until], now).await.unwrap()
}

/// The summaries that wait at that second.
async fn waiting(store: &Store, seconds: i64) -> Vec<SummaryPost> {
    let waiting = store.waiting(at(seconds), 50).await.unwrap();
    let weekly = |work| if let PendingWork::SummaryPost(weekly) = work { Some(weekly) } else { None };
    waiting.into_iter().filter_map(|item| weekly(item.work)).collect()
}

/// Takes the summary that waits at that second.
async fn taken(store: &Store, seconds: i64) -> Option<SummaryPost> {
    for item in store.waiting(at(seconds), 50).await.unwrap() {
        let taken = store.take(&item, at(seconds), LEASE_MS).await.unwrap();
        if let (PendingWork::SummaryPost(weekly), true) = (item.work, taken) {
            return Some(weekly);
        }
    }
    None
}

#[tokio::test]
async fn a_summary_is_due_once_for_all_replicas_and_never_for_a_time_before_the_first_start() {
    let both = Both::start();
    let stores = both.stores("due").await;
    for (store, other) in stores.iter().zip(both.again("due").await) {
        let other = &other.unwrap();
        assert_eq!(due(store, week(0), 10).await, 0, "nobody waited for it");
        assert_eq!(due(store, week(1), 10).await + due(other, week(1), 10).await, 1);
        assert_eq!(due(store, week(1), HOUR).await, 0);
        assert_eq!(waiting(store, WEEK + HOUR).await.len(), 1);
        // The service was down: posted late, up to a day.
        assert_eq!(due(store, week(2), 23 * HOUR).await, 1);
        assert_eq!(due(store, week(3), 25 * HOUR).await, 0);
        assert_eq!(due(store, week(3), 10).await, 0, "a clock that was set back posts nothing either");
        // Another day or time zone: the next week ends a few hours after the last one.
        let [since, until] = week(3);
        let hours = |at: Timestamp, n: i64| Timestamp::from_second(at.as_second() + n * HOUR).unwrap();
        assert_eq!(due(store, [hours(since, 9), hours(until, 9)], 10).await, 0);
        assert_eq!(due(store, week(2), 10).await, 0);
        assert_eq!(due(store, [hours(since, 48), hours(until, 48)], 10).await, 1);
        // A forgotten channel's rows go, but for the newest.
        while store.forget_weeklies(at(100 * WEEK)).await.unwrap() > 0 {}
        assert_eq!(
            store.newest_weeklies(SummaryPeriod::Week).await.unwrap(),
            [(CHANNEL.to_owned(), hours(until, 48))].into()
        );
    }
}

#[tokio::test]
async fn a_summary_is_taken_by_one_until_it_is_posted_and_its_lease_ends_with_its_owner() {
    let both = Both::start();
    let stores = both.stores("taken").await;
    for (store, other) in stores.iter().zip(both.again("taken").await) {
        let other = &other.unwrap();
        due(store, week(0), 10).await;
        due(store, week(1), 10).await;
        let now = WEEK + 20;
        let item = store.waiting(at(now), 9).await.unwrap().remove(0);
        assert!(store.take(&item, at(now), LEASE_MS).await.unwrap());
        assert!(!other.take(&item, at(now), LEASE_MS).await.unwrap());
        assert_eq!(taken(other, now + 50).await, None);
        // It died: the message may exist, so that it is searched for.
        let again = taken(other, now + 70).await.unwrap();
        assert_eq!(again.began, Some(at(now)));
        other
            .postpone(&PendingWork::SummaryPost(again.clone()), at(now + 100), PostponeReason::Failed, "no answer")
            .await
            .unwrap();
        assert_eq!(store.next_due(at(now + 80)).await.unwrap().1, Some(at(now + 100).as_millisecond()));
        let hour = std::time::Duration::from_secs(3_600);
        let longest = LongestWaits { diagnosis: hour, delivery: hour, followup: hour, duplicate_check: hour };
        assert_eq!(store.reschedule_far_future(&longest, at(now - 2 * HOUR)).await.unwrap(), 1);
        let again = taken(store, now + 110).await.unwrap();
        assert_eq!((again.tries, store.valid_messages(&again.id).await.unwrap()), (1, ValidMessages::No));
        assert!(store.weekly_posted(&again.id, CHANNEL, &there("1.5"), at(now + 111)).await.unwrap());
        assert!(!other.weekly_posted(&again.id, CHANNEL, &there("1.6"), at(now + 111)).await.unwrap());
        assert_eq!(store.valid_messages(&again.id).await.unwrap(), ValidMessages::At(vec!["1.5".to_owned()]));
        assert_eq!(taken(store, now + 10_000).await, None);
        // What a start makes due again is not what is posted, skipped or given up.
        store.release(at(now + 10_000)).await.unwrap();
        assert_eq!(waiting(store, now + 10_000).await, []);
        due(store, week(2), 10).await;
        let given_up = taken(store, 2 * WEEK + 20).await.unwrap();
        store.weekly_ended(&given_up, WeeklyEnd::Failed, "refused").await.unwrap();
        assert_eq!(waiting(store, 3 * WEEK).await, []);
    }
}

#[tokio::test]
async fn a_channel_that_takes_messages_again_makes_its_summary_due() {
    let both = Both::start();
    for store in both.stores("refused").await {
        due(&store, week(0), 10).await;
        due(&store, week(1), 10).await;
        let weekly = taken(&store, WEEK + 20).await.unwrap();
        store.refused(CHANNEL, "not_in_channel", at(WEEK + 21)).await.unwrap();
        store
            .postpone(&PendingWork::SummaryPost(weekly.clone()), at(WEEK + 300), PostponeReason::Failed, "refused")
            .await
            .unwrap();
        assert!(store.accepted(CHANNEL, at(WEEK + 30)).await.unwrap());
        assert_eq!(waiting(&store, WEEK + 31).await.len(), 1);
    }
}

async fn note(store: &Store, id: &str, act: Act, detail: &str, seconds: i64) {
    let attempt = AuditEntry::new_attempt("U1", "C1", act.as_str(), Some(id), at(seconds));
    store.audit(&AuditEntry { result: AuditResult::Done, detail: detail.to_owned(), ..attempt }).await.unwrap();
}

/// An incident that opens at that second, is told three seconds later, and has this diagnosis.
async fn opened(store: &Store, name: &str, diagnosis: &Diagnosis, seconds: i64) -> String {
    let (id, _) = admit(store, name, "firing", &CALM, seconds).await;
    for message in take(store, seconds).await.0 {
        let first = format!("{}.000100", at(seconds).as_second() + 3);
        let ts = message.posted.as_ref().map_or(first.as_str(), |(_, ts)| ts.as_str());
        deliver(store, &message, ts, seconds + 3).await;
    }
    let incident = store.incident(&id).await.unwrap().unwrap();
    store.save_diagnosis(&incident, Some(diagnosis), false, None, at(seconds + 1)).await.unwrap();
    id
}

#[tokio::test]
async fn a_week_is_told_with_its_times_and_the_causes_that_return() {
    let both = Both::start();
    let library = playbook::load(None).unwrap();
    for (store, database) in both.stores("week").await.iter().zip(both.databases("week").await) {
        let run = async |sql: String| sqlx::query(AssertSqlSafe(sql)).execute(&database).await.unwrap();
        let before = opened(store, "Before", &diagnosis(), -DAY).await;
        note(store, &before, Act::Done, "Restart it", -DAY + 60).await;
        note(store, &before, Act::Verify, "Fixed: it is 2", -DAY + 90).await;
        admit(store, "Before", "resolved", &CALM, -DAY + 600).await;
        let first = opened(store, "First", &diagnosis(), DAY).await;
        note(store, &first, Act::Acknowledge, "", DAY + 60).await;
        note(store, &first, Act::Acknowledge, "", DAY + 900).await;
        admit(store, "First", "resolved", &CALM, DAY + 1_200).await;
        // It names no cause, and says what is missing.
        let mut blind = diagnosis();
        blind.causes.clear();
        let second = opened(store, "Second", &blind, 2 * DAY).await;
        // What another channel shows, what this one shows instead of another, what took another one's place, a self test.
        for name in ["Elsewhere", "Instead", "Replaced", "Selftest"] {
            let id = opened(store, name, &diagnosis(), 3 * DAY).await;
            run(match name {
                "Elsewhere" => format!("UPDATE deliveries SET channel = '#other' WHERE incident_id = '{id}'"),
                "Instead" => format!("UPDATE deliveries SET stands_in_for = '#other' WHERE incident_id = '{id}'"),
                "Replaced" => {
                    format!("UPDATE incidents SET reason = 'readable_again', state = 'resolved' WHERE id = '{id}'")
                }
                _ => format!("UPDATE incidents SET group_key = 'llm-diagnose: self test 1' WHERE id = '{id}'"),
            })
            .await;
        }
        opened(store, "After", &diagnosis(), WEEK).await;

        let [since, until] = week(1);
        let told =
            summary(store, &library, &SummaryPost::new(SummaryPeriod::Week, CHANNEL, [since, until])).await.unwrap();
        assert_eq!((told.incidents, told.before, told.open, told.critical), (2, 1, 1, 2));
        let first_message = told.first_message.unwrap();
        assert_eq!((first_message.incidents, first_message.median_seconds, first_message.longest_seconds), (2, 3, 3));
        let taken = told.acknowledged.unwrap();
        assert_eq!((taken.incidents, taken.longest_seconds, &taken.longest), (1, 60, &first), "the first one counts");
        assert_eq!(told.resolved.unwrap().incidents, 1);
        assert_eq!(told.still_open[0].incident, second);
        assert_eq!(told.unexplained.unwrap().newest, second);
        assert!(!told.blind.is_empty(), "its diagnosis names what could not be checked");
        let [cause] = &told.causes[..] else { panic!("{:?}", told.causes) };
        assert_eq!((&cause.title, &cause.count.newest, cause.before), (&diagnosis().causes[0].title, &first, 1));
        assert_eq!((cause.last_before, cause.returns()), (Some(at(-DAY)), true));
        assert_eq!((cause.done.as_deref(), cause.verified.as_deref()), (Some("Restart it"), Some("Fixed: it is 2")));

        // An earlier version wrote no traits: the diagnosis tells the cause.
        run("DELETE FROM traits".to_owned()).await;
        let told =
            summary(store, &library, &SummaryPost::new(SummaryPeriod::Week, CHANNEL, [since, until])).await.unwrap();
        assert_eq!((told.causes.len(), told.causes[0].before), (1, 0));
        // A row that cannot be read is left out.
        if store.named().starts_with("SQLite") {
            run(format!("UPDATE incidents SET started_ms = 'x' WHERE id = '{first}'")).await;
            let told = summary(store, &library, &SummaryPost::new(SummaryPeriod::Week, CHANNEL, [since, until]))
                .await
                .unwrap();
            assert_eq!((told.incidents, told.read), (2, 1));
        }
    }
}

#[tokio::test]
async fn of_a_week_with_twenty_thousand_incidents_the_newest_are_read() {
    let both = Both::start();
    for (store, database) in both.stores("many").await.iter().zip(both.databases("many").await) {
        let numbers = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19999)";
        let opened = at(0).as_millisecond();
        let trait_text = r#"["cause","",[{"namespace":"p"},"c"]]"#;
        for (table, values) in [
            (
                "incidents (id, group_key, state, reason, started_ms, opened_ms, notified_ms, resolved_ms)",
                format!(
                    "'i' || i, 'g' || i, 'resolved', 'resolved', {opened} + i, {opened} + i, {opened}, {opened} + 60000"
                ),
            ),
            (
                "deliveries (incident_id, sink, channel, state, due_ms, posted_to, posted_ts)",
                format!("'i' || i, 'slack', '{CHANNEL}', 'delivered', 1, 'C1', '{}.1'", at(30).as_second()),
            ),
            ("traits (incident_id, trait)", format!("'i' || i, '{trait_text}'")),
        ] {
            let sql = format!("{numbers} INSERT INTO {table} SELECT {values} FROM n");
            sqlx::query(AssertSqlSafe(sql)).execute(&database).await.unwrap();
        }
        let [since, until] = week(1);
        let week = store.week(&SummaryPost::new(SummaryPeriod::Week, CHANNEL, [since, until])).await.unwrap();
        assert_eq!((week.count, week.incidents.len()), (20_000, 2_000));
        assert_eq!(week.incidents[0].id, "i19999");
        let cause = PoolCause {
            source: String::new(),
            pool: Labels::from([("namespace".to_owned(), "p".to_owned())]),
            id: "c".to_owned(),
        };
        assert_eq!(week.incidents[0].cause.as_ref(), Some(&cause));
        let history = store.cause_history(&cause, &[], until).await.unwrap();
        assert_eq!(
            history,
            CauseHistory { before: 1_000, last_before: history.last_before, ..CauseHistory::default() }
        );
    }
}
