//! What Prometheus tells of a pool beyond a diagnosis, of simulated fleets on a real Prometheus.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use facts::collect_facts;
use findings::facts::{HappenedKind, Measured, PrometheusFacts, ReplicaInfo, Window, Windows};
use llm_diagnose_lab::sim::spec::GpuExporter;
use llm_diagnose_lab::sim::{Dialect, Fault, Fleet, FleetSpec, History};
use llm_diagnose_lab::stack;
use llm_diagnose_lab::stack::backfill::{Series, openmetrics};
use prom::{Prometheus, QueryProgress};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::adverse::HOSTILE;
use crate::harness::{DEADLINE, at, client, library, request, run};

/// The histories begin here, hours apart; unix seconds in 2023.
const BEGIN: i64 = 1_700_006_400;
const APART: i64 = 4 * 3_600;
/// Normal service, then the fault, then normal service again.
const NORMAL: i64 = 1_500;
const FAULT: i64 = 900;
const AFTER: i64 = 600;

/// A fleet: namespace, replicas, dialect, and what goes wrong.
type Case = (&'static str, usize, Dialect, &'static [&'static str]);
const CASES: [Case; 5] = [
    ("longer", 3, Dialect::Vllm, &["longer-prompts"]),
    ("sglang", 3, Dialect::Sglang, &["longer-prompts"]),
    ("lost", 3, Dialect::Vllm, &["lost-replica:replica=0"]),
    ("rollout", 3, Dialect::Vllm, &["slot-limit"]),
    ("wide", 9, Dialect::Vllm, &[]),
];

fn begun(name: &str) -> i64 {
    let case = CASES.iter().position(|(case, ..)| *case == name).unwrap();
    BEGIN + APART * i64::try_from(case).unwrap() + NORMAL
}

fn windows(name: &str, resolved: bool) -> Windows {
    let fault = begun(name);
    let window = |from: i64, to: i64| Window { from: at(from), to: at(to) };
    Windows {
        before: window(fault - 900, fault),
        during: window(fault, fault + FAULT),
        after: resolved.then(|| window(fault + FAULT + 180, fault + FAULT + AFTER)),
    }
}

fn history((name, replicas, dialect, faults): Case) -> String {
    let begin = begun(name) - NORMAL;
    let mut spec = FleetSpec { namespace: name.to_owned(), dialect, ..FleetSpec::sized(replicas) };
    spec.dcgm.nvlink = true;
    if name == "rollout" {
        spec.gpu_exporter = GpuExporter::Absent;
    }
    if faults.is_empty() {
        spec.requests_per_second = 1.0;
    }
    let mut fleet = Fleet::new(spec, 1, (begin - 3_900) as f64).unwrap();
    fleet.advance_to(begin as f64);
    let mut history = History::new(30.0);
    history.record(&mut fleet, (begin + NORMAL) as f64);
    for fault in faults {
        fleet.inject(fault.parse::<Fault>().unwrap()).unwrap();
    }
    history.record(&mut fleet, (begin + NORMAL + FAULT) as f64);
    fleet.clear_all();
    history.record(&mut fleet, (begin + NORMAL + FAULT + AFTER) as f64);
    let mut text = Vec::new();
    history.write(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// What kube-state-metrics tells of nodes and of itself; the `pod` is its own.
fn nodes() -> String {
    let exporter = [("job", "kube-state-metrics"), ("namespace", "monitoring"), ("pod", "kube-state-metrics-0")];
    let of = |name: &str, labels: &[(&str, &str)]| {
        let begin = begun("rollout") - NORMAL;
        let labels: Vec<_> = exporter.iter().chain(labels).copied().collect();
        Series::new(name, &labels).steady(begin, begin + NORMAL + FAULT + AFTER, 60, 1.0)
    };
    let node = |node: &str| {
        let product = [
            ("node", node),
            ("label_nvidia_com_gpu_product", "NVIDIA-A30"),
            ("label_topology_kubernetes_io_zone", "z-1"),
        ];
        [of("kube_node_info", &[("node", node), ("kubelet_version", "v1.31.4")]), of("kube_node_labels", &product)]
    };
    let own = of("kube_state_metrics_build_info", &[("version", "2.13.0")]);
    openmetrics(["gpu-node-0", "gpu-node-1", "gpu-node-of-others"].into_iter().flat_map(node).chain([own]))
}

/// One Prometheus with the history of every case.
fn prometheus() -> &'static (Prometheus, stack::Prometheus) {
    static SHARED: LazyLock<(Prometheus, stack::Prometheus)> = LazyLock::new(|| {
        let histories = CASES
            .iter()
            .fold(stack::Prometheus::builder(), |builder, case| builder.backfill_text(&history(*case)).unwrap());
        let histories = histories.backfill_text(&nodes()).unwrap();
        run(async {
            let server = histories.start().await.unwrap();
            (client(&server.url), server)
        })
    });
    &SHARED
}

fn seen_of(prometheus: &Prometheus, name: &str, windows: &Windows, patience: Duration) -> PrometheusFacts {
    let request = request("high-ttft", &[("namespace", name)], windows.during.to.as_second());
    run(collect_facts(library(), prometheus, &request, None, windows, Instant::now() + patience))
}

fn seen(name: &str, resolved: bool) -> PrometheusFacts {
    seen_of(&prometheus().0, name, &windows(name, resolved), DEADLINE)
}

#[track_caller]
fn number<'a>(seen: &'a PrometheusFacts, signal: &str) -> &'a Measured {
    let all = || seen.measured.iter().chain(&seen.load);
    all().find(|m| m.signal == signal).unwrap_or_else(|| panic!("{signal}: {:?}", all().collect::<Vec<_>>()))
}

/// The values before, during and after.
#[track_caller]
fn three(seen: &PrometheusFacts, signal: &str) -> [f64; 3] {
    let m = number(seen, signal);
    [m.before, m.during, m.after].map(|value| value.unwrap_or_else(|| panic!("{m:?}")))
}

fn said(seen: &PrometheusFacts) -> Vec<&str> {
    seen.happened.iter().map(|happened| happened.what.as_str()).collect()
}

#[track_caller]
fn replica<'a>(seen: &'a PrometheusFacts, name: &str) -> &'a ReplicaInfo {
    seen.replicas.iter().find(|replica| replica.name == name).unwrap_or_else(|| panic!("{:?}", seen.replicas))
}

#[test]
fn numbers_differ_before_during_and_after_as_the_fault_makes_them() {
    for name in ["longer", "sglang"] {
        let seen = seen(name, true);
        let [before, during, after] = three(&seen, "prompt_tokens_mean");
        assert!(during > 1.7 * before && after < 0.8 * during, "{name}: {before} {during} {after}");
        let [before, during, after] = three(&seen, "ttft_p95");
        assert!(during > 1.5 * before && after < during, "{name}: {before} {during} {after}");
        let [before, during, _] = three(&seen, "kv_cache_usage");
        assert!(during > before, "{name}: {before} {during}");
        let [before, during, after] = three(&seen, "gpu_utilization");
        assert!([before, during, after].iter().all(|share| (0.0..=1.0).contains(share)), "{name}");
        let rate = number(&seen, "request_rate");
        assert!(rate.before.is_some_and(|rate| rate > 1.0) && rate.query.is_some(), "{rate:?}");
    }
}

#[test]
fn an_incident_that_lasts_has_no_after() {
    let seen = seen("longer", false);
    assert!(seen.measured.iter().chain(&seen.load).all(|m| m.after.is_none()));
    let ttft = number(&seen, "ttft_p95");
    assert!(ttft.during.is_some() && ttft.why.is_none(), "{ttft:?}");
}

#[test]
fn lengths_are_those_of_the_requests_within_a_bucket() {
    for (name, sum, count) in [
        ("longer", "vllm:request_prompt_tokens_sum", "vllm:request_prompt_tokens_count"),
        ("sglang", "sglang:prompt_tokens_histogram_sum", "sglang:prompt_tokens_histogram_count"),
    ] {
        let seen = seen(name, true);
        let input = seen.input.as_ref().unwrap_or_else(|| panic!("{:?}", seen.missing));
        let of = |series: &str| {
            let query = format!("sum(increase({series}{{namespace=\"{name}\"}}[{FAULT}s]))");
            run(prometheus().1.value(&query, begun(name) + FAULT)).unwrap().unwrap()
        };
        assert!((input.count / of(count) - 1.0).abs() < 0.01, "{} {}", input.count, of(count));
        assert!((input.mean / (of(sum) / of(count)) - 1.0).abs() < 0.01, "{input:?}");
        let shares: f64 = input.buckets.iter().map(|(_, share)| share).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{shares}");
        assert!(input.p50 <= input.p90 && input.p90 <= input.p99 && input.p50 > 0.0, "{input:?}");
        let bucket = sum.replace("_sum", "_bucket");
        let query =
            format!("histogram_quantile(0.9, sum by (le) (increase({bucket}{{namespace=\"{name}\"}}[{FAULT}s])))");
        let p90 = run(prometheus().1.value(&query, begun(name) + FAULT)).unwrap().unwrap();
        assert!((input.p90 / p90 - 1.0).abs() < 1e-6, "as Prometheus interpolates: {} {p90}", input.p90);
        let (mean, _) = input.earlier.unwrap();
        assert!(mean < 0.6 * input.mean, "prompts became longer: {mean} {}", input.mean);
        assert!(seen.output.as_ref().is_some_and(|output| output.mean > 10.0), "{:?}", seen.output);
    }
}

#[test]
fn hardware_versions_nodes_and_settings_are_read_from_labels() {
    let seen = seen("longer", true);
    let gpus: Vec<(&str, usize)> = seen.gpus.iter().map(|gpu| (gpu.kind.as_str(), gpu.count)).collect();
    assert_eq!(gpus.len(), 1, "{gpus:?}");
    assert!(gpus[0].0.starts_with("NVIDIA") && gpus[0].1 == 3, "{gpus:?}");
    let version = |what: &str| seen.versions.iter().find(|v| v.what == what).map(|v| v.version.as_str());
    assert_eq!(version("NVIDIA driver"), Some("570.133.20"));
    assert!(version("vllm").is_some_and(|version| version.ends_with(" or newer")), "{:?}", seen.versions);
    assert!(version("Prometheus").is_some_and(|version| version.starts_with(['2', '3'])), "{:?}", seen.versions);
    let image = version("image of container vllm");
    assert!(image.is_some_and(|image| image.starts_with("registry.example/vllm-openai:")), "{:?}", seen.versions);
    let settings = &seen.info["vllm:cache_config_info"];
    assert_eq!(settings.len(), 1, "the replicas have the same: {settings:?}");
    assert_eq!(settings[0]["block_size"], "16");
    assert!(!settings[0].contains_key("pod") && !settings[0].contains_key("instance"), "{settings:?}");
    assert_eq!(seen.replicas.len(), 3, "{:?}", seen.replicas);
    for replica in &seen.replicas {
        assert!(replica.node.as_deref().is_some_and(|node| node.starts_with("gpu-node-")), "{replica:?}");
        assert!(matches!(replica.gpus.as_slice(), [gpu] if gpu.contains("NVIDIA")), "{replica:?}");
        assert_eq!((replica.state.as_str(), replica.role.as_str()), ("up", ""), "{replica:?}");
    }
    assert!(seen.interconnect.is_some(), "{:?}", seen.missing);
    assert_eq!(said(&seen), [""; 0], "nothing restarted");
}

#[test]
fn without_a_gpu_exporter_the_orchestrator_counts_gpus_and_knows_the_machines() {
    let seen = seen("rollout", true);
    let gpus: Vec<_> = seen.gpus.iter().map(|gpu| (gpu.kind.as_str(), gpu.count, gpu.source.as_str())).collect();
    assert_eq!(gpus, [("NVIDIA-A30", 3, "kube_pod_container_resource_limits")]);
    let nodes: Vec<(&str, &[String])> = seen.nodes.iter().map(|(n, more)| (n.as_str(), more.as_slice())).collect();
    let zone = ["z-1".to_owned()];
    assert_eq!(nodes, [("gpu-node-0", &zone[..]), ("gpu-node-1", &zone[..])], "not those of others");
    let version = |what: &str| seen.versions.iter().find(|v| v.what == what).map(|v| v.version.as_str());
    assert_eq!(version("Kubernetes (kubelet)"), Some("v1.31.4"), "{:?}", seen.versions);
    assert_eq!(version("kube-state-metrics"), Some("2.13.0"), "{:?}", seen.versions);
    let missing = seen.missing.iter().find(|gap| gap.what.contains("GPU utilisation")).unwrap();
    assert!(missing.reason.as_str().contains("run dcgm-exporter"), "{missing:?}");
    assert_eq!(seen.failed(), [], "an exporter that is not there is no failure");
}

#[test]
fn a_lost_replica_is_gone_and_when_it_went_is_told() {
    let seen = seen("lost", false);
    assert_eq!(replica(&seen, "vllm-llama-8b-0").state, "gone");
    assert_eq!(replica(&seen, "vllm-llama-8b-1").state, "up");
    let went = seen.happened.iter().find(|h| h.what == "replica vllm-llama-8b-0 stopped exporting metrics");
    let went = went.unwrap_or_else(|| panic!("{:?}", seen.happened));
    assert_eq!((went.kind, went.source.as_str()), (HappenedKind::Presence, "prometheus"));
    assert!((went.at.as_second() - begun("lost")).abs() <= 60, "{went:?}, begun {}", begun("lost"));
    assert!(said(&seen).iter().any(|what| what.contains("vllm-llama-8b-0 restarted")), "{:?}", said(&seen));
}

#[test]
fn a_rollout_and_its_restarts_are_told_at_their_time_and_once() {
    let seen = seen("rollout", true);
    let images: Vec<_> = seen.happened.iter().filter(|h| h.what.contains("image ")).collect();
    assert!(!images.is_empty(), "{:?}", seen.happened);
    assert_eq!(images[0].kind, HappenedKind::Rollout);
    assert!(images[0].what.contains("build-101 ─▶ registry.example/vllm-openai:build-102"), "{images:?}");
    let late = images[0].at.as_second() - begun("rollout");
    assert!((0..=180).contains(&late), "{late} s after it began");
    assert!(seen.happened.len() <= 50 && seen.happened.is_sorted_by_key(|h| h.at), "{:?}", seen.happened);
}

#[test]
fn more_replicas_ask_no_more() {
    let asked = |name: &str| {
        let progress = std::sync::Arc::new(QueryProgress::default());
        let prometheus = client(&prometheus().1.url).watched(progress.clone());
        let seen = seen_of(&prometheus, name, &windows(name, true), DEADLINE);
        (progress.seen().1, seen.replicas.len())
    };
    let (few, many) = (asked("longer"), asked("wide"));
    assert_eq!((few.1, many.1), (3, 9));
    assert_eq!(few.0, many.0, "queries");
    assert!(few.0 <= 60, "{} queries", few.0);
}

/// A server that treats every connection so.
async fn server(answer: Option<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut connection, _)) = listener.accept().await {
            match answer {
                None => held.push(connection),
                Some(answer) => {
                    tokio::spawn(async move {
                        let mut request = [0; 65_536];
                        let _ = connection.read(&mut request).await;
                        let _ = connection.write_all(answer.as_bytes()).await;
                    });
                }
            }
        }
    });
    url
}

#[test]
fn whatever_prometheus_does_the_answer_comes_in_time_and_says_why() {
    let failing = "HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 4\r\n\r\noops";
    let garbage = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 15\r\n\r\n<html>hi</html>";
    let (hanging, failing, garbage) =
        run(async { (server(None).await, server(Some(failing)).await, server(Some(garbage)).await) });
    let patience = Duration::from_secs(2);
    for (url, why) in [
        ("http://127.0.0.1:1".to_owned(), "cannot be reached"),
        (hanging, "timed out"),
        (failing, "HTTP 500"),
        (garbage, "the answer is not Prometheus'"),
    ] {
        let began = Instant::now();
        let seen = seen_of(&client(&url), "longer", &windows("longer", true), patience);
        assert!(began.elapsed() < patience + Duration::from_secs(2), "{why}: {:?}", began.elapsed());
        let what: Vec<&str> = seen.missing.iter().map(|gap| gap.what.as_str()).collect();
        for part in ["the alerting rules", "the scrape targets", "the version of Prometheus"] {
            assert!(what.contains(&part), "{why}: {what:?}");
        }
        assert!(what.iter().any(|what| what.contains("hardware")), "{what:?}");
        assert!(what.iter().any(|what| what.contains("TTFT p95")), "{what:?}");
        assert!(seen.missing.iter().all(|gap| gap.reason.as_str().contains(why)), "{why}: {:?}", seen.missing);
        assert_eq!(seen.failed(), seen.missing, "{why}");
        assert!(seen.measured.iter().all(|m| m.during.is_none()) && seen.replicas.is_empty(), "{why}");
    }
}

/// A Prometheus that scrapes one engine, whose labels are hostile, and fails to scrape another, and evaluates rules.
async fn live() -> stack::Prometheus {
    let model = HOSTILE.replace('\\', "\\\\").replace('"', "\\\"");
    let sample = |name: &str| format!("{name}{{model_name=\"{model}\",engine=\"0\"}} 3\n");
    let names = ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"];
    let info = format!("vllm:cache_config_info{{block_size=\"16\",note=\"{model}\",engine=\"0\"}} 1\n");
    let page = names.map(sample).concat() + &info;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n";
    let page: &'static str = format!("{head}Content-Length: {}\r\n\r\n{page}", page.len()).leak();
    let engine = server(Some(page)).await.replace("http://", "");
    let scrape = format!(
        "- job_name: engines\n  params: {{ token: [s3cr3t] }}\n  static_configs:\n  \
         - {{ targets: [\"{engine}\"], labels: {{ namespace: live, pod: llama-7c9d8f5b6c-aaaaa }} }}\n  \
         - {{ targets: [\"127.0.0.1:1\"], labels: {{ namespace: live, pod: llama-7c9d8f5b6c-bbbbb }} }}\n  \
         - {{ targets: [\"127.0.0.1:2\"], labels: {{ namespace: other, pod: qwen-0 }} }}\n"
    );
    let rules = "groups:\n- name: g\n  rules:\n  \
        - { alert: PoolBusy, expr: 'sum by (namespace) (vllm:num_requests_running) > 0', for: 1s, labels: { severity: page } }\n  \
        - { alert: Elsewhere, expr: 'vector(1)', labels: { namespace: other } }\n  \
        - { alert: NodeFull, expr: 'node_load1 > 1' }\n  \
        - { alert: Deadlocked, expr: 'rate(vllm:num_requests_waiting[1m]) > 9' }\n  \
        - { record: 'x:y', expr: 'vector(1)' }\n";
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rules.yml");
    std::fs::write(&file, rules).unwrap();
    let prometheus = stack::Prometheus::builder().scrape_config(&scrape).rule_file(&file).start().await.unwrap();
    // A second scrape of the first target comes after the first of all, and so does what fires.
    let firing = "ALERTS{alertname=\"PoolBusy\", alertstate=\"firing\"} and on () count(up == 0) == 2";
    let deadline = Instant::now() + DEADLINE;
    while prometheus.query_now(firing).await.unwrap().as_array().is_none_or(Vec::is_empty) {
        assert!(Instant::now() < deadline, "{}", prometheus.log());
        tokio::task::yield_now().await;
    }
    prometheus
}

#[test]
fn rules_and_targets_of_the_pool_are_told_without_secrets_and_hostile_labels_do_no_harm() {
    let prometheus = run(live());
    let now = knowledge::clock::now();
    let ago = |seconds: u64| knowledge::clock::before(now, Duration::from_secs(seconds));
    let (before, during) = (Window { from: ago(600), to: ago(300) }, Window { from: ago(300), to: now });
    let windows = Windows { before, during, after: None };
    let labels = [("namespace", "live"), ("model_name", HOSTILE)];
    let request = request("high-ttft", &labels, now.as_second());
    let asked = client(&prometheus.url);
    let seen = run(collect_facts(library(), &asked, &request, None, &windows, Instant::now() + DEADLINE));
    let rules: Vec<(&str, &str)> = seen.rules.iter().map(|r| (r.name.as_str(), r.state.as_str())).collect();
    assert_eq!(rules, [("PoolBusy", "firing"), ("Deadlocked", "inactive")]);
    assert_eq!((seen.rules[0].for_seconds, seen.rules[0].labels["severity"].as_str()), (1.0, "page"));
    let targets: Vec<(&str, &str)> =
        seen.targets.iter().map(|t| (t.labels["pod"].as_str(), t.health.as_str())).collect();
    assert_eq!(targets, [("llama-7c9d8f5b6c-bbbbb", "down"), ("llama-7c9d8f5b6c-aaaaa", "up")]);
    assert_eq!(seen.targets[0].place, "127.0.0.1:1");
    let error = seen.targets[0].error.as_deref().unwrap();
    assert!(error.contains("refused") && !error.contains("s3cr3t"), "{error}");
    assert_eq!(number(&seen, "requests_running").during, Some(3.0), "{:?}", number(&seen, "requests_running"));
    assert_eq!(seen.info["vllm:cache_config_info"][0]["note"], HOSTILE);
    assert_eq!(seen.replicas.len(), 1, "{:?}", seen.replicas);
    assert!(serde_json::to_string(&seen).is_ok_and(|json| !json.contains("s3cr3t")));
    let missing: Vec<&str> = seen.missing.iter().map(|gap| gap.what.as_str()).collect();
    for what in ["the GPUs", "the replicas' nodes", "prompt tokens per request"] {
        assert!(missing.contains(&what), "{missing:?}");
    }
    assert!(
        seen.missing.iter().all(|gap| !gap.what.is_empty() && !gap.reason.as_str().is_empty()),
        "{:?}",
        seen.missing
    );
}
