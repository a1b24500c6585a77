//! SGLang's router, new and old, vLLM's, and Ray Serve. Pages are hand-written in the names and labels of their documentation,
//! SGLang's new ones in those that its programs write.

use super::{assert_no_data, assert_table, assert_values, minute, observed, uncounted, version};
use crate::harness::{Page, Stamp, slot};

const ROUTER: usize = 134;
const OLD_ROUTER: usize = 135;
const RAY: usize = 136;
const VLLM: usize = 151;

/// 100 answers, of which 4 are 503, 1 is 504, 5 are 429, 8 are 401, 2 are 404 and 2 of clients that left. Of 100 answers of
/// workers, 4 are 503, 2 are 429, 4 are 401 and 5 are 500; 12 tries failed to connect and 3 timed out; the router itself
/// answered 50 tries that had no worker. Worker `b` fails most of its tries and has an open breaker, one is gone. As smg 1.13
/// told them, but for the tokens and times of gRPC, which are as documented.
const SMG: &str = r#"smg_worker_health{worker="a"} 1
smg_worker_health{worker="b"} 1
smg_worker_health{worker="c"} -1
smg_worker_cb_state{worker="a"} 0
smg_worker_cb_state{worker="b"} 1
smg_worker_cb_state{worker="c"} -1
smg_worker_cb_outcomes_total{worker="a",outcome="success"} 80
smg_worker_cb_outcomes_total{worker="b",outcome="success"} 8
smg_worker_cb_outcomes_total{worker="b",outcome="failure"} 20
smg_worker_pool_size{worker_type="regular",connection_mode="grpc",model="m"} 2
smg_worker_requests_active{worker="a"} 9
smg_worker_requests_active{worker="b"} 3
smg_http_connections_active 14
smg_worker_cb_transitions_total{worker="b",from="closed",to="open"} 6
smg_http_responses_total{path="/v1/chat/completions",status_code="200",error_code=""} 78
smg_http_responses_total{path="/.env",status_code="404",error_code="x"} 30
smg_http_responses_total{path="/v1/chat/completions",status_code="503",error_code="no_available_workers"} 4
smg_http_responses_total{path="/v1/chat/completions",status_code="504",error_code="x"} 1
smg_http_responses_total{path="/v1/chat/completions",status_code="429",error_code="x"} 5
smg_http_responses_total{path="/v1/chat/completions",status_code="401",error_code="x"} 8
smg_http_responses_total{path="/v1/chat/completions",status_code="404",error_code="model_not_found"} 2
smg_http_responses_total{path="/v1/chat/completions",status_code="499",error_code="client_closed_request"} 2
smg_router_upstream_responses_total{router_type="http",status_code="200",error_code=""} 85
smg_router_upstream_responses_total{router_type="http",status_code="500",error_code=""} 5
smg_router_upstream_responses_total{router_type="http",status_code="503",error_code=""} 4
smg_router_upstream_responses_total{router_type="http",status_code="503",error_code="no_available_workers"} 50
smg_router_upstream_responses_total{router_type="http",status_code="500",error_code="call_upstream_connection_failed"} 12
smg_router_upstream_responses_total{router_type="http",status_code="504",error_code="call_upstream_timeout"} 3
smg_router_upstream_responses_total{router_type="http",status_code="404",error_code="model_not_found"} 2
smg_router_upstream_responses_total{router_type="http",status_code="429",error_code=""} 2
smg_router_upstream_responses_total{router_type="http",status_code="401",error_code=""} 4
smg_http_responses_total{path="/health",status_code="503",error_code="x"} 500
smg_http_rate_limit_total{result="allowed"} 95
smg_http_rate_limit_total{result="rejected"} 5
smg_router_requests_total{router_type="http",model="m",endpoint="chat"} 120
smg_router_request_errors_total{router_type="http",model="other",error_type="no_workers"} 2
smg_router_request_errors_total{router_type="http",model="m",error_type="unavailable"} 4
smg_router_request_duration_seconds_bucket{router_type="http",model="m",le="2"} 100
smg_router_request_duration_seconds_bucket{router_type="http",model="m",le="+Inf"} 100
smg_router_request_duration_seconds_sum{router_type="http",model="m"} 150
smg_router_request_duration_seconds_count{router_type="http",model="m"} 100
smg_router_ttft_seconds_bucket{model="m",le="0.5"} 100
smg_router_ttft_seconds_bucket{model="m",le="+Inf"} 100
smg_router_ttft_seconds_sum{model="m"} 25
smg_router_ttft_seconds_count{model="m"} 100
smg_router_tokens_total{model="m",token_type="input"} 6000
smg_router_tokens_total{model="m",token_type="output"} 1200
smg_engine_waiting_requests{worker="a",model="m",dp_rank="0"} 4
smg_engine_waiting_requests{worker="b",model="m",dp_rank="0"} 1
smg_engine_token_usage{worker="a",model="m",dp_rank="0"} 0.7
smg_tokio_workers 2
smg_tokio_worker_busy_ratio{worker="0"} 0.2
smg_tokio_worker_busy_ratio{worker="1"} 0.4
smg_tokio_event_loop_delay_seconds_sum 8
smg_tokio_event_loop_delay_seconds_count 4000
smg_admission_queue_depth 2
"#;

/// sglang-router 0.3.2 as it told them: its answers name no path and none of clients that left, what failed to connect and
/// what timed out have one code, and no series tells the requests at each worker. 80 were answered; 12 tries failed.
const SGLANG_ROUTER: &str = r#"smg_worker_health{worker="a"} 1
smg_worker_health{worker="b"} 0
smg_worker_cb_outcomes_total{worker="a",outcome="success"} 80
smg_worker_cb_outcomes_total{worker="b",outcome="failure"} 12
smg_http_connections_active 14
smg_http_responses_total{status_code="200",error_code=""} 80
smg_http_responses_total{status_code="404",error_code=""} 20
smg_router_upstream_responses_total{router_type="http",status_code="200",error_code=""} 80
smg_router_upstream_responses_total{router_type="http",status_code="404",error_code=""} 20
smg_router_upstream_responses_total{router_type="http",status_code="500",error_code="call_upstream_request_error"} 12
smg_router_requests_total{router_type="http",model="m",endpoint="chat"} 100
smg_router_request_errors_total{router_type="http",model="no-such-model",error_type="no_workers"} 20
smg_router_request_duration_seconds_sum{router_type="http",model="m"} 40
smg_router_request_duration_seconds_count{router_type="http",model="m"} 80
"#;

/// A router with workers over gRPC: no answer of theirs is counted by its status.
const GRPC: &str = r#"smg_worker_health{worker="a"} 1
smg_http_responses_total{path="/v1/chat/completions",status_code="200",error_code=""} 94
smg_http_responses_total{path="/v1/chat/completions",status_code="503",error_code="no_available_workers"} 6
smg_router_requests_total{router_type="grpc",model="m",endpoint="chat"} 120
smg_router_request_errors_total{router_type="grpc",model="m",error_type="no_workers"} 6
smg_router_request_errors_total{router_type="grpc",model="m",error_type="backend_error"} 12
smg_router_generation_duration_seconds_sum{router_type="grpc",model="m"} 150
smg_router_generation_duration_seconds_count{router_type="grpc",model="m"} 100
"#;

const SGL: &str = r#"sgl_router_worker_health{worker="a"} 1
sgl_router_worker_health{worker="b"} 0
sgl_router_running_requests{worker="a"} 9
sgl_router_running_requests{worker="b"} 3
sgl_router_requests_total{route="/generate"} 120
sgl_router_request_errors_total{route="/generate",error_type="no_workers"} 6
sgl_router_http_responses_total{status_code="200",error_code=""} 90
sgl_router_http_responses_total{status_code="500",error_code="x"} 10
sgl_router_generate_duration_seconds_bucket{route="/generate",le="2"} 100
sgl_router_generate_duration_seconds_bucket{route="/generate",le="+Inf"} 100
sgl_router_cb_state_transitions_total{worker="b",from="closed",to="open"} 6
"#;

/// 100 requests, of which 2 are 500, 4 are 503, 1 is 504, 3 are 404, 2 are 401, 5 are of clients that left, 50 health checks,
/// and 30 that a scanner was refused; times in milliseconds.
const SERVE: &str = r#"ray_serve_num_ongoing_http_requests{node_id="n"} 6
ray_serve_num_http_requests_total{route="/v1",method="POST",application="llm",status_code="200"} 90
ray_serve_num_http_requests_total{route="/v1",method="POST",application="llm",status_code="500"} 10
ray_serve_num_http_requests_total{route="/-/healthz",method="GET",application="",status_code="200"} 50
ray_serve_num_http_error_requests_total{route="/v1",method="POST",application="llm",error_code="500"} 2
ray_serve_num_http_error_requests_total{route="/v1",method="POST",application="llm",error_code="503"} 4
ray_serve_num_http_error_requests_total{route="/v1",method="POST",application="llm",error_code="504"} 1
ray_serve_num_http_error_requests_total{route="/v1",method="POST",application="llm",error_code="404"} 3
ray_serve_num_http_error_requests_total{route="/.env",method="GET",application="",error_code="404"} 30
ray_serve_num_http_error_requests_total{route="/v1",method="POST",application="llm",error_code="401"} 2
ray_serve_num_http_error_requests_total{route="/v1",method="POST",application="llm",error_code="499"} 5
ray_serve_http_request_latency_ms_bucket{route="/v1",method="POST",application="llm",le="2000"} 100
ray_serve_http_request_latency_ms_bucket{route="/v1",method="POST",application="llm",le="+Inf"} 100
ray_serve_deployment_queued_queries{deployment="LLMServer",application="llm"} 8
ray_serve_replica_processing_queries{deployment="LLMServer",replica="a",application="llm"} 9
ray_serve_replica_processing_queries{deployment="LLMServer",replica="b",application="llm"} 3
ray_serve_deployment_processing_latency_ms_sum{deployment="LLMServer",replica="a",application="llm"} 120000
ray_serve_deployment_processing_latency_ms_count{deployment="LLMServer",replica="a",application="llm"} 100
ray_serve_deployment_processing_latency_ms_sum{deployment="Ingress",replica="c",application="llm"} 150000
ray_serve_deployment_processing_latency_ms_count{deployment="Ingress",replica="c",application="llm"} 100
ray_serve_deployment_processing_latency_ms_sum{deployment="LLMServer",replica="b",application="llm"} 20000
ray_serve_deployment_processing_latency_ms_count{deployment="LLMServer",replica="b",application="llm"} 100
ray_serve_replica_processing_queries{deployment="LLMServer",replica="gone",application="llm"} 0
ray_serve_deployment_request_counter_total{deployment="LLMServer",replica="a",route="/v1",application="llm"} 80
ray_serve_deployment_request_counter_total{deployment="LLMServer",replica="b",route="/v1",application="llm"} 20
ray_serve_deployment_error_counter_total{deployment="LLMServer",replica="b",exception_type="RuntimeError",route="/v1",application="llm"} 25
ray_serve_deployment_error_counter_total{deployment="LLMServer",replica="a",exception_type="CancelledError",route="/v1",application="llm"} 90
ray_serve_deployment_replica_starts_total{deployment="LLMServer",replica="a",application="llm"} 1
ray_serve_autoscaling_target_replicas{deployment="LLMServer",application="llm"} 4
ray_serve_event_loop_scheduling_latency_ms_sum{component="proxy",loop_type="main"} 60
ray_serve_event_loop_scheduling_latency_ms_count{component="proxy",loop_type="main"} 30
ray_serve_event_loop_scheduling_latency_ms_sum{component="replica",loop_type="main"} 9000
ray_serve_event_loop_scheduling_latency_ms_count{component="replica",loop_type="main"} 30
ray_serve_deployment_replica_healthy{deployment="LLMServer",replica="a",application="llm"} 1
ray_serve_deployment_replica_healthy{deployment="LLMServer",replica="b",application="llm"} 1
ray_serve_deployment_replica_healthy{deployment="LLMServer",replica="gone",application="llm"} 0
"#;

/// 100 requests: 80 are answered, 8 are refused as wrong, and 12 fail after their last try, of whose tries 6 found no worker.
/// Worker `b` fails most of its tries, `c` is gone, and `d` was removed, whose series stays as it was.
const VLLM_ROUTER: &str = r#"vllm_router_active_workers 3
vllm_router_worker_health{worker="http://d:8000"} 1
vllm_router_worker_health{worker="http://a:8000"} 1
vllm_router_worker_health{worker="http://b:8000"} 1
vllm_router_worker_health{worker="http://c:8000"} 0
vllm_router_cb_state{worker="http://a:8000"} 0
vllm_router_cb_state{worker="http://b:8000"} 1
vllm_router_cb_state_transitions_total{worker="http://b:8000",from="closed",to="open"} 6
vllm_router_cb_outcomes_total{worker="http://a:8000",outcome="success"} 80
vllm_router_cb_outcomes_total{worker="http://b:8000",outcome="success"} 8
vllm_router_cb_outcomes_total{worker="http://b:8000",outcome="failure"} 30
vllm_router_processed_requests_total{worker="http://a:8000"} 90
vllm_router_processed_requests_total{worker="http://b:8000"} 30
vllm_router_processed_requests_total{worker="http://c:8000"} 3
vllm_router_running_requests{worker="http://a:8000"} 9
vllm_router_running_requests{worker="http://b:8000"} 3
vllm_router_requests_total{route="/v1/chat/completions"} 80
vllm_router_request_errors_total{route="/v1/chat/completions",error_type="non_retryable_error"} 8
vllm_router_request_errors_total{route="/v1/chat/completions",error_type="no_available_workers"} 6
vllm_router_retries_exhausted_total{route="/v1/chat/completions"} 12
vllm_router_generate_duration_seconds_bucket{le="2"} 80
vllm_router_generate_duration_seconds_bucket{le="+Inf"} 80
vllm_router_generate_duration_seconds_sum 120
vllm_router_generate_duration_seconds_count 80
"#;

/// Pages whose names and labels are those of a program that ran.
pub(super) const WRITTEN: [(&str, &str); 3] =
    [("sglang-router", SMG), ("sglang-router", SGLANG_ROUTER), ("vllm-router", VLLM_ROUTER)];

/// Three workers were well; one is not any more, and one was removed.
const WELL: &str = r#"vllm_router_active_workers 3
vllm_router_worker_health{worker="a"} 1
vllm_router_worker_health{worker="b"} 1
vllm_router_worker_health{worker="c"} 1
smg_worker_health{worker="a"} 1
smg_worker_health{worker="b"} 1
smg_worker_health{worker="c"} 1
"#;
const ONE_GONE: &str = r#"vllm_router_active_workers 2
vllm_router_worker_health{worker="a"} 1
vllm_router_worker_health{worker="b"} 0
vllm_router_worker_health{worker="c"} 0
smg_worker_health{worker="a"} 1
smg_worker_health{worker="b"} 0
smg_worker_health{worker="c"} -1
"#;

/// Workers that refuse for a limit of their own: all tries are used up, and none is a failure to a breaker.
const LIMITED: &str = r#"vllm_router_active_workers 2
vllm_router_worker_health{worker="a"} 1
vllm_router_worker_health{worker="b"} 1
vllm_router_cb_outcomes_total{worker="a",outcome="success"} 120
vllm_router_cb_outcomes_total{worker="b",outcome="success"} 120
vllm_router_requests_total{route="/v1/chat/completions"} 60
vllm_router_retries_exhausted_total{route="/v1/chat/completions"} 40
"#;

/// Two routers on one page, of which a worker was well two minutes ago.
fn one_gone() -> [Page; 3] {
    let of = |text: &str, time: i64| {
        Page::new(
            text,
            Stamp { job: "some-job", instance: "g-0", namespace: "gone", pod: "g-0", time: slot(VLLM) + time },
        )
    };
    [of(WELL, -60), of(ONE_GONE, 0), of(ONE_GONE, 60)]
}

pub(super) fn pages() -> Vec<Page> {
    let cases = [
        (ROUTER, "smg", SMG),
        (ROUTER, "sglang-router", SGLANG_ROUTER),
        (ROUTER, "smg-grpc", GRPC),
        (OLD_ROUTER, "sgl", SGL),
        (RAY, "ray", SERVE),
        (VLLM, "vllm-router", VLLM_ROUTER),
        (VLLM, "limited", LIMITED),
    ];
    cases
        .into_iter()
        .flat_map(|(case, namespace, page)| minute(case, namespace, "gateway-0", &uncounted(page), page))
        .chain(one_gone())
        .collect()
}

fn read(case: usize, namespace: &str) -> diagnose::ObserveResult {
    observed(&[("namespace", namespace)], slot(case) + 60)
}

#[test]
fn sglangs_router_tells_each_signal_or_says_that_it_cannot() {
    let seen = read(ROUTER, "smg");
    assert_eq!(version(&seen, "sglang-router").as_deref(), Some("1.13"));
    let expected = [
        ("ttft_p99", 0.495),
        ("ttft_p95", 0.475),
        ("ttft_p50", 0.25),
        ("e2e_p99", 1.98),
        ("error_ratio", 0.05),
        ("client_error_ratio", 0.02),
        ("request_rate", 2.0),
        ("request_imbalance", 1.5),
        ("prompt_tokens_mean", 60.0),
        ("prompt_tokens_usual", 60.0),
        ("generation_tokens_mean", 12.0),
        ("generation_tokens_usual", 12.0),
        ("generation_token_rate", 20.0),
        ("requests_queued", 5.0),
        ("kv_cache_usage", 0.7),
        ("replicas_serving", 1.0),
        ("gateway_request_rate", 2.0),
        ("gateway_inflight", 12.0),
        ("gateway_residence_time", 12.0 / 2.0),
        ("gateway_queued", 2.0),
        ("gateway_ttft_p99", 0.495),
        ("gateway_ttft_mean", 0.25),
        ("gateway_e2e_p99", 1.98),
        ("gateway_backend_time_mean", 1.5),
        ("gateway_busy", 0.4),
        ("gateway_loop_delay", 0.002),
        ("gateway_error_ratio", 0.04),
        ("gateway_failed_ratio", 0.20),
        ("gateway_timeout_ratio", 4.0 / 103.0),
        ("gateway_cancelled_ratio", 0.02),
        ("gateway_connection_error_ratio", 12.0 / 115.0),
        ("gateway_unreached_ratio", 12.0 / 115.0),
        ("gateway_rate_limited_ratio", 0.05),
        ("gateway_no_backend_ratio", 0.04),
        ("gateway_overload_ratio", 0.05),
        ("gateway_cooldown_rate", 0.1),
        ("gateway_auth_error_ratio", 0.08),
        ("gateway_key_refusal_ratio", 0.04),
        ("gateway_backend_auth_ratio", 0.04),
        ("gateway_backend_limit_ratio", 0.02),
        ("gateway_backend_unavailable_ratio", 0.04),
        ("gateway_backend_error_ratio", 0.05),
        ("gateway_backends_failing", 1.0),
        ("gateway_unknown_model_ratio", 0.02),
        ("gateway_backends_missing", 0.0),
        ("gateway_backends_ready", 1.0),
        ("gateway_models_gone", 0.0),
    ];
    // No cache events.
    assert_table(&seen, "sglang-router", &expected, &["gateway_scorer_errors"]);
}

#[test]
fn sglang_router_0_3_tells_an_unknown_model_from_no_worker_and_failed_tries_from_answers() {
    let seen = read(ROUTER, "sglang-router");
    let expected = [
        ("error_ratio", 0.0),
        ("client_error_ratio", 0.2),
        ("gateway_inflight", 14.0),
        ("gateway_residence_time", 14.0 * 60.0 / 100.0),
        ("gateway_backend_time_mean", 0.5),
        ("gateway_timeout_ratio", 0.0),
        ("gateway_connection_error_ratio", 12.0 / 112.0),
        ("gateway_no_backend_ratio", 0.0),
        ("gateway_unknown_model_ratio", 0.2),
        ("gateway_backend_error_ratio", 0.0),
        ("gateway_backends_failing", 1.0),
        ("gateway_backends_ready", 1.0),
    ];
    assert_values(&seen, &expected);
    let silent = ["gateway_cancelled_ratio", "gateway_unreached_ratio", "gateway_busy", "gateway_loop_delay"];
    assert_no_data(&seen, &silent);
}

#[test]
fn a_worker_that_is_no_longer_well_is_missing_and_a_removed_one_is_not() {
    let seen = read(VLLM, "gone");
    assert_values(&seen, &[("gateway_backends_missing", 1.0), ("gateway_backends_ready", 1.0)]);
}

#[test]
fn over_grpc_the_routers_own_errors_tell_what_failed() {
    let seen = read(ROUTER, "smg-grpc");
    let expected = [
        ("gateway_connection_error_ratio", 0.1),
        ("gateway_no_backend_ratio", 0.06),
        ("gateway_backend_time_mean", 1.5),
        ("gateway_timeout_ratio", 0.0),
        ("gateway_backends_failing", 0.0),
    ];
    assert_values(&seen, &expected);
    assert_no_data(&seen, &["gateway_unreached_ratio", "gateway_backend_error_ratio", "gateway_cancelled_ratio"]);
}

#[test]
fn the_names_of_the_old_router_tell_what_it_counted() {
    let seen = read(OLD_ROUTER, "sgl");
    let expected = [
        ("request_rate", 2.0),
        ("error_ratio", 0.1),
        ("e2e_p99", 1.98),
        ("request_imbalance", 1.5),
        ("gateway_inflight", 12.0),
        ("gateway_residence_time", 12.0 / 2.0),
        ("gateway_no_backend_ratio", 0.06),
        ("gateway_cooldown_rate", 0.1),
        ("gateway_backends_ready", 1.0),
        ("replicas_serving", 1.0),
    ];
    assert_values(&seen, &expected);
    assert_no_data(&seen, &["ttft_p99", "gateway_queued", "gateway_models_gone", "gateway_overload_ratio"]);
}

#[test]
fn ray_serve_tells_each_signal_or_says_that_it_cannot() {
    let seen = read(RAY, "ray");
    let expected = [
        ("e2e_p99", 1.98),
        ("error_ratio", 0.07),
        ("client_error_ratio", 0.03),
        ("request_rate", 100.0 / 60.0),
        ("request_imbalance", 1.5),
        ("requests_queued", 8.0),
        ("replicas_serving", 1.0),
        ("gateway_request_rate", 100.0 / 60.0),
        ("gateway_inflight", 6.0),
        ("gateway_queued", 8.0),
        ("gateway_e2e_p99", 1.98),
        ("gateway_backend_time_mean", 1.5),
        ("gateway_loop_delay", 0.002),
        ("gateway_error_ratio", 0.06),
        ("gateway_failed_ratio", 0.12),
        ("gateway_timeout_ratio", 0.01),
        ("gateway_cancelled_ratio", 0.05),
        ("gateway_rate_limited_ratio", 0.0),
        ("gateway_overload_ratio", 0.04),
        ("gateway_auth_error_ratio", 0.02),
        ("gateway_unknown_model_ratio", 0.03),
        // Replica `b` raises more often than it answers, and `a` takes six times as long. Clients that left are neither's.
        ("gateway_backends_failing", 1.0),
        ("gateway_backends_slow", 1.0),
        ("gateway_backend_error_ratio", 25.0 / 125.0),
        ("gateway_backend_starts", 0.0),
        ("gateway_backends_missing", 2.0),
        ("gateway_backends_ready", 2.0),
    ];
    // Six in flight are too few for it.
    assert_table(&seen, "ray-serve-llm", &expected, &["gateway_residence_time"]);
}

#[test]
fn vllms_router_tells_each_signal_or_says_that_it_cannot() {
    let seen = read(VLLM, "vllm-router");
    let expected = [
        ("e2e_p99", 1.98),
        ("error_ratio", 0.12),
        ("client_error_ratio", 0.08),
        ("request_rate", 100.0 / 60.0),
        ("request_imbalance", 1.5),
        ("replicas_serving", 1.0),
        ("gateway_request_rate", 100.0 / 60.0),
        ("gateway_inflight", 12.0),
        ("gateway_residence_time", 12.0 * 60.0 / 100.0),
        ("gateway_e2e_p99", 1.98),
        ("gateway_backend_time_mean", 1.5),
        ("gateway_error_ratio", 0.12),
        ("gateway_failed_ratio", 0.12),
        ("gateway_no_backend_ratio", 0.06),
        ("gateway_cooldown_rate", 0.1),
        ("gateway_backends_failing", 1.0),
        ("gateway_backends_missing", 0.0),
        ("gateway_backends_ready", 2.0),
    ];
    // Other tries failed too, so nobody can tell what the last ones ended with.
    assert_table(&seen, "vllm-router", &expected, &["gateway_rate_limited_ratio", "gateway_backend_limit_ratio"]);
    let limited =
        [("gateway_rate_limited_ratio", 0.4), ("gateway_backend_limit_ratio", 0.4), ("gateway_error_ratio", 0.4)];
    assert_values(&read(VLLM, "limited"), &limited);
}
