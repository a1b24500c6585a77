//! The metrics page of one Text Generation Inference server: no time to the first token, no KV usage, no `_total`.

use super::exposition::{Family, Kind, Labels, Numbers};
use super::spec::{BLOCK_TOKENS, FleetSpec};
use super::stats::{EngineStats, Histogram};

type Observed = (&'static str, &'static str, fn(&EngineStats) -> &Histogram);

static HISTOGRAMS: [Observed; 6] = [
    ("tgi_request_duration", "Duration of requests in seconds", |s| &s.e2e),
    ("tgi_request_queue_duration", "Time requests waited for a batch in seconds", |s| &s.queue),
    ("tgi_request_inference_duration", "Time requests were computed in seconds", |s| &s.inference),
    ("tgi_request_mean_time_per_token_duration", "Mean time per token of requests in seconds", |s| {
        &s.time_per_output_token
    }),
    ("tgi_request_input_length", "Prompt tokens per request", |s| &s.request_prompt_tokens),
    ("tgi_request_generated_tokens", "Generated tokens per request", |s| &s.request_generation_tokens),
];

/// The page at the moment that `stats` are of.
pub fn families(spec: &FleetSpec, stats: &EngineStats) -> Vec<Family> {
    let none = Labels::new;
    let gauge = |name, help, value: f64| Family::new(name, Kind::Gauge, help).with(none(), value);
    let counter = |name, help, value: u64| Family::new(name, Kind::Counter, help).with(none(), value as f64);
    let succeeded = stats.finished_stop + stats.finished_length;
    let in_batch = stats.kv_usage * f64::from(stats.num_gpu_blocks * BLOCK_TOKENS);
    let slots = (spec.engine.max_num_seqs as f64).min(stats.running as f64);
    let mut page = vec![
        gauge("tgi_queue_size", "Requests that wait for a batch", stats.waiting as f64),
        gauge("tgi_batch_current_size", "Requests in the current batch", slots),
        gauge("tgi_batch_current_max_tokens", "Tokens that the current batch may grow to", in_batch.round()),
        counter("tgi_request_count", "Requests received", stats.received + stats.http_4xx + stats.http_5xx),
        counter("tgi_request_success", "Requests answered in full", succeeded),
    ];
    let mut failed = Family::new("tgi_request_failure", Kind::Counter, "Requests that failed, by error");
    for (error, count) in [("validation", stats.http_4xx), ("generation", stats.http_5xx + stats.finished_error)] {
        if count > 0 {
            failed = failed.with(vec![("err", error.to_owned())], count as f64);
        }
    }
    page.push(failed);
    for (name, help, histogram) in &HISTOGRAMS {
        let family = Family::new(name, Kind::Histogram, help);
        page.push(family.with_histogram_in(&none(), histogram(stats), Numbers::Go));
    }
    page
}
