//! What was accepted is delivered: through a slow or dead Prometheus, Slack's limits, kill -9 and deleted messages.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use llm_diagnose_lab::slack::{Failure, FakeSlack, Message, Options, Outcome, State};
use llm_diagnose_lab::stack::Service;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::running::{BINARY, CHANNEL, Running, SOON, group, tls, whole};

const NOWHERE: &str = "prometheus: [{ url: \"http://127.0.0.1:1\" }]";

#[tokio::test]
async fn with_a_hanging_prometheus_the_first_message_comes_within_a_second_and_is_edited() {
    let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", hanging.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut socket, _)) = hanging.accept().await {
            let mut head = [0; 64];
            let _ = socket.read(&mut head).await;
            open.push(socket);
        }
    });
    let run = Running::start(&format!("prometheus: [{{ url: \"{url}\" }}]\ndiagnose: {{ deadline: 3s }}")).await;
    run.send(&group("LLMHighTTFT", "firing", "critical", &["a"])).await;
    let admitted = std::time::Instant::now();
    run.wait_for(CHANNEL, |m| m.contains("Looking at the evidence")).await;
    let first = run.slack.calls().iter().find(|c| c.method == "chat.postMessage").unwrap().at;
    assert!(first.duration_since(admitted) < Duration::from_secs(1), "{:?}", first.duration_since(admitted));
    run.wait_for(CHANNEL, |m| m.contains("timed out")).await;
    server.abort();
}

#[tokio::test]
async fn nothing_accepted_is_lost_by_kill_9() {
    let mut run =
        Running::start_slack(Options::unlimited(), ", posts_per_second: 200, posts_burst: 200", NOWHERE).await;
    run.slack.fail_next("chat.postMessage", Failure::Status(503), 30);
    let names: BTreeSet<String> = (0..20).map(|i| format!("LLMHighTTFT{i}")).collect();
    for name in &names {
        run.send(&group(name, "firing", "warning", &["a"])).await;
    }
    run.service.kill9().await.unwrap();
    assert!(run.slack.messages(CHANNEL).len() < 20, "all were shown before");
    run.service.restart().await.unwrap();
    let shown = |message: &Message| {
        let text = whole(message);
        text.split(|c: char| !c.is_alphanumeric()).find(|word| names.contains(*word)).map(str::to_owned)
    };
    let each = |s: &State| s.messages(CHANNEL).filter_map(shown).collect::<BTreeSet<_>>() == names;
    let all = run.slack.wait_for(each, SOON).await;
    assert!(all.is_ok(), "{}\n{}", run.tops(CHANNEL).len(), run.service.stderr());
    assert_eq!(run.tops(CHANNEL).len(), 20);
}

#[tokio::test]
async fn a_429_is_waited_out_as_long_as_slack_says() {
    let run = Running::start(NOWHERE).await;
    run.slack.fail_next("chat.postMessage", Failure::RateLimited(2), 1);
    run.send(&group("LLMHighTTFT", "firing", "warning", &["a"])).await;
    run.wait_for(CHANNEL, |m| m.contains("WARNING")).await;
    let posts: Vec<_> = run.slack.calls().into_iter().filter(|c| c.method == "chat.postMessage").collect();
    assert_eq!(posts.len(), 2);
    let pause = posts[1].at.duration_since(posts[0].at);
    assert!(pause >= Duration::from_millis(1_990), "{pause:?}");
}

#[tokio::test]
async fn a_deleted_message_is_posted_anew() {
    let run = Running::start(NOWHERE).await;
    run.send(&group("LLMHighTTFT", "firing", "warning", &["a"])).await;
    run.wait_for(CHANNEL, |m| m.contains("Cannot tell")).await;
    let ts = run.slack.messages(CHANNEL)[0].ts.clone();
    assert!(run.slack.delete(CHANNEL, &ts));
    run.send(&group("LLMHighTTFT", "firing", "warning", &["a", "b"])).await;
    run.wait_for(CHANNEL, |m| m.contains("2 firing")).await;
    assert_ne!(run.slack.messages(CHANNEL)[0].ts, ts);
}

#[tokio::test]
async fn routes_choose_the_channel_and_a_closed_channel_falls_back_to_the_default() {
    let run = Running::start(NOWHERE).await;
    run.send(&group("LLMHighTTFT", "firing", "page", &["a"])).await;
    run.wait_for("#critical", |m| m.contains("CRITICAL")).await;
    run.slack.fail_next("chat.postMessage", Failure::Error("is_archived".into()), 1);
    run.send(&group("LLMQueueBuildup", "firing", "page", &["a"])).await;
    run.wait_for(CHANNEL, |m| m.contains("LLMQueueBuildup")).await;
}

#[tokio::test]
async fn twelve_incidents_at_once_stay_inside_slacks_rate() {
    let run = Running::start_with(Options::default(), NOWHERE).await;
    for i in 0..12 {
        run.send(&group(&format!("LLMHighTTFT{i}"), "firing", "warning", &["a"])).await;
    }
    let all = run.slack.wait_for(|s| s.messages(CHANNEL).count() == 12, Duration::from_secs(40)).await;
    assert!(all.is_ok(), "{} messages", run.tops(CHANNEL).len());
    let refused = run.slack.calls().iter().filter(|c| matches!(c.outcome, Outcome::RateLimited(_))).count();
    assert_eq!(refused, 0, "our own rate keeps Slack from refusing");
}

#[tokio::test]
async fn sigterm_ends_within_ten_seconds_and_a_restart_resumes() {
    let mut run = Running::start(NOWHERE).await;
    run.slack.fail_next("chat.postMessage", Failure::Status(500), 3);
    run.send(&group("LLMHighTTFT", "firing", "warning", &["a"])).await;
    let status = run.service.terminate(Duration::from_secs(10)).await.unwrap();
    assert!(status.success(), "{status} {}", run.service.stderr());
    run.service.restart().await.unwrap();
    run.slack.wait_for(|s| s.messages(CHANNEL).count() == 1, SOON).await.unwrap();
}

#[tokio::test]
async fn while_every_diagnosis_slot_is_taken_the_store_is_left_alone() {
    tls();
    // Takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slack = FakeSlack::start(Options::unlimited()).await.unwrap();
    let config = format!(
        "listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\nstate_dir: $DIR/state\nexporters: {{ learn: false }}\n\
         prometheus: [{{ url: \"http://{}\" }}]\ndiagnose: {{ concurrency: 1, deadline: 3s }}\n\
         slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\" }}\n",
        silent.local_addr().unwrap(),
        slack.base_url
    );
    let env = [("SLACK_BOT_TOKEN", slack.token.as_str()), ("LLM_DIAGNOSE_LOG", "info,sqlx::query=debug")];
    let service = Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &env, &config).await.unwrap();
    let (http, url) = (reqwest::Client::new(), format!("{}/webhook/alertmanager", service.url));
    for name in ["LLMHighTTFT", "LLMQueueBacklog", "LLMHighITL"] {
        let body = group(name, "firing", "warning", &["a"]);
        http.post(&url).json(&body).send().await.unwrap().error_for_status().unwrap();
    }
    // The messages are edited when their diagnoses are there.
    let diagnosed = |log: &str| log.lines().filter(|line| line.contains(" diagnosed ")).count();
    slack.wait_for(|_| diagnosed(&service.stderr()) >= 2, SOON).await.unwrap();
    let log = service.stderr();
    let looks = log.lines().filter(|line| line.contains("summary=\"WITH due AS")).count();
    assert!((2..30).contains(&looks), "it looked {looks} times for work that nobody was free to do");
}
