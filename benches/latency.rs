//! `make bench`: from the webhook to the diagnosis in Slack, against its floor, in one run on this machine.
//!
//! The floor is what nobody can beat: the plan's slowest single query and one Slack round trip. Slack is a local fake
//! that answers after a stated time. Also printed: memory, start-up and the binary's size, each with its bar.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot go on should stop where it is")]

use std::path::Path;
use std::time::{Duration, Instant};

use llm_diagnose::chart::{self, Band, Chart, Mark, Panel, Role, Series, Side, Threshold};
use llm_diagnose::clock;
use llm_diagnose::diagnose::{Baseline, Request, Scope, detection, plan, queries, read_detection};
use llm_diagnose::playbook;
use llm_diagnose::prom;
use llm_diagnose::signal::Unit;
use llm_diagnose_lab::sim::history::History;
use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec};
use llm_diagnose_lab::slack::{FakeSlack, Options};
use llm_diagnose_lab::stack::{Prometheus, Service};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_llm-diagnose");
const REPLICAS: usize = 8;
const HISTORY: f64 = 7_200.0;
const FAULT: f64 = 600.0;
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
    let prometheus = history().await;
    let slack = FakeSlack::start(Options { latency: SLACK, ..Options::unlimited() }).await.unwrap();
    let token = slack.token.clone();
    let config = format!(
        "listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\nprometheus: [{{ url: \"{}\" }}]\nslack: {{ api_url: \"{}\", \
         channel: \"#llm-alerts\", posts_per_second: 1000, posts_burst: 1000 }}\ndiagnose: {{ refresh: 1h }}\n",
        prometheus.url, slack.base_url
    );
    let started = Instant::now();
    let service = Service::builder(Path::new(BINARY))
        .args(["serve", "--config", "$CONFIG"])
        .env("SLACK_BOT_TOKEN", &token)
        .config(&config)
        .ready_path("/healthz")
        .start()
        .await
        .unwrap();
    let ready = started.elapsed();
    let idle = rss_mb(service.id().unwrap());

    let (slowest, sum, queries) = slowest_query(&prometheus).await;
    let floor = slowest + SLACK;
    let mut figures = Vec::new();
    for round in 0..ROUNDS {
        figures.push(one(&service, &slack, round).await);
    }
    let median = median(&mut figures);
    let busy = rss_mb(service.id().unwrap());
    let size = std::fs::metadata(BINARY).unwrap().len() as f64 / f64::from(1 << 20);

    println!("\nwebhook received to diagnosis delivered, median of {ROUNDS}, {queries} queries a diagnosis");
    println!("  slowest single query    {:>8.1} ms", ms(slowest));
    println!("  all queries in a row    {:>8.1} ms", ms(sum));
    println!("  one Slack round trip    {:>8.1} ms (artificial)", ms(SLACK));
    println!("  floor                   {:>8.1} ms", ms(floor));
    println!("  figure                  {:>8.1} ms", ms(median));
    println!("  ours beside Slack       {:>8.1} ms", ms(median.saturating_sub(SLACK)));
    bar("  ratio", median.as_secs_f64() / floor.as_secs_f64(), 1.3, "");
    let from = (ms(median.saturating_sub(SLACK)) - 1.3 * ms(slowest)) / 0.3;
    println!("  the bar holds from a Slack round trip of {from:.0} ms on");
    bar("idle RSS", idle, 40.0, " MB");
    println!("RSS after {ROUNDS} diagnoses: {busy:.1} MB");
    bar("ready after", ready.as_secs_f64(), 0.3, " s");
    bar("binary", size, 40.0, " MB");
    picture();
}

/// The largest picture: drawn 20 times, median.
fn picture() {
    let from = clock::before(clock::now(), Duration::from_secs(240 * 15));
    let at = |i: u64| clock::after(from, Duration::from_secs(i * 15));
    let line = |panel: u64, n: u64| Series {
        name: format!("vllm-llama-8b-6f9c7d-{n}"),
        points: (0..240).map(|i| (at(i), ((i * 7 + n * 13 + panel) % 23) as f64 + (i / 160 * n * 9) as f64)).collect(),
        role: if n == 7 { Role::Outlier } else { Role::Replica },
    };
    let panel = |i: u64| Panel {
        title: "inter-token latency p99".into(),
        unit: Unit::Seconds,
        series: (0..8).map(|n| line(i, n)).collect(),
        threshold: Some(Threshold { value: 40.0, bad: Side::Above, label: "limit 40 s".into() }),
        band: Some(Band { label: "yesterday".into(), points: (0..240).map(|i| (at(i), 5.0, 20.0)).collect() }),
        others: "other replicas".into(),
        says: String::new(),
    };
    let marks = vec![Mark { at: at(160), label: "one replica is slow".into() }];
    let (title, subtitle) = ("Tokens come slowly".into(), "llm".into());
    let chart = Chart { title, subtitle, panels: (0..6).map(panel).collect(), from, to: at(239), marks };
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..20 {
        let started = Instant::now();
        bytes = chart::png(&chart).len();
        times.push(started.elapsed());
    }
    bar("picture", ms(median(&mut times)), 100.0, " ms");
    bar("picture's size", bytes as f64 / 1e3, 200.0, " kB");
}

fn bar(what: &str, figure: f64, most: f64, unit: &str) {
    let word = if figure <= most { "ok" } else { "MISSED" };
    println!("{what:<24} {figure:>8.2}{unit} (bar {most}{unit}: {word})");
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

fn median(list: &mut [Duration]) -> Duration {
    list.sort();
    list[list.len() / 2]
}

/// Resident memory in MB; source: proc(5), `VmRSS` in kB.
fn rss_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1_000.0
}

async fn history() -> Prometheus {
    let now = clock::now().as_second() as f64;
    let mut fleet = Fleet::new(FleetSpec::sized(REPLICAS), 7, now - HISTORY).unwrap();
    let mut history = History::new(15.0);
    history.record(&mut fleet, now - FAULT);
    fleet.inject("longer-prompts".parse::<Fault>().unwrap()).unwrap();
    history.record(&mut fleet, now);
    let file = tempfile::NamedTempFile::new().unwrap();
    history.write(std::io::BufWriter::new(file.as_file())).unwrap();
    Prometheus::builder().backfill(file.path()).start().await.unwrap()
}

/// The time of the plan's slowest query, each asked alone, median of five.
async fn slowest_query(prometheus: &Prometheus) -> (Duration, Duration, usize) {
    let library = playbook::load(None).unwrap();
    let client =
        prom::Prometheus::new(&prom::Config { url: prometheus.url.clone(), ..prom::Config::default() }).unwrap();
    let scope = Scope::of_labels(&[("namespace".to_owned(), "llm".to_owned())].into());
    let at = clock::now();
    let deadline = || Instant::now() + Duration::from_secs(30);
    let rows = client.query(&detection(&library), at, deadline()).await.unwrap();
    let rows: Vec<_> = rows.iter().map(|row| row.labels.clone()).collect();
    let request = Request {
        playbook: "high-ttft".into(),
        scope,
        at,
        since: None,
        window: Duration::from_secs(300),
        baseline: Baseline::Earlier(Duration::from_secs(86_400)),
        deadline: Duration::from_secs(10),
    };
    let mut found = read_detection(&library, &request.scope, &rows);
    // What the service finds out by asking: the pool was there before the fault.
    found.past = Some(clock::before(at, Duration::from_secs(1_200)));
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
        let time = median(&mut times);
        slowest = slowest.max(time);
        sum += time;
    }
    // Before these go detection and whether the pool was there in either past.
    (slowest, sum, queries.len() + 3)
}

async fn one(service: &Service, slack: &FakeSlack, round: usize) -> Duration {
    let name = format!("LLMHighTTFT{round}");
    let body = json!({
        "version": "4", "groupKey": format!("{{}}:{{alertname=\"{name}\"}}"), "status": "firing", "receiver": "r",
        "alerts": [{ "status": "firing", "labels": { "alertname": name, "namespace": "llm", "severity": "critical" },
            "annotations": {}, "startsAt": clock::now(), "endsAt": "0001-01-01T00:00:00Z", "fingerprint": name }],
    });
    let client = reqwest::Client::new();
    // Diagnoses within five seconds share their answers; each round is to ask for itself.
    tokio::time::sleep(Duration::from_millis(5_100)).await;
    let sent = Instant::now();
    let url = format!("{}/webhook/alertmanager", service.url);
    let answer = client.post(url).json(&body).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
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
