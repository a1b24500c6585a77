//! `make bench`: the duration of a backtest of 30 days with 200 firings against a local Prometheus; its bar is two minutes.
//!
//! One simulated day with three faults is repeated, so that the import takes minutes and not an hour. `DAYS` and `FIRINGS`
//! in the environment make it smaller.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot go on should stop where it is")]

mod harness;

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use backtest::Backtest;
use knowledge::clock;
use llm_diagnose_lab::sim::history::History;
use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec};
use llm_diagnose_lab::stack::Prometheus;
use llm_diagnose_lab::stack::backfill::{Series, openmetrics};

use harness::{BINARY, bar, told};

const DAY: i64 = 86_400;
const REPLICAS: usize = 3;
/// The faults of each day, with the minutes at which they begin and end.
const FAULTS: [(&str, i64, i64); 3] =
    [("longer-prompts", 240, 280), ("traffic-surge", 600, 640), ("slot-limit", 960, 1_010)];
/// Names of samples that no signal of a diagnosis reads, and of many series.
const UNREAD: [&str; 3] = ["http_request", "python_", "process_"];

#[tokio::main]
async fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let [days, firings] = [("DAYS", 30), ("FIRINGS", 200)].map(|(name, usual)| {
        std::env::var(name).ok().and_then(|n| n.parse::<i64>().ok()).filter(|n| *n > 0).unwrap_or(usual)
    });
    println!("preparing: {REPLICAS} replicas x {days} days, {firings} firings, in a real Prometheus …");
    let end = clock::now().as_second() / DAY * DAY - DAY / 4;
    let begin = end - days * DAY;
    let prometheus = prometheus(begin, days, firings).await;
    let started = Instant::now();
    let output = Command::new(BINARY)
        .args(["backtest", "--prometheus", &prometheus.url, "--until", &end.to_string(), "--output", "json"])
        .args([format!("--since={days}d"), format!("--max-firings={firings}")])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let took = started.elapsed().as_secs_f64();
    let backtest: Backtest = serde_json::from_slice(&output.stdout).unwrap();
    println!("\na backtest of {days} days, with {} firings", backtest.firings.len());
    told("confirmed", backtest.counts.confirmed as f64, "");
    told("nothing abnormal", backtest.counts.nothing_abnormal as f64, "");
    told("symptoms without an alert", backtest.unalerted.iter().map(|symptom| symptom.times).sum::<usize>() as f64, "");
    told("queries", backtest.load.queries as f64, "");
    bar("30 days, 200 firings", took, 120.0, "s");
}

/// A Prometheus with one simulated day, again and again, and the alerts.
async fn prometheus(begin: i64, days: i64, firings: i64) -> Prometheus {
    let text = day(begin);
    let histories = tempfile::tempdir().unwrap();
    let mut builder = Prometheus::builder();
    for n in 0..days {
        let path = histories.path().join(format!("day-{n}"));
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (sample, at) = line.rsplit_once(' ').unwrap();
            writeln!(file, "{sample} {}", at.parse::<f64>().unwrap() + (n * DAY) as f64).unwrap();
        }
        file.write_all(b"# EOF\n").unwrap();
        file.flush().unwrap();
        builder = builder.backfill(path);
    }
    builder.backfill_text(&alerts(begin, days, firings)).unwrap().start().await.unwrap()
}

fn day(begin: i64) -> String {
    let minute = |minute: i64| (begin + minute * 60) as f64;
    let spec = FleetSpec { requests_per_second: 3.0 * REPLICAS as f64, ..FleetSpec::sized(REPLICAS) };
    let mut fleet = Fleet::new(spec, 1, minute(-70)).unwrap();
    fleet.advance_to(minute(0));
    let mut history = History::new(60.0).only(|name| !UNREAD.iter().any(|unread| name.starts_with(unread)));
    for (fault, from, to) in FAULTS {
        let fault: Fault = fault.parse().unwrap();
        history.record(&mut fleet, minute(from));
        fleet.inject(fault).unwrap();
        fleet.advance_to(minute(from) + 1.0);
        history.record(&mut fleet, minute(to));
        fleet.clear(fault);
        fleet.advance_to(minute(to) + 1.0);
    }
    history.record(&mut fleet, minute(24 * 60) - 1.0);
    let mut text = Vec::new();
    history.write(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// So many firings, spread evenly over the days: three of a day during its faults, the others on healthy hours.
fn alerts(begin: i64, days: i64, firings: i64) -> String {
    let per_day = (firings + days - 1) / days;
    let of = |n: i64| {
        let (day, place) = (n / per_day, n % per_day);
        let (name, playbook, minute) = match place {
            0 => ("LLMHighTTFT", "high-ttft", 246),
            1 => ("LLMElevatedTTFT", "high-ttft", 249),
            2 => ("LLMQueueBuildup", "queue-buildup", 606),
            n => ("LLMElevatedTBT", "high-itl", 60 + 90 * n % 1_300),
        };
        let labels = [("alertname", name), ("namespace", "llm"), ("playbook", playbook), ("severity", "critical")];
        let number = place.to_string();
        let labels: Vec<(&str, &str)> = labels.into_iter().chain([("alertstate", "firing"), ("n", &number)]).collect();
        let from = begin + day * DAY + minute * 60;
        Series::new("ALERTS", &labels).steady(from, from + 1_200, 60, 1.0)
    };
    openmetrics((0..firings).map(of))
}
