//! Exporters read directly: Prometheus is dead, stale or blind, and the answer names the same cause; what cannot be
//! read says so and blames nobody.

mod alone;
mod movement;
mod odd;
mod refused;

use std::future::Future;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::routing::get;
use diagnose::{Exporters, ExtraSources, diagnose_with, observe};
use findings::{Baseline, Diagnosis, DirectReadReason, ExporterTarget, Request, Scope, SymptomVerdict, ValueSource};
use llm_diagnose_lab::sim::{Fleet, FleetSpec, live};
use llm_diagnose_lab::stack::backfill::openmetrics;
use llm_diagnose_lab::stack::{Prometheus, stamp_exposition};
use serde_json::Value;
use sources::exporter::{Allowed, ExporterReader};
use tokio::net::TcpListener;

use crate::harness::{client, fixture, library, tls};
use crate::running::{BINARY, CHANNEL, Running, SOON, group};

/// Loopback is not allowed unless told.
const LOOPBACK: &str = "exporters: { allow: [127.0.0.0/8] }";
/// Where nobody listens.
const NOWHERE: &str = "http://127.0.0.1:1";
/// A deadline as in service.
const DEADLINE: Duration = Duration::from_secs(10);

// ---- the whole way: targets learnt and remembered, Prometheus killed, an alert

/// A fleet of four with faults since five minutes; its address and scrape configuration.
async fn fleet(faults: &[&str]) -> (String, String) {
    let now = clock();
    let (listener, address) = listen().await;
    let faults: Vec<_> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
    let fleet = tokio::task::spawn_blocking(move || {
        let spec = FleetSpec { startup_seconds: 600.0, ..FleetSpec::sized(4) };
        let mut fleet = Fleet::new(spec, 1, now - 1_200.0).unwrap();
        fleet.advance_to(now - 300.0);
        faults.into_iter().for_each(|fault| fleet.inject(fault).unwrap());
        fleet.advance_to(now);
        fleet
    })
    .await
    .unwrap();
    let scrapes = live::scrape_configs(&fleet.targets(), &address, "1s").to_string();
    tokio::spawn(live::serve(fleet, listener));
    (address, scrapes)
}

#[expect(clippy::disallowed_methods, reason = "a live fleet's present is the wall clock's")]
fn clock() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Waits until `done`, at most for [`SOON`].
async fn until<F: Future<Output = bool>>(what: &str, done: impl Fn() -> F) {
    let end = Instant::now() + SOON;
    while !done().await {
        assert!(Instant::now() < end, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until Prometheus has scraped four engines and their GPUs.
async fn scraped(prometheus: &Prometheus) {
    until("a scrape of every target", || async {
        let up = prometheus.query_now("count({__name__=~\"vllm:num_requests_running|DCGM_FI_DEV_GPU_TEMP\"})").await;
        let up: Value = up.unwrap();
        up[0]["value"][1].as_str().is_some_and(|n| n == "8")
    })
    .await;
}

/// The service with what a Prometheus, dead by now, told it of the fleet's targets.
async fn bereft(faults: &[&str], more: &str) -> (Running, String) {
    let (address, scrapes) = fleet(faults).await;
    let mut prometheus = Prometheus::builder().scrape_config(&scrapes).start().await.unwrap();
    scraped(&prometheus).await;
    let mut run = Running::start(&format!("prometheus: [{{ url: \"{}\" }}]\n{more}", prometheus.url)).await;
    until("what was learnt", || async {
        let (_, metrics) = run.get("/metrics").await;
        // Four engines, and an exporter on each of two nodes.
        metrics.lines().any(|line| line == "llm_diagnose_exporters_learnt 6")
    })
    .await;
    prometheus.kill().await.unwrap();
    // What is known survives, for it stands in the store.
    run.service.kill9().await.unwrap();
    run.service.restart().await.unwrap();
    (run, address)
}

#[tokio::test]
async fn a_dead_prometheus_does_not_hide_an_exhausted_kv_cache() {
    let (run, _) = bereft(&["longer-prompts"], LOOPBACK).await;
    run.send(&group("LLMKVCachePressure", "firing", "critical", &["a"])).await;
    run.wait_for(CHANNEL, |m| {
        m.contains("KV cache is exhausted")
            && m.contains("Prometheus did not answer; read 4 engines and 2 GPU exporters directly")
            && m.contains("(read directly)")
    })
    .await;
    assert_eq!(run.slack.violations(), []);
}

#[tokio::test]
async fn a_dead_prometheus_does_not_hide_a_throttled_gpu() {
    let (run, _) = bereft(&["gpu-throttling:replica=2"], LOOPBACK).await;
    let mut alert = group("GpuSlow", "firing", "critical", &["a"]);
    alert["alerts"][0]["labels"]["playbook"] = "gpu-clock-bound".into();
    run.send(&alert).await;
    run.wait_for(CHANNEL, |m| {
        m.contains("the GPU is too hot") && m.contains("vllm-llama-8b-2") && m.contains("GPU exporters directly")
    })
    .await;
}

#[tokio::test]
async fn a_dead_prometheus_does_not_hide_a_dead_replica() {
    let (run, fleet) = bereft(&[], LOOPBACK).await;
    let dies = run.http.post(format!("http://{fleet}/faults/lost-replica:replica=1")).send().await.unwrap();
    assert!(dies.status().is_success());
    run.send(&group("LLMReplicaDown", "firing", "critical", &["a"])).await;
    run.wait_for(CHANNEL, |m| {
        m.contains("Confirmed")
            && m.contains("replicas not answering scrapes 1 (read directly) on 1 of 4 replicas: vllm-llama-8b-1")
            && m.contains("read 3 of 4 engines")
            && m.contains("vllm-llama-8b-1 answered HTTP 503")
    })
    .await;
}

#[tokio::test]
async fn what_was_learnt_is_not_read_where_it_is_not_allowed() {
    let (run, _) = bereft(&["longer-prompts"], "").await;
    run.send(&group("LLMKVCachePressure", "firing", "critical", &["a"])).await;
    run.wait_for(CHANNEL, |m| m.contains("Cannot tell") && m.contains("has an address that may not be read")).await;
    assert!(!run.slack.transcript(CHANNEL).contains("KV cache is exhausted"));
}

// ---- one diagnosis, on pages that the test serves

/// Serves routes on loopback until the test ends.
async fn serve(routes: Router) -> String {
    let (listener, address) = listen().await;
    tokio::spawn(async move { axum::serve(listener, routes).await });
    format!("http://{address}")
}

/// A page that shows one text at the first read and another from the second on.
async fn showing(first: impl Into<String>, then: impl Into<String>) -> String {
    let (mut first, then) = (Some(first.into()), then.into());
    let shown = std::sync::Mutex::new(move || first.take().unwrap_or_else(|| then.clone()));
    let shown = std::sync::Arc::new(shown);
    serve(Router::new().route("/metrics", get(move || async move { (shown.lock().unwrap())() }))).await
}

/// An exporter at an address.
fn target(engine: &str, url: &str, pod: &str) -> ExporterTarget {
    let labels = [("namespace", "llm"), ("pod", pod), ("instance", pod), ("job", engine)];
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ExporterTarget { engine: engine.to_owned(), url: format!("{url}/metrics"), labels, seen: None }
}

fn exporters(targets: Vec<ExporterTarget>) -> Exporters {
    tls();
    let allow = [Allowed::try_from("127.0.0.0/8".to_owned()).unwrap()];
    Exporters { reader: ExporterReader::new(&allow).unwrap(), targets, learn: false, fresh: false, saved: Vec::new() }
}

/// A diagnosis of the namespace `llm` while Prometheus is away, within its deadline.
async fn diagnosed(playbook: &str, targets: Vec<ExporterTarget>) -> Diagnosis {
    asked(playbook, NOWHERE, &exporters(targets)).await
}

async fn asked(playbook: &str, prometheus: &str, exporters: &Exporters) -> Diagnosis {
    let request = request(playbook);
    let started = Instant::now();
    let diagnosis = diagnose_with(
        library(),
        &client(prometheus),
        &request,
        ExtraSources { exporters: Some(exporters), logs: None },
    )
    .await;
    // A busy machine ends it late; a wait that ignores the deadline never ends.
    assert!(started.elapsed() < 2 * DEADLINE, "took {:?}", started.elapsed());
    diagnosis
}

/// A request of now for the namespace `llm`.
fn request(playbook: &str) -> Request {
    Request {
        playbook: playbook.to_owned(),
        screen: false,
        rules: Vec::new(),
        conditions: Vec::new(),
        scope: Scope::of_labels(&[("namespace".to_owned(), "llm".to_owned())].into()),
        at: knowledge::clock::now(),
        since: None,
        window: Duration::from_secs(300),
        is_young: false,
        baseline: Baseline::Earlier(Duration::from_secs(86_400)),
        deadline: DEADLINE,
    }
}

/// A vLLM page with what the KV cache's playbook turns on.
fn page(kv: &str, waiting: &str, preemptions: &str) -> String {
    let labels = "{model_name=\"llama\",engine=\"0\"}";
    format!(
        "vllm:num_requests_running{labels} 30\nvllm:num_requests_waiting{labels} {waiting}\n\
         vllm:kv_cache_usage_perc{labels} {kv}\nvllm:num_preemptions_total{labels} {preemptions}\n"
    )
}

#[tokio::test]
async fn a_captured_page_tells_what_its_counters_did_between_the_reads() {
    let [t0, t1] = ["t0", "t1"].map(|t| fixture(&format!("vllm/0.32-kv-exhaustion-{t}.prom")));
    let url = showing(t0, t1).await;
    let diagnosis = diagnosed("high-ttft", vec![target("vllm", &url, "llama-0")]).await;
    // Of 286 first tokens 272 came within 5 s and 284 within 7.5 s.
    let expected = 5.0 + 2.5 * (0.99 * 286.0 - 272.0) / 12.0;
    let ttft = diagnosis.symptom.evidence.iter().find(|e| e.signal == "ttft_p99").unwrap();
    assert!((ttft.value.unwrap() - expected).abs() < 1e-9, "{ttft:?}");
    assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::Confirmed);
    assert_eq!(diagnosis.engines[0].at_least.as_deref(), Some("0.32"));
    assert!(diagnosis.degraded && diagnosis.direct.as_ref().unwrap().because == DirectReadReason::NoAnswer);
}

#[tokio::test]
async fn ranks_of_sglang_that_repeat_each_other_count_once_and_no_retraction_is_zero() {
    let twice = |name: &str| {
        let page = fixture(&format!("sglang/0.5.23-{name}.prom"));
        let again = page.lines().filter(|line| line.contains("tp_rank=\"0\""));
        let again: String = again.map(|line| line.replace("tp_rank=\"0\"", "tp_rank=\"1\"") + "\n").collect();
        assert!(!again.is_empty());
        page + &again
    };
    // A quantile of 174 requests of one minute; then 4 running and 145 queued ones, in which nothing was counted.
    let cases = [
        ("healthy-t0", "healthy-t1", &[("ttft_p99", 0.163), ("preemption_rate", 0.0)][..]),
        (
            "queue-saturation",
            "queue-saturation",
            &[
                ("requests_running", 4.0),
                ("requests_waiting", 145.0),
                ("kv_cache_usage", 0.08),
                ("replicas_serving", 1.0),
            ],
        ),
    ];
    for (before, after, expected) in cases {
        let url = showing(twice(before), twice(after)).await;
        let known = exporters(vec![target("sglang", &url, "sglang-0")]);
        let read = observe(library(), &client("http://127.0.0.1:1"), &request("high-ttft"), Some(&known)).await;
        for (signal, expected) in expected {
            let value = read.observations.signals[*signal].value;
            assert!(value.is_some_and(|v| (v - expected).abs() < 1e-6), "{signal}: {value:?}, expected {expected}");
        }
        assert_eq!(read.detection.engines[0].version.as_ref().map(ToString::to_string).as_deref(), Some("0.5.22"));
    }
}

/// Everything that the playbooks may need of engines and GPUs, from pages that stand still.
#[tokio::test]
async fn the_direct_form_of_a_signal_says_what_its_query_says() {
    let fleet = tokio::task::spawn_blocking(|| {
        let mut fleet = Fleet::new(FleetSpec::sized(2), 1, 0.0).unwrap();
        fleet.inject("gpu-throttling:replica=1".parse().unwrap()).unwrap();
        fleet.advance_to(300.0);
        fleet
    });
    let fleet = fleet.await.unwrap();
    let mut routes = Router::new();
    for target in fleet.targets() {
        let page = fleet.page(&target).unwrap();
        routes = routes.route(&target.path, get(move || async move { page.clone() }));
    }
    let url = serve(routes).await;
    let scrapes = live::scrape_configs(&fleet.targets(), url.trim_start_matches("http://"), "1s").to_string();
    let prometheus = Prometheus::builder().scrape_config(&scrapes).start().await.unwrap();
    // A subquery looks each 10 s, so it must find every series at such a moment.
    until("eleven scrapes of two engines and their GPUs", || async {
        let enough = "count(count_over_time({__name__=~'vllm:num_requests_running|DCGM_FI_DEV_GPU_TEMP'}[1m]) >= 11)";
        prometheus.query_now(enough).await.unwrap()[0]["value"][1] == "4"
    })
    .await;
    let mut known = exporters(Vec::new());
    (known.learn, known.fresh) = (true, true);
    let mut compared = Vec::new();
    for playbook in ["high-ttft", "gpu-clock-bound", "replica-down"] {
        let request = request(playbook);
        let client = client(&prometheus.url);
        let told = observe(library(), &client, &request, None).await.observations.signals;
        let read = observe(library(), &client, &request, Some(&known)).await.observations.signals;
        for (signal, read) in read.iter().filter(|(_, o)| o.source == ValueSource::Exporter) {
            let told = &told[signal];
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * a.abs().max(1.0);
            let (a, b) = (told.value.unwrap(), read.value.unwrap());
            assert!(near(a, b), "{signal}: Prometheus says {a}, the pages say {b}");
            for replica in &told.replicas {
                let own = read.replicas.iter().find(|r| r.name == replica.name).unwrap();
                assert!(
                    near(replica.value, own.value),
                    "{signal} of {}: {} and {}",
                    own.name,
                    replica.value,
                    own.value
                );
            }
            compared.push(signal.clone());
        }
    }
    for signal in [
        "kv_cache_usage",
        "kv_cache_peak",
        "requests_waiting",
        "requests_running",
        "preemption_rate",
        "replicas_serving",
        "replicas_down",
        "gpu_utilization",
        "gpu_sm_clock",
        "gpu_throttled",
        "gpu_temperature",
    ] {
        assert!(compared.iter().any(|known| known == signal), "{signal} was not compared: {compared:?}");
    }
}

/// The signals that pages tell while Prometheus is away.
async fn read(playbook: &str, targets: Vec<ExporterTarget>) -> impl Fn(&str) -> Option<f64> {
    let seen = observe(library(), &client(NOWHERE), &request(playbook), Some(&exporters(targets))).await.observations;
    move |signal| seen.signals.get(signal).and_then(|o| o.value)
}

#[tokio::test]
async fn both_gpu_exporters_are_read_in_their_own_units() {
    let now = clock();
    let dcgm = "DCGM_FI_DEV_FB_USED{UUID=\"a\",pod=\"llama-0\"} 60\nDCGM_FI_DEV_FB_FREE{UUID=\"a\",pod=\"llama-0\"} 20\n\
                DCGM_FI_DEV_POWER_USAGE{UUID=\"a\",pod=\"llama-0\"} 300\n\
                DCGM_FI_DEV_ENFORCED_POWER_LIMIT{UUID=\"a\",pod=\"llama-0\"} 400\n\
                DCGM_FI_DEV_CLOCKS_EVENT_REASONS{UUID=\"a\",pod=\"llama-0\"} 33\n\
                DCGM_EXP_XID_ERRORS_COUNT{UUID=\"a\",pod=\"llama-0\",xid=\"79\"} 2\n\
                DCGM_EXP_XID_ERRORS_COUNT{UUID=\"a\",pod=\"llama-0\",xid=\"13\"} 5\n";
    let url = showing(dcgm, dcgm).await;
    let value = read("gpu-clock-bound", vec![target("dcgm", &url, "dcgm-exporter-0")]).await;
    assert_eq!((value("gpu_power_ratio"), value("gpu_throttled")), (Some(0.75), Some(1.0)));
    let value = read("gpu-hardware-fault", vec![target("dcgm", &url, "dcgm-exporter-0")]).await;
    assert_eq!(value("gpu_xid_critical"), Some(2.0));

    let smi = |reasons: u32, xid: &str| {
        format!(
            "nvidia_smi_memory_used_bytes{{uuid=\"a\"}} 60e9\nnvidia_smi_memory_total_bytes{{uuid=\"a\"}} 80e9\n\
             nvidia_smi_utilization_gpu_ratio{{uuid=\"a\"}} 0.9\nnvidia_smi_utilization_gpu_ratio{{uuid=\"b\"}} 0\n\
             nvidia_smi_clocks_current_sm_clock_hz{{uuid=\"a\"}} 1.2e9\n\
             nvidia_smi_clocks_current_sm_clock_hz{{uuid=\"b\"}} 2e8\n\
             nvidia_smi_clocks_event_reasons_active{{uuid=\"a\"}} {reasons}\nnvidia_smi_nvml_return_code 0\n{xid}"
        )
    };
    let gpu = |url: &str| ExporterTarget {
        labels: [("instance".to_owned(), "gpu-7".to_owned())].into(),
        ..target("nvidia-gpu-exporter", url, "")
    };
    let url = showing(smi(1, ""), smi(64, "")).await;
    let value = read("gpu-clock-bound", vec![gpu(&url)]).await;
    // Held down at one of two reads; the idle GPU's clock does not count.
    assert_eq!((value("gpu_throttled"), value("gpu_sm_clock")), (Some(0.5), Some(1.2e9)));
    let value = read("gpu-hardware-fault", vec![gpu(&url)]).await;
    assert_eq!(value("gpu_xid_critical"), Some(0.0));
    let xids = [(79, now - 60.0), (48, now - 7_200.0)];
    let xids: String = xids
        .iter()
        .map(|(xid, at)| format!("nvidia_smi_xid_last_timestamp_seconds{{uuid=\"a\",xid=\"{xid}\"}} {at}\n"))
        .collect();
    let url = showing(smi(0, &xids), smi(0, &xids)).await;
    let value = read("gpu-hardware-fault", vec![gpu(&url)]).await;
    assert_eq!(value("gpu_xid_critical"), Some(1.0));
}

#[tokio::test]
async fn a_prometheus_that_went_stale_is_supplemented() {
    let now = clock() as i64;
    let labels = [("job", "vllm"), ("instance", "llama-0"), ("namespace", "llm"), ("pod", "llama-0")];
    let old = stamp_exposition(&page("0.2", "0", "100"), &labels, now - 900).unwrap();
    let prometheus = Prometheus::builder().backfill_text(&openmetrics(old)).unwrap().start().await.unwrap();
    let url = showing(page("0.99", "41", "100"), page("0.99", "41", "130")).await;
    let known = exporters(vec![target("vllm", &url, "llama-0")]);
    let diagnosis = asked("kv-cache-pressure", &prometheus.url, &known).await;
    assert_eq!(diagnosis.root().map(|c| c.id.as_str()), Some("kv-cache-full"), "{diagnosis:#?}");
    assert_eq!(diagnosis.direct.as_ref().unwrap().because, DirectReadReason::NoValues);
}

#[tokio::test]
async fn a_prometheus_that_hangs_leaves_time_for_the_exporters() {
    let hanging = serve(Router::new().fallback(std::future::pending::<()>)).await;
    let url = showing(page("0.99", "41", "100"), page("0.99", "41", "130")).await;
    let known = exporters(vec![target("vllm", &url, "llama-0")]);
    let diagnosis = asked("kv-cache-pressure", &hanging, &known).await;
    assert_eq!(diagnosis.root().map(|c| c.id.as_str()), Some("kv-cache-full"), "{diagnosis:#?}");
    assert_eq!(diagnosis.direct.as_ref().unwrap().because, DirectReadReason::NoAnswer);
    let rate = diagnosis.root().unwrap().evidence.iter().find(|e| e.signal == "preemption_rate").unwrap();
    assert!(rate.value.unwrap() > 5.0, "both reads were made: {rate:?}");
}

#[tokio::test]
async fn the_command_line_reads_configured_exporters_and_says_so() {
    let url = showing(page("0.99", "41", "100"), page("0.99", "41", "130")).await;
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.yaml");
    let targets = format!("targets: [{{ engine: vllm, url: \"{url}/metrics\", labels: {{ pod: llama-0 }} }}]");
    let text = format!("prometheus: [{{ url: \"{NOWHERE}\" }}]\nexporters: {{ allow: [127.0.0.1], {targets} }}\n");
    std::fs::write(&config, text).unwrap();
    let run = |more: &'static [&'static str]| {
        let mut command = tokio::process::Command::new(BINARY);
        command.args(["diagnose", "--playbook", "kv-cache-pressure", "--fresh", "--config"]).arg(&config).args(more);
        async move { command.output().await.unwrap() }
    };
    let text = run(&[]).await;
    let said = String::from_utf8(text.stdout).unwrap();
    assert!(said.contains("As requested, without waiting for the next scrape; read 1 engine directly"), "{said}");
    assert!(said.contains("KV cache peak 99 % (read directly)"), "{said}");
    assert_eq!(text.status.code(), Some(3), "Prometheus could not be asked all the same");
    let json: Value = serde_json::from_slice(&run(&["--output", "json"]).await.stdout).unwrap();
    assert_eq!(json["direct"]["because"], "asked");
    assert_eq!(json["symptom"]["evidence"][0]["source"], "exporter");
}

#[tokio::test]
async fn a_prometheus_without_the_series_is_supplemented() {
    let mut prometheus = Prometheus::builder().start().await.unwrap();
    let full = showing(page("0.99", "41", "100"), page("0.99", "41", "130")).await;
    let known = exporters(vec![target("vllm", &full, "llama-0")]);
    let diagnosis = asked("kv-cache-pressure", &prometheus.url, &known).await;
    assert_eq!(diagnosis.root().map(|c| c.id.as_str()), Some("kv-cache-full"));
    assert_eq!(diagnosis.direct.as_ref().unwrap().because, DirectReadReason::NoValues);
    assert!(!diagnosis.degraded);
    prometheus.kill().await.unwrap();
}

#[tokio::test]
async fn a_pool_whose_series_no_prometheus_has_is_screened_by_its_exporters() {
    let mut prometheus = Prometheus::builder().start().await.unwrap();
    for (url, because) in [(prometheus.url.as_str(), DirectReadReason::NoValues), (NOWHERE, DirectReadReason::NoAnswer)]
    {
        let full = showing(page("0.99", "41", "100"), page("0.99", "41", "130")).await;
        let known = exporters(vec![target("vllm", &full, "llama-0")]);
        let beside = ExtraSources { exporters: Some(&known), logs: None };
        let asked = Request { screen: true, ..request("") };
        let diagnosis = diagnose_with(library(), &client(url), &asked, beside).await;
        assert_eq!(diagnosis.root().map(|c| c.id.as_str()), Some("kv-cache-full"), "{diagnosis:#?}");
        assert_eq!(diagnosis.direct.as_ref().unwrap().because, because);
    }
    prometheus.kill().await.unwrap();
}

#[tokio::test]
async fn asked_for_fresh_values_the_exporters_win_over_prometheus() {
    let (_, scrapes) = fleet(&["longer-prompts"]).await;
    let prometheus = Prometheus::builder().scrape_config(&scrapes).start().await.unwrap();
    scraped(&prometheus).await;
    let mut known = exporters(Vec::new());
    (known.learn, known.fresh) = (true, true);
    let diagnosis = asked("kv-cache-pressure", &prometheus.url, &known).await;
    let direct = diagnosis.direct.as_ref().unwrap();
    assert_eq!((direct.because, direct.engines, direct.gpu_exporters), (DirectReadReason::Asked, 4, 2));
    let peak = diagnosis.symptom.evidence.iter().find(|e| e.signal == "kv_cache_peak").unwrap();
    assert_eq!(peak.source, ValueSource::Exporter);
    // A pool, too, whose symptom has to be found first.
    let pool = Request { screen: true, ..request("") };
    let beside = ExtraSources { exporters: Some(&known), logs: None };
    let found = diagnose_with(library(), &client(&prometheus.url), &pool, beside).await;
    assert_eq!(
        found.direct.as_ref().map(|direct| direct.because),
        Some(DirectReadReason::Asked),
        "{:?}",
        found.symptom
    );
    // Without being asked a Prometheus that knows everything is enough.
    known.fresh = false;
    let diagnosis = asked("kv-cache-pressure", &prometheus.url, &known).await;
    assert_eq!(diagnosis.direct, None);
}
