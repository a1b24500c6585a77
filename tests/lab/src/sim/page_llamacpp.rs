//! The metrics page of one llama.cpp server: a few totals without labels, no latency of requests, no errors.

use super::exposition::{Family, Kind, Labels};
use super::stats::EngineStats;

/// The page at the moment that `stats` are of.
pub fn families(stats: &EngineStats) -> Vec<Family> {
    let decode_seconds = stats.busy_seconds - stats.prefill_seconds;
    let computed = (stats.prompt_tokens - stats.prompt_tokens_cached - stats.prompt_tokens_external) as f64;
    let generated = stats.generation_tokens as f64;
    let steps = stats.iteration_tokens.count() as f64;
    let mean = |sum: f64, over: f64| if over > 0.0 { sum / over } else { 0.0 };
    let counter = |name, help, value: f64| Family::new(name, Kind::Counter, help).with(Labels::new(), value);
    let gauge = |name, help, value: f64| Family::new(name, Kind::Gauge, help).with(Labels::new(), value);
    vec![
        counter("llamacpp:prompt_tokens_total", "Number of prompt tokens processed.", computed),
        counter("llamacpp:prompt_seconds_total", "Prompt process time", stats.prefill_seconds),
        counter("llamacpp:tokens_predicted_total", "Number of generation tokens processed.", generated),
        counter("llamacpp:tokens_predicted_seconds_total", "Predict process time", decode_seconds),
        counter("llamacpp:n_decode_total", "Total number of llama_decode() calls", steps),
        gauge("llamacpp:n_busy_slots_per_decode", "Average number of busy slots per decode", mean(generated, steps)),
        gauge(
            "llamacpp:prompt_tokens_seconds",
            "Average prompt throughput in tokens/s.",
            mean(computed, stats.prefill_seconds),
        ),
        gauge(
            "llamacpp:predicted_tokens_seconds",
            "Average generation throughput in tokens/s.",
            mean(generated, decode_seconds),
        ),
        gauge("llamacpp:requests_processing", "Number of requests processing.", stats.running as f64),
        gauge("llamacpp:requests_deferred", "Number of requests deferred.", stats.waiting as f64),
    ]
}
