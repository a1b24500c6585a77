//! Pages of real vLLM servers: 0.32 healthy and with an exhausted cache, 0.32 with two API servers, 0.14.

use diagnose::observe_signals;
use findings::Scope;

use super::{WINDOW, assert_complete, assert_no_data, assert_values, observed, version};
use crate::harness::{DEADLINE, Page, Stamp, at, fixture, library, run, shared, slot};

/// vLLM's process started here; the pages are stamped earlier, so that ages come out negative, but exact.
const STARTED: f64 = 1_795_198_462.91;

/// (namespace, page before, page a minute later), in the order of their slots.
const CASES: [(&str, &str, &str); 4] = [
    ("healthy", "0.32-healthy-t0", "0.32-healthy-t1"),
    ("exhausted", "0.32-kv-exhaustion-t0", "0.32-kv-exhaustion-t1"),
    ("two-servers", "0.32-two-api-servers", "0.32-two-api-servers"),
    ("old", "0.14-healthy", "0.14-healthy"),
];

pub(super) fn pages() -> Vec<Page> {
    let page = |(i, (namespace, before, after)): (usize, &(&'static str, &str, &str))| {
        let stamp = Stamp { job: "vllm", instance: "10.0.0.1:8000", namespace, pod: "vllm-0", time: slot(i) };
        let read = |name: &str| fixture(&format!("vllm/{name}.prom"));
        [Page::new(read(before), stamp), Page::new(read(after), Stamp { time: slot(i) + 60, ..stamp })]
    };
    CASES.iter().enumerate().flat_map(page).chain(ranks()).collect()
}

/// Where the pages of data-parallel servers stand.
const RANKS: usize = 146;

/// Servers of two engines each: one hangs beside a busy one, one is idle beside one that has a request at a time, and one
/// hangs with what it has taken.
fn ranks() -> Vec<Page> {
    let engine = |rank: u32, running: u32, tokens: u32, requests: u32, seconds: u32| {
        let of = format!("engine=\"{rank}\",model_name=\"m\"");
        format!(
            "vllm:num_requests_running{{{of}}} {running}\nvllm:generation_tokens_total{{{of}}} {tokens}\n\
             vllm:e2e_request_latency_seconds_count{{{of}}} {requests}\nvllm:e2e_request_latency_seconds_sum{{{of}}} {seconds}\n"
        )
    };
    // 60 requests of 2 s each within a minute are two at once, and of 0.9 s nearly one.
    let servers = [
        ("ranks-hung", 0, engine(1, 2, 500, 40, 80), engine(1, 2, 6_500, 100, 200)),
        ("ranks-idle", 0, engine(1, 1, 500, 40, 36), engine(1, 1, 6_500, 100, 90)),
        // One has four times the requests of another: their balancer does not send to whoever has least to do.
        (
            "ranks-unbalanced",
            0,
            engine(1, 8, 500, 40, 80) + &engine(2, 2, 500, 40, 80),
            engine(1, 8, 6_500, 100, 560) + &engine(2, 2, 6_500, 100, 200),
        ),
        (
            "ranks-hung-of-three",
            0,
            engine(1, 3, 500, 40, 80) + &engine(2, 2, 500, 40, 80),
            engine(1, 3, 6_500, 100, 240) + &engine(2, 2, 6_500, 100, 200),
        ),
        ("ranks-stuck", 3, engine(1, 2, 500, 40, 80), engine(1, 2, 6_500, 100, 200)),
    ];
    // 40 clients wait at an API server whose engine does nothing; elsewhere nobody does, or their connections were there
    // while it worked as well.
    let idle = |namespace: &'static str, working: u32, descriptors: u32| {
        let page = |(minutes, open, tokens): (i64, u32, u32)| {
            let text = engine(0, 0, tokens, 50, 60)
                + &format!("process_open_fds {open}\nprocess_start_time_seconds 1000\n")
                + "http_requests_total{handler=\"/v1/completions\",method=\"POST\",status=\"2xx\"} 50\n";
            let time = slot(RANKS) + 60 * minutes;
            Page::new(text, Stamp { job: "vllm", instance: namespace, namespace, pod: "vllm-0", time })
        };
        let worked = [(-56, 100), (-52, 200), (-48, 400), (-44, 500), (-40, 700)];
        let worked = worked.map(|(minutes, tokens)| page((minutes, working, tokens)));
        worked.into_iter().chain([(0, descriptors, 700), (1, descriptors, 700)].map(page)).collect::<Vec<_>>()
    };
    let idle = [idle("idle-hung", 36, 76), idle("idle", 36, 36), idle("idle-kept-alive", 76, 76)].into_iter().flatten();
    let pages = servers.map(|(namespace, running, before, after)| {
        let stamp = Stamp { job: "vllm", instance: namespace, namespace, pod: "vllm-0", time: slot(RANKS) };
        let still = engine(0, running, 700, 50, 60);
        let page = |text: &str, time| Page::new(still.clone() + text, Stamp { time, ..stamp });
        [page(&before, slot(RANKS)), page(&after, slot(RANKS) + 60)]
    });
    pages.into_iter().flatten().chain(idle).collect()
}

#[test]
fn an_engine_that_hangs_is_seen_beside_its_busy_sibling_and_not_beside_one_with_a_request_at_a_time() {
    let of = |namespace| observed(&[("namespace", namespace)], slot(RANKS) + 60);
    assert_values(&of("ranks-hung"), &[("stalled_ranks", 1.0), ("stalled_requests", 0.0)]);
    assert_values(&of("ranks-idle"), &[("stalled_ranks", 0.0), ("stalled_requests", 0.0)]);
    assert_values(&of("ranks-unbalanced"), &[("stalled_ranks", 0.0)]);
    assert_values(&of("ranks-hung-of-three"), &[("stalled_ranks", 1.0)]);
    assert_values(&of("ranks-stuck"), &[("stalled_requests", 3.0)]);
}

#[test]
fn clients_that_wait_for_an_engine_that_hung_while_idle_are_counted_by_their_connections() {
    let of = |namespace| observed(&[("namespace", namespace)], slot(RANKS) + 60);
    assert_values(&of("idle-hung"), &[("stalled_requests", 76.0 - 36.0), ("requests_running", 0.0)]);
    // It made tokens in the hour before, and makes none now.
    assert_values(&of("idle"), &[("stalled_requests", 0.0), ("throughput_kept", 0.0)]);
    assert_values(&of("idle-kept-alive"), &[("stalled_requests", 0.0)]);
}

/// What is read of a case, and at what time.
fn read(namespace: &'static str) -> (diagnose::ObserveResult, i64) {
    let case = CASES.iter().position(|(name, _, _)| *name == namespace).unwrap();
    let when = slot(case) + 60;
    (observed(&[("namespace", namespace)], when), when)
}

#[test]
fn a_healthy_0_32_page_tells_each_signal_or_says_that_it_cannot() {
    let (seen, when) = read("healthy");
    assert_eq!(version(&seen, "vllm").as_deref(), Some("0.32"));
    assert_eq!(seen.observations.pool, ["vllm-0"]);
    // 121 requests of 15,390 prompt and 7,331 generated tokens in a minute.
    let expected = [
        ("ttft_p50", 0.014_18),
        ("ttft_p95", 0.037_07),
        ("ttft_p99", 0.067_9),
        ("itl_p50", 0.005_149),
        ("itl_p95", 0.009_782),
        ("itl_p99", 0.021_65),
        ("itl_mean", 19.867_8 / 7_210.0),
        ("ttft_mean", 1.788_39 / 121.0),
        ("e2e_p99", 0.789_5),
        ("e2e_mean", 21.546_891 / 121.0),
        ("error_ratio", 0.0),
        ("client_error_ratio", 0.0),
        ("engine_error_ratio", 0.0),
        ("abandoned_ratio", 0.0),
        ("admission_rejection_rate", 0.0),
        ("admission_rejection_ratio", 0.0),
        ("request_rate", 121.0 / 60.0),
        ("offered_request_rate", 121.0 / 60.0),
        ("request_imbalance", 1.0),
        ("prompt_tokens_mean", 15_390.0 / 121.0),
        ("prompt_tokens_growth", 15_390.0 / 121.0 / (15_393.0 / 122.0)),
        ("prompt_tokens_usual", 15_393.0 / 122.0),
        ("prompt_tokens_p99", 198.5),
        ("generation_tokens_mean", 7_331.0 / 121.0),
        ("generation_tokens_usual", 7_347.0 / 122.0),
        ("length_finish_ratio", 0.0),
        ("prompt_token_rate", 15_390.0 / 60.0),
        ("computed_prompt_token_rate", 15_390.0 / 60.0),
        ("generation_token_rate", 7_331.0 / 60.0),
        ("prefix_cache_hit_ratio", 0.0),
        ("prefix_cache_lost", 0.0),
        ("requests_running", 0.0),
        ("running_per_replica", 0.0),
        ("requests_queued", 0.0),
        ("requests_waiting", 0.0),
        ("waiting_per_replica", 0.0),
        ("backlog_of_day", 0.0),
        ("engines_awake", 1.0),
        ("requests_deferred", 0.0),
        ("queue_time_mean", 0.003_184_54 / 121.0),
        ("prefill_time_mean", 1.240_208 / 121.0),
        ("decode_time_mean", 19.867_806 / 121.0),
        ("requests_in_prefill", 1.240_208 / 60.0),
        ("queue_share_of_ttft", 0.003_184_54 / (0.003_184_54 + 1.240_208)),
        ("media_per_request", 0.0),
        ("frontend_share_of_ttft", 1.0 - (0.003_184_54 + 1.240_208) / 1.788_39),
        ("kv_cache_usage", 0.0),
        ("kv_cache_peak", 0.0),
        ("preemption_rate", 0.0),
        ("kv_cache_capacity_tokens", 32_768.0),
        ("stalled_requests", 0.0),
        ("stalled_ranks", 0.0),
        ("replicas_renamed", 0.0),
        ("kv_cache_leased", 0.0),
        ("replicas_serving", 1.0),
        ("replicas_down", 0.0),
        ("replicas_idle", 0.0),
        ("replica_age_min", when as f64 - STARTED),
        ("frontend_cpu", 3.23 / 60.0),
    ];
    // Nothing ran twice at once, no adapters, no draft model, no connector, no images, no NaN counting, one rank, none down,
    // and no hour before.
    let silent = [
        "throughput_kept",
        "running_plateau",
        "lora_adapters_waiting",
        "corrupted_ratio",
        "spec_acceptance_ratio",
        "spec_accepted_per_draft",
        "external_cache_hit_ratio",
        "outer_cache_failure_rate",
        "outer_cache_wait",
        "media_cache_hit_ratio",
        "prefill_pool_waiting",
        "decode_pool_waiting",
        "rank_imbalance",
        "down_on_live_host",
        "replicas_frozen",
        "kv_transfer_failure_rate",
        "kv_transfer_time_mean",
        "kv_transfer_speed",
        "kv_transfer_wait",
    ];
    assert_values(&seen, &expected);
    assert_no_data(&seen, &silent);
    assert_complete("vllm", &expected, &silent);
}

#[test]
fn a_list_of_signals_is_read_for_a_scope_without_a_playbook() {
    let scope = Scope::of_labels(&[("namespace".to_owned(), "healthy".to_owned())].into());
    let signals = ["kv_cache_capacity_tokens", "prompt_tokens_mean", "running_plateau", "no_such_signal"];
    let ask = observe_signals(library(), shared(), &scope, &signals, at(slot(0) + 60), WINDOW, DEADLINE);
    let seen = run(ask);
    assert_values(&seen, &[("kv_cache_capacity_tokens", 32_768.0), ("prompt_tokens_mean", 15_390.0 / 121.0)]);
    assert_no_data(&seen, &["running_plateau"]);
    assert_eq!(seen.observations.signals.len(), 3, "what was not asked for, and what the catalog lacks, is left out");
    assert_eq!((seen.observations.pool.as_slice(), seen.degraded), (&["vllm-0".to_owned()][..], false));
}

#[test]
fn an_exhausted_0_32_page_tells_preemptions_queueing_and_cut_outputs() {
    let (seen, _) = read("exhausted");
    assert_eq!(version(&seen, "vllm").as_deref(), Some("0.32"));
    assert_values(
        &seen,
        &[
            // 897 preemptions, 286 requests that waited 748.7 s together and all ran into max_tokens.
            ("preemption_rate", 897.0 / 60.0),
            ("request_rate", 286.0 / 60.0),
            ("queue_time_mean", 748.698_74 / 286.0),
            ("prefill_time_mean", 7.286_807 / 286.0),
            ("queue_share_of_ttft", 748.698_74 / (748.698_74 + 7.286_807)),
            ("generation_tokens_mean", 257_400.0 / 286.0),
            ("prompt_tokens_mean", 27_821.0 / 286.0),
            ("length_finish_ratio", 1.0),
            ("generation_token_rate", 257_400.0 / 60.0),
            ("ttft_p50", 2.663),
            ("ttft_p99", 7.321),
            ("e2e_p99", 18.41),
            ("kv_cache_capacity_tokens", 5_120.0),
            ("frontend_cpu", 20.08 / 60.0),
            // The second page was taken when the load was over.
            ("kv_cache_usage", 0.0),
            ("requests_waiting", 0.0),
        ],
    );
}

#[test]
fn two_api_servers_tell_no_process_and_an_idle_minute_has_rates_but_no_means() {
    let (seen, _) = read("two-servers");
    assert_eq!(version(&seen, "vllm").as_deref(), Some("0.32"));
    assert_values(&seen, &[("request_rate", 0.0), ("kv_cache_capacity_tokens", 32_768.0), ("replicas_serving", 1.0)]);
    assert_no_data(
        &seen,
        &[
            "frontend_cpu",
            "replica_age_min",
            "ttft_p99",
            "prompt_tokens_mean",
            "generation_tokens_mean",
            "queue_time_mean",
            "prefix_cache_hit_ratio",
            "error_ratio",
            "abandoned_ratio",
        ],
    );
}

#[test]
fn a_0_14_page_is_recognised_and_what_it_lacks_is_no_data() {
    let (seen, when) = read("old");
    assert_eq!(version(&seen, "vllm").as_deref(), Some("0.13"));
    assert_values(
        &seen,
        &[
            ("kv_cache_usage", 0.0),
            ("requests_waiting", 0.0),
            ("requests_queued", 0.0),
            ("computed_prompt_token_rate", 0.0),
            // 40 blocks of 128 tokens: this release has no label for the product.
            ("kv_cache_capacity_tokens", 5_120.0),
            ("replica_age_min", when as f64 - 1_795_201_302.79),
        ],
    );
    assert_no_data(&seen, &["requests_deferred", "admission_rejection_rate", "spec_acceptance_ratio"]);
    let deferred = &seen.observations.signals["requests_deferred"];
    assert_eq!(deferred.enable.as_deref(), Some("vLLM 0.20 or newer; older ones count deferred requests as waiting"));
}
