//! Everything that a bundle asks: the shared Prometheus with a fleet whose prompts became longer, and beside it two
//! engines, a cluster, a Loki and a file that tell of the same replicas.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bundle::{BuiltBundle, BundleProgress, Options, Sources, make};
use findings::ExporterTarget;
use jiff::Timestamp;
use knowledge::alert::{Alert, AlertStatus};
use knowledge::clock;
use knowledge::incident::{AdmitReason, ChangeReason};
use llm_diagnose_lab::kubernetes::{FakeKubernetes, deployment, event, kubeconfig, node, object, owned, pod};
use llm_diagnose_lab::sources::{FakeEngine, FakeLoki};
use render::Phrases;
use report::{Report, ReportPart, Stage};
use serde_json::{Value, json};
use service::Subject;
use service::config::BundleConfig;
use sources::exporter::{Allowed, ExporterReader};
use sources::kubernetes::Kubernetes;
use sources::loki::Loki;
use sources::{kubernetes, loki};
use store::Incident;
use tempfile::TempDir;

use crate::chains::moment;
use crate::harness::{at, library, redactor, shared, tls};

/// The case whose fleet it is, and its namespace.
pub(super) const CASE: &str = "longer-prompts";
/// Its replicas.
pub(super) const PODS: [&str; 4] = ["vllm-llama-8b-0", "vllm-llama-8b-1", "vllm-llama-8b-2", "vllm-llama-8b-3"];
/// The nodes that they run on, as the fleet's metrics have it.
pub(super) const NODE: &str = "gpu-node-0";
const IMAGE: &str = "vllm/vllm-openai:v0.33.0";

/// The sources.
pub(super) struct Site {
    pub(super) engines: Vec<FakeEngine>,
    pub(super) cluster: FakeKubernetes,
    pub(super) loki: FakeLoki,
    pub(super) dir: TempDir,
}

impl Site {
    pub(super) async fn new() -> Self {
        tls();
        let engines = vec![FakeEngine::vllm_in_development().await.unwrap(), FakeEngine::vllm().await.unwrap()];
        let (cluster, loki) = (FakeKubernetes::start().await.unwrap(), FakeLoki::start().await.unwrap());
        for name in PODS {
            cluster.add(replica(name));
            let text = "INFO 11-20 03:00:00 [core.py:1] ready\nINFO 11-20 03:00:09 [loggers.py:127] Engine 000: Avg prompt \
                        throughput: 1204.5 tokens/s, Avg generation throughput: 312.8 tokens/s, Running: 28 reqs, \
                        Waiting: 0 reqs, GPU KV cache usage: 61.0%, Prefix cache hit rate: 12.0%\n";
            cluster.log(CASE, name, "main", false, text);
        }
        let replicas = object("apps/v1", "ReplicaSet", CASE, "vllm-llama-8b-7d9c5b4f6");
        cluster.add(owned(replicas, "apps/v1", "Deployment", "vllm-llama-8b"));
        cluster.add(deployment(CASE, "vllm-llama-8b"));
        cluster.add(node(NODE));
        let when = ago(120).to_string();
        cluster.add(event(CASE, "Pod", PODS[1], "Unhealthy", "Readiness probe failed: timeout", &when));
        let (labels, nanoseconds) = (labels("router"), (moment(CASE) - 60) * 1_000_000_000);
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        loki.push(&labels, nanoseconds, "WARN upstream timed out");
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("engine.log"), "INFO 11-20 03:00:00 [api_server.py:1] by hand\n").unwrap();
        Self { engines, cluster, loki, dir }
    }

    pub(super) fn log_file(&self) -> PathBuf {
        self.dir.path().join("engine.log")
    }

    /// Every source, whole.
    pub(super) async fn sources(&self) -> Sources {
        let target = |(n, engine): (usize, &FakeEngine)| ExporterTarget {
            engine: "vllm".to_owned(),
            url: engine.metrics(),
            labels: [("pod".to_owned(), PODS[n].to_owned())].into(),
            seen: None,
        };
        let loki = Loki::new(&loki::Config { url: self.loki.url.clone(), ..loki::Config::default() }).unwrap();
        Sources {
            prometheus: Some(shared().clone()),
            reader: Some((reader(), self.engines.iter().enumerate().map(target).collect())),
            kubernetes: Some(connected(&self.cluster.url).await),
            loki: Some(loki),
            files: vec![self.log_file()],
            ..nothing()
        }
    }
}

/// No source at all.
pub(super) fn nothing() -> Sources {
    Sources {
        library: Arc::new(library().clone()),
        words: Arc::new(Phrases::english()),
        prometheus: None,
        reader: None,
        kubernetes: None,
        no_cluster: None,
        loki: None,
        files: Vec::new(),
        diagnosing: diagnose::Config::default(),
        redactor: redactor(false),
    }
}

pub(super) fn reader() -> ExporterReader {
    tls();
    ExporterReader::new(&[Allowed::try_from("127.0.0.0/8".to_owned()).unwrap()]).unwrap()
}

pub(super) async fn connected(url: &str) -> Kubernetes {
    tls();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig(url)).unwrap();
    let path = Some(file.path().to_owned());
    let config = kubernetes::Config { enabled: Some(true), kubeconfig: path, ..kubernetes::Config::default() };
    Kubernetes::connect(&config).await.unwrap().unwrap()
}

/// What Loki knows a stream by.
pub(super) fn labels(container: &str) -> Vec<(&'static str, String)> {
    let all = [("namespace", CASE), ("pod", PODS[0]), ("container", container), ("stream", "stderr")];
    all.into_iter().map(|(name, value)| (name, value.to_owned())).collect()
}

/// A replica that was killed four minutes before.
pub(super) fn replica(name: &str) -> Value {
    let args = ["vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct", "--max-num-seqs", "256"];
    let mut pod = owned(pod(CASE, name, IMAGE, &args, NODE), "apps/v1", "ReplicaSet", "vllm-llama-8b-7d9c5b4f6");
    pod["metadata"]["labels"]["app"] = json!("vllm-llama-8b");
    let ended = json!({ "reason": "OOMKilled", "exitCode": 137, "finishedAt": ago(240).to_string(), "message": "bye" });
    pod["status"]["containerStatuses"][0]["lastState"] = json!({ "terminated": ended });
    pod["status"]["containerStatuses"][0]["restartCount"] = json!(1);
    pod
}

/// So many seconds before the diagnosis.
pub(super) fn ago(seconds: i64) -> Timestamp {
    at(moment(CASE) - seconds)
}

pub(super) fn alert() -> Alert {
    let map =
        |all: &[(&str, &str)]| all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Alert {
        status: AlertStatus::Firing,
        labels: map(&[("alertname", "LLMHighTTFT"), ("namespace", CASE), ("severity", "warning")]),
        annotations: map(&[("summary", "first tokens are late")]),
        starts_at: ago(30),
        ends_at: "0001-01-01T00:00:00Z".parse().unwrap(),
        generator_url: "http://prometheus:9090/graph?g0.expr=x".to_owned(),
        fingerprint: "0123456789abcdef".to_owned(),
    }
}

/// The incident of the case, half an hour around it.
pub(super) fn subject(alerts: Vec<Alert>) -> Subject {
    let incident = Incident {
        id: "01K9W2E4Z0000000000000TEST".to_owned(),
        group_key: "{}/{}:{alertname=\"LLMHighTTFT\"}".to_owned(),
        open: true,
        playbook: Some("high-ttft".to_owned()),
        because: None,
        reason: ChangeReason::Notification(AdmitReason::First),
        started_at: ago(30),
        opened_at: ago(20),
        resolved_at: None,
        refired: 0,
        truncated: 0,
        diagnosis: None,
        revision: 1,
        alerts,
        critical: false,
        acknowledged: None,
        snoozed: false,
        impact: None,
        related: Default::default(),
        external_url: String::new(),
        source: String::new(),
        critical_at: None,
        seen_before: 0,
        notes: Vec::new(),
    };
    let (config, margin) = (diagnose::Config::default(), Duration::from_secs(1_800));
    Subject::of_incident(library(), incident, String::new(), &[], &config, margin, ago(0))
}

pub(super) fn options(deadline: Duration) -> Options {
    Options { deadline, ..Options::of(&BundleConfig::default()) }
}

/// A bundle, unpacked.
pub(super) struct Bundle {
    pub(super) made: BuiltBundle,
    pub(super) bytes: Vec<u8>,
    pub(super) entries: BTreeMap<String, Vec<u8>>,
    /// How long it took.
    pub(super) took: Duration,
}

impl Bundle {
    pub(super) async fn of(sources: &Sources, subject: &Subject, options: &Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (path, began) = (dir.path().join("bundle.zip"), clock::now());
        let made = make(sources, subject, options, &path, &BundleProgress::default()).await.unwrap();
        let took = clock::between(began, clock::now());
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(made.bytes, bytes.len() as u64);
        let entries = entries(&bytes);
        Self { made, bytes, entries, took }
    }

    pub(super) fn report(&self) -> &Report {
        &self.made.report
    }

    #[track_caller]
    pub(super) fn text(&self, name: &str) -> String {
        let entry = self.entries.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.names()));
        String::from_utf8(entry.clone()).unwrap()
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.entries.keys().map(String::as_str).collect()
    }

    #[track_caller]
    pub(super) fn part(&self, name: &str) -> &ReportPart {
        part(self.report(), name)
    }

    /// Every part but these is whole or does not apply.
    #[track_caller]
    pub(super) fn assert_whole_but(&self, broken: &[&str]) {
        for part in &self.report().parts {
            let expected = broken.contains(&part.name.as_str());
            assert_eq!(part.stage.is_trouble(), expected, "{part:?}");
            assert!(part.stage.is_over(), "{part:?}");
            assert!(part.stage == Stage::Done || !part.note.is_empty(), "why? {part:?}");
        }
        assert_eq!(self.report().complete, broken.is_empty());
        let summary = self.text("summary.json");
        assert!(serde_json::from_str::<Report>(&summary).is_ok(), "it is a report");
        let returned = serde_json::to_string_pretty(self.report()).unwrap();
        assert!(summary == returned, "summary.json is what was returned");
    }
}

#[track_caller]
pub(super) fn part<'a>(report: &'a Report, name: &str) -> &'a ReportPart {
    let part = report.parts.iter().find(|part| part.name == name);
    part.unwrap_or_else(|| panic!("no part {name}: {:#?}", report.parts))
}

/// Every entry of a zip; fails for names that lead anywhere else, or are there twice.
pub(super) fn entries(zip: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = zip::ZipArchive::new(Cursor::new(zip)).unwrap();
    let mut entries = BTreeMap::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).unwrap();
        let name = entry.name().unwrap().to_string();
        assert!(entry.enclosed_name().is_some(), "{name} leads out");
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        assert_eq!(entries.insert(name.clone(), content), None, "{name} is there twice");
    }
    entries
}
