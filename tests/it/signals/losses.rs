//! What is no longer there, or not yet: replicas with and without their host, nodes, GPUs, images, weights; and work that
//! is shared unevenly. Minutes of hand-written series, because a page cannot say that it was not answered.

use diagnose::{ObserveResult, judge};

use super::{assert_no_data, assert_values, observed, replicas};
use crate::harness::{library, slot};

/// Far from the slots of pages, so that importing it stays cheap.
pub(super) const SLOT: usize = 162;
pub(super) const MINUTES: i64 = 20;
/// From here on things are gone.
const LOST: i64 = 10;

/// The labels of a replica that somebody put to sleep.
const ASLEEP: &str = "job=\"vllm\",instance=\"asleep-vllm-1\",namespace=\"asleep\",pod=\"vllm-1\",\
     model_name=\"m\",sleep_state=\"awake\"";

/// A series with its value at each minute; none is no sample.
pub(super) fn series(name: &str, labels: &str, value: impl Fn(i64) -> Option<f64>) -> Vec<(i64, String)> {
    let sample = |minute: i64| {
        let time = slot(SLOT) + 60 * minute;
        value(minute).map(|value| (time, format!("{name}{{{labels}}} {value} {time}\n")))
    };
    (0..=MINUTES).filter_map(sample).collect()
}

pub(super) fn always(value: f64) -> impl Fn(i64) -> Option<f64> {
    move |_| Some(value)
}

/// Until it is gone.
fn before(value: f64) -> impl Fn(i64) -> Option<f64> {
    move |minute| (minute < LOST).then_some(value)
}

fn since(value: f64) -> impl Fn(i64) -> Option<f64> {
    move |minute| (minute >= LOST).then_some(value)
}

fn per_minute(value: f64) -> impl Fn(i64) -> Option<f64> {
    move |minute| Some(value * minute as f64)
}

/// 1 until it is lost, 0 from then on.
fn dies(minute: i64) -> Option<f64> {
    Some(if minute < LOST { 1.0 } else { 0.0 })
}

pub(super) fn history() -> String {
    let mut lines =
        [machines(), idle(), cluster(), gpus(), uneven(), roles(), offered(), super::cluster::lines()].concat();
    // The import takes no sample that is much older than the last one.
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Engines on machines: one ended while its host lives, one went with its host, and of one nothing else is scraped.
fn machines() -> Vec<(i64, String)> {
    let target = |namespace: &str, host: &str, job: &str, port: u32| {
        format!("job=\"{job}\",instance=\"{host}:{port}\",namespace=\"{namespace}\"")
    };
    let engine = |namespace: &str, host: &str| {
        let labels = target(namespace, host, "vllm", 8000);
        let running = series("vllm:num_requests_running", &format!("{labels},model_name=\"m\""), before(1.0));
        [running, series("up", &labels, dies)].concat()
    };
    let took = |namespace: &str, host: &str, seconds: f64| {
        let took = move |minute| Some(if minute < LOST { 0.01 } else { seconds });
        series("scrape_duration_seconds", &target(namespace, host, "vllm", 8000), took)
    };
    let kubelet = |path: &str, answers: f64| {
        let labels = format!("{},metrics_path=\"{path}\"", target("host-frozen", "10.9.0.5", "kubelet", 10250));
        let took = series("scrape_duration_seconds", &labels, always(10.0));
        [series("up", &labels, always(answers)), took].concat()
    };
    let busy = {
        let labels = target("host-busy", "10.9.0.6", "vllm", 8000);
        let running = series("vllm:num_requests_running", &format!("{labels},model_name=\"m\""), always(1.0));
        let last_missed = |minute| Some(if minute < MINUTES { 1.0 } else { 0.0 });
        [running, series("up", &labels, last_missed)].concat()
    };
    let beside = |namespace, host, answers: fn(i64) -> Option<f64>| {
        series("up", &target(namespace, host, "node", 9100), answers)
    };
    [
        engine("host-lives", "10.9.0.1"),
        beside("host-lives", "10.9.0.1", |_| Some(1.0)),
        engine("host-gone", "10.9.0.2"),
        beside("host-gone", "10.9.0.2", dies),
        engine("host-unknown", "10.9.0.3"),
        // A prober under the target's own address answers by itself, whatever it finds.
        engine("host-probed", "10.9.0.4"),
        beside("host-probed", "10.9.0.4", |_| Some(1.0)),
        series("probe_success", &target("host-probed", "10.9.0.4", "node", 9100), always(0.0)),
        // One takes the connection and does not answer; the time-out is ten seconds.
        took("host-lives", "10.9.0.1", 0.001),
        engine("host-frozen", "10.9.0.5"),
        beside("host-frozen", "10.9.0.5", |_| Some(1.0)),
        took("host-frozen", "10.9.0.5", 10.0),
        // One that is busy misses a scrape, and answers the others.
        busy,
        beside("host-busy", "10.9.0.6", |_| Some(1.0)),
        took("host-busy", "10.9.0.6", 10.0),
        // A kubelet has one address for several paths, of which one does not answer in time.
        kubelet("/metrics", 1.0),
        kubelet("/metrics/cadvisor", 0.0),
        kubelet("/metrics/probes", 1.0),
        // Nothing but its scraper is known beside it, which runs there.
        engine("loopback-frozen", "127.0.0.1"),
        took("loopback-frozen", "127.0.0.1", 10.0),
    ]
    .concat()
}

/// Three replicas of which one gets nothing, and a pool in which none gets much.
fn idle() -> Vec<(i64, String)> {
    let replica = |namespace: &str, pod: &str, requests: f64| {
        let labels = format!("job=\"vllm\",instance=\"{namespace}-{pod}\",namespace=\"{namespace}\",pod=\"{pod}\"");
        let of = format!("{labels},model_name=\"m\"");
        [
            series("up", &labels, always(1.0)),
            series("vllm:num_requests_running", &of, always(0.0)),
            series("vllm:time_to_first_token_seconds_count", &of, per_minute(requests)),
        ]
        .concat()
    };
    [
        replica("forgotten", "vllm-0", 60.0),
        replica("forgotten", "vllm-1", 60.0),
        replica("forgotten", "vllm-2", 0.0),
        replica("asleep", "vllm-0", 60.0),
        replica("asleep", "vllm-1", 0.0),
        series("vllm:engine_sleep_state", ASLEEP, always(0.0)),
        replica("quiet", "vllm-0", 6.0),
        replica("quiet", "vllm-1", 0.0),
    ]
    .concat()
}

/// A pool of which one node was reclaimed, one offers a GPU less than it has, one fetches an image and one loads weights.
fn cluster() -> Vec<(i64, String)> {
    let end = (slot(SLOT) + 60 * MINUTES) as f64;
    let ksm = "job=\"kube-state-metrics\",instance=\"ksm:8080\"";
    let of = |pod: &str, more: &str| format!("{ksm},namespace=\"cluster\",pod=\"{pod}\"{more}");
    let node = |node: &str, more: &str| format!("{ksm},node=\"{node}\"{more}");
    let gpu = ",resource=\"nvidia_com_gpu\"";
    let mut lines = Vec::new();
    for (pod, on) in [("m-0", "n0"), ("m-2", "n2"), ("m-3", "n3")] {
        lines.extend(series("kube_pod_info", &of(pod, &format!(",node=\"{on}\"")), always(1.0)));
        lines.extend(series("kube_pod_status_phase", &of(pod, ",phase=\"Running\""), always(1.0)));
        lines.extend(series("kube_node_info", &node(on, ""), always(1.0)));
    }
    lines.extend(series("kube_pod_info", &of("m-1", ",node=\"n1\""), before(1.0)));
    lines.extend(series("kube_pod_status_phase", &of("m-1", ",phase=\"Running\""), before(1.0)));
    lines.extend(series("kube_node_info", &node("n1", ""), before(1.0)));
    lines.extend(series("kube_pod_status_reason", &of("m-1", ",reason=\"Shutdown\""), |minute| {
        (minute == LOST).then_some(1.0)
    }));
    for (on, capacity, allocatable) in [("n0", 8.0, 7.0), ("elsewhere", 8.0, 1.0), ("n3", 8.0, 0.0)] {
        lines.extend(series("kube_node_status_capacity", &node(on, gpu), always(capacity)));
        lines.extend(series("kube_node_status_allocatable", &node(on, gpu), always(allocatable)));
    }
    // A device plugin that has just begun anew offers its GPUs one by one.
    lines.extend(series("kube_node_status_capacity", &node("n2", gpu), always(8.0)));
    lines.extend(series("kube_node_status_allocatable", &node("n2", gpu), |minute| {
        Some(if minute < MINUTES - 3 { 8.0 } else { 5.0 })
    }));
    // The image of m-2 is on its way for longer than that of a pod that has just been placed.
    for (pod, placed) in [("m-2", 400.0), ("m-3", 4_000.0), ("m-0", 90_000.0)] {
        lines.extend(series("kube_pod_start_time", &of(pod, ""), always(end - placed)));
    }
    let creating = ",container=\"main\",reason=\"ContainerCreating\"";
    lines.extend(series("kube_pod_container_status_waiting_reason", &of("m-2", creating), since(1.0)));
    // One was evicted days ago and is still listed; one downloads weights in an init container.
    lines.extend(series("kube_pod_status_phase", &of("old", ",phase=\"Running\""), always(0.0)));
    lines.extend(series("kube_pod_status_phase", &of("m-4", ",phase=\"Running\""), always(0.0)));
    lines.extend(series("kube_pod_start_time", &of("m-4", ""), always(end - 800.0)));
    lines.extend(series("kube_pod_status_ready", &of("m-4", ",condition=\"true\""), always(0.0)));
    let initializing = ",container=\"main\",reason=\"PodInitializing\"";
    lines.extend(series("kube_pod_container_status_waiting_reason", &of("m-4", initializing), always(1.0)));
    for (pod, started, ready) in [("m-0", 80_000.0, 1.0), ("m-3", 900.0, 0.0), ("old", 90_000.0, 0.0)] {
        lines.extend(series(
            "kube_pod_container_state_started",
            &of(pod, ",container=\"main\""),
            always(end - started),
        ));
        lines.extend(series("kube_pod_status_ready", &of(pod, ",condition=\"true\""), always(ready)));
    }
    // The leader m-0 was lost for a while, and with it the StatefulSet of its workers; another pool's is not looked at.
    for (set, anew) in [("m-0", 600.0), ("x-0", 600.0)] {
        let labels = format!("{ksm},namespace=\"cluster\",statefulset=\"{set}\"");
        lines.extend(series("kube_statefulset_created", &labels, move |minute| {
            Some(end - 9_000.0 + if minute < LOST { 0.0 } else { anew })
        }));
    }
    let engine = "job=\"vllm\",instance=\"10.8.0.1:8000\",namespace=\"cluster\",pod=\"m-0\"";
    lines.extend(series("up", engine, always(1.0)));
    lines.extend(series("vllm:num_requests_running", &format!("{engine},model_name=\"m\""), always(1.0)));
    lines
}

/// Two GPUs of a replica; one falls off the bus, which leaves no Xid.
fn gpus() -> Vec<(i64, String)> {
    let exporter = "job=\"dcgm\",instance=\"10.7.0.1:9400\"";
    let gpu = |id: &str| format!("{exporter},namespace=\"bus\",pod=\"vllm-0\",UUID=\"GPU-{id}\",gpu=\"{id}\"");
    let engine = "job=\"vllm\",instance=\"10.7.0.1:8000\",namespace=\"bus\",pod=\"vllm-0\"";
    [
        series("up", exporter, always(1.0)),
        series("DCGM_FI_DEV_FB_USED", &gpu("0"), always(9.0)),
        series("DCGM_FI_DEV_FB_USED", &gpu("1"), before(9.0)),
        series("up", engine, always(1.0)),
        series("vllm:num_requests_running", &format!("{engine},model_name=\"m\""), always(1.0)),
    ]
    .concat()
}

/// Ranks, experts, drafts and caches: vLLM with twelve requests on one rank and two on the other, the same with few
/// requests, and SGLang by its own averages.
fn uneven() -> Vec<(i64, String)> {
    let target =
        |namespace: &str| format!("job=\"engine\",instance=\"{namespace}\",namespace=\"{namespace}\",pod=\"e-0\"");
    let rank = |namespace: &str, rank: u32, running: f64| {
        let of = format!("{},model_name=\"m\",engine=\"{rank}\"", target(namespace));
        [
            series("vllm:num_requests_running", &of, always(running)),
            series("vllm:num_requests_waiting", &of, always(0.0)),
        ]
        .concat()
    };
    let vllm = format!("{},model_name=\"m\",engine=\"0\"", target("ranks"));
    let of_store = |status: &str| format!("{},operation=\"save_put\",status=\"{status}\"", target("few"));
    let sglang = format!("{},model_name=\"m\",engine_type=\"unified\"", target("experts"));
    let light = format!("{},model_name=\"m\",engine_type=\"unified\"", target("few-experts"));
    let ups = ["ranks", "few", "experts", "few-experts"].map(|namespace| series("up", &target(namespace), always(1.0)));
    [
        ups.concat(),
        rank("ranks", 0, 12.0),
        rank("ranks", 1, 2.0),
        rank("few", 0, 3.0),
        rank("few", 1, 0.0),
        // Three of thirteen operations a minute fail in part.
        series("vllm:mooncake_store_operation_total", &of_store("ok"), per_minute(10.0)),
        series("vllm:mooncake_store_operation_total", &of_store("partial_failure"), per_minute(3.0)),
        series(
            "master_put_start_alloc_failures_total",
            &target("experts").replace("engine", "mooncake"),
            per_minute(6.0),
        ),
        series("vllm:external_prefix_cache_queries_total", &vllm, per_minute(4_000.0)),
        series("vllm:external_prefix_cache_hits_total", &vllm, per_minute(1_000.0)),
        series("lmcache:remote_ping_errors_total", &vllm, per_minute(6.0)),
        series("vllm:time_to_first_token_seconds_count", &vllm, per_minute(25.0)),
        series("vllm:mm_cache_queries_total", &vllm, per_minute(50.0)),
        series("vllm:mm_cache_hits_total", &vllm, per_minute(20.0)),
        series("vllm:spec_decode_num_drafts_total", &vllm, per_minute(20.0)),
        series("vllm:spec_decode_num_draft_tokens_total", &vllm, per_minute(100.0)),
        series("vllm:spec_decode_num_accepted_tokens_total", &vllm, per_minute(30.0)),
        series("sglang:num_running_reqs", &sglang, always(40.0)),
        series("sglang:num_running_reqs", &light, always(3.0)),
        series("sglang:dp_attention_token_imbalance_ratio_sum", &light, per_minute(800.0)),
        series("sglang:dp_attention_token_imbalance_ratio_count", &light, per_minute(100.0)),
        series("sglang:eplb_balancedness_sum", &format!("{light},forward_mode=\"decode\""), per_minute(20.0)),
        series("sglang:eplb_balancedness_count", &format!("{light},forward_mode=\"decode\""), per_minute(100.0)),
        series("sglang:num_grammar_queue_reqs", &sglang, always(7.0)),
        series("sglang:dp_attention_token_imbalance_ratio_sum", &sglang, per_minute(250.0)),
        series("sglang:dp_attention_token_imbalance_ratio_count", &sglang, per_minute(100.0)),
        series("sglang:eplb_balancedness_sum", &format!("{sglang},forward_mode=\"decode\""), per_minute(30.0)),
        series("sglang:eplb_balancedness_count", &format!("{sglang},forward_mode=\"decode\""), per_minute(100.0)),
        series("sglang:spec_accept_length", &sglang, always(2.5)),
        series("sglang:prompt_tokens_total", &sglang, per_minute(5_000.0)),
        series("sglang:cached_tokens_total", &format!("{sglang},cache_source=\"device\""), per_minute(1_000.0)),
        series("sglang:cached_tokens_total", &format!("{sglang},cache_source=\"host\""), per_minute(1_000.0)),
        series("sglang:encoder_cache_total_files_total", &format!("{sglang},modality=\"image\""), per_minute(50.0)),
        series("sglang:encoder_cache_hit_files_total", &format!("{sglang},modality=\"image\""), per_minute(20.0)),
        series("sglang:encoder_mm_items_per_request_sum", &format!("{sglang},modality=\"image\""), per_minute(30.0)),
        series("sglang:encoder_mm_items_per_request_count", &format!("{sglang},modality=\"image\""), per_minute(10.0)),
    ]
    .concat()
}

/// Prefill and decode on replicas of their own: vLLM names no role, SGLang does. And a pool that refuses a third.
fn roles() -> Vec<(i64, String)> {
    let target = |namespace: &str, pod: &str| {
        format!("job=\"engine\",instance=\"{namespace}-{pod}\",namespace=\"{namespace}\",pod=\"{pod}\"")
    };
    let up = |namespace: &str, pod: &str| series("up", &target(namespace, pod), always(1.0));
    let vllm = |namespace: &str, pod: &str, waiting: f64, tokens: f64, loaded: f64| {
        let of = format!("{},model_name=\"m\"", target(namespace, pod));
        [
            up(namespace, pod),
            series("vllm:num_requests_running", &of, always(3.0)),
            series("vllm:num_requests_waiting", &of, always(waiting)),
            series("vllm:request_generation_tokens_sum", &of, per_minute(60.0 * tokens)),
            series("vllm:request_generation_tokens_count", &of, per_minute(60.0)),
            series("vllm:request_prompt_tokens_sum", &of, per_minute(60.0 * if pod == "probed" { 5.0 } else { 900.0 })),
            series("vllm:request_prompt_tokens_count", &of, per_minute(60.0)),
            series("vllm:external_prefix_cache_hits_total", &of, per_minute(loaded)),
        ]
        .concat()
    };
    let sglang = |role: &str, queue: f64, memory: f64| {
        let of = format!("{},model_name=\"m\",engine_type=\"{role}\"", target("sg-roles", role));
        [
            up("sg-roles", role),
            series("sglang:num_running_reqs", &of, always(3.0)),
            series("sglang:num_queue_reqs", &of, always(queue)),
            series("sglang:num_decode_prealloc_queue_reqs", &of, always(memory)),
        ]
        .concat()
    };
    let refusing = format!("{},model_name=\"m\"", target("refusing", "e-0"));
    [
        vllm("roles", "prefill-0", 9.0, 1.0, 0.0),
        vllm("roles", "prefill-1", 5.0, 1.0, 0.0),
        vllm("roles", "decode-0", 2.0, 100.0, 40_000.0),
        // Everybody asks for one token: a classifier, and no role, with a cache of its own beyond the GPU or without.
        vllm("one-token", "e-0", 9.0, 1.0, 0.0),
        vllm("one-token", "e-1", 9.0, 1.0, 40_000.0),
        // Both do all of it and load from a shared store.
        vllm("shared-store", "e-0", 9.0, 100.0, 40_000.0),
        // A replica that gets nothing but probes prefills for nobody.
        vllm("shared-store", "probed", 0.0, 1.0, 0.0),
        sglang("prefill", 9.0, 0.0),
        sglang("decode", 1.0, 4.0),
        up("refusing", "e-0"),
        series("vllm:num_requests_running", &refusing, always(3.0)),
        series("vllm:num_requests_waiting", &refusing, always(2.0)),
        series("vllm:time_to_first_token_seconds_count", &refusing, per_minute(60.0)),
        series("vllm:admission_rejections_total", &refusing, per_minute(30.0)),
    ]
    .concat()
}

/// Four servers to which more comes than is answered: with what the HTTP layer counts, without it, without it and with a
/// queue limit, and with requests of which the HTTP layer's `/v1` is the smaller part.
fn offered() -> Vec<(i64, String)> {
    let target = |pod: &str| format!("job=\"engine\",instance=\"offered-{pod}\",namespace=\"offered\",pod=\"{pod}\"");
    // First tokens, and by how many more run and wait, each minute.
    let engine = |pod: &str, rank: u32, tokens: f64, running: f64, waiting: f64| {
        let of = format!("{},model_name=\"m\",engine=\"{rank}\"", target(pod));
        [
            series("vllm:time_to_first_token_seconds_count", &of, per_minute(tokens)),
            series("vllm:num_requests_running", &of, per_minute(running)),
            series("vllm:num_requests_waiting", &of, per_minute(waiting)),
        ]
        .concat()
    };
    let answered = |pod: &str, handler: &str, status: &str, requests: f64| {
        let of = format!("{},handler=\"{handler}\",method=\"POST\",status=\"{status}\"", target(pod));
        series("http_requests_total", &of, per_minute(requests))
    };
    let refusing = format!("{},model_name=\"m\"", target("limited"));
    [
        ["http", "plain", "limited", "invoked"].map(|pod| series("up", &target(pod), always(1.0))).concat(),
        engine("http", 0, 20.0, 6.0, 3.0),
        engine("http", 1, 20.0, 6.0, 0.0),
        answered("http", "/v1/chat/completions", "2xx", 90.0),
        answered("http", "/v1/completions", "5xx", 30.0),
        answered("http", "/v1/chat/completions", "4xx", 600.0),
        answered("http", "/v1/models", "2xx", 300.0),
        answered("http", "/health", "2xx", 600.0),
        engine("plain", 0, 60.0, 0.0, 6.0),
        engine("limited", 0, 60.0, 0.0, 0.0),
        series("vllm:admission_rejections_total", &refusing, per_minute(30.0)),
        engine("invoked", 0, 60.0, 0.0, 0.0),
        answered("invoked", "/v1/chat/completions", "2xx", 6.0),
        answered("invoked", "/invocations", "2xx", 54.0),
    ]
    .concat()
}

pub(super) fn read(namespace: &str) -> ObserveResult {
    observed(&[("namespace", namespace)], slot(SLOT) + 60 * MINUTES)
}

#[test]
fn a_replica_that_ended_is_told_from_one_whose_host_is_gone_and_from_one_that_nobody_else_knows() {
    let ended = [("replicas_down", 1.0), ("down_on_live_host", 1.0), ("replicas_frozen", 0.0)];
    assert_values(&read("host-lives"), &ended);
    assert_values(&read("host-frozen"), &[("replicas_down", 1.0), ("replicas_frozen", 1.0)]);
    assert_values(&read("host-busy"), &[("replicas_down", 1.0), ("replicas_frozen", 0.0)]);
    assert_values(&read("loopback-frozen"), &[("replicas_down", 1.0), ("replicas_frozen", 1.0)]);
    assert_values(&read("host-gone"), &[("replicas_down", 1.0), ("down_on_live_host", 0.0)]);
    let unknown = read("host-unknown");
    assert_values(&unknown, &[("replicas_down", 1.0)]);
    assert_no_data(&unknown, &["down_on_live_host"]);
    assert_no_data(&read("host-probed"), &["down_on_live_host"]);
}

#[test]
fn without_an_orchestrator_the_end_of_a_replica_is_told_by_its_host() {
    let root = |namespace: &str| {
        let seen = read(namespace).observations;
        judge(library(), "replica-down", &seen).unwrap().chains.first().and_then(|chain| chain.last().cloned())
    };
    assert_eq!(root("host-lives").as_deref(), Some("ended-alone"));
    assert_eq!(root("host-frozen").as_deref(), Some("engine-stalled"));
    assert_eq!(root("host-gone").as_deref(), Some("host-silent"));
    assert_eq!(root("host-unknown").as_deref(), Some("end-unknown"));
}

#[test]
fn a_replica_without_requests_counts_where_the_others_have_many() {
    let forgotten = read("forgotten");
    assert_values(&forgotten, &[("replicas_idle", 1.0), ("replicas_serving", 3.0)]);
    assert_eq!(replicas(&forgotten, "replicas_idle"), [("vllm-0", 0.0), ("vllm-1", 0.0), ("vllm-2", 1.0)].into());
    for none in ["quiet", "asleep"] {
        assert_values(&read(none), &[("replicas_idle", 0.0)]);
    }
}

#[test]
fn a_cluster_tells_of_lost_nodes_missing_gpus_slow_images_and_slow_weights_of_the_own_pool() {
    let seen = read("cluster");
    assert_values(
        &seen,
        &[
            ("nodes_gone", 1.0),
            ("pods_evicted", 1.0),
            ("gpus_not_offered", 1.0),
            ("images_slow", 1.0),
            ("loading_long", 2.0),
            ("container_age_min", 900.0),
            ("groups_restarted", 1.0),
        ],
    );
    assert_eq!(seen.problems, Vec::<String>::new());
}

#[test]
fn a_gpu_that_vanishes_from_a_living_exporter_is_gone() {
    let seen = read("bus");
    assert_values(&seen, &[("gpus_gone", 1.0)]);
    // What has been gone for an hour is no news, and a healthy pool has none.
    assert_values(&observed(&[("namespace", "bus")], slot(SLOT) + 60 * (LOST - 1)), &[("gpus_gone", 0.0)]);
}

#[test]
fn uneven_ranks_and_experts_drafts_and_the_outer_cache_are_means_over_the_window() {
    let vllm = [
        // Twelve over the mean of seven.
        ("rank_imbalance", 12.0 / 7.0),
        ("external_cache_hit_ratio", 0.25),
        ("outer_cache_failure_rate", 0.1),
        ("media_cache_hit_ratio", 0.4),
        ("media_per_request", 2.0),
        ("spec_accepted_per_draft", 1.5),
        ("spec_acceptance_ratio", 0.3),
    ];
    assert_values(&read("ranks"), &vllm);
    assert_no_data(&read("few"), &["rank_imbalance"]);
    assert_values(&read("few"), &[("outer_cache_failure_rate", 0.05)]);
    let sglang = [
        ("rank_imbalance", 2.5),
        ("expert_balance", 0.3),
        ("spec_accepted_per_draft", 1.5),
        ("grammar_queue", 7.0),
        ("media_cache_hit_ratio", 0.4),
        ("media_per_request", 3.0),
        // Of what the GPU's own cache had not.
        ("external_cache_hit_ratio", 0.25),
        ("outer_cache_failure_rate", 0.1),
    ];
    assert_values(&read("experts"), &sglang);
    // One running request of eight ranks reads 8, and says nothing.
    assert_no_data(&read("few-experts"), &["rank_imbalance", "expert_balance"]);
}

#[test]
fn what_waits_at_prefill_and_at_decode_replicas_is_told_apart_where_there_are_both() {
    let roles = read("roles");
    assert_values(&roles, &[("prefill_pool_waiting", 7.0), ("decode_pool_waiting", 2.0)]);
    assert_eq!(replicas(&roles, "prefill_pool_waiting"), [("prefill-0", 9.0), ("prefill-1", 5.0)].into());
    assert_values(&read("sg-roles"), &[("prefill_pool_waiting", 9.0), ("decode_pool_waiting", 5.0)]);
    for alike in ["one-token", "shared-store"] {
        assert_no_data(&read(alike), &["prefill_pool_waiting", "decode_pool_waiting"]);
    }
}

#[test]
fn what_a_queue_limit_refuses_is_offered_and_does_not_arrive() {
    let expected = [("request_rate", 1.0), ("admission_rejection_rate", 0.5), ("offered_request_rate", 1.5)];
    assert_values(&read("refusing"), &expected);
    assert_values(&read("refusing"), &[("admission_rejection_ratio", 0.5 / 1.5)]);
}

#[test]
fn what_is_offered_to_each_server_is_what_its_http_layer_counts_or_its_engine_whichever_is_more() {
    let seen = read("offered");
    // 120 ends and 15 more inside, of two ranks; first tokens and the growth of the queue; 30 refused beside 60; 60 first
    // tokens, of which the HTTP layer's `/v1` knows a tenth.
    let expected = [("http", 135.0 / 60.0), ("plain", 66.0 / 60.0), ("limited", 90.0 / 60.0), ("invoked", 1.0)];
    let told = replicas(&seen, "offered_request_rate");
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for (pod, expected) in expected {
        assert!((told[pod] - expected).abs() <= 0.02 * expected, "{pod}: {told:?}, expected {expected}");
    }
    assert_values(&seen, &[("offered_request_rate", 351.0 / 60.0), ("request_rate", 229.0 / 60.0)]);
}
