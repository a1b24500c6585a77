//! Several people own alerts of one channel: each who is to be called is called, and nobody twice.

use std::path::Path;

use llm_diagnose_lab::slack::{Failure, FakeSlack, Options, State};
use llm_diagnose_lab::stack::Service;
use serde_json::Value;

use crate::running::{BINARY, CHANNEL, Running, SOON, group, tls};

const A: &str = "S0TEAMA00";
const B: &str = "S0TEAMB00";

/// The service with one channel and a route to it for each of two teams; `keys` are more lines of the key `slack`.
async fn start(keys: &str) -> Running {
    tls();
    let allowed_mentions = [A, B].map(|id| format!("!subteam^{id}")).into();
    let slack = FakeSlack::start(Options { allowed_mentions, ..Options::unlimited() }).await.unwrap();
    let route = |team: &str, id: &str| {
        format!("    - {{ labels: {{ team: {team} }}, channel: \"{CHANNEL}\", mention: {id} }}\n")
    };
    let config = format!(
        "listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\nstate_dir: $DIR/state\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n\
         slack:\n  api_url: \"{}\"\n  channel: \"{CHANNEL}\"\n  posts_per_second: 200\n  posts_burst: 200\n\
         \x20 updates_per_minute: 60000\n{keys}  routes:\n{}{}",
        slack.base_url,
        route("a", A),
        route("b", B)
    );
    let token = [("SLACK_BOT_TOKEN", slack.token.as_str())];
    let service = Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &token, &config).await.unwrap();
    Running { service, slack, http: reqwest::Client::new() }
}

/// A group named `name` that fires: of each pod its team and severity.
fn of_teams(name: &str, pods: &[(&str, &str, &str)]) -> Value {
    let names: Vec<&str> = pods.iter().map(|(pod, _, _)| *pod).collect();
    let mut group = group(name, "firing", "warning", &names);
    for (alert, (pod, team, severity)) in group["alerts"].as_array_mut().unwrap().iter_mut().zip(pods) {
        alert["labels"]["team"] = (*team).into();
        alert["labels"]["severity"] = (*severity).into();
        // With other labels it is another alert.
        alert["fingerprint"] = format!("{name}-{pod}-{severity}").into();
    }
    group
}

/// How many new posts call this id; edits call nobody.
fn calls(state: &State, id: &str) -> usize {
    let posts = state.calls().iter().filter(|call| call.method == "chat.postMessage");
    posts.filter(|call| call.args["text"].as_str().is_some_and(|text| text.contains(id))).count()
}

async fn until(run: &Running, shown: impl Fn(&State) -> bool) {
    let seen = run.slack.wait_for(&shown, SOON).await;
    assert!(seen.is_ok(), "{}\n{}", seen.unwrap_err(), run.service.stderr());
}

/// The incident's message tells this many alerts, so what came with them has been worked off but for its thread.
async fn told(run: &Running, alerts: &str) {
    run.wait_for(CHANNEL, |m| m.contains(alerts)).await;
}

/// So often each was called, also after one more notification of everything.
async fn called(run: &Running, [a, b]: [usize; 2]) {
    until(run, |s| [calls(s, A), calls(s, B)] == [a, b]).await;
    assert_eq!(run.slack.violations(), vec![]);
}

#[tokio::test]
async fn the_first_message_calls_the_owners_of_all_its_critical_alerts() {
    let run = start("").await;
    let pods = [("a", "a", "critical"), ("b", "b", "critical"), ("c", "a", "critical"), ("d", "other", "critical")];
    run.send(&of_teams("Slow", &pods)).await;
    told(&run, "4 firing").await;
    let first = run.tops(CHANNEL)[0].content.text.clone();
    assert!(first.starts_with(&format!("<!subteam^{A}> <!subteam^{B}> CRITICAL")), "{first}");
    called(&run, [1, 1]).await;
}

#[tokio::test]
async fn an_owner_who_joins_later_is_called_in_the_thread_and_nobody_is_called_twice() {
    let run = start("").await;
    run.send(&of_teams("Slow", &[("a", "a", "critical"), ("b", "b", "warning")])).await;
    until(&run, |s| calls(s, A) == 1).await;
    assert_eq!(run.slack.with(|s| calls(s, B)), 0);

    run.send(&of_teams("Slow", &[("a", "a", "critical"), ("b", "b", "critical")])).await;
    until(&run, |s| s.messages(CHANNEL).any(|m| m.is_broadcast && m.content.text.contains(B))).await;

    // More alerts of both, and an end of the first one's: nobody is called again.
    let more = [("a", "a", "critical"), ("b", "b", "critical"), ("c", "a", "critical"), ("d", "b", "critical")];
    run.send(&of_teams("Slow", &more)).await;
    told(&run, "4 firing").await;
    run.send(&of_teams("Slow", &more[1..])).await;
    told(&run, "3 firing").await;
    // Another incident's call comes after whatever would be said of this one.
    run.send(&of_teams("Other", &[("a", "a", "critical"), ("b", "b", "critical")])).await;
    called(&run, [2, 2]).await;
    let shown = |m: &str| m.contains(A) && m.contains(B) && m.contains("3 firing");
    run.wait_for(CHANNEL, shown).await;
}

#[tokio::test]
async fn two_owners_are_called_in_the_thread_of_a_message_that_stands() {
    let run = start("").await;
    run.send(&of_teams("Slow", &[("a", "a", "warning"), ("b", "b", "warning")])).await;
    told(&run, "WARNING").await;
    // Both calls wait at once.
    run.send(&of_teams("Slow", &[("a", "a", "critical"), ("b", "b", "critical")])).await;
    called(&run, [1, 1]).await;
    run.send(&of_teams("Slow", &[("a", "a", "critical"), ("b", "b", "critical"), ("c", "b", "critical")])).await;
    told(&run, "3 firing").await;
    called(&run, [1, 1]).await;
}

#[tokio::test]
async fn a_call_whose_answer_was_lost_is_remembered_by_whom_it_called() {
    let run = start("").await;
    run.slack.fail_next("chat.postMessage", Failure::Reset, 1);
    run.send(&of_teams("Slow", &[("a", "a", "critical")])).await;
    until(&run, |s| calls(s, A) == 1).await;
    run.send(&of_teams("Slow", &[("a", "a", "critical"), ("b", "b", "critical")])).await;
    until(&run, |s| calls(s, B) == 1).await;
    told(&run, "2 firing").await;
    called(&run, [1, 1]).await;
    assert_eq!(run.tops(CHANNEL).len(), 1);
}

#[tokio::test]
async fn in_a_storm_every_owner_is_called_once_for_a_pool() {
    let run = start("  storm: { incidents: 1 }\n").await;
    run.send(&of_teams("First", &[("a", "other", "warning")])).await;
    told(&run, "WARNING").await;
    // One digest, because the topic is the same: first of A, then of both.
    run.send(&keyed("Slow", 1, &[("a", "a", "critical")])).await;
    until(&run, |s| calls(s, A) == 1).await;
    run.send(&keyed("Slow", 2, &[("a", "a", "critical"), ("b", "b", "critical")])).await;
    until(&run, |s| calls(s, B) == 1).await;
    run.send(&keyed("Slow", 3, &[("b", "b", "critical")])).await;
    told(&run, "storm of 3 incidents").await;
    called(&run, [1, 1]).await;
}

/// As [`of_teams`], of one of several groups with this name.
fn keyed(name: &str, number: usize, pods: &[(&str, &str, &str)]) -> Value {
    let mut group = of_teams(name, pods);
    group["groupKey"] = format!("{{}}:{{alertname=\"{name}\", number=\"{number}\"}}").into();
    for alert in group["alerts"].as_array_mut().unwrap() {
        alert["fingerprint"] = format!("{number}-{}", alert["labels"]["pod"]).into();
    }
    group
}
