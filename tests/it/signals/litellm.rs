//! Pages of a real LiteLLM proxy 1.106, healthy and with a backend that refuses connections, and hand-written failures
//! whose classes and codes are those of its documentation.

use super::{assert_no_data, assert_table, assert_values, minute, observed, uncounted, value, version};
use crate::harness::{Page, fixture, slot};

const STEADY: usize = 120;
const NEWBORN: usize = 121;
const REFUSED: usize = 122;
const LIMITED: usize = 123;
const BEHIND: usize = 124;
const BACKENDS: usize = 142;
const COOLED: usize = 144;
const FALLBACKS: usize = 147;
const OLD: usize = 150;

/// 100 requests of clients and 20 refused scrapes; what became of the requests stands in code, class and key.
const FAILURES: [(&str, &str, &str, u32); 9] = [
    ("None", "RouterRateLimitError", "a", 10),
    ("429", "HTTPException", "a", 5),
    ("422", "BudgetExceededError", "a", 5),
    ("401", "ProxyException", "a", 3),
    ("401", "Openai.AuthenticationError", "a", 9),
    ("403", "ProxyException", "b", 2),
    ("408", "Openai.Timeout", "a", 5),
    ("503", "Openai.ServiceUnavailableError", "a", 4),
    ("400", "ProxyModelNotFoundError", "a", 6),
];

pub(super) fn pages() -> Vec<Page> {
    let read = |name: &str| fixture(&format!("litellm/1.106-{name}.prom"));
    let limited = failures();
    let vllm = |name: &str| fixture(&format!("vllm/0.32-healthy-{name}.prom"));
    let mut pages = Vec::new();
    pages.extend(minute(STEADY, "steady", "litellm-0", &at_zero(), &read("healthy-t1")));
    pages.extend(minute(NEWBORN, "newborn", "litellm-0", &read("healthy-t0"), &read("healthy-t1")));
    pages.extend(minute(REFUSED, "refused", "litellm-0", &read("backend-refused-t0"), &read("backend-refused-t1")));
    pages.extend(minute(LIMITED, "limited", "litellm-0", &uncounted(&limited), &limited));
    pages.extend(minute(BEHIND, "gateways", "litellm-0", &at_zero(), &read("healthy-t1")));
    pages.extend(minute(BEHIND, "behind", "vllm-0", &vllm("t0"), &vllm("t1")));
    pages.extend(minute(BACKENDS, "backends", "litellm-0", &uncounted(&backends()), &backends()));
    pages.extend(minute(FALLBACKS, "fallbacks", "litellm-0", &uncounted(&fallbacks()), &fallbacks()));
    pages.extend(minute(OLD, "old", "litellm-0", &uncounted(&old()), &old()));
    pages.extend(minute(COOLED, "cooled", "litellm-0", &uncounted(&cooled()), &cooled()));
    pages
}

/// A model of which two in five requests were answered by its fallback, one whose fallback failed as well, and one that
/// needed none; and a Redis of which 120 calls failed. What a fallback answered is booked under its own name.
fn fallbacks() -> String {
    let total = |model: &str, n: u32| {
        format!(
            "litellm_proxy_total_requests_metric_total{{route=\"/v1/chat/completions\",requested_model=\"{model}\"}} {n}\n"
        )
    };
    let tried = |outcome: &str, model: &str, n: u32| {
        format!(
            "litellm_deployment_{outcome}_fallbacks_total{{requested_model=\"{model}\",fallback_model=\"other\",exception_status=\"500\"}} {n}\n"
        )
    };
    [total("rescued", 60), tried("successful", "rescued", 40), total("stuck", 60), tried("failed", "stuck", 30)]
        .concat()
        + &total("well", 100)
        + "litellm_redis_total_requests_total{redis=\"redis\"} 900\n\
           litellm_redis_failed_requests_total{redis=\"redis\",error_class=\"ConnectionError\",function_name=\"f\"} 120\n\
           litellm_redis_latency_sum{redis=\"redis\"} 2340\nlitellm_redis_latency_count{redis=\"redis\"} 900\n\
           litellm_postgres_latency_sum{postgres=\"postgres\"} 3\nlitellm_postgres_latency_count{postgres=\"postgres\"} 600\n"
}

/// What 1.80 tells: a refused key has no status, and of a deployment the time for each token. A proxy's 502 is in all releases.
fn old() -> String {
    let total = |model: &str, n: u32| {
        format!(
            "litellm_proxy_total_requests_metric_total{{route=\"/v1/chat/completions\",requested_model=\"{model}\"}} {n}\n"
        )
    };
    let failed = |model: &str, code: &str, class: &str, n: u32| {
        let of = format!("route=\"/v1/chat/completions\",requested_model=\"{model}\",hashed_api_key=\"{class}\"");
        format!(
            "litellm_proxy_failed_requests_metric_total{{{of},exception_status=\"{code}\",exception_class=\"{class}\"}} {n}\n"
        )
    };
    let deployment = |model: &str, id: &str, of_a_token: f64| {
        let own = format!("litellm_model_name=\"{model}\",model_id=\"{id}\"");
        format!(
            "litellm_deployment_success_responses_total{{{own},requested_model=\"{model}\"}} 50\n\
             litellm_deployment_latency_per_output_token_count{{{own}}} 50\n\
             litellm_deployment_latency_per_output_token_sum{{{own}}} {}\n",
            50.0 * of_a_token
        )
    };
    // Answers of 20 tokens.
    let answers = |model: &str| {
        format!(
            "litellm_output_tokens_metric_total{{requested_model=\"{model}\"}} 2000\n\
             litellm_request_total_latency_metric_count{{requested_model=\"{model}\"}} 100\n"
        )
    };
    let own_failure = "requested_model=\"first\",model_id=\"f\",exception_status=\"503\",exception_class=\"Openai.ServiceUnavailableError\"";
    [total("keys", 100), failed("keys", "None", "ProxyException", 40), failed("keys", "None", "ReadError", 5)].concat()
        + &[total("way", 100), failed("way", "502", "Openai.BadGatewayError", 30)].concat()
        + &[total("slow", 100), answers("slow"), deployment("slow", "a", 0.13), deployment("slow", "b", 0.01)].concat()
        + &[total("even", 100), answers("even"), deployment("even", "c", 0.13), deployment("even", "d", 0.08)].concat()
        + &total("first", 50)
        + &format!("litellm_deployment_failure_responses_total{{{own_failure}}} 50\n")
        + "litellm_deployment_successful_fallbacks_total{requested_model=\"first\",fallback_model=\"second\"} 50\n"
}

/// Models of which every request, or more than there were, found no backend left, and one whose backends refused more often
/// than there were other requests: a failure may be counted twice.
fn cooled() -> String {
    let failed = |model: &str, code: &str, class: &str, n: u32| {
        let of = format!("route=\"/v1/chat/completions\",requested_model=\"{model}\"");
        format!(
            "litellm_proxy_failed_requests_metric_total{{{of},exception_status=\"{code}\",exception_class=\"{class}\"}} {n}\n"
        )
    };
    let total = |model: &str, n: u32| {
        format!(
            "litellm_proxy_total_requests_metric_total{{route=\"/v1/chat/completions\",requested_model=\"{model}\"}} {n}\n"
        )
    };
    let none_left = |model: &str, n: u32| failed(model, "None", "RouterRateLimitError", n);
    let refused = |model: &str, n: u32| failed(model, "401", "Openai.AuthenticationError", n);
    [total("all", 50), none_left("all", 50), total("more", 50), none_left("more", 52), refused("more", 1)].concat()
        + &(total("nearly", 50) + &none_left("nearly", 49) + &refused("nearly", 3))
}

/// A model whose one deployment fails while the other answers, and models with one that fails mostly or in part.
fn backends() -> String {
    let answers = |model: &str, id: &str, good: u32, bad: u32| {
        let total = format!("route=\"/v1/chat/completions\",requested_model=\"{model}\",hashed_api_key=\"{id}\"");
        let of = format!("requested_model=\"{model}\",model_id=\"{id}\"");
        let failure = "exception_status=\"500\",exception_class=\"Openai.InternalServerError\"";
        format!(
            "litellm_proxy_total_requests_metric_total{{{total}}} {}\n\
             litellm_deployment_success_responses_total{{{of}}} {good}\n\
             litellm_deployment_failure_responses_total{{{of},{failure}}} {bad}\n",
            good + bad
        )
    };
    [("pair", "1", 50, 0), ("pair", "2", 5, 45), ("mostly", "3", 10, 40), ("partly", "4", 40, 10)]
        .map(|(model, id, good, bad)| answers(model, id, good, bad))
        .concat()
        + &slow_backends()
}

/// Pairs of deployments by how long their answers take; those of `few` are too few to compare.
fn slow_backends() -> String {
    let answers = |(model, id, count, mean): (&str, &str, u32, f64)| {
        let of = format!("route=\"/v1/chat/completions\",requested_model=\"{model}\",model_id=\"{id}\"");
        format!(
            "litellm_proxy_total_requests_metric_total{{{of}}} {count}\n\
             litellm_llm_api_latency_metric_count{{{of}}} {count}\n\
             litellm_llm_api_latency_metric_sum{{{of}}} {}\n",
            mean * f64::from(count)
        )
    };
    [("slow", "5", 60, 0.175), ("slow", "6", 60, 2.08), ("even", "7", 60, 1.5), ("even", "8", 60, 2.1)]
        .map(answers)
        .concat()
        + &[("quick", "9", 60, 0.02), ("quick", "10", 60, 0.4), ("few", "11", 60, 0.2), ("few", "12", 9, 3.0)]
            .map(answers)
            .concat()
}

/// The first page as it would be if the series of the second one had been there: LiteLLM's at zero, the process' own.
fn at_zero() -> String {
    let [before, after] = ["t0", "t1"].map(|name| fixture(&format!("litellm/1.106-healthy-{name}.prom")));
    let after = uncounted(&after);
    let counters = after.lines().filter(|line| line.starts_with("litellm_") && line.ends_with(" 0"));
    counters.fold(before, |page, line| page + line + "\n")
}

fn failures() -> String {
    let client = "route=\"/v1/chat/completions\",requested_model=\"m\"";
    let scrape = "route=\"/metrics/\",requested_model=\"None\"";
    let total = |labels: &str, code: &str, n: u32| {
        format!("litellm_proxy_total_requests_metric_total{{{labels},status_code=\"{code}\"}} {n}\n")
    };
    let failed = |labels: &str, code: &str, class: &str, key: &str, n: u32| {
        format!(
            "litellm_proxy_failed_requests_metric_total{{{labels},exception_status=\"{code}\",exception_class=\"{class}\",hashed_api_key=\"{key}\"}} {n}\n"
        )
    };
    let mut page = total(client, "200", 51);
    for (code, class, key, n) in FAILURES {
        // A model that it does not know is no pool.
        let client =
            if class == "ProxyModelNotFoundError" { client.replace("\"m\"", "\"other\"") } else { client.to_owned() };
        page += &total(&format!("{client},hashed_api_key=\"{key}\",of=\"{class}\""), code, n);
        page += &failed(&client, code, class, key, n);
    }
    page += &total(scrape, "401", 20);
    page += &failed(scrape, "401", "ProxyException", "None", 20);
    page +=
        "litellm_deployment_cooled_down_total{litellm_model_name=\"m\",model_id=\"1\",exception_status=\"500\"} 3\n";
    page += "litellm_deployment_state{litellm_model_name=\"m\",model_id=\"1\"} 2\n";
    page += "litellm_deployment_state{litellm_model_name=\"openai/m\",model_id=\"1\"} 0\n";
    page += "litellm_deployment_state{litellm_model_name=\"openai/m\",model_id=\"2\"} 1\n";
    page +=
        "litellm_admission_queued_requests 4\nlitellm_admission_admitted_requests 9\nlitellm_in_flight_requests 14\n";
    page + "litellm_admission_rejected_requests_total{reason=\"queue_full\"} 25\n"
}

fn read(case: usize, labels: &[(&str, &str)]) -> diagnose::ObserveResult {
    observed(labels, slot(case) + 60)
}

#[test]
fn a_healthy_minute_of_litellm_tells_each_signal_or_says_that_it_cannot() {
    let seen = read(STEADY, &[("namespace", "steady")]);
    assert_eq!(version(&seen, "litellm").as_deref(), Some("1.95"));
    assert_eq!(seen.observations.pool, ["litellm-0"]);
    // 64 streamed requests of 1,607 prompt and 3,784 generated tokens; 14.003 s in all, 12.172 s in the backend.
    let expected = [
        ("ttft_p99", 0.048_22),
        ("ttft_p95", 0.041_11),
        ("ttft_p50", 0.018_73),
        ("e2e_p99", 1.36),
        ("error_ratio", 0.0),
        ("client_error_ratio", 0.0),
        ("request_rate", 64.0 / 60.0),
        ("prompt_tokens_mean", 1_607.0 / 64.0),
        ("prompt_tokens_usual", 1_607.0 / 64.0),
        ("generation_tokens_mean", 3_784.0 / 64.0),
        ("generation_tokens_usual", 3_784.0 / 64.0),
        ("generation_token_rate", 3_784.0 / 60.0),
        ("replicas_serving", 1.0),
        ("gateway_request_rate", 64.0 / 60.0),
        ("gateway_inflight", 0.0),
        ("gateway_ttft_p99", 0.048_22),
        ("gateway_e2e_p99", 1.36),
        ("gateway_overhead_mean", (14.003_407 - 12.171_808) / 64.0),
        ("gateway_backend_time_mean", 12.171_808 / 64.0),
        ("gateway_busy", (16.66 - 12.04) / 60.0),
        ("gateway_error_ratio", 0.0),
        ("gateway_failed_ratio", 0.0),
        ("gateway_timeout_ratio", 0.0),
        ("gateway_connection_error_ratio", 0.0),
        ("gateway_rate_limited_ratio", 0.0),
        ("gateway_no_backend_ratio", 0.0),
        ("gateway_cooldown_rate", 0.0),
        ("gateway_auth_error_ratio", 0.0),
        ("gateway_auth_error_keys", 0.0),
        ("gateway_key_refusal_ratio", 0.0),
        ("gateway_backend_auth_ratio", 0.0),
        ("gateway_key_limit_ratio", 0.0),
        ("gateway_budget_ratio", 0.0),
        ("gateway_backend_limit_ratio", 0.0),
        ("gateway_backend_unavailable_ratio", 0.0),
        ("gateway_backends_failing", 0.0),
        ("gateway_backends_slow", 0.0),
        ("gateway_fallback_ratio", 0.0),
        ("gateway_fallback_failed_ratio", 0.0),
        ("gateway_unreached_ratio", 0.0),
        ("gateway_unknown_model_ratio", 0.0),
        ("gateway_nameless_ratio", 0.0),
        ("gateway_backends_ready", 1.0),
    ];
    // Neither admission control nor metrics of its stores are on, and nobody is in flight.
    let silent = [
        "requests_queued",
        "gateway_queued",
        "gateway_overload_ratio",
        "gateway_store_failure_ratio",
        "gateway_redis_time_mean",
        "gateway_database_time_mean",
        "gateway_residence_time",
    ];
    assert_table(&seen, "litellm", &expected, &silent);
}

#[test]
fn requests_of_label_sets_that_are_new_count_and_their_latencies_wait_for_a_second_scrape() {
    let seen = read(NEWBORN, &[("namespace", "newborn")]);
    assert_values(&seen, &[("gateway_request_rate", 64.0 / 60.0), ("error_ratio", 0.0)]);
    assert_no_data(&seen, &["ttft_p99", "gateway_e2e_p99", "prompt_tokens_mean"]);
}

#[test]
fn a_backend_that_refuses_connections_is_an_error_of_each_request() {
    let seen = read(REFUSED, &[("namespace", "refused")]);
    assert_values(
        &seen,
        &[
            // 50 requests for the dead backend and no others; the last call of the two others succeeded.
            ("gateway_request_rate", 50.0 / 60.0),
            ("error_ratio", 1.0),
            ("gateway_error_ratio", 1.0),
            ("gateway_failed_ratio", 1.0),
            ("gateway_backend_unavailable_ratio", 0.0),
            ("gateway_connection_error_ratio", 1.0),
            ("client_error_ratio", 0.0),
            ("gateway_timeout_ratio", 0.0),
            ("gateway_rate_limited_ratio", 0.0),
            ("gateway_no_backend_ratio", 0.0),
            ("gateway_cooldown_rate", 0.0),
            ("gateway_backends_ready", 2.0),
        ],
    );
    assert_values(&read(REFUSED, &[("namespace", "refused"), ("model", "dead")]), &[("error_ratio", 1.0)]);
    assert_eq!(value(&read(REFUSED, &[("namespace", "refused"), ("model", "real")]), "error_ratio"), None);
}

#[test]
fn limits_keys_and_unknown_models_are_told_apart_by_class_and_refused_scrapes_do_not_count() {
    let seen = read(LIMITED, &[("namespace", "limited")]);
    assert_eq!(version(&seen, "litellm").as_deref(), Some("1.104"));
    assert_values(
        &seen,
        &[
            ("gateway_request_rate", 100.0 / 60.0),
            ("error_ratio", 0.04),
            ("client_error_ratio", 0.06),
            ("gateway_key_refusal_ratio", 0.05),
            // Of the 90 for which a backend was left.
            ("gateway_backend_auth_ratio", 0.10),
            ("gateway_key_limit_ratio", 0.05),
            ("gateway_budget_ratio", 0.05),
            ("gateway_backend_limit_ratio", 0.0),
            ("gateway_error_ratio", 0.04),
            ("gateway_failed_ratio", 0.49),
            ("gateway_backend_unavailable_ratio", 0.04),
            ("gateway_timeout_ratio", 0.05),
            ("gateway_connection_error_ratio", 0.0),
            ("gateway_rate_limited_ratio", 0.20),
            ("gateway_no_backend_ratio", 0.10),
            ("gateway_auth_error_ratio", 0.14),
            ("gateway_auth_error_keys", 2.0),
            ("gateway_unknown_model_ratio", 0.06),
            ("gateway_nameless_ratio", 0.06),
            ("gateway_cooldown_rate", 3.0 / 60.0),
            // Its 2 is never taken back; the other one's last call failed.
            ("gateway_backends_ready", 1.0),
            // The scrape is one of the 14.
            ("gateway_inflight", 13.0),
            ("gateway_residence_time", 13.0 * 60.0 / 100.0),
            ("gateway_queued", 4.0),
            ("requests_queued", 4.0),
            ("gateway_overload_ratio", 25.0 / 125.0),
        ],
    );
}

#[test]
fn where_no_backend_was_left_for_any_request_it_is_not_known_whether_one_refuses() {
    let refusals =
        |model: &str| value(&read(COOLED, &[("namespace", "cooled"), ("model", model)]), "gateway_backend_auth_ratio");
    assert_eq!([refusals("all"), refusals("more"), refusals("nearly")], [None, None, Some(1.0)]);
}

#[test]
fn engines_tell_what_users_feel_and_the_proxy_before_them_only_its_own() {
    let seen = read(BEHIND, &[("namespace", "behind")]);
    assert_eq!(seen.observations.pool, ["vllm-0"]);
    assert_values(&seen, &[("ttft_p99", 0.067_9), ("request_rate", 121.0 / 60.0), ("replicas_serving", 1.0)]);
    // It lives in a namespace of its own.
    assert_values(&seen, &[("gateway_ttft_p99", 0.048_22), ("gateway_request_rate", 64.0 / 60.0)]);
    assert_eq!(seen.detection.notes, Vec::<String>::new());
}

#[test]
fn a_backend_fails_beside_others_only_where_another_one_answers() {
    let failing = |model: &str| {
        value(&read(BACKENDS, &[("namespace", "backends"), ("model", model)]), "gateway_backends_failing")
    };
    assert_eq!([failing("pair"), failing("mostly"), failing("partly")], [Some(1.0), Some(0.0), Some(0.0)]);
}

#[test]
fn a_backend_is_slow_beside_one_of_the_same_model_that_answers_in_a_third_of_its_time() {
    let slow =
        |model: &str| value(&read(BACKENDS, &[("namespace", "backends"), ("model", model)]), "gateway_backends_slow");
    assert_eq!([slow("slow"), slow("even"), slow("quick"), slow("few")], [Some(1.0), Some(0.0), Some(0.0), Some(0.0)]);
}

#[test]
fn fallbacks_that_answer_and_those_that_fail_are_told_of_the_model_that_was_asked() {
    let of = |model: &str| read(FALLBACKS, &[("namespace", "fallbacks"), ("model", model)]);
    let store = ("gateway_store_failure_ratio", 120.0 / 900.0);
    let ratios =
        |used: f64, failed: f64| [("gateway_fallback_ratio", used), ("gateway_fallback_failed_ratio", failed), store];
    assert_values(&of("rescued"), &ratios(0.4, 0.0));
    let stores = [("gateway_redis_time_mean", 2.6), ("gateway_database_time_mean", 0.005)];
    assert_values(&of("well"), &stores);
    assert_values(&of("stuck"), &ratios(0.0, 30.0 / 90.0));
    assert_values(&of("well"), &ratios(0.0, 0.0));
}

#[test]
fn litellm_1_80_tells_refused_keys_slow_deployments_and_a_proxy_that_reaches_nobody() {
    let of = |model: &str| read(OLD, &[("namespace", "old"), ("model", model)]);
    let keys = [
        ("gateway_auth_error_ratio", 0.4),
        ("gateway_key_refusal_ratio", 0.4),
        ("gateway_auth_error_keys", 1.0),
        ("gateway_failed_ratio", 0.45),
        ("gateway_unreached_ratio", 0.0),
    ];
    assert_values(&of("keys"), &keys);
    let way = [
        ("gateway_connection_error_ratio", 0.3),
        ("gateway_unreached_ratio", 0.3),
        ("gateway_backend_unavailable_ratio", 0.0),
    ];
    assert_values(&of("way"), &way);
    assert_values(&of("slow"), &[("gateway_backends_slow", 1.0)]);
    assert_values(&of("even"), &[("gateway_backends_slow", 0.0)]);
    // Its only deployment fails, and its fallback answers.
    assert_values(&of("first"), &[("gateway_backends_failing", 1.0)]);
}
