//! Escalations to a person end in the audit log, also where their delivery cannot say how.

use std::time::Duration;

use knowledge::clock;
use llm_diagnose_lab::slack::{Failure, State};
use message::{Message, Tone};
use render::slack;
use store::{AuditEntry, AuditResult, Escalated, EscalationCall, StoreError};

use super::bench::{Bench, CHANNEL};
use super::lost::{KEYS, appear, deliver, notified};
use crate::running::whole;

const CALL: &str = "please look at this";

fn ago(seconds: u64) -> jiff::Timestamp {
    clock::before(clock::now(), Duration::from_secs(seconds))
}

/// An incident for which somebody is to be called by a post that waits; its id.
async fn escalated() -> (Bench, String) {
    let bench = Bench::start(KEYS, &[], super::NOWHERE).await;
    let id = notified(&bench, "firing", 0).await;
    let attempt = AuditEntry::new_attempt("U0ANN", CHANNEL, "escalate", Some(&id), clock::now());
    let call = slack(&Message { tone: Tone::Critical, headline: CALL.to_owned(), parts: Vec::new() });
    let escalated = bench.store.escalate(&attempt, ago(300), EscalationCall::Post(&call), clock::now()).await;
    assert_eq!(escalated.unwrap(), Escalated::Queued);
    assert_eq!(bench.desk.service.notifier.end_escalations(clock::now()).await.unwrap(), 0, "it waits");
    (bench, id)
}

/// The escalation ends so, once.
async fn ends(bench: &Bench, so: &str) {
    assert_eq!(bench.desk.service.notifier.end_escalations(clock::now()).await.unwrap(), 1);
    assert_eq!(bench.audit().await, [format!("escalate U0ANN {so}")]);
    assert_eq!(bench.desk.service.notifier.end_escalations(clock::now()).await.unwrap(), 0);
}

fn stands(state: &State, part: &str) -> bool {
    state.messages(CHANNEL).any(|message| message.thread_ts.is_some() && whole(message).contains(part))
}

#[tokio::test]
async fn a_call_that_was_given_up_and_appears_later_was_made() {
    let (bench, id) = escalated().await;
    // The message first, then the call: its effect comes late, and Slack does not take it a second time.
    let message = bench.desk.service.notifier.take(clock::now(), 60_000, 1).await.unwrap().work.remove(0);
    bench.desk.service.notifier.deliver(message).await;
    bench.slack.fail_next("chat.postMessage", Failure::Late, 1);
    bench.slack.fail_next("chat.postMessage", Failure::Error("no_text".into()), 1);
    deliver(&bench, 5).await;
    assert_eq!(bench.audit().await, ["escalate U0ANN failed"]);
    assert!(bench.slack.with(|s| stands(s, "Nobody was called")));
    appear(&bench, |s| stands(s, CALL)).await;
    deliver(&bench, 25).await;
    ends(&bench, "done").await;
    assert_eq!(bench.store.notes(&id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_call_without_a_thread_fails() {
    let (bench, _) = escalated().await;
    let later = clock::after(clock::now(), Duration::from_secs(60));
    assert_eq!(bench.store.give_up_orphans(later).await.unwrap(), 1);
    ends(&bench, "failed").await;
}

#[tokio::test]
async fn an_end_that_cannot_be_said_stays_open_until_it_can() {
    let (bench, _) = escalated().await;
    let later = clock::after(clock::now(), Duration::from_secs(60));
    assert_eq!(bench.store.give_up_orphans(later).await.unwrap(), 1);
    let database = sqlx::sqlite::SqliteConnectOptions::new().filename(bench.state.path().join("llm-diagnose.db"));
    let mut beside = sqlx::ConnectOptions::connect(&database).await.unwrap();
    let full = "CREATE TRIGGER full BEFORE INSERT ON posts BEGIN SELECT RAISE(ABORT, 'no more'); END";
    sqlx::Executor::execute(&mut beside, full).await.unwrap();
    assert!(bench.desk.service.notifier.end_escalations(clock::now()).await.is_err());
    assert_eq!(bench.audit().await, ["escalate U0ANN begun"]);
    sqlx::Executor::execute(&mut beside, "DROP TRIGGER full").await.unwrap();
    ends(&bench, "failed").await;
}

#[tokio::test]
async fn of_two_who_find_out_at_once_one_says_it() {
    let (bench, id) = escalated().await;
    let why = StoreError::Unreadable { what: "incident", id: id.clone(), error: "no number".to_owned() };
    bench.store.set_incident_aside(&id, &why).await;
    let end = || bench.desk.service.notifier.end_escalations(clock::now());
    let told = tokio::join!(end(), end(), end());
    assert_eq!(told.0.unwrap() + told.1.unwrap() + told.2.unwrap(), 1);
    // A "failed" that came first is no news after "done".
    let line = bench.store.audited(ago(60), 1).await.unwrap().remove(0);
    let end = async |result| {
        let line = AuditEntry { result, ..line.clone() };
        bench.store.end_escalation(&line, None, clock::now()).await.unwrap()
    };
    assert!(end(AuditResult::Done).await);
    assert!(!end(AuditResult::Failed).await);
    assert_eq!(bench.audit().await, ["escalate U0ANN done"]);
}

#[tokio::test]
async fn a_call_for_an_incident_that_cannot_be_read_fails() {
    let (bench, id) = escalated().await;
    let why = StoreError::Unreadable { what: "incident", id: id.clone(), error: "no number".to_owned() };
    bench.store.set_incident_aside(&id, &why).await;
    ends(&bench, "failed").await;
}

#[tokio::test]
async fn an_escalation_that_lost_its_call_fails_and_the_next_press_calls() {
    let bench = Bench::start(super::ON_CALL, &[], super::NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", true).await;
    let attempt = |second| AuditEntry::new_attempt("U0ANN", CHANNEL, "escalate", Some(&id), ago(second));
    // A post at the place of the press may still be under way.
    bench.store.audit(&attempt(50)).await.unwrap();
    assert_eq!(bench.desk.service.notifier.end_escalations(clock::now()).await.unwrap(), 0);
    bench.change("DELETE FROM audit").await;
    bench.store.audit(&attempt(70)).await.unwrap();
    ends(&bench, "failed").await;
    bench.press("U0ANN", "escalate", &id).await;
    let calls = bench.said().into_iter().filter(|text| text.starts_with("<!subteam^S0ONCALL> ")).count();
    assert_eq!((calls, bench.audit().await.len()), (1, 2), "{:?}", bench.said());
}

#[tokio::test]
async fn an_escalation_whose_call_cannot_be_queued_leaves_no_line() {
    let bench = Bench::start(KEYS, &[], super::NOWHERE).await;
    let id = notified(&bench, "firing", 0).await;
    let call = slack(&Message { tone: Tone::Critical, headline: CALL.to_owned(), parts: Vec::new() });
    for (table, call) in [("posts", EscalationCall::Post(&call)), ("deliveries", EscalationCall::Pager("pagerduty"))] {
        bench.change(trigger(table)).await;
        let attempt = AuditEntry::new_attempt("U0ANN", CHANNEL, "escalate", Some(&id), clock::now());
        assert!(bench.store.escalate(&attempt, ago(300), call, clock::now()).await.is_err());
        assert_eq!(bench.audit().await, Vec::<String>::new(), "{table}");
    }
    bench.change("DROP TRIGGER full_deliveries").await;
    let attempt = AuditEntry::new_attempt("U0ANN", CHANNEL, "escalate", Some(&id), ago(70));
    let escalated = bench.store.escalate(&attempt, ago(300), EscalationCall::Pager("pagerduty"), clock::now()).await;
    assert_eq!(escalated.unwrap(), Escalated::Queued);
    assert_eq!(bench.desk.service.notifier.end_escalations(clock::now()).await.unwrap(), 0, "its pager is behind it");
}

/// A table that takes no row.
fn trigger(table: &str) -> &'static str {
    match table {
        "posts" => "CREATE TRIGGER full_posts BEFORE INSERT ON posts BEGIN SELECT RAISE(ABORT, 'no more'); END",
        _ => "CREATE TRIGGER full_deliveries BEFORE INSERT ON deliveries BEGIN SELECT RAISE(ABORT, 'no more'); END",
    }
}
