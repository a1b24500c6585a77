//! The metrics page of one trtllm-serve, in the names of its current collector.

use super::exposition::{Family, Kind, Labels};
use super::spec::FleetSpec;
use super::stats::{EngineStats, Histogram};

type Observed = (&'static str, &'static str, fn(&EngineStats) -> &Histogram);

static HISTOGRAMS: [Observed; 7] = [
    ("trtllm_e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", |s| &s.e2e),
    ("trtllm_time_to_first_token_seconds", "Histogram of time to first token in seconds.", |s| &s.ttft),
    ("trtllm_time_per_output_token_seconds", "Histogram of time per output token in seconds.", |s| {
        &s.time_per_output_token
    }),
    ("trtllm_request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", |s| &s.queue),
    ("trtllm_request_prefill_time_seconds", "Histogram of time spent in the prefill phase.", |s| &s.prefill),
    ("trtllm_request_decode_time_seconds", "Histogram of time spent in the decode phase.", |s| &s.decode),
    ("trtllm_request_inference_time_seconds", "Histogram of time spent being computed.", |s| &s.inference),
];

/// The page at the moment that `stats` are of.
pub fn families(spec: &FleetSpec, stats: &EngineStats) -> Vec<Family> {
    let base: Labels = vec![("engine_type", "trtllm".to_owned()), ("model_name", spec.model_name.clone())];
    let gauge = |name, help, value: f64| Family::new(name, Kind::Gauge, help).with(base.clone(), value);
    let counter = |name, help, value: u64| Family::new(name, Kind::Counter, help).with(base.clone(), value as f64);
    let by_reason = Family::new("trtllm_request_success_total", Kind::Counter, "Count of successful requests.");
    let reasons = [("stop", stats.finished_stop), ("length", stats.finished_length)];
    let succeeded = reasons.into_iter().filter(|(_, count)| *count > 0).fold(by_reason, |family, (reason, count)| {
        let mut labels = base.clone();
        labels.insert(1, ("finished_reason", reason.to_owned()));
        family.with(labels, count as f64)
    });
    let blocks = f64::from(stats.num_gpu_blocks);
    let used = (stats.kv_usage * blocks).round();
    let hit_rate = stats.cache_hits as f64 / (stats.cache_queries.max(1)) as f64;
    let finished = stats.finished_stop + stats.finished_length;
    let failed = stats.http_4xx + stats.http_5xx + stats.finished_error;
    let slots = spec.engine.max_num_seqs as f64;
    let mut page = vec![
        succeeded,
        counter("trtllm_request_error_total", "Count of failed requests.", failed),
        counter("trtllm_prompt_tokens_total", "Number of prompt tokens.", stats.prompt_tokens),
        counter("trtllm_generation_tokens_total", "Number of generated tokens.", stats.generation_tokens),
        counter("trtllm_num_requests_completed_total", "Number of completed requests.", finished),
        gauge("trtllm_num_requests_running", "Number of requests being computed.", stats.running as f64),
        gauge("trtllm_num_requests_waiting", "Number of requests in the queue.", stats.waiting as f64),
        gauge("trtllm_max_num_active_requests", "Maximum number of active requests.", slots),
        gauge("trtllm_kv_cache_utilization", "KV cache utilization, 0 to 1.", stats.kv_usage),
        gauge("trtllm_kv_cache_hit_rate", "KV cache hit rate since the start.", hit_rate),
        gauge("trtllm_kv_cache_max_blocks", "KV cache blocks.", blocks),
        gauge("trtllm_kv_cache_free_blocks", "Free KV cache blocks.", blocks - used),
        gauge("trtllm_kv_cache_used_blocks", "Used KV cache blocks.", used),
    ];
    for (name, help, histogram) in &HISTOGRAMS {
        page.push(Family::new(name, Kind::Histogram, help).with_histogram(&base, histogram(stats)));
    }
    page
}
