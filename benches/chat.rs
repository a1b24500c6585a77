//! `make bench`: how fast Slack is answered in a storm, when the storm is seen, and how fast a message is rendered.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot go on should stop where it is")]

mod harness;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use diagnose::diagnose;
use findings::{Baseline, Diagnosis, Request, Scope};
use futures::StreamExt;
use futures::stream::iter;
use knowledge::alert::AlertGroup;
use knowledge::incident::{AdmitReason, ChangeReason};
use knowledge::{clock, playbook};

use llm_diagnose_lab::slack::{FakeSlack, Message, Options, Outcome, State, User};
use llm_diagnose_lab::stack::Prometheus;
use render::{IncidentView, Phrases};

use harness::{CHANNEL, bar, fleet, group, memory_mb, ms, send, serve, share, told};

/// Commands, how many at once, and from how many people.
const COMMANDS: usize = 1_000;
const AT_ONCE: usize = 50;
const PEOPLE: usize = 50;
/// Groups that begin to fire while the commands come.
const FLOOD: usize = 200;
/// Groups of the storm whose messages are timed.
const STORM: usize = 100;
/// Webhooks at once.
const WEBHOOKS: usize = 20;
/// Renderings of one message.
const RENDERINGS: u32 = 500;

#[tokio::main]
async fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let prometheus = fleet(4, 3_600.0).await;
    rendering(&prometheus).await;
    acks(&prometheus).await;
    storm(&prometheus, "in digests, as configured by default", "", &digested).await;
    storm(&prometheus, "each with a message of its own", ", storm: { incidents: 0 }", &apart).await;
}

async fn diagnosis(prometheus: &Prometheus) -> Diagnosis {
    let library = playbook::load(None).unwrap();
    let client =
        prom::Prometheus::new(&prom::Config { url: prometheus.url.clone(), ..prom::Config::default() }).unwrap();
    let request = Request {
        screen: false,
        rules: Vec::new(),
        conditions: Vec::new(),
        playbook: "high-ttft".into(),
        scope: Scope::of_labels(&[("namespace".to_owned(), "llm".to_owned())].into()),
        at: clock::now(),
        since: None,
        window: Duration::from_secs(300),
        is_young: false,
        baseline: Baseline::Earlier(Duration::from_secs(86_400)),
        deadline: Duration::from_secs(10),
    };
    diagnose(&library, &client, &request).await
}

/// An incident's message, from the diagnosis to the JSON for Slack.
async fn rendering(prometheus: &Prometheus) {
    let diagnosis = diagnosis(prometheus).await;
    assert!(diagnosis.root().is_some(), "the simulated fault has a cause");
    let body = serde_json::to_vec(&group(0)).unwrap();
    let alerts = AlertGroup::from_webhook(&body).unwrap().alerts;
    let words = Phrases::english();
    let view = IncidentView {
        id: "01JD0000000000000000000000",
        alerts: &alerts,
        diagnosis: Some(&diagnosis),
        because: Some("alert name"),
        reason: Some(&ChangeReason::Notification(AdmitReason::First)),
        interactive: true,
        ..IncidentView::default()
    };
    let started = Instant::now();
    let mut bytes = 0;
    for _ in 0..RENDERINGS {
        let message = render::slack(&render::incident_message(&view, &words));
        bytes = message.text.len() + serde_json::to_vec(&(&message.blocks, &message.attachments)).unwrap().len();
    }
    println!("\na message, from the diagnosis to Slack's JSON ({:.1} kB), mean of {RENDERINGS}", bytes as f64 / 1e3);
    bar("rendered", ms(started.elapsed()) / f64::from(RENDERINGS), 2.0, "ms");
}

/// Signed commands while a storm is stored, diagnosed and delivered.
async fn acks(prometheus: &Prometheus) {
    let person = |n: usize| format!("U0P{n:03}");
    let users = (0..PEOPLE).map(|n| User::new(&person(n), &format!("person{n}"))).collect();
    let slack = FakeSlack::start(Options { users, ..Options::unlimited() }).await.unwrap();
    let keys = ", transport: http, storm: { incidents: 0 }, queue: 1000, posts_per_second: 20, commands_per_minute: \
                [100000, 100000, 100000]";
    let secret = slack.with(|_| Options::default().signing_secret);
    let service = serve(&prometheus.url, &slack, keys, "", ("SLACK_SIGNING_SECRET", &secret)).await;
    slack.configure(|options| options.request_url = Some(format!("{}/slack", service.url)));
    let client = reqwest::Client::new();
    let flood = iter(0..FLOOD).map(|number| send(&client, &service, number)).buffer_unordered(WEBHOOKS);
    let commands = iter(0..COMMANDS).map(|number| {
        let (slack, user) = (&slack, person(number % PEOPLE));
        async move { slack.command(&user, "C0LLMALERTS", "help").await.unwrap() }
    });
    let typing = async {
        // The storm is on once the first message stands.
        slack.wait_for(|s| tops(s).next().is_some(), Duration::from_secs(60)).await.unwrap();
        let before = slack.with(|s| tops(s).count());
        let started = Instant::now();
        let acks = commands.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
        (acks, started.elapsed(), [before, slack.with(|s| tops(s).count())])
    };
    let (_, (acks, took, [before, after])) = tokio::join!(flood.collect::<Vec<_>>(), typing);
    let refused = acks.iter().filter(|ack| ack.body.is_some()).count();
    let mut times: Vec<Duration> = acks.iter().map(|ack| ack.delay).collect();
    println!(
        "\n{COMMANDS} signed slash commands, {AT_ONCE} at once, within {:.1} s, while {FLOOD} incidents come (delivered \
         so far: {before} at the first, {after} at the last)",
        took.as_secs_f64()
    );
    told("acknowledged, p50", ms(share(&mut times, 0.5)), "ms");
    bar("acknowledged, p99", ms(share(&mut times, 0.99)), 100.0, "ms");
    told("acknowledged, slowest", ms(share(&mut times, 1.0)), "ms");
    println!("  {refused} were told to try again, because 64 were in work");
    let all = |s: &State| {
        let answers = s.messages(CHANNEL).filter(|m| m.only_for.is_some()).count();
        answers >= COMMANDS && tops(s).count() >= FLOOD
    };
    let all = slack.wait_for(all, Duration::from_secs(60)).await;
    let (answers, shown) =
        slack.with(|s| (s.messages(CHANNEL).filter(|m| m.only_for.is_some()).count(), tops(s).count()));
    let word = if all.is_ok() { "ok" } else { "MISSED" };
    println!("  {answers} of {COMMANDS} commands answered, {shown} of {FLOOD} incidents shown: {word}");
    told("memory at most", memory_mb(&service, "VmHWM"), "MB");
}

/// A hundred incidents at once, at Slack's real rates.
async fn storm(prometheus: &Prometheus, how: &str, keys: &str, all: &(dyn Fn(&State) -> bool + Sync)) {
    let slack = FakeSlack::start(Options::default()).await.unwrap();
    let service = serve(&prometheus.url, &slack, keys, "", ("SLACK_APP_TOKEN", "xapp-lab")).await;
    let client = reqwest::Client::new();
    let started = Instant::now();
    iter(0..STORM).map(|number| send(&client, &service, number)).buffer_unordered(WEBHOOKS).collect::<Vec<_>>().await;
    let seen = slack.wait_for(all, Duration::from_secs(180)).await;
    let took = if seen.is_ok() { started.elapsed().as_secs_f64() } else { f64::INFINITY };
    let calls = slack.calls();
    println!("\n{STORM} incidents at once into one channel at Slack's rates, {how}");
    bar("all of them seen after", took, 115.0, "s");
    let mut methods: BTreeMap<&str, usize> = BTreeMap::new();
    calls.iter().for_each(|call| *methods.entry(call.method.as_str()).or_default() += 1);
    let methods: Vec<String> = methods.iter().map(|(method, n)| format!("{n} {method}")).collect();
    println!("  {} calls until then: {}", calls.len(), methods.join(", "));
    let refused = calls.iter().filter(|call| matches!(call.outcome, Outcome::RateLimited(_))).count();
    bar("answered 429", refused as f64, 3.0, "");
    bar("rules of Slack's broken", slack.violations().len() as f64, 0.0, "");
    told("memory at most", memory_mb(&service, "VmHWM"), "MB");
}

fn tops(state: &State) -> impl Iterator<Item = &Message> {
    state.messages(CHANNEL).filter(|m| m.thread_ts.is_none() && m.only_for.is_none())
}

/// Twenty have a message of their own, and one digest counts the others.
fn digested(state: &State) -> bool {
    let counted = format!("{} incidents", STORM - 20);
    tops(state).count() == 21 && tops(state).any(|m| m.content.text.contains(&counted))
}

fn apart(state: &State) -> bool {
    tops(state).count() == STORM
}
