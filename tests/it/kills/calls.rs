//! Killed right after an edit was recorded: what becomes critical still calls people, once, and threads report the end.

use std::path::Path;
use std::time::Duration;

use llm_diagnose_lab::slack::{FakeSlack, Options, State};
use llm_diagnose_lab::stack::Service;
use serde_json::{Value, json};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use store::STORE_FILE;

use crate::running::{BINARY, CHANNEL, NOWHERE, Running, SOON, group, tls, whole, without_authentication};

const PEOPLE: &str = "S0123456789";
/// Incidents without a diagnosis, and messages and digests that do not show or have not recorded the latest.
const BEHIND: &str = "
    SELECT (SELECT COUNT(*) FROM incidents WHERE diagnosis IS NULL)
         + (SELECT COUNT(*) FROM deliveries d JOIN incidents i ON i.id = d.incident_id
              WHERE d.digest_id IS NULL AND d.revision < i.revision)
         + (SELECT COUNT(*) FROM digests g WHERE g.delivered <
              (SELECT SUM(i.revision) FROM deliveries d JOIN incidents i ON i.id = d.incident_id WHERE d.digest_id = g.id))";

async fn start(storm: &str) -> Running {
    tls();
    let options = Options { allowed_mentions: vec![format!("!subteam^{PEOPLE}")], ..Options::unlimited() };
    let slack = FakeSlack::start(options).await.unwrap();
    let config = format!(
        "listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\n{NOWHERE}\nslack: {{ api_url: \"{}\", channel: \"{CHANNEL}\", \
         storm: {{ incidents: {storm} }}, routes: [{{ labels: {{ severity: critical }}, channel: \"{CHANNEL}\", \
         mention: {PEOPLE} }}] }}\n",
        slack.base_url
    );
    let builder = Service::builder(Path::new(BINARY)).args(["serve", "--config", "$CONFIG"]);
    let builder = builder.env("SLACK_BOT_TOKEN", &slack.token).env("LLM_DIAGNOSE_FAILPOINTS", "$DIR");
    let service = builder.config(&without_authentication(&config)).start().await.unwrap();
    Running { service, slack, http: reqwest::Client::new() }
}

/// Groups of one name, told apart by their key; with a second alert where they are critical.
fn odd(key: &str, status: &str, severity: &str) -> Value {
    let pods: &[&str] = if severity == "critical" { &["a", "b"] } else { &["a"] };
    let mut group = group("Odd", status, severity, pods);
    group["groupKey"] = json!(key);
    group
}

/// Posts that call people; edits call nobody.
fn calls(state: &State) -> usize {
    let posts = state.calls().iter().filter(|call| call.method == "chat.postMessage");
    posts.filter(|call| call.args["text"].as_str().is_some_and(|text| text.contains(PEOPLE))).count()
}

/// Waits until the process has ended at the stage, where a message shows this, and starts it again.
async fn ended(run: &mut Running, shown: &str) {
    run.service.exit(SOON).await.unwrap();
    let messages: Vec<String> = run.slack.messages(CHANNEL).iter().map(whole).collect();
    assert!(messages.iter().any(|message| message.contains(shown)), "it ended before {shown}: {messages:#?}");
    run.service.restart().await.unwrap();
}

/// Waits until every message is diagnosed and recorded: the edit after that is of what is sent next.
async fn settled(run: &Running) {
    let file = run.service.directory().join("state").join(STORE_FILE);
    let mut store = SqliteConnectOptions::new().filename(file).read_only(true).connect().await.unwrap();
    let recorded = async {
        while sqlx::query_scalar::<_, i64>(BEHIND).fetch_one(&mut store).await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let recorded = tokio::time::timeout(SOON, recorded).await;
    assert!(recorded.is_ok(), "{}\n{}", run.slack.transcript(CHANNEL), run.service.stderr());
    // The stage comes right after the commit.
    assert_eq!(run.get("/healthz").await.0, 200);
}

async fn until(run: &Running, shown: impl Fn(&State) -> bool) {
    let seen = run.slack.wait_for(&shown, SOON).await;
    assert!(seen.is_ok(), "{}\n{}", seen.unwrap_err(), run.service.stderr());
}

fn arm(run: &Running, stage: &str) {
    std::fs::write(run.service.directory().join(stage), "").unwrap();
}

#[tokio::test]
async fn killed_after_the_edit_that_turned_critical_people_are_called_once_and_the_thread_reports_the_end() {
    let mut run = start("0").await;
    run.send(&odd("one", "firing", "warning")).await;
    run.wait_for(CHANNEL, |message| message.starts_with("WARNING")).await;
    settled(&run).await;
    arm(&run, "edit recorded");
    run.send(&odd("one", "firing", "critical")).await;
    ended(&mut run, "CRITICAL").await;
    until(&run, |state| calls(state) == 1).await;
    run.send(&odd("one", "resolved", "critical")).await;
    run.wait_for(CHANNEL, |message| message.contains("*resolved*")).await;
    assert_eq!(run.slack.with(calls), 1);
}

#[tokio::test]
async fn killed_after_the_edit_that_ended_it_the_thread_still_reports_the_end() {
    let mut run = start("0").await;
    run.send(&odd("one", "firing", "warning")).await;
    run.wait_for(CHANNEL, |message| message.starts_with("WARNING")).await;
    settled(&run).await;
    arm(&run, "edit recorded");
    run.send(&odd("one", "resolved", "warning")).await;
    ended(&mut run, "RESOLVED").await;
    until(&run, |state| state.messages(CHANNEL).any(|m| m.thread_ts.is_some() && whole(m).contains("*resolved*")))
        .await;
}

#[tokio::test]
async fn killed_after_the_edit_of_a_digest_that_turned_critical_people_are_called_once() {
    let mut run = start("1").await;
    for key in ["one", "two", "three"] {
        run.send(&odd(key, "firing", "warning")).await;
    }
    run.wait_for(CHANNEL, |message| message.contains("storm of 2 ")).await;
    settled(&run).await;
    arm(&run, "digest edit recorded");
    run.send(&odd("two", "firing", "critical")).await;
    ended(&mut run, "CRITICAL").await;
    until(&run, |state| calls(state) == 1).await;
    run.send(&odd("two", "resolved", "critical")).await;
    run.wait_for(CHANNEL, |message| message.contains("1 resolved")).await;
    assert_eq!(run.slack.with(calls), 1);
}
