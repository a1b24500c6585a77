//! Somebody is called by a message in Slack: what is said of it is what became of it.

use std::path::Path;
use std::time::Duration;

use llm_diagnose_lab::slack::{Failure, FakeSlack, Message, Options, Press, State};
use llm_diagnose_lab::stack::Service;

use sqlx::{ConnectOptions, Connection, Executor};

use crate::running::{BINARY, CHANNEL, Running, SOON, group, tls, whole};

const CALL: &str = "<!subteam^S0ONCALL>";
const DELIVERED: &str = "Slack delivered a message that mentions them. Nobody has confirmed yet.";

/// An incident whose message stands, in which people may escalate to a user group.
async fn start() -> Running {
    tls();
    let allowed_mentions = ["!subteam^S0ONCALL", "@U0ANN"].map(String::from).into();
    let slack = FakeSlack::start(Options { allowed_mentions, ..Options::unlimited() }).await.unwrap();
    let config = format!(
        "listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\nstate_dir: $DIR/state\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n\
         slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\", escalate: S0ONCALL, act: {{ users: [U0ANN] }} }}\n",
        slack.base_url
    );
    let secrets = [("SLACK_BOT_TOKEN", slack.token.as_str()), ("SLACK_APP_TOKEN", "xapp-lab")];
    let service =
        Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &secrets, &config).await.unwrap();
    let run = Running { service, slack, http: reqwest::Client::new() };
    run.send(&group("LLMHighTTFT", "firing", "critical", &["a"])).await;
    run.wait_for(CHANNEL, |m| m.contains("CRITICAL")).await;
    run
}

async fn escalate(run: &Running) {
    let message = run.tops(CHANNEL).remove(0);
    run.slack.press("U0ANN", &message.channel, &message.ts, Press::new("escalate").confirmed()).await.unwrap();
}

async fn until(run: &Running, shown: impl Fn(&State) -> bool) {
    let seen = run.slack.wait_for(&shown, 2 * SOON).await;
    assert!(seen.is_ok(), "{}\n{}", seen.unwrap_err(), run.service.stderr());
}

/// What only the one who pressed is told.
fn alone(state: &State, part: &str) -> bool {
    state.messages(CHANNEL).any(|m| m.only_for.is_some() && whole(m).contains(part))
}

fn in_thread<'a>(state: &'a State, part: &str) -> Option<&'a Message> {
    state.messages(CHANNEL).find(|m| m.only_for.is_none() && m.thread_ts.is_some() && whole(m).contains(part))
}

#[tokio::test]
async fn that_slack_delivered_the_message_is_said_after_it_did() {
    let run = start().await;
    // Slack takes its time: longer than somebody waits for an answer.
    run.slack.fail_next("chat.postMessage", Failure::Slow(Duration::from_secs(13)), 1);
    escalate(&run).await;
    until(&run, |s| alone(s, "Slack has not yet accepted the message that mentions them")).await;
    until(&run, |s| in_thread(s, CALL).is_some()).await;
    assert!(!run.slack.with(|s| alone(s, DELIVERED)));
    run.wait_for(CHANNEL, |m| m.contains("Escalated by <@U0ANN>")).await;
    // Once more, too soon: what is said is true even where nobody was reached.
    escalate(&run).await;
    until(&run, |s| alone(s, "Somebody escalated this less than five minutes ago")).await;
}

#[tokio::test]
async fn a_message_that_slack_refuses_called_nobody_and_may_be_tried_again_at_once() {
    let run = start().await;
    run.slack.fail_next("chat.postMessage", Failure::Error("no_text".into()), 1);
    escalate(&run).await;
    until(&run, |s| alone(s, "Nobody was called: ") && alone(s, "no_text")).await;
    until(&run, |s| in_thread(s, "Nobody was called: ").is_some_and(|m| whole(m).contains("Requested by"))).await;
    assert!(!run.slack.with(|s| in_thread(s, CALL).is_some() || alone(s, DELIVERED)));
    assert!(!run.tops(CHANNEL).iter().any(|m| whole(m).contains("Escalated by")));
    escalate(&run).await;
    until(&run, |s| alone(s, DELIVERED) && in_thread(s, CALL).is_some()).await;
    run.wait_for(CHANNEL, |m| m.contains("Escalated by <@U0ANN>")).await;
}

#[tokio::test]
async fn a_message_whose_answer_was_lost_is_found_and_said_to_be_delivered() {
    let run = start().await;
    run.slack.fail_next("chat.postMessage", Failure::Reset, 1);
    escalate(&run).await;
    until(&run, |s| alone(s, DELIVERED)).await;
    let calls = run.slack.with(|s| s.messages(CHANNEL).filter(|m| whole(m).contains(CALL)).count());
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn a_call_that_cannot_be_read_is_said_to_have_failed() {
    let run = start().await;
    let database = run.service.directory().join("state/llm-diagnose.db");
    let mut beside = sqlx::sqlite::SqliteConnectOptions::new().filename(&database).connect().await.unwrap();
    for sql in [
        "INSERT INTO audit (id, at_ms, who, place, what, incident_id, target, result, detail)
         SELECT 'E', opened_ms, 'U0ANN', 'C0LLMALERTS', 'escalate', id, '', 'begun', '' FROM incidents",
        "INSERT INTO posts (id, incident_id, kind, body, about, tries, due_ms)
         SELECT '0', id, 'answer', '', 'E', 'no number', 0 FROM incidents",
    ] {
        beside.execute(sql).await.unwrap();
    }
    beside.close().await.unwrap();
    // What else is to be said brings it up.
    run.send(&group("LLMHighTTFT", "firing", "critical", &["a", "b"])).await;
    until(&run, |s| in_thread(s, "Nobody was called: ").is_some_and(|m| whole(m).contains("cannot be read"))).await;
}
