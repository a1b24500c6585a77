//! `make bench`: a bundle of a hundred replicas and an hour, from a real Prometheus on this machine.
//!
//! The bundle is made in a process of its own, this program again, so that time and memory are the product's alone;
//! Prometheus shares the machine with it, as it would not in a cluster. `BENCH_REPLICAS` makes it smaller.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot go on should stop where it is")]
#![allow(dead_code, reason = "the harness is shared with other benchmarks")]

mod harness;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use llm_diagnose::bundle::{self, Config, Options, Progress, Sources, Subject};
use llm_diagnose::diagnose::{self, Baseline, Request, Scope};
use llm_diagnose::prom::{self, Prometheus};
use llm_diagnose::redact::Redactor;
use llm_diagnose::render::{ENGLISH, Words};
use llm_diagnose::report::Window;
use llm_diagnose::{clock, playbook};

use harness::{bar, fleet, told};

const HOUR: f64 = 3_600.0;
/// The child's arguments: the address of Prometheus, the moment, where to write.
const CHILD: &str = "LLM_DIAGNOSE_BENCH_CHILD";

fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match std::env::var(CHILD) {
        Ok(what) => {
            let [url, at, path] = what.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
            runtime.block_on(child(url, at.parse().unwrap(), Path::new(path)));
        }
        Err(_) => runtime.block_on(parent()),
    }
}

async fn parent() {
    let replicas: usize = std::env::var("BENCH_REPLICAS").map_or(100, |text| text.parse().unwrap());
    println!("preparing: {replicas} replicas x 1 h, scraped every 15 s, in a real Prometheus …");
    let prometheus = fleet(replicas, HOUR).await;
    let dir = tempfile::tempdir().unwrap();
    let what = format!("{} {} {}", prometheus.url, clock::now(), dir.path().join("bundle.zip").display());
    let status = Command::new(std::env::current_exe().unwrap()).arg("--bench").env(CHILD, what).status().unwrap();
    assert!(status.success());
}

fn request(at: Timestamp) -> Request {
    Request {
        playbook: "high-ttft".into(),
        scope: Scope::of_labels(&[("namespace".to_owned(), "llm".to_owned())].into()),
        at,
        since: Some(clock::before(at, Duration::from_secs(300))),
        window: Duration::from_secs(300),
        baseline: Baseline::Earlier(Duration::from_secs(86_400)),
        deadline: Duration::from_secs(10),
    }
}

/// The whole bundle, then its series alone.
async fn child(url: &str, at: Timestamp, path: &Path) {
    let client = Prometheus::new(&prom::Config { url: url.to_owned(), ..prom::Config::default() }).unwrap();
    let library = Arc::new(playbook::load(None).unwrap());
    let window = Window { from: clock::before(at, Duration::from_secs(3_600)), to: at };
    let (request, idle) = (request(at), memory_mb("VmRSS"));
    let sources = Sources {
        library: library.clone(),
        words: Arc::new(Words::load(ENGLISH, None).unwrap()),
        prometheus: Some(client.clone()),
        reader: None,
        kubernetes: None,
        loki: None,
        files: Vec::new(),
        diagnosing: diagnose::Config::default(),
    };
    let subject = Subject {
        incident: None,
        headline: "First tokens are late".into(),
        request: request.clone(),
        diagnosis: None,
        window,
        happened: Vec::new(),
    };
    let started = Instant::now();
    let options = Options::of(&Config::default());
    let made = bundle::make(&sources, &subject, &options, path, &Progress::default()).await.unwrap();
    println!("\nthe whole bundle");
    bar("made in", started.elapsed().as_secs_f64(), 20.0, "s");
    bar("memory at most", memory_mb("VmHWM"), 150.0, "MB");
    told("of that before it began", idle, "MB");
    told("its file", made.bytes as f64 / 1e6, "MB");
    for part in made.report.parts {
        let what = format!("part {}: {:?}", part.name, part.stage);
        told(&what, part.took_seconds, "s");
    }
    println!("\nits series alone, uncompressed");
    let (started, deadline) = (Instant::now(), Instant::now() + Duration::from_secs(300));
    let (bytes, redactor, out) = (options.series_bytes, Redactor::off(), std::io::sink());
    let written = bundle::series::write(&library, &client, &request, window, bytes, &redactor, out, deadline).await;
    told("written in", started.elapsed().as_secs_f64(), "s");
    told("series", written.series as f64, "");
    told("samples", written.samples as f64 / 1e6, "M");
    told("bytes", written.bytes as f64 / 1e6, "MB");
    told("queries", written.queries as f64, "");
    told("memory at most", memory_mb("VmHWM"), "MB");
    written.left_out.iter().for_each(|(what, why)| println!("  left out: {what}: {why}"));
}

/// Our own memory in MB; source: proc(5), in kB.
fn memory_mb(which: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(which)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1_000.0
}
