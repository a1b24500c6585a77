//! Pages of a real Dynamo 1.6 frontend and of its workers (with the mocker engine), and hand-written lines in the names
//! of older releases and of what goes wrong.

use super::{assert_no_data, assert_table, assert_values, minute, observed, replicas, uncounted, value, version};
use crate::harness::{Page, Stamp, fixture, slot};

const HEALTHY: usize = 125;
const WORKERS: usize = 126;
const FAILING: usize = 127;
const GONE: usize = 128;
const OLD: usize = 129;
const WHOLE: usize = 130;
const LONG: usize = 145;
const GIVEN_UP: usize = 149;

/// 100 requests of an overloaded frontend that lost a worker.
const FAILURES: [(&str, u32); 5] =
    [("overload", 12), ("unavailable", 8), ("response_timeout", 5), ("validation", 3), ("not_found", 2)];

pub(super) fn pages() -> Vec<Page> {
    let read = |name: &str| fixture(&format!("dynamo/1.6-{name}.prom"));
    let mut pages = Vec::new();
    let [before, after] = ["t0", "t1"].map(|name| read(&format!("frontend-healthy-{name}")));
    for (case, namespace) in [(HEALTHY, "frontend"), (WHOLE, "whole")] {
        pages.extend(minute(case, namespace, "frontend-0", &before, &after));
    }
    for (pod, name) in [("worker-0", "worker-healthy"), ("worker-1", "worker-kv-pressure")] {
        let page = shell(&read(name));
        pages.extend(minute(WORKERS, "shells", pod, &uncounted(&page), &page));
        let page = read(name);
        pages.extend(minute(WHOLE, "whole", pod, &uncounted(&page), &page));
    }
    let labels = "endpoint=\"chat_completions\",model=\"tiny\",request_type=\"stream\"";
    let counted = |status: &str, error: &str, n: u32| {
        format!("dynamo_frontend_requests_total{{{labels},status=\"{status}\",error_type=\"{error}\"}} {n}\n")
    };
    let before = format!("dynamo_frontend_inflight_requests{{model=\"tiny\"}} 4\n{}", counted("success", "", 0));
    let mut after = before.replace(" 0\n", " 70\n");
    FAILURES.iter().for_each(|(error, n)| after += &counted("error", error, *n));
    pages.extend(minute(FAILING, "failing", "frontend-0", &before, &after));
    let left = before.replace(" 0\n", " 90\n") + &counted("error", "cancelled", 10);
    pages.extend(minute(GIVEN_UP, "given-up", "frontend-0", &before, &left));
    let ready = |model: &str| {
        format!(
            "dynamo_frontend_model_ready{{model=\"{model}\"}} 1\ndynamo_frontend_inflight_requests{{model=\"{model}\"}} 0\n"
        )
    };
    let stamp = Stamp { job: "dynamo", instance: "a:8000", namespace: "gone", pod: "frontend-0", time: slot(GONE) };
    for (minutes, page) in [(-10, ready("a") + &ready("b")), (0, ready("a")), (1, ready("a"))] {
        pages.push(Page::new(page, Stamp { time: slot(GONE) + 60 * minutes, ..stamp }));
    }
    let labels = "dynamo_component=\"backend\",dynamo_endpoint=\"generate\",dynamo_namespace=\"dynamo\"";
    let old = format!(
        "dynamo_component_inflight_requests{{{labels}}} 3\n\
         dynamo_component_kvstats_gpu_cache_usage_percent{{{labels}}} 0.9\n\
         dynamo_component_kvstats_gpu_prefix_cache_hit_rate{{{labels}}} 0.25\n\
         dynamo_component_system_uptime_seconds{{{labels}}} 77\n\
         kvbm_host_cache_hit_rate 0.4\nkvbm_object_read_failures 3\nkvbm_object_write_failures 1\n"
    );
    pages.extend(minute(OLD, "old-worker", "worker-0", &old, &old));
    let routed = |requests: u32, unknown: u32| {
        let tokens = |worker: &str, of: &str, waiting: u32| {
            format!(
                "dynamo_frontend_worker_active_prefill_tokens{{worker_id=\"{worker}\",worker_type=\"{of}\"}} {waiting}\n"
            )
        };
        let counted = |model: &str, error: &str, n: u32| {
            format!("dynamo_frontend_requests_total{{model=\"{model}\",error_type=\"{error}\"}} {n}\n")
        };
        "dynamo_frontend_inflight_requests{model=\"tiny\"} 4\n\
         dynamo_frontend_model_max_num_batched_tokens{model=\"tiny\"} 8192\n"
            .to_owned()
            + &tokens("1", "prefill", 16_384)
            + &tokens("2", "prefill", 32_768)
            + &tokens("3", "decode", 0)
            + &counted("tiny", "", requests)
            + &counted("unknown_model", "not_found", unknown)
            + &format!("dynamo_frontend_input_sequence_tokens_sum{{model=\"tiny\"}} {}\n", 2_000 * requests)
            + &format!("dynamo_frontend_input_sequence_tokens_count{{model=\"tiny\"}} {requests}\n")
            + &format!("dynamo_component_router_kv_hit_rate_count{{router_id=\"1\"}} {requests}\n")
            + &format!(
                "dynamo_component_router_kv_hit_rate_sum{{router_id=\"1\"}} {}\n",
                0.75 * f64::from(requests.min(90))
            )
    };
    pages.extend(minute(LONG, "long", "frontend-0", &routed(90, 0), &routed(150, 20)));
    pages
}

/// A worker's page without the engine's own series, as engines show it that export none.
fn shell(page: &str) -> String {
    page.lines().filter(|line| !line.starts_with("vllm:")).map(|line| format!("{line}\n")).collect()
}

fn read(case: usize, namespace: &str) -> diagnose::ObserveResult {
    observed(&[("namespace", namespace)], slot(case) + 60)
}

#[test]
fn a_healthy_minute_of_a_frontend_tells_each_signal_or_says_that_it_cannot() {
    let seen = read(HEALTHY, "frontend");
    assert_eq!(version(&seen, "dynamo").as_deref(), Some("1.5"));
    assert_eq!(seen.observations.pool, ["frontend-0"]);
    // 428 requests begun, 429 ended, in 1,388 s; 0.326 s of them in the frontend.
    let overhead = (0.325_021 + 0.001_276) / 428.0;
    let expected = [
        ("ttft_p99", 0.218_79),
        ("ttft_p95", 0.213_94),
        ("ttft_p50", 0.159_43),
        ("itl_p99", 0.107_8),
        ("itl_p95", 0.034_93),
        ("itl_p50", 0.027_86),
        ("e2e_p99", 7.771_2),
        ("error_ratio", 0.0),
        ("client_error_ratio", 0.0),
        ("request_rate", 428.0 / 60.0),
        ("prompt_tokens_mean", 107_001.0 / 428.0),
        ("prompt_tokens_usual", 107_001.0 / 428.0),
        // No prompt began like another one.
        ("computed_prompt_token_rate", 107_001.0 / 60.0),
        ("prefix_cache_hit_ratio", 0.0),
        ("prefix_cache_lost", 0.0),
        ("prefill_backlog", 0.0),
        ("generation_tokens_mean", 42_191.0 / 429.0),
        ("generation_tokens_usual", 42_191.0 / 429.0),
        ("media_per_request", 0.0),
        ("generation_token_rate", 42_053.0 / 60.0),
        ("requests_queued", 0.0),
        ("replicas_serving", 1.0),
        ("gateway_request_rate", 428.0 / 60.0),
        ("gateway_inflight", 15.5),
        // By Little's law of those that came: 428 in a minute.
        ("gateway_residence_time", 15.5 * 60.0 / 428.0),
        ("gateway_queued", 0.0),
        ("gateway_ttft_p99", 0.218_79),
        ("gateway_ttft_mean", 53.670_878 / 428.0),
        ("gateway_e2e_p99", 7.771_2),
        ("gateway_overhead_mean", overhead),
        ("gateway_backend_time_mean", 1_388.090_7 / 429.0 - overhead),
        // Per mille: 71 and 39 of one worker, 32 and 78 of the other.
        ("gateway_busy", 0.055),
        ("gateway_loop_delay", (14.395_861 - 5.189_414) / (13_131.0 - 4_737.0)),
        ("gateway_error_ratio", 0.0),
        ("gateway_failed_ratio", 0.0),
        ("gateway_timeout_ratio", 0.0),
        ("gateway_cancelled_ratio", 0.0),
        ("gateway_connection_error_ratio", 0.0),
        ("gateway_unreached_ratio", 0.0),
        ("gateway_overload_ratio", 0.0),
        ("gateway_unknown_model_ratio", 0.0),
        ("gateway_backends_ready", 3.0),
        ("gateway_models_gone", 0.0),
        ("gateway_scorer_errors", 0.0),
        ("gateway_backends_unread", 0.0),
    ];
    // Its workers do both.
    assert_table(&seen, "dynamo", &expected, &["prefill_pool_waiting"]);
}

#[test]
fn the_engines_inside_the_workers_are_the_pool_and_not_the_shells_around_them() {
    let seen = read(WHOLE, "whole");
    assert_eq!(seen.observations.pool, ["worker-0", "worker-1"]);
    // Of the engines: no requests waiting and 55, 2 % of the cache and all of it.
    assert_values(&seen, &[("requests_queued", 55.0), ("kv_cache_usage", 0.996_09), ("replicas_serving", 2.0)]);
    assert_values(&seen, &[("gateway_request_rate", 428.0 / 60.0), ("gateway_ttft_p99", 0.218_79)]);
    assert_eq!(seen.problems, Vec::<String>::new());
}

#[test]
fn overload_lost_workers_and_time_outs_are_told_apart() {
    let seen = read(FAILING, "failing");
    assert_values(
        &seen,
        &[
            ("gateway_error_ratio", 0.20),
            ("gateway_failed_ratio", 0.27),
            ("gateway_overload_ratio", 0.12),
            ("gateway_connection_error_ratio", 0.08),
            ("gateway_timeout_ratio", 0.05),
            ("gateway_unknown_model_ratio", 0.02),
        ],
    );
    // Round-robin: no router, so no backends are named.
    assert_no_data(&seen, &["gateway_backends_ready", "gateway_scorer_errors", "gateway_models_gone"]);
    assert_values(&seen, &[("error_ratio", 0.25), ("client_error_ratio", 0.05), ("gateway_inflight", 4.0)]);
    // One stream that stays open would decide.
    assert_no_data(&seen, &["gateway_residence_time"]);
}

#[test]
fn clients_that_leave_are_no_failures() {
    let seen = read(GIVEN_UP, "given-up");
    assert_values(
        &seen,
        &[("gateway_cancelled_ratio", 0.1), ("gateway_error_ratio", 0.0), ("gateway_failed_ratio", 0.0)],
    );
}

#[test]
fn a_model_without_workers_is_gone_although_nothing_is_zero() {
    let seen = read(GONE, "gone");
    assert_values(&seen, &[("gateway_models_gone", 1.0)]);
}

#[test]
fn the_shell_of_a_worker_stands_in_where_its_engine_exports_nothing() {
    let seen = read(WORKERS, "shells");
    assert_eq!(seen.observations.pool, ["worker-0", "worker-1"]);
    let expected = [
        ("request_rate", (218.0 + 161.0) / 60.0),
        ("request_imbalance", 1.0),
        ("e2e_p99", 57.967),
        ("e2e_mean", (702.288 + 2_572.164) / 305.0),
        ("engine_error_ratio", 0.0),
        ("admission_rejection_rate", 0.0),
        ("admission_rejection_ratio", 0.0),
        ("stalled_requests", 0.0),
        ("replicas_serving", 2.0),
        ("replicas_down", 0.0),
        ("replicas_idle", 0.0),
        ("replica_age_min", 145.815_9),
    ];
    // The mocker exports no cache.
    let silent = [
        "kv_cache_usage",
        "kv_cache_peak",
        "prefix_cache_hit_ratio",
        "external_cache_hit_ratio",
        "outer_cache_failure_rate",
        "down_on_live_host",
        "replicas_frozen",
    ];
    assert_table(&seen, "dynamo-worker", &expected, &silent);
    assert_eq!(replicas(&seen, "request_rate").len(), 2);
}

#[test]
fn the_names_of_dynamo_0_7_tell_cache_and_age() {
    let seen = read(OLD, "old-worker");
    assert_values(&seen, &[("kv_cache_usage", 0.9), ("kv_cache_peak", 0.9), ("prefix_cache_hit_ratio", 0.25)]);
    assert_values(&seen, &[("external_cache_hit_ratio", 0.4), ("outer_cache_failure_rate", 0.0)]);
    assert_eq!(value(&seen, "replica_age_min"), Some(77.0));
    assert_eq!(version(&seen, "dynamo-worker").as_deref(), Some("0.5"));
}

#[test]
fn the_router_knows_what_its_workers_still_have_to_compute_and_what_they_no_longer_reuse() {
    let expected = [
        // Of the workers that compute prompts: two steps and four.
        ("prefill_backlog", 3.0),
        // Beyond their next step one and three of them, of 2,000 a prompt.
        ("prefill_pool_waiting", 2.0 * 8_192.0 / 2_000.0),
        ("prefix_cache_hit_ratio", 0.0),
        ("prefix_cache_lost", 0.75 * 90.0 / 150.0),
        ("computed_prompt_token_rate", 2_000.0),
        // A name that the frontend does not know belongs to no model, and to all of them.
        ("gateway_unknown_model_ratio", 20.0 / 80.0),
    ];
    assert_values(&read(LONG, "long"), &expected);
    assert_values(&observed(&[("namespace", "long"), ("model", "tiny")], slot(LONG) + 60), &expected);
}
