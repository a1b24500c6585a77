//! `make bench`: from the webhook to the diagnosis in Slack, against its floor, in one run on this machine.
//!
//! The floor is what nobody can beat: the plan's slowest single query and one Slack round trip. Slack is a local fake
//! that answers after a stated time. Also printed: memory, start-up and the binary's size, each with its bar.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot go on should stop where it is")]

mod harness;

use std::time::{Duration, Instant};

use diagnose::{observe, plan, queries};
use findings::{Baseline, Request, Scope};
use knowledge::{clock, playbook};

use chart::{Band, Chart, ChartMark, ChartSeries, ChartThreshold, Panel, Role, ThresholdSide};

use knowledge::signal::Unit;
use llm_diagnose_lab::slack::{FakeSlack, Options};
use llm_diagnose_lab::stack::{Prometheus, Service};

use harness::{BINARY, bar, fleet, memory_mb, ms, send, serve, share, told};

const REPLICAS: usize = 8;
const HISTORY: f64 = 7_200.0;
const ROUNDS: usize = 11;
/// What a Slack call takes: an assumption, the middle of 100 to 300 ms.
const SLACK: Duration = Duration::from_millis(200);

#[tokio::main]
async fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    println!("preparing: {REPLICAS} replicas x {} h of history in a real Prometheus …", HISTORY / 3_600.0);
    let prometheus = fleet(REPLICAS, HISTORY).await;
    let slack = FakeSlack::start(Options { latency: SLACK, ..Options::unlimited() }).await.unwrap();
    let (keys, extra) = (", posts_per_second: 1000, posts_burst: 1000", "diagnose: { refresh: 1h }");
    let started = Instant::now();
    let service = serve(&prometheus.url, &slack, keys, extra, ("SLACK_APP_TOKEN", "xapp-lab")).await;
    let ready = started.elapsed();
    slack.wait_for(|s| s.connections() == 2, Duration::from_secs(20)).await.unwrap();
    let idle = memory_mb(&service, "VmRSS");

    let (slowest, sum, queries) = slowest_query(&prometheus).await;
    let floor = slowest + SLACK;
    let mut figures = Vec::new();
    for round in 0..ROUNDS {
        figures.push(one(&service, &slack, round).await);
    }
    let median = share(&mut figures, 0.5);
    println!("\nfrom the webhook to the diagnosis in Slack, median of {ROUNDS}, {queries} queries a diagnosis");
    told("slowest single query", ms(slowest), "ms");
    told("all queries, one after the other", ms(sum), "ms");
    told("one Slack round trip, artificial", ms(SLACK), "ms");
    told("floor: the slowest query and the round trip", ms(floor), "ms");
    told("figure", ms(median), "ms");
    told("figure without the round trip", ms(median.saturating_sub(SLACK)), "ms");
    bar("figure / floor", median.as_secs_f64() / floor.as_secs_f64(), 1.3, "");
    let from = (ms(median.saturating_sub(SLACK)) - 1.3 * ms(slowest)) / 0.3;
    told("the bar holds from a Slack round trip of", from.max(0.0), "ms");
    println!("\nthe program");
    bar("ready after", ready.as_secs_f64(), 0.3, "s");
    bar("memory when idle, two sockets open", idle, 30.0, "MB");
    told(&format!("memory after {ROUNDS} diagnoses"), memory_mb(&service, "VmRSS"), "MB");
    let binary = std::fs::metadata(BINARY).unwrap().len();
    bar("binary", binary as f64 / f64::from(1 << 20), 35.0, "MiB");
    picture();
}

/// The largest picture: drawn 20 times, median.
fn picture() {
    let from = clock::before(clock::now(), Duration::from_secs(240 * 15));
    let at = |i: u64| clock::after(from, Duration::from_secs(i * 15));
    let line = |panel: u64, n: u64| ChartSeries {
        name: format!("vllm-llama-8b-6f9c7d-{n}"),
        points: (0..240).map(|i| (at(i), ((i * 7 + n * 13 + panel) % 23) as f64 + (i / 160 * n * 9) as f64)).collect(),
        role: if n == 7 { Role::Outlier } else { Role::Replica },
    };
    let panel = |i: u64| Panel {
        title: "inter-token latency p99".into(),
        unit: Unit::Seconds,
        series: (0..8).map(|n| line(i, n)).collect(),
        threshold: Some(ChartThreshold { value: 40.0, bad: ThresholdSide::Above, label: "limit 40 s".into() }),
        band: Some(Band { label: "yesterday".into(), points: (0..240).map(|i| (at(i), 5.0, 20.0)).collect() }),
        others: "other replicas".into(),
        says: String::new(),
    };
    let marks = vec![ChartMark { at: at(160), label: "one replica is slow".into() }];
    let (title, subtitle) = ("Tokens come slowly".into(), "llm".into());
    let chart = Chart { title, subtitle, panels: (0..6).map(panel).collect(), from, to: at(239), marks };
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..20 {
        let started = Instant::now();
        bytes = chart::png(&chart).len();
        times.push(started.elapsed());
    }
    println!("\na picture of 6 panels with 240 points of 8 series each, median of {}", times.len());
    bar("drawn", ms(share(&mut times, 0.5)), 100.0, "ms");
    bar("size", bytes as f64 / 1e3, 200.0, "kB");
}

/// The time of the plan's slowest query, each asked alone, median of five.
async fn slowest_query(prometheus: &Prometheus) -> (Duration, Duration, usize) {
    let library = playbook::load(None).unwrap();
    let client =
        prom::Prometheus::new(&prom::Config { url: prometheus.url.clone(), ..prom::Config::default() }).unwrap();
    let scope = Scope::of_labels(&[("namespace".to_owned(), "llm".to_owned())].into());
    let at = clock::now();
    let deadline = || Instant::now() + Duration::from_secs(30);
    let request = Request {
        screen: false,
        rules: Vec::new(),
        conditions: Vec::new(),
        playbook: "high-ttft".into(),
        scope,
        at,
        since: None,
        window: Duration::from_secs(300),
        is_young: false,
        baseline: Baseline::Earlier(Duration::from_secs(86_400)),
        deadline: Duration::from_secs(10),
    };
    let found = observe(&library, &client, &request, None).await.detection;
    let queries = queries(&plan(&library, &request, &found));
    let (mut slowest, mut sum) = (Duration::ZERO, Duration::ZERO);
    for (query, at) in &queries {
        let mut times = Vec::new();
        for round in 0..5 {
            // Another moment each time, so that no answer is reused.
            let at = clock::before(*at, Duration::from_secs(round));
            let started = Instant::now();
            client.query(query, at, deadline()).await.unwrap();
            times.push(started.elapsed());
        }
        let time = share(&mut times, 0.5);
        slowest = slowest.max(time);
        sum += time;
    }
    // Before these go detection and whether the pool was there in either past.
    (slowest, sum, queries.len() + 3)
}

async fn one(service: &Service, slack: &FakeSlack, round: usize) -> Duration {
    let name = format!("LLMHighTTFT{round}");
    let client = reqwest::Client::new();
    // Diagnoses within five seconds share their answers; each round is to ask for itself.
    tokio::time::sleep(Duration::from_millis(5_100)).await;
    let sent = Instant::now();
    send(&client, service, round).await;
    let diagnosed = |text: &str| text.contains("KV cache is exhausted") && text.contains(&name);
    slack
        .wait_for(|s| s.calls().iter().any(|c| diagnosed(&c.args.to_string())), Duration::from_secs(20))
        .await
        .unwrap();
    let arrived = slack.calls().iter().find(|c| diagnosed(&c.args.to_string())).unwrap().at;
    if std::env::var_os("BENCH_SHOW").is_some() {
        let text = slack.calls().last().unwrap().args.to_string();
        let foot = text.find("queries in").map(|i| text[i..i + 20].to_owned());
        println!("{:?} after the webhook; {foot:?}", arrived.duration_since(sent));
    }
    arrived.duration_since(sent) + SLACK
}
