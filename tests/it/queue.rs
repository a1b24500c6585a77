//! The living message and its thread, whatever Slack answers; and who is called, once.

use llm_diagnose_lab::slack::{Failure, Message, Options, Outcome, State};
use serde_json::Value;

use crate::running::{CHANNEL, Running, SOON, group, whole};

const NOWHERE: &str = "prometheus: [{ url: \"http://127.0.0.1:1\" }]";
const ON_CALL: &str = "<!subteam^S0ONCALL>";

fn firing(pods: &[&str]) -> Value {
    group("LLMHighTTFT", "firing", "warning", pods)
}

fn replies<'a>(state: &'a State, ts: &str) -> Vec<&'a Message> {
    state.messages(CHANNEL).filter(|message| message.thread_ts.as_deref() == Some(ts)).collect()
}

/// A service whose one incident has its message.
async fn posted() -> (Running, Message) {
    let run = Running::start(NOWHERE).await;
    run.send(&firing(&["a"])).await;
    run.wait_for(CHANNEL, |m| m.contains("Cannot tell")).await;
    let message = run.tops(CHANNEL).remove(0);
    (run, message)
}

async fn told(run: &Running, ts: &str, what: &str) {
    let ts = ts.to_owned();
    let told = run.slack.wait_for(|s| replies(s, &ts).iter().any(|m| m.content.text.contains(what)), SOON).await;
    assert!(told.is_ok(), "{}\n{}", told.unwrap_err(), run.service.stderr());
}

#[tokio::test]
async fn a_message_that_slack_cannot_take_is_sent_shorter_once_and_then_given_up_visibly() {
    for code in ["msg_too_long", "msg_blocks_too_long", "invalid_blocks", "invalid_attachments"] {
        let (run, _) = posted().await;
        run.slack.fail_next("chat.update", Failure::Error(code.into()), 1);
        run.send(&firing(&["a", "b"])).await;
        let edited = run.slack.wait_for(|s| s.count("chat.update") == 1, SOON).await;
        assert!(edited.is_ok(), "{code}: {}\n{}", edited.unwrap_err(), run.service.stderr());
        assert_eq!(run.tops(CHANNEL).len(), 1, "{code}");
        let calls: Vec<usize> = run
            .slack
            .calls()
            .iter()
            .filter(|call| call.method == "chat.update")
            .map(|call| call.args.to_string().len())
            .collect();
        assert!(calls.len() == 2 && calls[1] <= calls[0], "{code}: {calls:?}");
        run.slack.fail_next("chat.update", Failure::Error(code.into()), 2);
        run.send(&firing(&["a", "b", "c"])).await;
        let failed = |call: &llm_diagnose_lab::slack::Call| call.outcome == Outcome::Error(code.into());
        run.slack.wait_for(|s| s.calls().iter().filter(|call| failed(call)).count() == 3, SOON).await.unwrap();
        // The next change tries again, with everything.
        run.send(&firing(&["a", "b", "c", "d"])).await;
        run.wait_for(CHANNEL, |m| m.contains("4 firing")).await;
        let (_, metrics) = run.get("/metrics").await;
        assert!(metrics.contains("deliveries_total{sink=\"slack\",result=\"failed\"} 1"), "{code}: {metrics}");
        assert!(run.service.stderr().contains("gave up delivering the message"), "{code}");
    }
}

#[tokio::test]
async fn a_message_that_cannot_be_edited_is_posted_anew_and_its_thread_follows() {
    for code in ["message_not_found", "cant_update_message", "edit_window_closed"] {
        let (run, old) = posted().await;
        run.slack.fail_next("chat.update", Failure::Error(code.into()), 1);
        run.send(&firing(&["a", "b"])).await;
        let anew =
            run.slack.wait_for(|s| s.messages(CHANNEL).any(|m| m.ts != old.ts && m.thread_ts.is_none()), SOON).await;
        assert!(anew.is_ok(), "{code}: {}\n{}", anew.unwrap_err(), run.service.stderr());
        let new = run.tops(CHANNEL).pop().unwrap();
        assert!(whole(&new).contains("2 firing"), "{code}");
        told(&run, &new.ts, "+1 alert").await;
        assert_eq!(run.tops(CHANNEL).len(), 2, "{code}");
    }
}

#[tokio::test]
async fn a_message_that_somebody_keeps_deleting_is_not_posted_for_ever_but_its_end_is() {
    let (run, _) = posted().await;
    let mut pods = vec!["a"];
    let refused =
        |s: &State| s.calls().iter().filter(|c| c.outcome == Outcome::Error("message_not_found".into())).count();
    for pod in ["b", "c", "d"] {
        let before = run.slack.with(refused);
        run.slack.delete(CHANNEL, &run.tops(CHANNEL)[0].ts);
        pods.push(pod);
        run.send(&firing(&pods)).await;
        let count = format!("{} firing", pods.len());
        match pod {
            "d" => run.slack.wait_for(|s| refused(s) > before, SOON).await.unwrap(),
            _ => run.wait_for(CHANNEL, |m| m.contains(&count)).await,
        }
    }
    assert_eq!(run.tops(CHANNEL).len(), 0, "after the third time it stays away");
    run.send(&group("LLMHighTTFT", "resolved", "warning", &pods)).await;
    run.wait_for(CHANNEL, |m| m.contains("RESOLVED")).await;
}

#[tokio::test]
async fn a_channel_that_is_archived_under_a_message_is_left_for_the_default_channel() {
    let run = Running::start(NOWHERE).await;
    run.send(&group("LLMHighTTFT", "firing", "page", &["a"])).await;
    run.wait_for("#critical", |m| m.contains("Cannot tell")).await;
    run.slack.configure(|options| {
        options.channels.iter_mut().filter(|c| c.name == "critical").for_each(|c| c.is_archived = true);
    });
    run.send(&group("LLMHighTTFT", "firing", "page", &["a", "b"])).await;
    run.wait_for(CHANNEL, |m| m.contains("2 firing")).await;
    let message = run.tops(CHANNEL).remove(0);
    told(&run, &message.ts, "+1 alert").await;
}

#[tokio::test]
async fn a_thread_that_is_gone_brings_its_message_back() {
    let (run, old) = posted().await;
    run.slack.fail_next("chat.postMessage", Failure::Error("thread_not_found".into()), 1);
    run.send(&firing(&["a", "b"])).await;
    let anew = run.slack.wait_for(|s| s.messages(CHANNEL).any(|m| m.ts != old.ts && m.thread_ts.is_none()), SOON).await;
    assert!(anew.is_ok(), "{}\n{}", anew.unwrap_err(), run.service.stderr());
    let new = run.tops(CHANNEL).pop().unwrap();
    told(&run, &new.ts, "+1 alert").await;
}

/// Calls that mentioned somebody where Slack tells them.
fn calls_for_help(run: &Running) -> usize {
    let posts = run.slack.calls().into_iter().filter(|c| c.method == "chat.postMessage" && c.outcome == Outcome::Ok);
    posts.filter(|c| c.args.to_string().contains(ON_CALL)).count()
}

fn on_call() -> Options {
    Options { allowed_mentions: vec!["!subteam^S0ONCALL".into()], ..Options::unlimited() }
}

#[tokio::test]
async fn a_critical_incident_calls_somebody_once_whatever_becomes_of_its_message() {
    let run = Running::start_slack(on_call(), ", mention: S0ONCALL", NOWHERE).await;
    let critical = |pods: &[&str]| group("LLMHighTTFT", "firing", "critical", pods);
    run.send(&critical(&["a"])).await;
    run.wait_for(CHANNEL, |m| m.starts_with(ON_CALL) && m.contains("Cannot tell")).await;
    run.send(&critical(&["a", "b"])).await;
    run.wait_for(CHANNEL, |m| m.starts_with(ON_CALL) && m.contains("2 firing")).await;
    run.slack.delete(CHANNEL, &run.tops(CHANNEL)[0].ts);
    run.send(&critical(&["a", "b", "c"])).await;
    run.wait_for(CHANNEL, |m| m.contains("3 firing")).await;
    assert_eq!(calls_for_help(&run), 1);
    assert_eq!(run.slack.violations(), []);
}

#[tokio::test]
async fn a_digest_calls_somebody_once_for_all_that_it_speaks_for() {
    let keys = ", mention: S0ONCALL, storm: { incidents: 2 }";
    let run = Running::start_slack(on_call(), keys, NOWHERE).await;
    for i in 0..8 {
        run.send(&group(&format!("Odd{i}"), "firing", if i < 4 { "critical" } else { "warning" }, &["a"])).await;
    }
    // Two messages of their own; then a digest each for Odd2 to Odd6, and one for the rest.
    let all = run.slack.wait_for(|s| s.messages(CHANNEL).filter(|m| m.thread_ts.is_none()).count() == 8, SOON).await;
    assert!(all.is_ok(), "{}\n{}", all.unwrap_err(), run.service.stderr());
    assert_eq!(calls_for_help(&run), 4, "each critical one once");
    for i in 2..4 {
        run.send(&group(&format!("Odd{i}"), "firing", "critical", &["a", "b"])).await;
    }
    run.send(&group("Odd6", "firing", "critical", &["a", "b"])).await;
    run.slack
        .wait_for(|s| s.messages(CHANNEL).any(|m| m.thread_ts.is_some() && m.content.text.contains(ON_CALL)), SOON)
        .await
        .unwrap();
    assert_eq!(calls_for_help(&run), 5, "the one that became critical, in its digest's thread");
    assert_eq!(run.slack.violations(), []);
}
