//! Slack's answer is lost, and its effect is not: there is one message all the same, and it turns green.

use std::time::Duration;

use llm_diagnose_lab::slack::{Failure, Message, Options, State};
use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Executor};
use store::STORE_FILE;

use crate::running::{CHANNEL, Running, SOON, group, whole};

const NOWHERE: &str = "prometheus: [{ url: \"http://127.0.0.1:1\" }]";
/// Rates that let a test end soon.
const FAST: &str = ", posts_per_second: 200, posts_burst: 200, updates_per_minute: 60000, storm: { incidents: 0 }";
/// The first look for what came late, and some more.
const LATE: Duration = Duration::from_secs(60);

fn named(i: usize, status: &str, pods: &[&str]) -> Value {
    group(&format!("LLMHighTTFT{i}"), status, "warning", pods)
}

fn tops(state: &State) -> Vec<&Message> {
    state.messages(CHANNEL).filter(|message| message.thread_ts.is_none()).collect()
}

fn replies(state: &State) -> Vec<&Message> {
    state.messages(CHANNEL).filter(|message| message.thread_ts.is_some()).collect()
}

async fn until(run: &Running, within: Duration, met: impl FnMut(&State) -> bool) {
    let seen = run.slack.wait_for(met, within).await;
    seen.unwrap_or_else(|error| panic!("{error}\n{}", run.service.stderr()));
}

/// Every incident is over, and so is everything that is shown of it.
async fn resolved(run: &Running, incidents: usize) {
    for i in 0..incidents {
        run.send(&named(i, "resolved", &["a"])).await;
    }
    let green = |m: &&&Message| whole(m).contains("RESOLVED");
    until(run, LATE, |s| tops(s).iter().filter(green).count() == incidents).await;
    let left = run.slack.with(|s| tops(s).len());
    assert_eq!(left, incidents, "each incident has one message: {}", run.service.stderr());
}

#[tokio::test]
async fn forty_resets_after_slacks_effect_leave_one_message_for_each_of_forty_incidents() {
    const INCIDENTS: usize = 40;
    let run = Running::start_slack(Options::unlimited(), FAST, NOWHERE).await;
    run.slack.fail_next("chat.postMessage", Failure::Reset, INCIDENTS);
    for i in 0..INCIDENTS {
        run.send(&named(i, "firing", &["a"])).await;
    }
    resolved(&run, INCIDENTS).await;
    let found = format!("llm_diagnose_deliveries_total{{sink=\"look\",result=\"found\"}} {INCIDENTS}");
    let all_found = async { while !run.get("/metrics").await.1.contains(&found) {} };
    tokio::time::timeout(LATE, all_found).await.unwrap_or_else(|_| panic!("{}", run.service.stderr()));
    assert_eq!(run.slack.with(|s| tops(s).len()), INCIDENTS, "{}", run.service.stderr());
    let looks = run.slack.calls().iter().filter(|call| call.method == "conversations.history").count();
    assert!(looks <= INCIDENTS, "looks of one moment share their answer: {looks}");
}

#[tokio::test]
async fn without_the_scope_a_message_may_stand_twice_and_is_never_missing() {
    let run = Running::start_slack(Options::unlimited(), FAST, NOWHERE).await;
    run.slack.configure(|options| options.scopes.retain(|scope| scope != "channels:history"));
    run.slack.fail_next("chat.postMessage", Failure::Reset, 1);
    run.send(&named(0, "firing", &["a"])).await;
    until(&run, SOON, |s| tops(s).len() == 2).await;
    run.send(&named(0, "resolved", &["a"])).await;
    until(&run, SOON, |s| tops(s).iter().any(|m| whole(m).contains("RESOLVED"))).await;
    assert!(run.service.stderr().contains("missing_scope"), "{}", run.service.stderr());
}

#[tokio::test]
async fn an_answer_after_eleven_seconds_is_waited_for() {
    let run = Running::start_slack(Options::unlimited(), FAST, NOWHERE).await;
    run.slack.fail_next("chat.postMessage", Failure::Slow(Duration::from_secs(11)), 1);
    run.send(&named(0, "firing", &["a"])).await;
    until(&run, SOON, |s| tops(s).len() == 1).await;
    resolved(&run, 1).await;
    let posts = run
        .slack
        .calls()
        .iter()
        .filter(|call| call.method == "chat.postMessage" && call.args["thread_ts"].is_null())
        .count();
    assert_eq!(posts, 1);
}

#[tokio::test]
async fn what_slack_does_after_everybody_gave_up_is_removed_again() {
    let run = Running::start_slack(Options::unlimited(), FAST, NOWHERE).await;
    for i in 0..3 {
        run.slack.fail_next("chat.postMessage", Failure::Late, 1);
        run.send(&named(i, "firing", &["a"])).await;
        until(&run, SOON, |s| tops(s).len() == i + 1).await;
    }
    run.slack.release(3);
    // The late ones appear beside those that were posted instead, and go.
    let doubled = |s: &State| s.calls().iter().filter(|c| c.method == "chat.delete").count() == 3;
    until(&run, LATE, doubled).await;
    resolved(&run, 3).await;
}

#[tokio::test]
async fn a_kill_between_slacks_effect_and_our_commit_leaves_one_message() {
    let mut run = Running::start_slack(Options::unlimited(), FAST, NOWHERE).await;
    run.slack.fail_next("chat.postMessage", Failure::LostReply, 3);
    for i in 0..3 {
        run.send(&named(i, "firing", &["a"])).await;
    }
    until(&run, SOON, |s| tops(s).len() == 3).await;
    run.service.kill9().await.unwrap();
    run.service.restart().await.unwrap();
    resolved(&run, 3).await;
}

#[tokio::test]
async fn a_search_for_duplicates_beside_the_delivery_of_the_same_message_removes_nothing() {
    // 16 pieces of work are done at once: each message beside its search.
    const INCIDENTS: usize = 8;
    let mut run = Running::start_slack(Options::unlimited(), FAST, NOWHERE).await;
    run.slack.fail_next("chat.postMessage", Failure::LostReply, INCIDENTS);
    for i in 0..INCIDENTS {
        run.send(&named(i, "firing", &["a"])).await;
    }
    until(&run, SOON, |s| tops(s).len() == INCIDENTS).await;
    run.service.kill9().await.unwrap();
    let database = run.service.directory().join("state").join(STORE_FILE);
    let mut store = SqliteConnectOptions::new().filename(database).connect().await.unwrap();
    let searches = "INSERT INTO looks (subject, channel, since_ms, due_ms)
                    SELECT incident_id, channel, began_ms, 0 FROM deliveries WHERE began_ms IS NOT NULL";
    assert_eq!(store.execute(searches).await.unwrap().rows_affected(), INCIDENTS as u64);
    // Both have read Slack's history before either of them writes.
    run.slack.fail_next("conversations.history", Failure::Slow(Duration::from_millis(300)), 2);
    run.service.restart().await.unwrap();
    resolved(&run, INCIDENTS).await;
    let reads = run.slack.with(|s| s.count("conversations.history"));
    assert!(reads > 0, "{}", run.service.stderr());
    assert_eq!(run.slack.with(|s| s.count("chat.delete")), 0, "{}", run.service.stderr());
}

#[tokio::test]
async fn what_a_thread_is_told_stands_there_once_and_is_not_told_again() {
    let run = Running::start_slack(Options::unlimited(), FAST, NOWHERE).await;
    run.send(&named(0, "firing", &["a"])).await;
    until(&run, SOON, |s| tops(s).len() == 1).await;
    run.slack.fail_next("chat.postMessage", Failure::Reset, 1);
    run.send(&named(0, "firing", &["a", "b"])).await;
    until(&run, SOON, |s| replies(s).len() == 1).await;
    run.send(&named(0, "firing", &["a", "b", "c", "d"])).await;
    until(&run, SOON, |s| replies(s).len() == 2).await;
    let told: Vec<String> = run.slack.with(|s| replies(s).iter().map(|m| m.content.text.clone()).collect());
    assert!(told[0].contains("+1 alert") && told[1].contains("+2 alerts"), "{told:?}");
}

#[tokio::test]
async fn a_digest_whose_answer_is_lost_stands_once() {
    let keys = ", storm: { incidents: 1 }, posts_per_second: 200, posts_burst: 200, updates_per_minute: 60000";
    let run = Running::start_slack(Options::unlimited(), keys, NOWHERE).await;
    run.send(&named(0, "firing", &["a"])).await;
    until(&run, SOON, |s| tops(s).len() == 1).await;
    run.slack.fail_next("chat.postMessage", Failure::Reset, 1);
    for i in 1..4 {
        run.send(&named(i, "firing", &["a"])).await;
    }
    let of_three = |m: &&&Message| m.content.text.contains("storm of 3 ");
    until(&run, SOON, |s| tops(s).iter().any(|m| of_three(&m))).await;
    assert_eq!(run.tops(CHANNEL).len(), 2);
}
