//! A whole bundle: of all sources, of what is left when one of them fails, and of what somebody planted in them.

mod anonymous;
mod broken;
mod hostile;
mod secrets;
mod site;
mod verified;

use std::time::Duration;

use bundle::{Options, Sources};
use findings::facts::HappenedKind;
use knowledge::clock;

use crate::harness::{self, shared};
use site::{Bundle, CASE, NODE, PODS, Site, ago, alert, connected, nothing, options, subject};

/// Long enough for a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// Runs a future beside the shared Prometheus, which has to be started from outside of any.
fn run<T>(future: impl Future<Output = T>) -> T {
    shared();
    harness::run(future)
}

#[test]
fn all_sources_answer_the_seven_questions_and_every_file_is_there() {
    let bundle = run(async {
        let site = Site::new().await;
        let options = Options { tickets: vec!["vllm".to_owned()], ..options(LONG) };
        Bundle::of(&site.sources().await, &subject(vec![alert()]), &options).await
    });
    if let Ok(dir) = std::env::var("KEEP_BUNDLE") {
        std::fs::write(dir, &bundle.bytes).unwrap();
    }
    bundle.assert_whole_but(&[]);
    for name in [
        "README.txt",
        "report.html",
        "report.md",
        "summary.json",
        "series.om",
        "raw/alerts.json",
        "raw/incident.json",
        "raw/prometheus.json",
        "raw/queries.json",
        "kubernetes/pods.json",
        "kubernetes/nodes.json",
        "kubernetes/events.json",
        "endpoints/vllm-llama-8b-0/vllm-version.json",
        "endpoints/vllm-llama-8b-0/vllm-server_info.json",
        "tickets/vllm.md",
        "logs/001-engine.log",
    ] {
        assert!(bundle.entries.get(name).is_some_and(|content| content.len() > 2), "{name}: {:?}", bundle.names());
    }
    let tickets: Vec<&str> = bundle.names().into_iter().filter(|name| name.starts_with("tickets/")).collect();
    assert_eq!(tickets, ["tickets/vllm.md"], "clients made their prompts longer: whoever is named alone gets one");
    assert!(!bundle.entries.contains_key("raw/missing.json"));

    let report = bundle.report();
    let answers = &report.answers;
    assert_eq!(answers.model.arguments[0].of, PODS, "from the cluster");
    assert!(answers.model.names.iter().any(|name| name == "llama"), "from the engine: {:?}", answers.model.names);
    assert_eq!(answers.model.settings["max_num_seqs"], ["256"], "from /server_info");
    assert!(answers.hardware.gpus.iter().any(|gpu| gpu.count == 4), "from metrics: {:?}", answers.hardware.gpus);
    assert!(answers.hardware.nodes[NODE].iter().any(|told| told.contains("H100")), "from the node");
    let ttft = answers.metrics.iter().find(|measured| measured.signal == "ttft_p99").unwrap();
    assert!(ttft.during.unwrap() > 4.0 * ttft.before.unwrap(), "before is before it began: {ttft:?}");
    assert!(ttft.bounds.len() > 5 && ttft.bounds.is_sorted(), "of the engine's histogram: {ttft:?}");
    assert!(bundle.text("report.md").contains("(between "), "a quantile is told with its bucket");
    assert!(answers.workload.input.as_ref().is_some_and(|input| input.p50 > 1_000.0));
    assert_eq!((answers.deployment.mode.as_str(), answers.deployment.replicas), ("plain Deployment", Some((4, 4))));
    let known = |what: &str, version: &str| answers.versions.iter().any(|v| v.what == what && v.version == version);
    assert!(known("vllm", "0.33.0") && known("Kubernetes", "v1.34.2") && known("Prometheus", &prometheus(answers)));
    assert!(!answers.goal.expected.is_empty() && answers.goal.since.is_some() && !answers.goal.changed.is_empty());
    let kinds: Vec<HappenedKind> = report.timeline.iter().map(|happened| happened.kind).collect();
    for kind in [HappenedKind::Alert, HappenedKind::Onset, HappenedKind::Restart, HappenedKind::Event] {
        assert!(kinds.contains(&kind), "{kind:?}: {:#?}", report.timeline);
    }
    let root = report.diagnosis.as_ref().unwrap().root().unwrap();
    assert_eq!(root.id, "longer-prompts");
    for name in ["report.html", "report.md", "README.txt"] {
        assert!(bundle.text(name).contains(&root.title), "{name}");
    }

    let queries: Vec<serde_json::Value> = serde_json::from_str(&bundle.text("raw/queries.json")).unwrap();
    let asked = |by: &str, signal: &str| {
        let found = queries
            .iter()
            .find(|query| query["signal"] == signal && query["by"].as_array().unwrap().contains(&by.into()));
        found.unwrap_or_else(|| panic!("{by} {signal}: {queries:#?}")).clone()
    };
    let prompts = asked("longer-prompts", "prompt_tokens_mean");
    assert!(prompts["query"].as_str().unwrap().contains("prompt_tokens") && prompts["outcome"] == "met", "{prompts}");
    assert!(prompts["value"].as_f64() > prompts["baseline"].as_f64(), "{prompts}");
    assert!(asked("report", "ttft_p50")["value"].is_number());
    let readme = bundle.text("README.txt");
    assert!(readme.lines().count() < 20 && readme.contains("secret-field 1"), "{readme}");
}

#[test]
fn errors_before_the_incident_are_not_its_first_and_facts_of_the_start_count_all_the_same() {
    let bundle = run(async {
        let site = Site::new().await;
        let line = |seconds: i64, text: &str| format!("{} {text}\n", ago(seconds));
        let log = [
            line(86_400, "[core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='m'"),
            line(86_390, "Model loading took 14.99 GiB memory and 12.345678 seconds"),
            line(86_000, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
            line(60, "ERROR [multiproc_executor.py:230] Worker proc VllmWorker-1 died unexpectedly (exit code: -9)"),
        ];
        site.cluster.log(CASE, PODS[0], "main", false, log.concat());
        let sources = Sources { kubernetes: Some(connected(&site.cluster.url).await), ..nothing() };
        Bundle::of(&sources, &subject(vec![alert()]), &options(LONG)).await
    });
    let log = bundle.report().logs.iter().find(|log| log.name == format!("{}/main", PODS[0])).unwrap();
    assert_eq!(log.report.first_root.as_deref(), Some("worker-killed"), "{:#?}", log.report);
    assert_eq!((log.report.start.versions["vllm"].as_str(), log.report.startup.len()), ("0.32.0", 2));
}

#[test]
fn during_ends_with_the_judged_moment_and_after_begins_there() {
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let mut subject = subject(vec![alert()]);
    let (since, at) = (subject.request.since.unwrap(), subject.request.at);
    subject.window.from = clock::before(since, minutes(30));
    subject.window.to = clock::after(at, minutes(30));
    let windows = subject.windows();
    assert_eq!((windows.during.from, windows.during.to), (since, at));
    assert_eq!(windows.after, None, "it still fires");
    // Of a moment in the past it is known what came after it.
    subject.incident = None;
    let windows = subject.windows();
    assert_eq!((windows.during.to, windows.after.map(|after| after.from)), (at, Some(at)));
}

/// Its version, wherever the tests run.
fn prometheus(answers: &report::Answers) -> String {
    answers.versions.iter().find(|version| version.what == "Prometheus").unwrap().version.clone()
}
