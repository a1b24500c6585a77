//! The endpoint picker in its three eras. Pages are hand-written in the names and labels of its documentation: a release
//! that emits the newest and the older names, one of the objective era, one of the model era.

use super::{assert_no_data, assert_table, assert_values, minute, observed, uncounted, version};
use crate::harness::{Page, slot};

const NEWEST: usize = 131;
const OBJECTIVE: usize = 132;
const MODEL: usize = 133;

pub(super) fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    // The older names say the same, so that a sum over both would be twice as much.
    let newest = requests("llm_d_epp_request", "fairness_id=\"f\",priority=\"0\",")
        + &requests("inference_objective_request", "priority=\"0\",")
            .replace("request_input", "input")
            .replace("request_output", "output")
        + &pool("llm_d_epp", "ready_endpoints")
        + &pool("inference_pool", "ready_pods")
        + NEW;
    for (pod, page) in [("epp-0", newest.clone()), ("epp-1", newest)] {
        pages.extend(minute(NEWEST, "newest", pod, &uncounted(&page), &page));
    }
    for (case, namespace, family) in [(OBJECTIVE, "objective", "objective"), (MODEL, "model-era", "model")] {
        let page = requests(&format!("inference_{family}_request"), "")
            .replace("request_input", "input")
            .replace("request_output", "output")
            + &pool("inference_pool", "ready_pods")
            + OLD;
        pages.extend(minute(case, namespace, "epp-0", &uncounted(&page), &page));
    }
    pages
}

/// 120 requests with 6,000 prompt and 2,400 generated tokens in 240 s; 6 ended with 503, 3 with 429, 3 with 404.
fn requests(prefix: &str, labels: &str) -> String {
    let l = format!("{labels}model_name=\"m\",target_model_name=\"m\"");
    format!(
        "{prefix}_total{{{l}}} 120\n\
         {prefix}_error_total{{{l},error_code=\"ServiceUnavailable\"}} 6\n\
         {prefix}_error_total{{{l},error_code=\"ResourceExhausted\"}} 3\n\
         {prefix}_error_total{{{l},error_code=\"NotFound\"}} 3\n\
         {prefix}_duration_seconds_bucket{{{l},le=\"2\"}} 60\n\
         {prefix}_duration_seconds_bucket{{{l},le=\"4\"}} 120\n\
         {prefix}_duration_seconds_bucket{{{l},le=\"+Inf\"}} 120\n\
         {prefix}_duration_seconds_sum{{{l}}} 240\n\
         {prefix}_duration_seconds_count{{{l}}} 120\n\
         {prefix}_input_tokens_sum{{{l}}} 6000\n\
         {prefix}_input_tokens_count{{{l}}} 120\n\
         {prefix}_output_tokens_sum{{{l}}} 2400\n\
         {prefix}_output_tokens_count{{{l}}} 120\n"
    )
}

/// Four endpoints with a queue of 3 each.
fn pool(prefix: &str, ready: &str) -> String {
    let l = "name=\"pool\"";
    format!(
        "{prefix}_{ready}{{{l}}} 4\n{prefix}_average_queue_size{{{l}}} 3\n{prefix}_average_kv_cache_utilization{{{l}}} 0.5\n"
    )
}

/// What only the newest era tells. The whole duration is the first token's time of requests that are not streamed.
const NEW: &str = r#"llm_d_epp_request_running{model_name="m"} 7
llm_d_epp_flow_control_stale_endpoints{detector="d"} 2
llm_d_epp_request_ttft_seconds_bucket{model_name="m",streaming="true",le="0.5"} 100
llm_d_epp_request_ttft_seconds_bucket{model_name="m",streaming="true",le="+Inf"} 100
llm_d_epp_request_ttft_seconds_bucket{model_name="m",streaming="false",le="0.5"} 0
llm_d_epp_request_ttft_seconds_bucket{model_name="m",streaming="false",le="+Inf"} 900
llm_d_epp_request_ttft_seconds_sum{model_name="m",streaming="true"} 25
llm_d_epp_request_ttft_seconds_count{model_name="m",streaming="true"} 100
llm_d_epp_request_ttft_seconds_sum{model_name="m",streaming="false"} 9000
llm_d_epp_request_ttft_seconds_count{model_name="m",streaming="false"} 900
llm_d_epp_request_streaming_itl_seconds_bucket{model_name="m",le="0.1"} 100
llm_d_epp_request_streaming_itl_seconds_bucket{model_name="m",le="+Inf"} 100
llm_d_epp_scheduler_attempts_total{status="success",endpoint_name="a"} 90
llm_d_epp_scheduler_attempts_total{status="success",endpoint_name="b"} 30
llm_d_epp_flow_control_queue_size{fairness_id="f",priority="0",inference_pool="pool"} 5
llm_d_epp_flow_control_request_queue_duration_seconds_count{outcome="Dispatched"} 92
llm_d_epp_flow_control_request_queue_duration_seconds_count{outcome="EvictedContextCancelled"} 3
llm_d_epp_flow_control_request_queue_duration_seconds_count{outcome="EvictedTTL"} 5
llm_d_epp_request_processing_duration_seconds_sum 12
llm_d_epp_request_processing_duration_seconds_count 120
llm_d_epp_datalayer_poll_errors_total{source_type="metrics"} 6
"#;

/// What the eras before tell beside requests and pool.
const OLD: &str = "inference_objective_running_requests{model_name=\"m\"} 7\n\
                   inference_extension_scheduler_e2e_duration_seconds_sum 12\n\
                   inference_extension_scheduler_e2e_duration_seconds_count 120\n";

fn read(case: usize, namespace: &str) -> diagnose::ObserveResult {
    observed(&[("namespace", namespace)], slot(case) + 60)
}

#[test]
fn two_pickers_that_emit_every_name_twice_count_once() {
    let seen = read(NEWEST, "newest");
    assert_eq!(version(&seen, "llm-d").as_deref(), Some("0.9"));
    assert_eq!(seen.observations.pool, ["epp-0", "epp-1"]);
    // Two pickers with 120 requests each, before one pool of four endpoints.
    let expected = [
        ("ttft_p99", 0.495),
        ("ttft_p95", 0.475),
        ("ttft_p50", 0.25),
        ("itl_p99", 0.099),
        ("itl_p95", 0.095),
        ("itl_p50", 0.05),
        ("e2e_p99", 3.96),
        ("error_ratio", 0.05),
        ("client_error_ratio", 0.025),
        ("request_rate", 4.0),
        ("request_imbalance", 1.5),
        ("prompt_tokens_mean", 50.0),
        ("prompt_tokens_usual", 50.0),
        ("generation_tokens_mean", 20.0),
        ("generation_tokens_usual", 20.0),
        ("generation_token_rate", 80.0),
        ("requests_queued", 12.0),
        ("kv_cache_usage", 0.5),
        ("replicas_serving", 2.0),
        ("gateway_request_rate", 4.0),
        ("gateway_inflight", 14.0),
        // Each picker has seven, which is too few for one alone.
        ("gateway_residence_time", 14.0 / 4.0),
        ("gateway_queued", 10.0),
        ("gateway_ttft_p99", 0.495),
        ("gateway_ttft_mean", 0.25),
        ("gateway_e2e_p99", 3.96),
        ("gateway_overhead_mean", 0.1),
        ("gateway_backend_time_mean", 1.9),
        ("gateway_error_ratio", 0.05),
        ("gateway_failed_ratio", 0.1),
        ("gateway_timeout_ratio", 0.05),
        ("gateway_cancelled_ratio", 0.03),
        ("gateway_rate_limited_ratio", 0.025),
        ("gateway_no_backend_ratio", 0.05),
        ("gateway_overload_ratio", 0.025),
        ("gateway_auth_error_ratio", 0.0),
        ("gateway_unknown_model_ratio", 0.025),
        ("gateway_backends_ready", 4.0),
        ("gateway_scorer_errors", 12.0 / 60.0),
        ("gateway_backends_unread", 2.0),
    ];
    assert_table(&seen, "llm-d", &expected, &[]);
}

#[test]
fn the_two_older_eras_tell_the_same_under_their_names() {
    for (case, namespace) in [(OBJECTIVE, "objective"), (MODEL, "model-era")] {
        let seen = read(case, namespace);
        assert_eq!(version(&seen, "llm-d"), None);
        let expected = [
            ("request_rate", 2.0),
            ("error_ratio", 0.05),
            ("e2e_p99", 3.96),
            ("prompt_tokens_mean", 50.0),
            ("generation_token_rate", 40.0),
            ("requests_queued", 12.0),
            ("gateway_backends_ready", 4.0),
            ("gateway_overhead_mean", 0.1),
            ("gateway_backend_time_mean", 1.9),
            ("gateway_inflight", 7.0),
        ];
        assert_values(&seen, &expected);
        assert_no_data(&seen, &["ttft_p99", "gateway_queued", "gateway_scorer_errors", "gateway_residence_time"]);
    }
}
