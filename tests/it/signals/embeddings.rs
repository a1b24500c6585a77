//! Text Embeddings Inference: a page by hand, with the names, labels and bounds that its source writes.
//! https://github.com/huggingface/text-embeddings-inference/blob/v1.9.3/router/src/prometheus.rs

use std::fmt::Write;

use super::{assert_complete, assert_no_data, assert_values, observed};
use crate::harness::{Page, Stamp, slot};

const SLOT: usize = 32;
/// Three of its bounds of durations, which grow by half from 15 µs to 14.6 s.
const DURATIONS: [f64; 3] = [0.852_227, 1.278_34, 1.917_511];
/// Three of its bounds of lengths and batches, which are powers of two.
const POWERS: [f64; 3] = [64.0, 128.0, 256.0];

pub(super) fn pages() -> Vec<Page> {
    let minute = |namespace, instance, page: fn(i64) -> String| {
        let stamp = Stamp { job: namespace, instance, namespace, pod: namespace, time: slot(SLOT) };
        [Page::new(page(0), stamp), Page::new(page(60), Stamp { time: slot(SLOT) + 60, ..stamp })]
    };
    [minute("tei", "10.5.1.1:80", embedder), minute("tei-rerank", "10.5.1.2:80", reranker)]
        .into_iter()
        .flatten()
        .collect()
}

/// A histogram whose observations all lie between the first two bounds.
fn histogram(name: &str, bounds: [f64; 3], count: i64, each: f64) -> String {
    let mut page = format!("# TYPE {name} histogram\n");
    for (place, bound) in bounds.iter().enumerate() {
        writeln!(page, "{name}_bucket{{le=\"{bound}\"}} {}", if place == 0 { 0 } else { count }).unwrap();
    }
    let sum = each * count as f64;
    writeln!(page, "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}").unwrap();
    page
}

fn failures(rows: &[(&str, i64)]) -> String {
    let rows = rows.iter().map(|(err, count)| format!("te_request_failure{{err=\"{err}\"}} {count}\n"));
    format!("# TYPE te_request_failure counter\n{}", rows.collect::<String>())
}

/// Two requests of one input and one of eight in each second: ten inputs, of which the model fails on one.
fn embedder(second: i64) -> String {
    let [requests, inputs] = [3 * second, 10 * second];
    format!(
        "# TYPE te_queue_size gauge\nte_queue_size 12\nte_request_count{{method=\"single\"}} {}\nte_request_count{{method=\"batch\"}} {second}\n\
         te_request_success{{method=\"single\"}} {second}\nte_request_success{{method=\"batch\"}} {second}\n\
         te_embed_count {inputs}\nte_embed_success {}\n{}{}{}{}{}{}{}{}",
        2 * second,
        9 * second,
        failures(&[
            ("inference", second),
            ("dropped", second / 2),
            ("overloaded", second / 4),
            ("tokenization", second / 10),
            ("validation", second / 10),
            ("batch_size", second / 20),
        ]),
        histogram("te_request_duration", DURATIONS, requests, 1.25),
        histogram("te_request_queue_duration", [0.168_341, 0.252_512, 0.378_768], requests, 0.25),
        histogram("te_request_inference_duration", DURATIONS, requests, 1.0),
        histogram("te_embed_inference_duration", DURATIONS, inputs, 1.0),
        histogram("te_request_input_length", POWERS, inputs, 100.0),
        histogram("te_batch_next_size", [4.0, 8.0, 16.0], 2 * second, 5.0),
        histogram("te_batch_next_tokens", [256.0, 512.0, 1_024.0], 2 * second, 500.0),
    )
}

#[test]
fn tei_tells_each_signal_or_says_that_it_cannot() {
    let seen = observed(&[("namespace", "tei")], slot(SLOT) + 60);
    let expected = [
        ("e2e_p99", 1.274),
        ("e2e_mean", 1.25),
        ("error_ratio", 0.1),
        ("engine_error_ratio", 0.1),
        ("client_error_ratio", 0.25 / 3.0),
        ("abandoned_ratio", 0.05),
        ("admission_rejection_rate", 0.25),
        ("admission_rejection_ratio", 0.25 / 3.0),
        ("request_rate", 3.0),
        ("offered_request_rate", 3.0),
        ("request_imbalance", 1.0),
        ("prompt_tokens_mean", 100.0),
        ("prompt_tokens_growth", 1.0),
        ("prompt_tokens_usual", 100.0),
        ("prompt_tokens_p99", 127.36),
        ("generation_tokens_usual", 0.0),
        ("prompt_token_rate", 1_000.0),
        ("computed_prompt_token_rate", 1_000.0),
        // Ten inputs a second, each of which is computed for one.
        ("requests_running", 10.0),
        ("running_per_replica", 10.0),
        ("requests_in_prefill", 10.0),
        ("requests_queued", 12.0),
        ("requests_waiting", 12.0),
        ("waiting_per_replica", 12.0),
        ("backlog_of_day", 0.0),
        ("queue_time_mean", 0.25),
        ("prefill_time_mean", 1.0),
        ("queue_share_of_ttft", 0.2),
        ("stalled_requests", 0.0),
        ("replicas_serving", 1.0),
        ("replicas_down", 0.0),
        ("replicas_idle", 0.0),
    ];
    assert_values(&seen, &expected);
    assert_complete("tei", &expected, &["down_on_live_host", "replicas_frozen"]);
    assert_eq!(seen.problems, Vec::<String>::new());
    assert_no_data(&seen, &["ttft_p99", "itl_p50", "kv_cache_peak", "generation_token_rate"]);
    let ttft = seen.observations.signals["ttft_p99"].why.as_deref();
    assert!(ttft.is_some_and(|why| why.starts_with("tei cannot tell: it writes no token")), "{ttft:?}");
}

/// A request a second with ten texts to rank, each of which finds no place in one of two seconds; a backend that hangs.
fn reranker(second: i64) -> String {
    format!(
        "te_queue_size 30\nte_request_count{{method=\"batch\"}} {second}\nte_predict_count {}\nte_predict_success 0\n{}{}{}",
        5 * second,
        failures(&[("overloaded", 5 * second)]),
        histogram("te_predict_inference_duration", DURATIONS, 0, 1.0),
        histogram("te_batch_next_size", [4.0, 8.0, 16.0], 2, 5.0),
    )
}

#[test]
fn a_reranker_of_tei_counts_texts_and_stands_still_when_no_batch_is_made() {
    let seen = observed(&[("namespace", "tei-rerank")], slot(SLOT) + 60);
    let expected = [
        ("error_ratio", 0.0),
        ("request_rate", 1.0),
        // More texts than requests are refused.
        ("admission_rejection_rate", 5.0),
        ("admission_rejection_ratio", 1.0),
        ("requests_running", 0.0),
        ("stalled_requests", 30.0),
    ];
    assert_values(&seen, &expected);
    assert_no_data(&seen, &["e2e_p99", "queue_time_mean"]);
}
