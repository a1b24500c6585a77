//! What becomes critical calls somebody, whatever its group held before: with the shipped Alertmanager file, alerts of the
//! shipped rules, and the documented route.

use std::path::Path;
use std::time::Duration;

use knowledge::alert::AlertGroup;
use knowledge::clock;
use knowledge::incident::AdmissionRules;
use llm_diagnose_lab::pager::FakePager;
use llm_diagnose_lab::slack::{Channel, FakeSlack, Message, Options, State};
use llm_diagnose_lab::stack::{Alertmanager, Service};
use serde_json::{Value, json};
use store::{AdmissionPlan, Store};

use crate::admission::CALM;
use crate::running::{BINARY, CHANNEL, Running, SOON, group, tls, whole, without_authentication};

const PAGES: &str = "#llm-pages";
/// Whom the documented route calls.
const CALL: &str = "<!subteam^S0123456789>";
const ROUTING_KEY: &str = "0123456789abcdef0123456789abcdef";

/// A line of the documented configuration.
fn documented(part: &str) -> &'static str {
    let page = include_str!("../../docs/install.md");
    page.lines().find(|line| line.contains(part)).expect("docs/install.md shows it")
}

/// The service with the documented route; `more` are lines of the key `slack` with their indentation, then other keys.
async fn start(options: Options, more: &str) -> Running {
    tls();
    let wanted = Options { allowed_mentions: vec!["!subteam^S0123456789".into()], ..options };
    let slack = FakeSlack::start(wanted.channel(Channel::new("C0PAGES", "llm-pages"))).await.unwrap();
    let config = format!(
        "listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n\
         slack:\n  api_url: \"{}\"\n  channel: \"{CHANNEL}\"\n  routes:\n{}\n{more}",
        slack.base_url,
        documented("channel: \"#llm-pages\"")
    );
    let token = [("SLACK_BOT_TOKEN", slack.token.as_str())];
    let service =
        Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &token, &without_authentication(&config))
            .await
            .unwrap();
    Running { service, slack, http: reqwest::Client::new() }
}

/// Posts that call somebody, oldest first; edits call nobody.
fn calls(state: &State) -> Vec<String> {
    let posts = state.calls().iter().filter(|call| call.method == "chat.postMessage");
    let texts =
        posts.map(|call| format!("{} {}", call.args["channel"], call.args["text"].as_str().unwrap_or_default()));
    texts.filter(|text| text.contains(CALL)).collect()
}

fn in_thread<'a>(state: &'a State, channel: &str, part: &str) -> Option<&'a Message> {
    state.messages(channel).find(|m| m.thread_ts.is_some() && whole(m).contains(part))
}

async fn until(run: &Running, shown: impl Fn(&State) -> bool) {
    let seen = run.slack.wait_for(&shown, SOON).await;
    assert!(seen.is_ok(), "{}\n{}", seen.unwrap_err(), run.service.stderr());
}

/// An alert of the shipped rules, as Prometheus posts it.
fn alert(name: &str, playbook: &str, severity: &str, begins: i64, ends: Option<i64>) -> Value {
    let rules = include_str!("../../config/prometheus/llm-diagnose.rules.yaml");
    let rule = rules
        .split("- alert: ")
        .find(|rule| rule.starts_with(&format!("{name}\n")) && rule.contains(&format!("severity: \"{severity}\"")));
    assert!(rule.is_some_and(|rule| rule.contains(&format!("playbook: \"{playbook}\""))), "no such rule: {name}");
    let at = |second| jiff::Timestamp::from_second(second).unwrap().to_string();
    let labels = json!({ "alertname": name, "playbook": playbook, "severity": severity, "namespace": "llm",
                         "model_name": "llama", "cluster": "eu-1" });
    match ends {
        Some(ends) => json!({ "labels": labels, "startsAt": at(begins), "endsAt": at(ends) }),
        None => json!({ "labels": labels, "startsAt": at(begins) }),
    }
}

#[tokio::test]
async fn a_warning_that_becomes_critical_calls_mentions_pages_and_so_does_its_return() {
    let pager = FakePager::start(ROUTING_KEY, "whsec_c2VjcmV0").await.unwrap();
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (key, token) = (file("key", ROUTING_KEY), file("token", "t0ken"));
    let more = format!(
        "webhook: {{ bearer_token_file: {token} }}\npagers: [{{ name: on-call, kind: pagerduty, on: alert, \
         labels: {{ severity: critical }}, url: \"{}\", key_file: {key} }}]",
        pager.events_url
    );
    let run = start(Options::unlimited(), &more).await;
    let shipped = include_str!("../../config/alertmanager/llm-diagnose.yaml")
        .replace("http://llm-diagnose:9098", &run.service.url)
        .replace("/etc/alertmanager/llm-diagnose.token", &token)
        .replace("group_wait: 10s", "group_wait: 0s")
        .replace("group_interval: 1m", "group_interval: 1s");
    let alertmanager = Alertmanager::builder().config(&shipped).start().await.unwrap();
    let begun = clock::now().as_second() - 60;
    let post = async |alerts: Vec<Value>| alertmanager.post_alerts(&alerts).await.unwrap();
    let warning = |ends| alert("LLMUnknownModel", "gateway-misroute", "warning", begun, ends);
    // The critical one inhibits the warning of its playbook.
    let inhibited = |ends| alert("LLMAuthFailures", "auth-failures", "warning", begun, ends);
    let critical = |begins, ends| alert("LLMAuthFailures", "auth-failures", "critical", begins, ends);

    post(vec![warning(None), inhibited(None)]).await;
    run.wait_for(CHANNEL, |m| m.starts_with("WARNING")).await;
    assert_eq!(run.tops(PAGES).len(), 0);

    post(vec![critical(begun + 30, None)]).await;
    until(&run, |s| s.messages(PAGES).any(|m| m.content.text.starts_with(&format!("{CALL} CRITICAL")))).await;
    until(&run, |s| in_thread(s, CHANNEL, "*critical now*").is_some()).await;
    pager.wait_for(|pager| pager.events().len() == 1, SOON).await.unwrap();
    assert_eq!(pager.events()[0].body["payload"]["severity"], "critical");

    // Only warnings fire: that is said, and nobody is called.
    post(vec![critical(begun + 30, Some(clock::now().as_second()))]).await;
    for channel in [CHANNEL, PAGES] {
        until(&run, |s| in_thread(s, channel, "nothing critical fires any more").is_some()).await;
    }
    assert_eq!(run.slack.with(calls).len(), 1);

    let over = clock::now().as_second();
    post(vec![warning(Some(over)), inhibited(Some(over))]).await;
    for channel in [CHANNEL, PAGES] {
        until(&run, |s| in_thread(s, channel, "*resolved*").is_some()).await;
    }
    assert_eq!(run.slack.with(calls).len(), 1);

    // It fires again: a new call in the thread, shown in the channel, and another event for the pager.
    post(vec![critical(over + 1, None)]).await;
    until(&run, |s| calls(s).len() == 2 && in_thread(s, PAGES, CALL).is_some_and(|m| m.is_broadcast)).await;
    pager.wait_for(|pager| pager.events().len() == 2, SOON).await.unwrap();
    let events = pager.events();
    assert_eq!(events[0].body["dedup_key"], events[1].body["dedup_key"]);
    assert_eq!((pager.breaches(), run.slack.violations()), (vec![], vec![]));
}

fn mixed(status: &str) -> Value {
    let mut both = group("LLMHighTTFT", status, "warning", &["a", "b"]);
    both["alerts"][1]["labels"]["severity"] = "critical".into();
    both
}

#[tokio::test]
async fn a_group_that_begins_with_both_calls_at_once_and_once() {
    let run = start(Options::unlimited(), "").await;
    run.send(&mixed("firing")).await;
    until(&run, |s| s.messages(PAGES).any(|m| m.content.text.starts_with(&format!("{CALL} CRITICAL")))).await;
    run.wait_for(CHANNEL, |m| m.starts_with("CRITICAL")).await;
    run.send(&mixed("resolved")).await;
    for channel in [CHANNEL, PAGES] {
        run.wait_for(channel, |m| m.contains("RESOLVED")).await;
    }
    assert_eq!(run.slack.with(calls).len(), 1);
    assert_eq!((run.tops(CHANNEL).len(), run.tops(PAGES).len()), (1, 1));
    assert_eq!(run.slack.violations(), vec![]);
}

#[tokio::test]
async fn where_the_channel_of_critical_alerts_does_not_take_messages_the_first_one_calls() {
    let run = start(Options::unlimited(), "").await;
    run.slack.configure(|options| options.channels.retain(|channel| channel.name != "llm-pages"));
    run.send(&group("LLMHighTTFT", "firing", "warning", &["a"])).await;
    run.wait_for(CHANNEL, |m| m.starts_with("WARNING")).await;
    run.send(&mixed("firing")).await;
    until(&run, |s| in_thread(s, CHANNEL, CALL).is_some_and(|m| m.is_broadcast)).await;
    // The next notification tries the channel again, and calls nobody again.
    let mut more = mixed("firing");
    let mut third = more["alerts"][0].clone();
    third["fingerprint"] = "third".into();
    more["alerts"].as_array_mut().unwrap().push(third);
    run.send(&more).await;
    run.wait_for(CHANNEL, |m| m.contains("3 firing")).await;
    run.send(&mixed("resolved")).await;
    run.wait_for(CHANNEL, |m| m.contains("RESOLVED")).await;
    let made = run.slack.with(|s| s.messages(CHANNEL).filter(|m| m.content.text.contains(CALL)).count());
    assert_eq!((made, run.tops(CHANNEL).len()), (1, 1));
}

/// A critical group of a pool.
fn of_pool(name: &str, namespace: &str) -> Value {
    let mut group = group(name, "firing", "critical", &["a"]);
    group["groupKey"] = format!("{{}}:{{alertname=\"{name}\", namespace=\"{namespace}\"}}").into();
    group["alerts"][0]["labels"]["namespace"] = namespace.into();
    group["alerts"][0]["fingerprint"] = format!("{name}-{namespace}").into();
    group
}

#[tokio::test]
async fn in_a_storm_each_pool_that_becomes_critical_calls_once() {
    let run = start(Options::unlimited(), "  storm: { incidents: 1 }\n  posts_burst: 50\n").await;
    // The first incident has a message of its own.
    let digests = |s: &State| s.messages(PAGES).filter(|m| m.thread_ts.is_none()).count().saturating_sub(1);
    run.send(&of_pool("Odd0", "pool-a")).await;
    until(&run, |s| calls(s).len() == 1).await;
    for i in 1..6 {
        run.send(&of_pool(&format!("Odd{i}"), "pool-a")).await;
    }
    until(&run, |s| digests(s) == 5).await;
    // Five topics have digests of their own; the rest share one, whose message calls for its first pool.
    run.send(&of_pool("Odd6", "pool-b")).await;
    until(&run, |s| digests(s) == 6).await;
    let before = run.slack.with(calls).len();
    run.send(&of_pool("Odd7", "pool-c")).await;
    until(&run, |s| in_thread(s, PAGES, "critical in this storm too: pool-c").is_some_and(|m| m.is_broadcast)).await;
    assert!(run.slack.with(calls).len() > before, "another pool calls");
    let count = run.slack.with(calls).len();
    // The same pool again: it is counted, and calls nobody.
    run.send(&of_pool("Odd8", "pool-c")).await;
    let counted = |s: &State| s.messages(PAGES).any(|m| m.content.text.contains("storm of 3 incidents"));
    until(&run, counted).await;
    run.send(&of_pool("Odd9", "pool-d")).await;
    until(&run, |s| in_thread(s, PAGES, "too: pool-d").is_some()).await;
    assert_eq!(run.slack.with(calls).len(), count + 1, "{:#?}", run.slack.with(calls));
    assert_eq!(run.slack.violations(), vec![]);
}

#[tokio::test]
async fn what_flaps_calls_twice_and_then_now_and_then() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("state.db")).await.unwrap();
    let rules = AdmissionRules { duplicate_within: Duration::from_secs(60), reopen_within: Duration::from_secs(3_600) };
    let at = |second: i64| jiff::Timestamp::from_second(1_700_000_000 + second).unwrap();
    let told = async |status: &str, begun: i64, second: i64| {
        let mut group = group("LLMHighTTFT", status, "critical", &["a"]);
        group["alerts"][0]["startsAt"] = at(begun).to_string().into();
        let group = AlertGroup::from_webhook(&serde_json::to_vec(&group).unwrap()).unwrap();
        let wanted = AdmissionPlan {
            selection: None,
            sinks: Vec::new(),
            filtered: Vec::new(),
            grace: Duration::ZERO,
            storm: CALM,
        };
        let admitted = store.admit(&[(group, wanted)], at(second), &rules).await.unwrap().remove(0).unwrap();
        store.incident(&admitted.incident).await.unwrap().unwrap().critical_at.unwrap()
    };
    for (begun, since) in [(0, 0), (200, 200), (400, 200), (600, 200), (2_100, 2_100)] {
        assert_eq!(told("firing", begun, begun).await, at(since), "{begun}");
        assert_eq!(told("resolved", begun, begun + 100).await, at(since), "{begun}");
    }
}
