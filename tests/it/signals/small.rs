//! Engines of which there is no captured page: what their documents say they expose, written by hand in that form.

use super::{assert_complete, assert_no_data, assert_values, observed, replicas, value};
use crate::harness::{Page, Stamp, slot};

const SLOT: usize = 32;

pub(super) fn pages() -> Vec<Page> {
    let minute = |namespace, instance, before: String, after: String| {
        let stamp = Stamp { job: namespace, instance, namespace, pod: namespace, time: slot(SLOT) };
        [Page::new(before, stamp), Page::new(after, Stamp { time: slot(SLOT) + 60, ..stamp })]
    };
    let summaries = |p99: f64| {
        format!(
            "llm_ttft_seconds{{quantile=\"0.99\"}} {p99}\nllm_ttft_seconds{{quantile=\"0.5\"}} 0.2\n\
             llm_kv_cache_utilization 0.4\n"
        )
    };
    [
        minute("tgi", "10.5.0.1:80", tgi(0), tgi(60)),
        minute("trtllm", "10.5.0.2:8000", trtllm(0), trtllm(60)),
        minute("triton", "10.5.0.3:8002", triton(0), triton(60)),
        minute("llamacpp", "10.5.0.4:8080", llamacpp(0), llamacpp(60)),
        minute("generic", "10.5.0.5:9000", generic(0), generic(60)),
        minute("generic-summary", "10.5.0.6:9000", summaries(1.5), summaries(2.5)),
        minute("generic-beside", "10.5.0.7:8000", beside(0), beside(60)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A cumulative histogram whose observations all lie between 1 and 2.
fn histogram(name: &str, labels: &str, count: i64, sum: f64) -> String {
    let with = |le: &str| if labels.is_empty() { format!("le=\"{le}\"") } else { format!("{labels},le=\"{le}\"") };
    let [one, two, infinity] = ["1.0", "2.0", "+Inf"].map(with);
    format!(
        "{name}_bucket{{{one}}} 0\n{name}_bucket{{{two}}} {count}\n{name}_bucket{{{infinity}}} {count}\n\
         {name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}\n"
    )
}

/// Two requests a second, of which one in ten fails; each waits for 0.5 s and is prefilled in 1.5 s.
fn tgi(second: i64) -> String {
    let requests = 2 * second;
    let one_in = |n: i64| requests / n;
    let mean = |name: &str, each: f64| histogram(name, "", requests, each * requests as f64);
    format!(
        "tgi_queue_size 12\ntgi_batch_current_size 8\ntgi_batch_current_max_tokens 9000\ntgi_request_count {requests}\n\
         tgi_request_success {}\ntgi_request_failure{{err=\"generation\"}} {}\ntgi_request_failure{{err=\"incomplete\"}} {}\n\
         tgi_request_failure{{err=\"validation\"}} {}\ntgi_request_failure{{err=\"overloaded\"}} {}\n\
         tgi_batch_inference_count{{method=\"decode\"}} 7\n{}{}{}{}{}{}",
        requests - one_in(10),
        one_in(20),
        one_in(20),
        one_in(10),
        one_in(4),
        mean("tgi_request_duration", 1.5),
        mean("tgi_request_queue_duration", 0.5),
        mean("tgi_request_mean_time_per_token_duration", 1.5),
        mean("tgi_request_input_length", 100.0),
        mean("tgi_request_generated_tokens", 30.0),
        histogram("tgi_batch_inference_duration", "method=\"prefill\"", second, 1.5 * second as f64),
    )
}

#[test]
fn tgi_tells_each_signal_or_says_that_it_cannot() {
    let seen = observed(&[("namespace", "tgi")], slot(SLOT) + 60);
    let expected = [
        ("itl_p50", 1.5),
        ("itl_p95", 1.95),
        ("itl_p99", 1.99),
        ("e2e_p99", 1.99),
        ("itl_mean", 1.5),
        ("e2e_mean", 1.5),
        ("error_ratio", 0.1),
        ("client_error_ratio", 0.1),
        ("engine_error_ratio", 0.05),
        ("admission_rejection_rate", 0.5),
        ("admission_rejection_ratio", 0.25),
        ("request_rate", 2.0),
        ("offered_request_rate", 2.0),
        ("request_imbalance", 1.0),
        ("prompt_tokens_mean", 100.0),
        ("prompt_tokens_growth", 1.0),
        ("prompt_tokens_usual", 100.0),
        ("prompt_tokens_p99", 1.99),
        ("generation_tokens_mean", 30.0),
        ("generation_tokens_usual", 30.0),
        ("prompt_token_rate", 200.0),
        ("generation_token_rate", 60.0),
        ("requests_running", 8.0),
        ("running_per_replica", 8.0),
        ("running_plateau", 1.0),
        ("requests_queued", 12.0),
        ("requests_waiting", 12.0),
        ("waiting_per_replica", 12.0),
        ("backlog_of_day", 0.0),
        ("queue_time_mean", 0.5),
        ("prefill_time_mean", 1.5),
        // One batch a second.
        ("requests_in_prefill", 1.5),
        ("queue_share_of_ttft", 0.25),
        // Its batches stand still, and requests finish.
        ("stalled_requests", 0.0),
        ("replicas_serving", 1.0),
        ("replicas_down", 0.0),
        ("replicas_idle", 0.0),
    ];
    assert_values(&seen, &expected);
    assert_complete("tgi", &expected, &["throughput_kept", "down_on_live_host", "replicas_frozen"]);
    assert_eq!(seen.problems, Vec::<String>::new());
    let ttft = seen.observations.signals["ttft_p99"].why.as_deref();
    assert!(ttft.is_some_and(|why| why.starts_with("tgi cannot tell: TGI does not time the first token")), "{ttft:?}");
}

/// Two requests a second end well, one in four of them cut; one in ten more fails.
fn trtllm(second: i64) -> String {
    let labels = "engine_type=\"trtllm\",model_name=\"m\"";
    let done = 2 * second;
    let mean = |name: &str, each: f64| histogram(&format!("trtllm_{name}"), labels, done, each * done as f64);
    let [cut, whole] = [done / 4, done - done / 4];
    let one = |name: &str, value: f64| format!("trtllm_{name}{{{labels}}} {value}\n");
    let counters = [
        ("request_error_total", done as f64 / 10.0),
        ("prompt_tokens_total", 100.0 * done as f64),
        ("generation_tokens_total", 30.0 * done as f64),
        ("kv_cache_reused_blocks_total", 3.0 * second as f64),
        ("kv_cache_missed_blocks_total", second as f64),
        ("spec_decode_num_draft_tokens_total", 4.0 * second as f64),
        ("spec_decode_num_accepted_tokens_total", 3.0 * second as f64),
        ("num_requests_running", 16.0),
        ("num_requests_waiting", 5.0),
        ("kv_cache_utilization", 0.7),
        ("kv_cache_max_blocks", 1_000.0),
        ("kv_cache_tokens_per_block", 32.0),
    ];
    format!(
        "trtllm_request_success_total{{{labels},finished_reason=\"length\"}} {cut}\n\
         trtllm_request_success_total{{{labels},finished_reason=\"stop\"}} {whole}\n{}{}{}{}{}{}",
        counters.map(|(name, value)| one(name, value)).concat(),
        mean("time_to_first_token_seconds", 1.5),
        mean("time_per_output_token_seconds", 1.5),
        mean("e2e_request_latency_seconds", 1.5),
        mean("request_queue_time_seconds", 0.5),
        mean("request_prefill_time_seconds", 1.5),
    )
}

#[test]
fn trtllm_tells_each_signal_or_says_that_it_cannot() {
    let seen = observed(&[("namespace", "trtllm"), ("model", "m")], slot(SLOT) + 60);
    let expected = [
        ("ttft_p50", 1.5),
        ("ttft_p95", 1.95),
        ("ttft_p99", 1.99),
        ("ttft_mean", 1.5),
        ("itl_p50", 1.5),
        ("itl_p95", 1.95),
        ("itl_p99", 1.99),
        ("e2e_p99", 1.99),
        ("itl_mean", 1.5),
        ("e2e_mean", 1.5),
        ("engine_error_ratio", 0.2 / 2.2),
        ("request_rate", 2.0),
        ("request_imbalance", 1.0),
        ("prompt_tokens_mean", 100.0),
        ("prompt_tokens_growth", 1.0),
        ("prompt_tokens_usual", 100.0),
        ("generation_tokens_mean", 30.0),
        ("generation_tokens_usual", 30.0),
        ("length_finish_ratio", 0.25),
        ("prompt_token_rate", 200.0),
        ("generation_token_rate", 60.0),
        ("prefix_cache_hit_ratio", 0.75),
        ("requests_running", 16.0),
        ("running_per_replica", 16.0),
        ("running_plateau", 1.0),
        ("requests_queued", 5.0),
        ("requests_waiting", 5.0),
        ("waiting_per_replica", 5.0),
        ("backlog_of_day", 0.0),
        ("queue_time_mean", 0.5),
        ("prefill_time_mean", 1.5),
        ("decode_time_mean", 0.0),
        ("requests_in_prefill", 3.0),
        ("queue_share_of_ttft", 0.25),
        ("frontend_share_of_ttft", 0.0),
        ("kv_cache_usage", 0.7),
        ("kv_cache_peak", 0.7),
        ("kv_cache_capacity_tokens", 32_000.0),
        ("spec_acceptance_ratio", 0.75),
        ("kv_cache_leased", 0.0),
        ("replicas_serving", 1.0),
        ("replicas_down", 0.0),
        ("replicas_idle", 0.0),
    ];
    assert_values(&seen, &expected);
    assert_complete("trtllm", &expected, &["throughput_kept", "down_on_live_host", "replicas_frozen"]);
    assert_eq!(seen.problems, Vec::<String>::new());
}

/// An ensemble of two models, each of which counts the same two requests a second.
fn triton(second: i64) -> String {
    let done = 2 * second;
    let model = |model: &str| {
        let labels = format!("model=\"{model}\",version=\"1\"");
        let failure =
            |reason: &str, n: i64| format!("nv_inference_request_failure{{{labels},reason=\"{reason}\"}} {n}\n");
        format!(
            "nv_inference_request_success{{{labels}}} {done}\n{}{}{}{}nv_inference_queue_duration_us{{{labels}}} {}\n\
             nv_inference_request_duration_us{{{labels}}} {}\n\
             nv_inference_request_summary_us{{{labels},quantile=\"0.99\"}} 1500000\n{}",
            failure("BACKEND", done / 10),
            failure("REJECTED", done / 20),
            failure("CANCELED", done / 20),
            failure("OTHER", 0),
            done * 500_000,
            done * 1_250_000,
            histogram("nv_inference_first_response_histogram_ms", &labels, done, 1.5 * done as f64),
        )
    };
    let backend = |name: &str, kind: &str, rows: &[(&str, f64)]| -> String {
        let row = |(value, sample): &(&str, f64)| {
            format!("nv_trt_llm_{name}{{{kind}=\"{value}\",model=\"tensorrt_llm\",version=\"1\"}} {sample}\n")
        };
        rows.iter().map(row).collect()
    };
    let blocks = [("fraction", 0.7), ("tokens_per", 64.0), ("max", 500.0)];
    format!(
        "{}{}{}{}{}nv_inference_pending_request_count{{model=\"tensorrt_llm\",version=\"1\"}} 3\n",
        model("ensemble"),
        model("tensorrt_llm"),
        backend(
            "request_metrics",
            "request_type",
            &[("waiting", 6.0), ("scheduled", 16.0), ("active", 22.0), ("max", 32.0)]
        ),
        backend("kv_cache_block_metrics", "kv_cache_block_type", &blocks),
        backend("general_metrics", "general_type", &[("iteration_counter", 10.0 + second as f64)]),
    )
}

#[test]
fn triton_tells_each_signal_and_counts_an_ensembles_requests_once() {
    let seen = observed(&[("namespace", "triton")], slot(SLOT) + 60);
    let expected = [
        // Buckets end at 1 and 2 ms.
        ("ttft_p50", 0.001_5),
        ("ttft_p95", 0.001_95),
        ("ttft_p99", 0.001_99),
        ("ttft_mean", 0.001_5),
        ("e2e_p99", 1.5),
        ("e2e_mean", 1.25),
        ("error_ratio", 0.15 / 1.2),
        ("engine_error_ratio", 0.1 / 1.2),
        ("abandoned_ratio", 0.05 / 1.2),
        // Both models count it.
        ("admission_rejection_rate", 0.2),
        ("admission_rejection_ratio", 0.1 / 2.1),
        ("request_rate", 2.0),
        ("offered_request_rate", 2.1),
        ("request_imbalance", 1.0),
        ("requests_running", 16.0),
        ("running_per_replica", 16.0),
        // Of 32 places 22.
        // Half of the limit is scheduled, without a change.
        ("running_plateau", 1.0),
        ("requests_queued", 6.0),
        ("requests_waiting", 6.0),
        ("waiting_per_replica", 6.0),
        ("backlog_of_day", 0.0),
        ("queue_time_mean", 0.5),
        ("kv_cache_usage", 0.7),
        ("kv_cache_peak", 0.7),
        ("kv_cache_capacity_tokens", 32_000.0),
        ("kv_cache_leased", 0.0),
        ("stalled_requests", 0.0),
        ("replicas_serving", 1.0),
        ("replicas_down", 0.0),
        ("replicas_idle", 0.0),
    ];
    assert_values(&seen, &expected);
    assert_complete("triton", &expected, &["down_on_live_host", "replicas_frozen"]);
    assert_eq!(seen.problems, Vec::<String>::new());
}

fn llamacpp(second: i64) -> String {
    format!(
        "llamacpp:prompt_tokens_total {}\nllamacpp:prompt_seconds_total {second}\nllamacpp:tokens_predicted_total {}\n\
         llamacpp:tokens_predicted_seconds_total {}\nllamacpp:n_decode_total {second}\nllamacpp:predicted_tokens_seconds nan\n\
         llamacpp:requests_processing 4\nllamacpp:requests_deferred 46\nllamacpp:prompt_tokens_cached_total {}\n\
         llamacpp:spec_decode_num_accepted_tokens_total {}\nllamacpp:spec_decode_num_draft_tokens_total {}\n\
         llamacpp:spec_decode_num_drafts_total {}\n",
        200 * second,
        50 * second,
        2 * second,
        // Two of ten prompt tokens come from the cache, and of two drafts of four tokens each five are accepted.
        50 * second,
        5 * second,
        8 * second,
        2 * second,
    )
}

#[test]
fn llamacpp_tells_slots_and_tokens_and_that_it_times_nothing() {
    let seen = observed(&[("namespace", "llamacpp")], slot(SLOT) + 60);
    let expected = [
        ("itl_p50", 0.04),
        ("itl_mean", 0.04),
        ("requests_in_prefill", 1.0),
        ("computed_prompt_token_rate", 200.0),
        ("prompt_token_rate", 250.0),
        ("prompt_tokens_growth", 1.0),
        ("prefix_cache_hit_ratio", 0.2),
        ("prefix_cache_lost", 0.0),
        ("spec_acceptance_ratio", 0.625),
        ("spec_accepted_per_draft", 2.5),
        ("generation_token_rate", 50.0),
        ("requests_running", 4.0),
        ("running_per_replica", 4.0),
        ("running_plateau", 1.0),
        ("requests_queued", 46.0),
        ("requests_waiting", 46.0),
        ("waiting_per_replica", 46.0),
        ("backlog_of_day", 0.0),
        ("waiting_for_slot", 46.0),
        ("stalled_requests", 0.0),
        ("replicas_serving", 1.0),
        ("replicas_down", 0.0),
    ];
    // Newer builds lost the cache's; there is no hour before.
    let silent = ["throughput_kept", "kv_cache_usage", "kv_cache_peak", "down_on_live_host", "replicas_frozen"];
    assert_values(&seen, &expected);
    assert_no_data(&seen, &silent);
    assert_complete("llamacpp", &expected, &silent);
    assert_no_data(&seen, &["ttft_p99", "error_ratio", "e2e_p99"]);
}

/// A self-made exporter that writes percent.
fn generic(second: i64) -> String {
    let labels = "model=\"m\",replica=\"r1\"";
    let done = 2 * second;
    let one = |name: &str, value: f64| format!("llm_{name}{{{labels}}} {value}\n");
    let rows = [
        ("requests_total", done as f64),
        ("error_total", done as f64 / 10.0),
        ("preemption_total", 0.5 * second as f64),
        ("tokens_per_second", 900.0),
        ("queue_depth", 7.0),
        ("batch_size", 24.0),
        ("kv_cache_utilization", 93.0),
        ("gpu_utilization", 88.0),
        ("gpu_memory_used_bytes", 7e10),
    ];
    let mean = |name: &str| histogram(&format!("llm_{name}"), labels, done, 1.5 * done as f64);
    let gauges = rows.map(|(name, value)| one(name, value)).concat();
    gauges + &mean("ttft_seconds") + &mean("tbt_seconds") + &mean("request_duration_seconds")
}

#[test]
fn a_self_made_exporter_is_read_and_its_percent_become_ratios() {
    let seen = observed(&[("namespace", "generic"), ("model_name", "m")], slot(SLOT) + 60);
    let expected = [
        ("ttft_p50", 1.5),
        ("ttft_p95", 1.95),
        ("ttft_p99", 1.99),
        ("ttft_mean", 1.5),
        ("itl_p50", 1.5),
        ("itl_p95", 1.95),
        ("itl_p99", 1.99),
        ("e2e_p99", 1.99),
        ("itl_mean", 1.5),
        ("e2e_mean", 1.5),
        ("error_ratio", 0.1),
        ("request_rate", 2.0),
        ("request_imbalance", 1.0),
        ("generation_token_rate", 900.0),
        ("requests_running", 24.0),
        ("running_per_replica", 24.0),
        ("running_plateau", 1.0),
        ("requests_queued", 7.0),
        ("requests_waiting", 7.0),
        ("waiting_per_replica", 7.0),
        ("backlog_of_day", 0.0),
        ("kv_cache_usage", 0.93),
        ("kv_cache_peak", 0.93),
        ("preemption_rate", 0.5),
        ("stalled_requests", 0.0),
        ("replicas_serving", 1.0),
        ("replicas_down", 0.0),
        ("replicas_idle", 0.0),
        ("gpu_utilization", 0.88),
        ("gpu_utilization_peak", 0.88),
    ];
    assert_values(&seen, &expected);
    assert_complete("generic", &expected, &["throughput_kept", "down_on_live_host", "replicas_frozen"]);
    assert_complete("generic-gpu", &expected, &[]);
    assert_eq!(seen.problems, Vec::<String>::new());
}

#[test]
fn a_summarys_quantiles_serve_where_there_is_no_histogram_and_a_ratio_stays_one() {
    let seen = observed(&[("namespace", "generic-summary")], slot(SLOT) + 60);
    assert_values(&seen, &[("ttft_p99", 2.0), ("ttft_p50", 0.2), ("kv_cache_usage", 0.4)]);
    // It has none of the other series, and is found all the same.
    assert_eq!((seen.observations.pool.len(), value(&seen, "replicas_serving")), (1, Some(1.0)));
    assert_values(&seen, &[("replicas_down", 0.0)]);
    assert_no_data(&seen, &["itl_p99", "error_ratio", "gpu_utilization"]);
}

/// An engine, and a self-made exporter on the same page that says something else.
fn beside(second: i64) -> String {
    let engine = "vllm:num_requests_running{model_name=\"m\"} 3\nvllm:num_requests_waiting{model_name=\"m\"} 1\n";
    format!("{engine}llm_queue_depth 99\nllm_batch_size 99\nllm_preemption_total {second}\nllm_tokens_per_second 5\n")
}

#[test]
fn a_self_made_exporter_counts_only_where_no_engine_tells() {
    let seen = observed(&[("namespace", "generic-beside")], slot(SLOT) + 60);
    assert_values(&seen, &[("requests_running", 3.0), ("requests_waiting", 1.0), ("replicas_serving", 1.0)]);
    assert_values(&seen, &[("preemption_rate", 1.0), ("generation_token_rate", 5.0)]);
    assert_eq!(replicas(&seen, "requests_waiting"), [("generic-beside", 1.0)].into());
}
