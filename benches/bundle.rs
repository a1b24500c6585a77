//! `make bench`: the bundle of an incident of a hundred replicas and an hour, from a real Prometheus on this machine.
//!
//! The bundle is made in a process of its own, this program again, so that time and memory are the product's alone: the
//! diagnosis stands before, as in the service. Prometheus shares the machine with it, as it would not in a cluster; the
//! time of its own processor says how much of the figure is ours. Once as it is, once anonymised, and once with a tenth
//! of the replicas, to see how it grows. `BENCH_REPLICAS` makes it smaller or larger. Last, what a large bundle takes of
//! memory on its way out: downloaded from the service, and uploaded to a local fake of Slack.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot go on should stop where it is")]

mod harness;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::slack::{Destination, Slack};
use findings::Diagnosis;
use knowledge::alert::AlertGroup;
use knowledge::incident::{AdmitReason, ChangeReason};
use knowledge::{clock, playbook};
use prom::Prometheus;
use redact::Redactor;
use render::Phrases;

use bundle::{BundleProgress, Options, Sources};
use service::Subject;
use service::config::BundleConfig;
use sources::exporter::ExporterReader;
use store::Incident;

use llm_diagnose_lab::slack::{self, FakeSlack};

use harness::{CHANNEL, FAULT, bar, fleet, group, serve, told};

const HOUR: f64 = 3_600.0;
/// The child's arguments: an address, a path, what to do.
const CHILD: &str = "LLM_DIAGNOSE_BENCH_CHILD";
const REDACTED: &str = "redacted";
const ANONYMIZED: &str = "anonymized";
const UPLOAD: &str = "upload";
/// A bundle that is sent, and its bytes.
const LARGE: &str = "llm-diagnose-bench-20261122T010000Z.zip";
const LARGE_BYTES: u64 = 50 << 20;
/// The diagnosis that stands, and what is made.
const DIAGNOSIS: &str = "diagnosis.json";
const BUNDLE: &str = "bundle.zip";
/// Ticks of the processor's time a second; source: proc(5), `sysconf(_SC_CLK_TCK)`, 100 on every Linux that we know.
const TICKS: f64 = 100.0;

fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match std::env::var(CHILD) {
        Ok(what) => {
            let [url, path, how] = what.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
            match how {
                UPLOAD => runtime.block_on(upload(url, Path::new(path))),
                how => runtime.block_on(make(url, Path::new(path), how == ANONYMIZED)),
            }
        }
        Err(_) => runtime.block_on(async {
            made().await;
            let dir = tempfile::tempdir().unwrap();
            sent(&dir.path().join(LARGE)).await;
        }),
    }
}

/// Bundles, each made by a process of its own.
async fn made() {
    let replicas: usize = std::env::var("BENCH_REPLICAS").map_or(100, |text| text.parse().unwrap());
    for (replicas, ways) in [(replicas.div_ceil(10), [REDACTED].as_slice()), (replicas, &[REDACTED, ANONYMIZED])] {
        println!("\npreparing: {replicas} replicas x 1 h, scraped every 15 s, in a real Prometheus …");
        let prometheus = fleet(replicas, HOUR).await;
        let dir = tempfile::tempdir().unwrap();
        let subject = subject(None);
        let diagnosis = diagnose::diagnose(&library(), &client(&prometheus.url), &subject.request).await;
        std::fs::write(dir.path().join(DIAGNOSIS), serde_json::to_vec(&diagnosis).unwrap()).unwrap();
        for how in ways {
            let load = std::fs::read_to_string("/proc/loadavg").unwrap();
            println!("\nthe bundle of {replicas} replicas, {how}; load before it {}", &load[..load.len().min(14)]);
            let before = requests(&prometheus.url).await;
            again(&prometheus.url, dir.path(), how);
            told("requests that Prometheus counted", requests(&prometheus.url).await - before, "");
        }
    }
}

/// This program again, as a child.
fn again(url: &str, path: &Path, how: &str) {
    let program = std::env::current_exe().unwrap();
    let what = format!("{url} {} {how}", path.display());
    assert!(Command::new(program).arg("--bench").env(CHILD, what).status().unwrap().success());
}

fn library() -> Arc<playbook::Library> {
    Arc::new(playbook::load(None).unwrap())
}

fn client(url: &str) -> Prometheus {
    Prometheus::new(&prom::Config { url: url.to_owned(), ..prom::Config::default() }).unwrap()
}

/// Requests to the API so far, as Prometheus itself counts them.
async fn requests(url: &str) -> f64 {
    let page = reqwest::get(format!("{url}/metrics")).await.unwrap().text().await.unwrap();
    let counted = page.lines().filter(|l| l.starts_with("prometheus_http_requests_total{") && l.contains("/api/"));
    counted.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// An incident that is open since the fault, with the hour up to its diagnosis.
fn subject(diagnosis: Option<Diagnosis>) -> Subject {
    let at = diagnosis.as_ref().map_or_else(clock::now, |diagnosis| diagnosis.at);
    let since = clock::before(at, Duration::from_secs_f64(FAULT));
    let mut alerts = AlertGroup::from_webhook(&serde_json::to_vec(&group(1)).unwrap()).unwrap().alerts;
    alerts.iter_mut().for_each(|alert| alert.starts_at = since);
    let incident = Incident {
        related: Default::default(),
        id: "01k00000000000000000000000".into(),
        group_key: "{}:{alertname=\"LLMHighTTFT1\"}".into(),
        open: true,
        playbook: Some("high-ttft".into()),
        because: None,
        reason: ChangeReason::Notification(AdmitReason::First),
        started_at: since,
        opened_at: since,
        resolved_at: None,
        refired: 0,
        truncated: 0,
        diagnosis,
        revision: 1,
        alerts,
        critical: true,
        acknowledged: None,
        snoozed: false,
        impact: None,
        external_url: String::new(),
        source: String::new(),
        critical_at: None,
        seen_before: 0,
        notes: Vec::new(),
    };
    let margin = Duration::from_secs_f64(HOUR - FAULT);
    Subject::of_incident(
        &library(),
        incident,
        "First tokens are late".into(),
        &[],
        &diagnose::Config::default(),
        margin,
        at,
    )
}

/// The whole bundle, as the service makes it.
async fn make(url: &str, dir: &Path, anonymize: bool) {
    let library = library();
    let redactor = Redactor::new(&report::redaction(&library), false).unwrap();
    let sources = Sources {
        library,
        words: Arc::new(Phrases::english()),
        prometheus: Some(client(url)),
        reader: Some((ExporterReader::new(&[]).unwrap(), Vec::new())),
        kubernetes: None,
        no_cluster: None,
        loki: None,
        files: Vec::new(),
        diagnosing: diagnose::Config::default(),
        redactor,
    };
    let subject = subject(Some(serde_json::from_slice(&std::fs::read(dir.join(DIAGNOSIS)).unwrap()).unwrap()));
    let options = Options { anonymize, ..Options::of(&BundleConfig::default()) };
    let progress = BundleProgress::default();
    let peaks = tokio::spawn(peaks(progress.clone()));
    let (idle, worked, started) = (memory_mb("VmRSS"), worked_seconds(), Instant::now());
    let made = bundle::make(&sources, &subject, &options, &dir.join(BUNDLE), &progress).await.unwrap();
    let took = started.elapsed().as_secs_f64();
    bar("made in", took, 20.0, "s");
    bar("memory at most", memory_mb("VmHWM"), 150.0, "MB");
    told("of that before it began", idle, "MB");
    told("our processor's time, of all threads", worked_seconds() - worked, "s");
    told("its file", made.bytes as f64 / 1e6, "MB");
    drop(progress);
    let peaks = peaks.await.unwrap();
    for part in &made.report.parts {
        // The report tells of itself before it is written.
        let peak = peaks.iter().find(|(name, _)| *name == part.name).map_or(0.0, |(_, peak)| *peak);
        println!(
            "  {:<12} {:<8} {:>6.2} s {:>8.1} MB {peak:>6.0} MB of memory until then at most; {}",
            part.name,
            format!("{:?}", part.stage).to_lowercase(),
            part.took_seconds,
            part.bytes as f64 / 1e6,
            part.note,
        );
    }
    let mut zip = zip::ZipArchive::new(std::fs::File::open(dir.join(BUNDLE)).unwrap()).unwrap();
    for i in 0..zip.len() {
        let entry = zip.by_index(i).unwrap();
        told(
            &format!("{}, of {:.2} MB", entry.name().unwrap(), entry.size() as f64 / 1e6),
            entry.compressed_size() as f64 / 1e6,
            "MB",
        );
    }
}

/// A large bundle on its way out.
async fn sent(path: &Path) {
    println!("\na bundle of {} MiB on its way out", LARGE_BYTES >> 20);
    let slack = FakeSlack::start(slack::Options::unlimited()).await.unwrap();
    // Port 1 has nobody: no metric is asked for here.
    let prometheus = "http://127.0.0.1:1";
    let service = serve(prometheus, &slack, "", "", ("SLACK_APP_TOKEN", "xapp-lab")).await;
    let directory = service.directory().join("state/bundles");
    std::fs::create_dir_all(&directory).unwrap();
    for path in [path, &directory.join(LARGE)] {
        std::fs::File::create(path).unwrap().set_len(LARGE_BYTES).unwrap();
    }
    let before = harness::memory_mb(&service, "VmHWM");
    let mut answer = reqwest::get(format!("{}/bundles/{LARGE}", service.url)).await.unwrap();
    let mut bytes = 0;
    while let Some(chunk) = answer.chunk().await.unwrap() {
        bytes += chunk.len() as u64;
    }
    assert_eq!(bytes, LARGE_BYTES, "HTTP {}", answer.status());
    bar("downloaded: the service's memory grew by", harness::memory_mb(&service, "VmHWM") - before, 10.0, "MB");
    again(&slack.base_url, path, UPLOAD);
}

async fn upload(url: &str, path: &Path) {
    let client = Slack::new(url, "xoxb-lab").unwrap();
    let before = memory_mb("VmHWM");
    let to = Destination { channel: CHANNEL, thread: None };
    client.upload_file(LARGE, LARGE, path, to).await.unwrap();
    bar("uploaded: memory grew by", memory_mb("VmHWM") - before, 10.0, "MB");
}

/// The most memory so far when each part ended.
async fn peaks(progress: BundleProgress) -> Vec<(String, f64)> {
    let mut board = progress.watch();
    drop(progress);
    let mut peaks: Vec<(String, f64)> = Vec::new();
    while board.changed().await.is_ok() {
        for part in board.borrow_and_update().iter().filter(|part| part.took_seconds > 0.0) {
            if !peaks.iter().any(|(name, _)| *name == part.name) {
                peaks.push((part.name.clone(), memory_mb("VmHWM")));
            }
        }
    }
    peaks
}

/// Our own memory in MB; source: proc(5), in kB.
fn memory_mb(which: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(which)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1_000.0
}

/// What our threads took of the processor so far; source: proc(5), the 14th and 15th field.
fn worked_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let ticks = after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap());
    ticks.sum::<f64>() / TICKS
}
