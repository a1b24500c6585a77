//! A report with every section filled: a simulated fleet that broke, as Prometheus tells of it, and what the cluster, the
//! engines and logs would say beside it.

use std::time::{Duration, Instant};

use chart::{alt, svg};
use diagnose::{HistoryRequest, diagnose, evidence_history};
use facts::collect_facts;
use findings::cluster::{ClusterEvent, ClusterNode, Container, Ended, Object, Pod};
use findings::facts::{HappenedKind, ReplicaInfo, Rule, TimelineEvent, Window, Windows};
use findings::{Baseline, Diagnosis};
use knowledge::alert::Alert;
use knowledge::incident::{Act, LastTime, Neighbour, Note, Related, SharedTrait};
use logs::{Log, LogReader, Patterns};
use redact::RedactionCount;
use render::{Phrases, ReportPageContext, diagnosis_chart, diagnosis_message, report_page, ticket, tickets_for};
use report::{DiagnosisParameters, Report, ReportIncident, ReportPart, ReportSubject, SourceFindings, Stage, build};
use serde_json::{Value, json};

use crate::chains::{FAULT_SECONDS, asked, moment};
use crate::harness::{DEADLINE, at, library, shared};

/// A report, and what stands around it.
pub(crate) struct Full {
    pub(crate) report: Report,
    pictures: Vec<(String, String)>,
}

impl Full {
    /// Of a case of the simulated fleets, as the playbook of its alert sees it. `odd` stands in names and texts that
    /// come from outside.
    pub(crate) async fn of(case: &str, playbook: &str, odd: &str) -> Self {
        let (library, words) = (library(), Phrases::english());
        let request = asked(case, playbook);
        let diagnosis = diagnose(library, shared(), &request).await;
        let now = moment(case);
        let broke = now - FAULT_SECONDS;
        let window = Window { from: at(broke - 1_800), to: at(now) };
        let windows = Windows {
            before: Window { from: window.from, to: at(broke) },
            during: Window { from: at(broke), to: at(now) },
            after: None,
        };
        let until = Instant::now() + DEADLINE;
        let mut facts = collect_facts(library, shared(), &request, Some(&diagnosis), &windows, until).await;
        facts.rules = vec![Rule {
            name: "LLMHighTTFT".to_owned(),
            query: format!("llm:ttft_p99 > 2 # {odd}"),
            for_seconds: 60.0,
            state: "firing".to_owned(),
            labels: [("severity".to_owned(), odd.to_owned())].into(),
            error: Some(odd.to_owned()),
        }];
        let past = Baseline::Earlier(Duration::from_secs(86_400));
        let wanted = HistoryRequest { since: at(now - 30), until: None, baseline: past, deadline: DEADLINE };
        let history = evidence_history(library, shared(), &diagnosis, &wanted).await;
        let chart = history.and_then(|seen| diagnosis_chart(library, &diagnosis, &seen, wanted.since, &words));
        let pods: Vec<String> = facts.replicas.iter().map(|replica| replica.name.clone()).collect();
        let logs = vec![log(pods.first().map_or("llama-0", String::as_str), odd, broke)];
        let logs: Vec<_> = logs
            .into_iter()
            .map(|log| {
                let patterns = Patterns::new(library.logs.values());
                let mut reader = LogReader::new(&patterns);
                log.text.lines().for_each(|line| reader.line(line));
                (log, reader.finish())
            })
            .collect();
        let alerts: Vec<Alert> = serde_json::from_value(json!([alert(case, odd, now), alert(odd, odd, now)])).unwrap();
        let seen = SourceFindings {
            facts: Some(facts),
            kubernetes: Some(cluster(case, &pods, odd, broke)),
            logs,
            ..SourceFindings::default()
        };
        let happened = [TimelineEvent {
            at: at(now - 10),
            kind: HappenedKind::Act,
            what: format!("anna is on it {odd}"),
            source: "anna".to_owned(),
        }];
        let about = ReportSubject {
            headline: &diagnosis_message(&diagnosis, None, &words).headline,
            incident: Some(incident(now, odd)),
            alerts: &alerts,
            diagnosis: Some(&diagnosis),
            asked: DiagnosisParameters::default(),
            window,
            happened: &happened,
        };
        let mut report = build(about, seen, at(now));
        report.logs.iter_mut().for_each(|log| log.file = format!("logs/001-{odd}.log"));
        report.complete = false;
        report.parts = parts(odd);
        report.redacted =
            vec![RedactionCount { place: format!("raw/{odd}.json"), rule: "hf-token".to_owned(), count: 3 }];
        Self { report, pictures: chart.iter().map(|chart| (alt(chart), svg(chart))).collect() }
    }

    /// The same of a pool of so many replicas, all of them affected.
    pub(crate) fn of_replicas(mut self, n: usize) -> Self {
        let first = self.report.topology[0].clone();
        let name = |i: usize| format!("llama-70b-chat-7d9f8b6c5d-{i:05}");
        self.report.topology = (0..n).map(|i| ReplicaInfo { name: name(i), ..first.clone() }).collect();
        if let Some(diagnosis) = &mut self.report.diagnosis {
            let root = diagnosis.causes.first_mut().map(|root| &mut root.replicas);
            for radius in root.into_iter().chain([&mut diagnosis.replicas]) {
                radius.affected = (0..n).map(name).collect();
                radius.total = n;
            }
        }
        self
    }

    /// As the service shows it.
    pub(crate) fn served(&self, words: &Phrases) -> String {
        let around = ReportPageContext { pictures: &self.pictures, live: true, ..ReportPageContext::default() };
        report_page(&self.report, &around, words)
    }

    /// The diagnosis.
    pub(crate) fn diagnosis(&self) -> &Diagnosis {
        self.report.diagnosis.as_ref().unwrap()
    }

    /// As a file of a bundle.
    pub(crate) fn page(&self, words: &Phrases) -> String {
        let named = ["vllm".to_owned()];
        let forms: Vec<_> = tickets_for(library(), &self.report, &named)
            .map(|form| (form.title.clone(), ticket(form, &self.report, &Phrases::english())))
            .collect();
        report_page(
            &self.report,
            &ReportPageContext { pictures: &self.pictures, tickets: &forms, ..ReportPageContext::default() },
            words,
        )
    }
}

fn incident(now: i64, odd: &str) -> ReportIncident {
    ReportIncident {
        id: "01K9W2E4Z0000000000000TEST".to_owned(),
        group_key: "{}".to_owned(),
        open: true,
        playbook: Some("high-ttft".to_owned()),
        because: Some("its name".to_owned()),
        started_at: at(now - 60),
        opened_at: at(now - 30),
        resolved_at: None,
        refired: 0,
        truncated: 0,
        seen_before: 0,
        external_url: "https://alertmanager.example".to_owned(),
        acknowledged: None,
        impact: None,
        related: related(now, odd),
    }
}

/// The last time of the cause, and another incident that is open on a node.
fn related(now: i64, odd: &str) -> Related {
    let began = now - 9 * 86_400;
    let note = |after: i64, act, detail: &str| Note {
        who: "U0ANN".to_owned(),
        at: at(began + after),
        act,
        detail: format!("{detail} {odd}"),
    };
    let notes = vec![
        note(300, Act::Done, "Take it out of rotation"),
        note(420, Act::Verify, "Fixed: first token p99 is 0.4 s (expected < 1 s)"),
        note(900, Act::Right, "one replica is much worse than its peers"),
    ];
    let last = LastTime {
        id: "01K9W2E4Z0000000000000LAST".to_owned(),
        started_at: at(began),
        resolved_at: at(began + 720),
        notes,
    };
    let neighbour = Neighbour {
        id: "01K9W2E4Z0000000000000NODE".to_owned(),
        started_at: at(now - 600),
        what: Some(format!("tokens come slowly {odd}")),
        cause: Some("GPU clocks are pulled down".to_owned()),
        pool: [("namespace".to_owned(), "chat".to_owned())].into(),
        shared: SharedTrait::Node(format!("gpu-node-0{odd}")),
    };
    Related { last: Some(last), open: vec![neighbour] }
}

fn alert(namespace: &str, odd: &str, now: i64) -> Value {
    json!({
        "status": "firing", "fingerprint": namespace, "generatorURL": "", "startsAt": at(now - 60), "endsAt": at(now + 240),
        "labels": { "alertname": "LLMHighTTFT", "namespace": namespace, "severity": "critical", "note": odd },
        "annotations": { "summary": format!("first tokens come late {odd}"), "runbook_url": "https://runbooks.example/ttft" },
    })
}

fn log(pod: &str, odd: &str, broke: i64) -> Log {
    let stamp = at(broke).strftime("%m-%d %H:%M:%S");
    let text = [
        format!(
            "INFO {stamp} [loggers.py:127] Engine 000: Avg prompt throughput: 5000.0 tokens/s, Avg generation throughput: 900.0 tokens/s, Running: 60 reqs, Waiting: 12 reqs, GPU KV cache usage: 97.1%, Prefix cache hit rate: 3.0%"
        ),
        format!(
            "(EngineCore_0 pid=7) ERROR {stamp} [core.py:590] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine. {odd}"
        ),
        format!(
            "ERROR {stamp} [async_llm.py:480] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause. {odd}"
        ),
    ];
    let (pod, container) = (Some(pod.to_owned()), Some("vllm".to_owned()));
    Log { source: "kubernetes".to_owned(), pod, container, previous: true, text: text.join("\n"), cut: true }
}

fn cluster(namespace: &str, pods: &[String], odd: &str, broke: i64) -> findings::cluster::ClusterSnapshot {
    let args = ["vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct", "--max-num-seqs", "256", "--max-model-len=32768"];
    let pod = |name: &String| Pod {
        namespace: namespace.to_owned(),
        name: name.clone(),
        node: Some(format!("node-{name}")),
        phase: "Running".to_owned(),
        owner: Some("Deployment/llama".to_owned()),
        containers: vec![Container {
            name: "vllm".to_owned(),
            image: "registry.example/vllm/vllm-openai:v0.28.1".to_owned(),
            image_id: Some(format!("registry.example/vllm/vllm-openai@sha256:{}", "ab".repeat(32))),
            args: args.iter().map(|&arg| arg.to_owned()).chain([odd.to_owned()]).collect(),
            resources: [("limits.nvidia.com/gpu".to_owned(), "1".to_owned())].into(),
            ready: true,
            ended: Some(Ended {
                reason: "OOMKilled".to_owned(),
                exit_code: 137,
                at: Some(at(broke - 600)),
                message: Some(odd.to_owned()),
            }),
            ..Container::default()
        }],
        ..Pod::default()
    };
    let node = |name: &String| ClusterNode {
        name: format!("node-{name}"),
        versions: [("kubelet", "v1.34.2"), ("kernel", "6.8.0-45-generic")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .into(),
        labels: [("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"), ("topology.kubernetes.io/zone", "eu-west-1a")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .into(),
        troubles: vec![format!("DiskPressure: {odd}")],
        ..ClusterNode::default()
    };
    findings::cluster::ClusterSnapshot {
        version: Some("v1.34.2".to_owned()),
        pods: pods.iter().map(pod).collect(),
        nodes: pods.iter().map(node).collect(),
        events: vec![ClusterEvent {
            at: Some(at(broke - 300)),
            about: format!("Pod/{odd}"),
            warning: true,
            reason: "BackOff".to_owned(),
            message: format!("Back-off restarting failed container {odd}"),
            count: 7,
        }],
        objects: vec![Object {
            kind: "apps/v1/Deployment".to_owned(),
            namespace: namespace.to_owned(),
            name: "llama".to_owned(),
            value: Value::Null,
        }],
        ..findings::cluster::ClusterSnapshot::default()
    }
}

fn parts(odd: &str) -> Vec<ReportPart> {
    let part = |name: &str, stage, note: &str, bytes, took_seconds| ReportPart {
        name: name.to_owned(),
        stage,
        note: note.to_owned(),
        bytes,
        took_seconds,
    };
    vec![
        part("metrics", Stage::Done, "31 quantities over 6 replicas", 0, 1.2),
        part(
            "series",
            Stage::Partial,
            &format!("12000 samples of 300 series, 40 queries; {odd}: timed out"),
            1_200_000,
            8.1,
        ),
        part("endpoints", Stage::Skipped, "engines are not read directly", 0, 0.0),
        part("kubernetes", Stage::Failed, &format!("pods: forbidden {odd}"), 0, 0.3),
        part("logs", Stage::Done, "1 logs", 900, 0.1),
    ]
}
