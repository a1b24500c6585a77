//! Secrets in everything that anybody tells: nothing of them leaves, unless somebody asked for just that.

use std::process::{Command, Stdio};

use bundle::{Options, Sources};
use findings::ExporterTarget;
use knowledge::alert::Alert;
use knowledge::clock;
use llm_diagnose_lab::kubernetes::{FakeKubernetes, event, kubeconfig, node, object, pod};
use llm_diagnose_lab::sources::{FakeEngine, FakeLoki};
use llm_diagnose_lab::stack;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::LONG;
use super::site::{Bundle, alert, connected, nothing, options, reader, subject};
use crate::harness::{Planted, assert_clean, client, innocent, library, planted};
use crate::running::BINARY;

const POD: &str = "llama-0";
/// Labels that nobody should have set, whose values look like nothing.
const LABELS: [&str; 3] = ["api_key", "hf_token", "s3_secret"];

/// These labels with their values, of one source.
fn labelled(source: usize) -> impl Iterator<Item = (&'static str, String)> {
    LABELS.iter().enumerate().map(move |(n, label)| (*label, innocent(10 * source + n)))
}

/// Sources that tell secrets, all of them now.
struct Leaks {
    prometheus: stack::Prometheus,
    engine: FakeEngine,
    cluster: FakeKubernetes,
    loki: FakeLoki,
    dir: TempDir,
    secrets: Vec<Planted>,
}

impl Leaks {
    async fn new() -> Self {
        let secrets = planted();
        let alone: Vec<&str> =
            secrets.iter().filter(|p| p.name.ends_with("/alone")).map(|p| p.secret.as_str()).collect();
        let texts: Vec<&str> = secrets.iter().map(|p| p.text.as_str()).collect();
        let now = clock::now();
        let cluster = FakeKubernetes::start().await.unwrap();
        let args = ["vllm", "serve", "m", "--api-key", alone[1], "--hf-token", alone[0], &format!("--x={}", alone[2])];
        let mut replica = pod("llm", POD, "vllm/vllm-openai:v0.33.0", &args, "gpu-1");
        let env: Vec<Value> =
            alone.iter().enumerate().map(|(n, s)| json!({ "name": format!("E{n}"), "value": s })).collect();
        replica["spec"]["containers"][0]["env"] = env.into();
        replica["metadata"]["annotations"] = json!({ "note": texts[0], "token": alone[3] });
        for (label, value) in labelled(1) {
            replica["metadata"]["annotations"][format!("example.com/{label}")] = json!(value);
            replica["metadata"]["labels"][label] = json!(value);
        }
        let last =
            json!({ "reason": "Error", "exitCode": 1, "finishedAt": now.to_string(), "message": texts.join("\n") });
        replica["status"]["containerStatuses"][0]["lastState"] = json!({ "terminated": last });
        cluster.add(replica);
        cluster.add(node("gpu-1"));
        for (n, text) in texts.iter().enumerate().step_by(7) {
            cluster.add(event("llm", "Pod", POD, &format!("R{n}"), text, &now.to_string()));
        }
        let mut service = object("serving.kserve.io/v1alpha1", "LLMInferenceService", "llm", "llama");
        service["spec"] =
            json!({ "env": { "HF_TOKEN": alone[0] }, "texts": texts, "password": "x".to_owned() + alone[1] });
        cluster.add(service);
        cluster.log("llm", POD, "main", false, texts.join("\n"));
        cluster.log("llm", POD, "main", true, texts.join("\n"));
        let loki = FakeLoki::start().await.unwrap();
        let labels = [("namespace", "llm"), ("pod", POD), ("container", "other")];
        let nanoseconds = |n: usize| (now.as_second() - 300) * 1_000_000_000 + i64::try_from(n).unwrap();
        texts.iter().enumerate().for_each(|(n, text)| loki.push(&labels, nanoseconds(n), text));
        let mut told =
            json!({ "version": alone[4], "hf_token": alone[0], "all": texts, "args": ["--api-key", alone[1]] });
        labelled(2).for_each(|(label, value)| told["vllm_config"][label] = json!(value));
        let info = told.to_string();
        let page = format!("vllm:num_requests_running{{key=\"{}\"}} 1\n# {}\n", alone[5], alone[6]);
        let answers =
            [("/version", info.as_str()), ("/server_info", &info), ("/v1/models", &info), ("/metrics", &page)];
        let engine = FakeEngine::start(&answers).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("engine.log"), texts.join("\n")).unwrap();
        std::fs::write(dir.path().join(format!("{}.log", alone[0])), "its name is one").unwrap();
        let rules = format!(
            "groups:\n- name: g\n  rules:\n  - alert: LLMHighTTFT\n    expr: vllm:num_requests_running{{key!=\"{}\"}} > 0\n    \
             labels: {{ namespace: llm, token: \"{}\", s3_secret: \"{}\" }}\n    annotations: {{ summary: \"{}\" }}\n",
            alone[7],
            alone[8],
            innocent(40),
            alone[9]
        );
        std::fs::write(dir.path().join("rules.yaml"), rules).unwrap();
        let prometheus = stack::Prometheus::builder()
            .backfill_text(&history(now.as_second(), &alone))
            .unwrap()
            .rule_file(dir.path().join("rules.yaml"))
            .scrape_config(&format!(
                "- job_name: vllm\n  params: {{ token: [\"{}\"] }}\n  static_configs:\n  - targets: [\"127.0.0.1:1\"]\n    \
                 labels: {{ namespace: llm, pod: {POD}, key: \"{}\", hf_token: \"{}\" }}",
                alone[10],
                alone[11],
                innocent(41)
            ))
            .start()
            .await
            .unwrap();
        Self { prometheus, engine, cluster, loki, dir, secrets }
    }

    fn alert(&self) -> Alert {
        let mut alert = alert();
        alert.starts_at = clock::before(clock::now(), std::time::Duration::from_secs(120));
        for (n, planted) in self.secrets.iter().enumerate() {
            alert.annotations.insert(format!("a{n}"), planted.text.clone());
            if planted.name.ends_with("/alone") {
                alert.labels.insert(format!("l{n}"), planted.secret.clone());
            }
        }
        for (label, value) in labelled(3) {
            // What `{{ $labels }}` and `{{ $labels.api_key }}` make of them.
            alert.annotations.insert(format!("of {label}"), format!("the engine of {value} is late"));
            alert.annotations.insert(format!("all {label}"), format!("LABELS = map[{label}:{value} pod:{POD}]"));
            alert.labels.insert(label.to_owned(), value);
        }
        alert.labels.insert("namespace".to_owned(), "llm".to_owned());
        alert.generator_url = format!("http://p/graph?token={}", self.secrets[0].secret);
        alert
    }

    async fn sources(&self) -> Sources {
        let labels = [("pod".to_owned(), POD.to_owned())].into();
        let target = ExporterTarget { engine: "vllm".to_owned(), url: self.engine.metrics(), labels, seen: None };
        let loki = sources::loki::Config { url: self.loki.url.clone(), ..Default::default() };
        Sources {
            prometheus: Some(client(&self.prometheus.url)),
            reader: Some((reader(), vec![target])),
            kubernetes: Some(connected(&self.cluster.url).await),
            loki: Some(sources::loki::Loki::new(&loki).unwrap()),
            files: vec![self.dir.path().to_owned()],
            ..nothing()
        }
    }
}

/// A replica's queue over ten minutes, with labels that nobody should have set.
fn history(now: i64, alone: &[&str]) -> String {
    let mut text = String::new();
    for (n, secret) in alone.iter().enumerate() {
        for second in (now - 3_600..=now - 60).step_by(60) {
            let labels =
                format!("namespace=\"llm\",pod=\"{POD}\",job=\"vllm\",instance=\"10.0.0.7:{n}\",key=\"{secret}\"");
            text += &format!("vllm:num_requests_running{{{labels}}} 3 {second}\n");
        }
    }
    // Its answer to what the cache is made of, as `vllm:cache_config_info` has it.
    let betrayed: String = labelled(0).map(|(label, value)| format!(",{label}=\"{value}\"")).collect();
    for second in (now - 3_600..=now - 60).step_by(60) {
        let labels = format!("namespace=\"llm\",job=\"vllm\",instance=\"10.0.0.7:0\",block_size=\"16\"{betrayed}");
        text += &format!("vllm:cache_config_info{{{labels}}} 1 {second}\n");
    }
    text + "# EOF\n"
}

// The shell's process waits for the sources, which answer from this one: they need threads of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_planted_secret_is_left_anywhere() {
    let leaks = Leaks::new().await;
    let mut subject = subject(vec![leaks.alert()]);
    let now = clock::now();
    subject.request.at = now;
    subject.request.since = Some(clock::before(now, std::time::Duration::from_secs(120)));
    subject.window.from = clock::before(now, std::time::Duration::from_secs(1_800));
    subject.window.to = now;
    subject.request.scope = findings::Scope::of_labels(&[("namespace".to_owned(), "llm".to_owned())].into());
    subject.headline = format!("late because of {}", leaks.secrets[0].secret);
    let sources = leaks.sources().await;
    // Every form, whoever the cause concerns.
    let forms = || Options { tickets: library().tickets.keys().cloned().collect(), ..options(LONG) };
    let bundle = Bundle::of(&sources, &subject, &forms()).await;
    for (name, content) in &bundle.entries {
        assert_clean(name.as_bytes(), "the name of an entry");
        assert_clean(content, name);
    }
    let report = bundle.report();
    let taken =
        |start: &str| report.redacted.iter().filter(|r| r.place.starts_with(start)).map(|r| r.count).sum::<u64>();
    for place in [
        "kubernetes/pods.json",
        "kubernetes/events.json",
        "kubernetes/objects/",
        "logs/",
        "endpoints/",
        "raw/alerts.json",
        "series.om",
        "raw/prometheus.json",
    ] {
        assert!(taken(place) > 0, "{place}: {:?}", report.redacted);
    }
    assert!(bundle.entries.contains_key("series.om") && report.logs.len() >= 4, "{:?}", bundle.names());
    // The labels themselves are told, only their values are not.
    for label in LABELS {
        let told = &report.answers.model.settings[&format!("vllm:cache_config_info.{label}")];
        assert!(told.iter().all(|value| value == "[redacted: secret-field]"), "{label}: {told:?}");
    }
    let tickets = bundle.entries.keys().filter(|name| name.starts_with("tickets/")).count();
    assert_eq!(tickets, library().tickets.len(), "{:?}", bundle.names());
    // With names replaced it is no different.
    let anonymous = Options { anonymize: true, ..forms() };
    for (name, content) in &Bundle::of(&sources, &subject, &anonymous).await.entries {
        assert_clean(content, name);
    }
    // The same with everything left in.
    let open = Options { redact: false, ..options(LONG) };
    let bundle = Bundle::of(&sources, &subject, &open).await;
    assert_eq!(bundle.report().redacted, []);
    for place in ["kubernetes/pods.json", "raw/alerts.json", "series.om", "summary.json"] {
        assert!(bundle.text(place).contains(&leaks.secrets[0].secret), "{place}");
    }
    assert!(bundle.text("README.txt").contains("Secrets were deliberately left in"), "{}", bundle.text("README.txt"));

    // And from a shell, with what the process says.
    let dir = leaks.dir.path();
    let (alert, kube) = (dir.join("alert.json"), dir.join("kubeconfig"));
    std::fs::write(&alert, serde_json::to_vec(&leaks.alert()).unwrap()).unwrap();
    std::fs::write(&kube, kubeconfig(&leaks.cluster.url)).unwrap();
    let config = json!({
        "state_dir": dir.join("state"),
        "prometheus": [{ "url": leaks.prometheus.url }],
        "kubernetes": { "enabled": true, "kubeconfig": kube },
        "loki": [{ "url": leaks.loki.url }],
        "exporters": { "learn": false, "allow": ["127.0.0.0/8"] },
        "bundle": { "min_free_bytes": 0 },
    });
    std::fs::write(dir.join("c.yaml"), config.to_string()).unwrap();
    let with = |more: &[&str]| {
        let mut command = Command::new(BINARY);
        command
            .arg("bundle")
            .arg("--alert")
            .arg(&alert)
            .args(["-o", "b.zip", "--force", "--config", "c.yaml"])
            .args(more);
        command
            .arg("--logs")
            .arg(dir.join("engine.log"))
            .current_dir(dir)
            .stdin(Stdio::null())
            .env("RUST_LOG", "debug");
        command.env_remove("PROMETHEUS_URL").output().unwrap()
    };
    let ran = with(&[]);
    assert!(ran.status.code().is_some_and(|code| code < 2), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_clean(&ran.stdout, "standard output");
    assert_clean(&ran.stderr, "standard error");
    assert_clean(&std::fs::read(dir.join("b.zip")).unwrap(), "b.zip");
    for output in ["text", "json", "slack", "queries"] {
        let mut command = Command::new(BINARY);
        command.args(["diagnose", "--config", "c.yaml", "--output", output, "--alert"]).arg(&alert);
        let ran = command.current_dir(dir).stdin(Stdio::null()).env_remove("PROMETHEUS_URL").output().unwrap();
        assert!(!ran.stdout.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert_clean(&ran.stdout, output);
        assert_clean(&ran.stderr, "standard error");
    }
    let ran = with(&["--no-redact", "--yes-with-secrets"]);
    assert!(String::from_utf8_lossy(&ran.stdout).contains("Secrets were left in"));
}
