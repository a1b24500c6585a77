//! Exporters read directly: Prometheus is dead, stale or blind, and the answer names the same cause; what cannot be
//! read says so and blames nobody.

use std::future::Future;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use llm_diagnose::diagnose::{
    Baseline, Because, Diagnosis, Exporters, Request, Scope, Source, SymptomVerdict, diagnose_with,
};
use llm_diagnose::exporter::{Allowed, Reader, Target};
use llm_diagnose_lab::sim::{Fleet, FleetSpec, live};
use llm_diagnose_lab::stack::Prometheus;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::harness::{client, fixture, library, tls};
use crate::running::{CHANNEL, Running, SOON, group};

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

/// The service with what a Prometheus, dead by now, told it of the fleet's targets.
async fn bereft(faults: &[&str], more: &str) -> (Running, String) {
    let (address, scrapes) = fleet(faults).await;
    let mut prometheus = Prometheus::builder().scrape_config(&scrapes).start().await.unwrap();
    until("a scrape of every target", || async {
        let up = prometheus.query_now("count({__name__=~\"vllm:num_requests_running|DCGM_FI_DEV_GPU_TEMP\"})").await;
        let up: Value = up.unwrap();
        up[0]["value"][1].as_str().is_some_and(|n| n == "8")
    })
    .await;
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
    alert["alerts"][0]["labels"]["playbook"] = "gpu-throttled".into();
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
fn target(engine: &str, url: &str, pod: &str) -> Target {
    let labels = [("namespace", "llm"), ("pod", pod), ("instance", pod), ("job", engine)];
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Target { engine: engine.to_owned(), url: format!("{url}/metrics"), labels, seen: None }
}

fn exporters(targets: Vec<Target>) -> Exporters {
    tls();
    let allow = [Allowed::try_from("127.0.0.0/8".to_owned()).unwrap()];
    Exporters { reader: Reader::new(&allow).unwrap(), targets, learn: false, fresh: false }
}

/// A diagnosis of the namespace `llm` while Prometheus is away, within its deadline.
async fn diagnosed(playbook: &str, targets: Vec<Target>) -> Diagnosis {
    asked(playbook, NOWHERE, &exporters(targets)).await
}

async fn asked(playbook: &str, prometheus: &str, exporters: &Exporters) -> Diagnosis {
    let request = Request {
        playbook: playbook.to_owned(),
        scope: Scope::of_labels(&[("namespace".to_owned(), "llm".to_owned())].into()),
        at: llm_diagnose::clock::now(),
        since: None,
        window: Duration::from_secs(300),
        baseline: Baseline::Earlier(Duration::from_secs(86_400)),
        deadline: DEADLINE,
    };
    let started = Instant::now();
    let diagnosis = diagnose_with(library(), &client(prometheus), &request, Some(exporters)).await;
    assert!(started.elapsed() < DEADLINE, "took {:?}", started.elapsed());
    diagnosis
}

/// What is said of exporters.
fn remarks(diagnosis: &Diagnosis) -> String {
    let direct = diagnosis.direct.as_ref().unwrap();
    direct.remarks.iter().map(|r| format!("{} {}\n", r.exporter, r.what)).collect()
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
    let value = |signal: &str| {
        let evidence = diagnosis.causes.iter().flat_map(|c| c.via.iter().flat_map(|j| &j.evidence).chain(&c.evidence));
        let mut all = diagnosis.symptom.evidence.iter().chain(evidence);
        all.find(|e| e.signal == signal).and_then(|e| e.value)
    };
    assert!(value("ttft_p99").is_some(), "{diagnosis:#?}");
    assert_eq!(diagnosis.engines[0].at_least.as_deref(), Some("0.32"));
    assert!(diagnosis.degraded && diagnosis.direct.as_ref().unwrap().because == Because::NoAnswer);
}

#[tokio::test]
async fn a_prometheus_without_the_series_is_supplemented() {
    let mut prometheus = Prometheus::builder().start().await.unwrap();
    let full = showing(page("0.99", "41", "100"), page("0.99", "41", "130")).await;
    let known = exporters(vec![target("vllm", &full, "llama-0")]);
    let diagnosis = asked("kv-cache-pressure", &prometheus.url, &known).await;
    assert_eq!(diagnosis.root().map(|c| c.id.as_str()), Some("kv-cache-exhaustion"));
    assert_eq!(diagnosis.direct.as_ref().unwrap().because, Because::NoValues);
    assert!(!diagnosis.degraded);
    prometheus.kill().await.unwrap();
}

#[tokio::test]
async fn asked_for_fresh_values_the_exporters_win_over_prometheus() {
    let (_, scrapes) = fleet(&["longer-prompts"]).await;
    let prometheus = Prometheus::builder().scrape_config(&scrapes).start().await.unwrap();
    until("a scrape", || async {
        let up = prometheus.query_now("count(vllm:num_requests_running)").await.unwrap();
        up[0]["value"][1] == "4"
    })
    .await;
    let mut known = exporters(Vec::new());
    (known.learn, known.fresh) = (true, true);
    let diagnosis = asked("kv-cache-pressure", &prometheus.url, &known).await;
    let direct = diagnosis.direct.as_ref().unwrap();
    assert_eq!((direct.because, direct.engines, direct.gpu_exporters), (Because::Asked, 4, 2));
    let peak = diagnosis.symptom.evidence.iter().find(|e| e.signal == "kv_cache_peak").unwrap();
    assert_eq!(peak.source, Source::Exporter);
    // Without being asked a Prometheus that knows everything is enough.
    known.fresh = false;
    let diagnosis = asked("kv-cache-pressure", &prometheus.url, &known).await;
    assert_eq!(diagnosis.direct, None);
}

// ---- what cannot be read says so and blames nobody

/// The symptom stays open, nobody is blamed, and the sentence is there.
#[track_caller]
fn says_only(diagnosis: &Diagnosis, sentence: &str) {
    let said = remarks(diagnosis);
    assert!(said.contains(sentence), "`{sentence}` is not in: {said}");
    assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::NoData, "{said}");
    assert!(diagnosis.causes.is_empty(), "{:?}", diagnosis.causes);
}

#[tokio::test]
async fn an_exporter_that_hangs_is_slow_and_not_dead() {
    let routes = Router::new().route("/metrics", get(|| std::future::pending::<()>()));
    let diagnosis = diagnosed("replica-down", vec![target("vllm", &serve(routes).await, "llama-0")]).await;
    says_only(&diagnosis, "llama-0 took the connection and did not answer in time");
}

#[tokio::test]
async fn many_hanging_exporters_do_not_outlast_the_deadline_and_too_many_are_left_out() {
    let routes = Router::new().route("/metrics", get(|| std::future::pending::<()>()));
    let url = serve(routes).await;
    let targets = (0..80).map(|i| target("vllm", &format!("{url}/metrics?{i}#"), &format!("llama-{i}"))).collect();
    let diagnosis = diagnosed("replica-down", targets).await;
    says_only(&diagnosis, "did not answer in time");
    let direct = diagnosis.direct.unwrap();
    assert_eq!((direct.engines, direct.engines_known, direct.left_out), (0, 64, 16));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = showing(page("0.99", "41", "100"), page("0.99", "41", "130")).await;
    let away = Redirect::temporary(&format!("{elsewhere}/metrics"));
    let routes = Router::new().route("/metrics", get(move || async move { away.clone() }));
    let diagnosis = diagnosed("kv-cache-pressure", vec![target("vllm", &serve(routes).await, "llama-0")]).await;
    says_only(&diagnosis, "answered with a redirect, which is not followed");
}

#[tokio::test]
async fn a_page_of_100_megabytes_is_not_swallowed() {
    let line = "vllm:kv_cache_usage_perc{model_name=\"llama\"} 0.99\n";
    let body = line.repeat((100 << 20) / line.len());
    let routes = Router::new().route("/metrics", get(move || async move { body.clone() }));
    let diagnosis = diagnosed("kv-cache-pressure", vec![target("vllm", &serve(routes).await, "llama-0")]).await;
    says_only(&diagnosis, "llama-0 sent more than 16 MiB");
}

#[tokio::test]
async fn what_is_no_page_of_metrics_blames_nobody() {
    let kv = "vllm:kv_cache_usage_perc{model_name=\"llama\"} 0.99\n";
    for (body, sentence) in [
        ("<!DOCTYPE html><html>Log in</html>\n".to_owned(), "did not send metrics: line 1 is no sample: `<!DOCTYPE"),
        ("\u{1}\u{2} garbage = }{\n".to_owned(), "did not send metrics: line 1 is no sample"),
        (String::new(), "there is no series `vllm:num_requests_running`, so it is no vllm"),
        (format!("{kv}{kv}vllm:num_requ"), "the page breaks off within a line"),
        (kv.to_owned(), "there is no series `vllm:num_requests_running`"),
    ] {
        let url = showing(body.clone(), body).await;
        let diagnosis = diagnosed("kv-cache-pressure", vec![target("vllm", &url, "llama-0")]).await;
        says_only(&diagnosis, sentence);
    }
    let bytes = Router::new().route("/metrics", get(|| async { vec![b'v', 0xff, 0xfe, b'\n'] }));
    let diagnosis = diagnosed("kv-cache-pressure", vec![target("vllm", &serve(bytes).await, "llama-0")]).await;
    says_only(&diagnosis, "the page is no UTF-8 text");
}

#[tokio::test]
async fn refused_pages_are_not_dead_replicas() {
    let routes = Router::new().route("/metrics", get(|| async { StatusCode::UNAUTHORIZED.into_response() }));
    let diagnosis = diagnosed("replica-down", vec![target("vllm", &serve(routes).await, "llama-0")]).await;
    says_only(&diagnosis, "llama-0 answered HTTP 401");
}

#[tokio::test]
async fn nobody_is_dead_whom_we_have_no_way_to() {
    // A name that cannot exist fails before anybody is asked for it.
    let name = "a".repeat(70);
    let mut known = exporters(vec![target("vllm", &format!("http://{name}:8000"), "llama-0")]);
    known.reader = Reader::new(&[Allowed::try_from(name).unwrap()]).unwrap();
    let alone = asked("replica-down", NOWHERE, &known).await;
    says_only(&alone, "llama-0 cannot be reached");
    // Beside one that answers it is gone.
    let url = showing(page("0.1", "0", "1"), page("0.1", "0", "1")).await;
    known.targets.push(target("vllm", &url, "llama-1"));
    known.reader =
        Reader::new(&["a".repeat(70), "127.0.0.1".to_owned()].map(|a| Allowed::try_from(a).unwrap())).unwrap();
    let beside = asked("replica-down", NOWHERE, &known).await;
    assert_eq!(beside.symptom.verdict, SymptomVerdict::Confirmed);
    assert_eq!((beside.replicas.affected, beside.replicas.total), (vec!["llama-0".to_owned()], 2));
}

#[tokio::test]
async fn numbers_that_cannot_be_tell_nothing() {
    for kv in ["NaN", "+Inf", "-1"] {
        let url = showing(page(kv, "41", "100"), page(kv, "41", "100")).await;
        let diagnosis = diagnosed("kv-cache-pressure", vec![target("vllm", &url, "llama-0")]).await;
        says_only(&diagnosis, "llama-0 has no usable number in `vllm:kv_cache_usage_perc`");
    }
    let url = showing(page("0.5", "0", "-1e300"), page("0.5", "0", "-1")).await;
    let diagnosis = diagnosed("preemption-storm", vec![target("vllm", &url, "llama-0")]).await;
    says_only(&diagnosis, "llama-0 has no usable number in `vllm:num_preemptions_total`");
}

#[tokio::test]
async fn a_counter_that_fell_between_the_reads_tells_nothing() {
    let url = showing(page("0.99", "0", "1000"), page("0.99", "0", "900")).await;
    let diagnosis = diagnosed("preemption-storm", vec![target("vllm", &url, "llama-0")]).await;
    says_only(&diagnosis, "llama-0 started anew between the two reads, so its counters tell nothing");
}

#[tokio::test]
async fn a_quantile_of_a_handful_of_requests_tells_nothing() {
    let ttft = |count: u32| {
        let labels = "model_name=\"llama\"";
        format!(
            "vllm:num_requests_running{{{labels}}} 1\n\
             vllm:time_to_first_token_seconds_bucket{{{labels},le=\"1\"}} 100\n\
             vllm:time_to_first_token_seconds_bucket{{{labels},le=\"10\"}} {count}\n\
             vllm:time_to_first_token_seconds_bucket{{{labels},le=\"+Inf\"}} {count}\n"
        )
    };
    let few = showing(ttft(100), ttft(109)).await;
    let diagnosis = diagnosed("high-ttft", vec![target("vllm", &few, "llama-0")]).await;
    assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::NoData);
    let enough = showing(ttft(100), ttft(150)).await;
    let diagnosis = diagnosed("high-ttft", vec![target("vllm", &enough, "llama-0")]).await;
    assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::Confirmed, "{diagnosis:#?}");
}

#[tokio::test]
async fn a_compressed_page_counts_by_what_it_unpacks_to() {
    // 20 MiB of newlines in 20 KiB.
    let packed = gzip_of_newlines(20 << 20);
    assert!(packed.len() < 1 << 20);
    let routes = Router::new()
        .route("/metrics", get(move || async move { ([(header::CONTENT_ENCODING, "gzip")], packed.clone()) }));
    let diagnosis = diagnosed("kv-cache-pressure", vec![target("vllm", &serve(routes).await, "llama-0")]).await;
    says_only(&diagnosis, "llama-0 sent more than 16 MiB");
}

fn gzip_of_newlines(bytes: usize) -> Vec<u8> {
    let make = format!("head -c {bytes} /dev/zero | tr '\\0' '\\n' | gzip");
    let output = std::process::Command::new("sh").args(["-c", &make]).output().unwrap();
    assert!(output.status.success());
    output.stdout
}
