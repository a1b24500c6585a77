//! The metrics page of one SGLang server; names, labels and help as on a page of SGLang 0.5.23.
//!
//! Counters are absent until their first event, gauges are read off now and then ([`Readings`]), and tokens and
//! requests are counted when a request ends.

use super::exposition::{Family, Kind, Labels};
use super::reading::Readings;
use super::spec::{BLOCK_TOKENS, FleetSpec};
use super::stats::{EngineStats, Histogram};

const ENDPOINT: &str = "/v1/chat/completions";

type Observed = (&'static str, &'static str, fn(&EngineStats) -> &Histogram);

/// Without and with the label `is_streaming`.
static PLAIN: [Observed; 4] = [
    ("sglang:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", |s| &s.itl),
    ("sglang:prompt_tokens_histogram", "Histogram of prompt token length.", |s| &s.request_prompt_tokens),
    ("sglang:uncached_prompt_tokens_histogram", "Histogram of uncached (compute) prompt token length.", |s| {
        &s.request_computed_tokens
    }),
    ("sglang:generation_tokens_histogram", "Histogram of generation token length.", |s| &s.request_generation_tokens),
];
static STREAMED: [Observed; 3] = [
    ("sglang:time_to_first_token_seconds", "Histogram of time to first token in seconds.", |s| &s.ttft),
    ("sglang:e2e_request_latency_seconds", "Histogram of End-to-end request latency in seconds", |s| &s.e2e),
    (
        "sglang:request_time_per_output_token_seconds",
        "Per-request TPOT in seconds: (finished_time - first_token_time) / (completion_tokens - 1).",
        |s| &s.time_per_output_token,
    ),
];

/// The page at `now` (unix seconds).
pub fn families(spec: &FleetSpec, stats: &EngineStats, now: f64) -> Vec<Family> {
    let request: Labels = vec![("engine_type", "unified".to_owned()), ("model_name", spec.model_name.clone())];
    let streamed = and(&request, "is_streaming", "true");
    let scheduler = ["moe_ep_rank", "pp_rank", "tp_rank"].iter().fold(request.clone(), |l, name| and(&l, name, "0"));
    let mut page = http(stats, now);
    page.extend(requests(stats, &request, &streamed));
    page.extend(scheduled(stats, &scheduler));
    if let Some(readings) = &stats.readings {
        page.extend(gauges(spec, stats, readings, &scheduler, now));
    }
    for (name, help, histogram) in &PLAIN {
        page.push(Family::new(name, Kind::Histogram, help).with_histogram(&request, histogram(stats)));
    }
    for (name, help, histogram) in &STREAMED {
        page.push(Family::new(name, Kind::Histogram, help).with_histogram(&streamed, histogram(stats)));
    }
    let queue = Family::new("sglang:queue_time_seconds", Kind::Histogram, "Histogram of queueing time in seconds.");
    page.push(queue.with_histogram(&scheduler, &stats.queue));
    let stage =
        Family::new("sglang:per_stage_req_latency_seconds", Kind::Histogram, "The latency of each stage of requests.");
    page.push(stage.with_histogram(&and(&scheduler, "stage", "prefill_forward"), &stats.prefill));
    page
}

fn http(stats: &EngineStats, now: f64) -> Vec<Family> {
    let labels: Labels = vec![("endpoint", ENDPOINT.to_owned()), ("method", "POST".to_owned())];
    let refused = stats.http_4xx + stats.http_5xx;
    let arrived = stats.received + refused;
    let answered = stats.http_2xx + refused;
    let requests = Family::new("sglang:http_requests_total", Kind::Counter, "Total number of HTTP requests");
    let active = Family::new("sglang:http_requests_active", Kind::Gauge, "Number of currently active HTTP requests");
    let mut responses = Family::new(
        "sglang:http_responses_total",
        Kind::Counter,
        "Total number of HTTP responses by endpoint and status code",
    );
    for (status, count) in [("200", stats.http_2xx), ("400", stats.http_4xx), ("500", stats.http_5xx)] {
        if count > 0 {
            responses = responses.with(and(&labels, "status_code", status), count as f64);
        }
    }
    let cpu = stats.cpu_seconds(now);
    let process =
        Family::new("sglang:process_cpu_seconds_total", Kind::Counter, "Total user and system CPU time spent")
            .with(vec![("component", "tokenizer".to_owned())], 0.7 * cpu)
            .with(vec![("component", "detokenizer".to_owned())], 0.3 * cpu);
    vec![
        process,
        requests.with(labels.clone(), arrived as f64),
        responses,
        active.with(labels, arrived.saturating_sub(answered) as f64),
    ]
}

fn requests(stats: &EngineStats, request: &Labels, streamed: &Labels) -> Vec<Family> {
    // What fails inside the engine is aborted by it.
    let aborted = stats.aborted + stats.finished_error;
    // Who goes away before the prompt was begun is aborted, and not counted as ended.
    let ended = stats.finished_stop + stats.finished_length + aborted - stats.aborted_waiting;
    let counter = |name, help, labels: &Labels, value: f64| {
        let family = Family::new(name, Kind::Counter, help);
        // A child of a counter is born with its first event.
        if value > 0.0 { family.with(labels.clone(), value) } else { family }
    };
    vec![
        counter(
            "sglang:prompt_tokens_total",
            "Number of prefill tokens processed.",
            streamed,
            stats.request_prompt_tokens.sum,
        ),
        counter(
            "sglang:generation_tokens_total",
            "Number of generation tokens processed.",
            streamed,
            stats.request_generation_tokens.sum,
        ),
        counter("sglang:num_requests_total", "Number of requests processed.", streamed, ended as f64),
        counter("sglang:num_aborted_requests_total", "Number of requests aborted.", request, aborted as f64),
        counter(
            "sglang:cached_tokens_total",
            "Number of cached prompt tokens by source (device/host/storage).",
            &and(request, "cache_source", "device"),
            stats.prompt_tokens_cached as f64,
        ),
    ]
}

fn scheduled(stats: &EngineStats, scheduler: &Labels) -> Vec<Family> {
    let computed = (stats.cache_queries - stats.cache_hits) as f64;
    let found = stats.cache_hits as f64;
    let by_mode = |name, help, modes: &[(&str, f64)]| {
        let family = Family::new(name, Kind::Counter, help);
        modes.iter().fold(family, |family, (mode, value)| family.with(and(scheduler, "mode", mode), *value))
    };
    let mut page = vec![
        by_mode(
            "sglang:prefill_effective_tokens_total",
            "Effective prefill tokens with retracted-request re-counts excluded, updated on each log interval.",
            &[("input", computed), ("device_hit", found), ("host_hit", 0.0), ("storage_hit", 0.0)],
        ),
        by_mode(
            "sglang:realtime_tokens_total",
            "Total number of tokens processed (updated on each log interval).",
            &[("prefill_compute", computed), ("decode", stats.generation_tokens as f64), ("prefill_cache", found)],
        ),
    ];
    if stats.preemptions > 0 {
        let family =
            Family::new("sglang:num_retracted_requests_total", Kind::Counter, "Total number of retracted requests.");
        page.push(family.with(scheduler.clone(), stats.preemptions as f64));
    }
    page
}

fn gauges(spec: &FleetSpec, stats: &EngineStats, read: &Readings, labels: &Labels, now: f64) -> Vec<Family> {
    let pool = f64::from(stats.num_gpu_blocks * BLOCK_TOKENS);
    let used = (read.kv_usage * pool).round();
    // Whatever was computed and is no longer in use stays in the radix cache until its place is needed.
    let seen = stats.prompt_tokens + stats.generation_tokens;
    let evictable = (seen as f64 - used).clamp(0.0, pool - used);
    let gauge = |name, help, value: f64| Family::new(name, Kind::Gauge, help).with(labels.clone(), value);
    let retracted = Family::new("sglang:num_retracted_reqs", Kind::Gauge, "The number of retracted requests.");
    vec![
        gauge("sglang:max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", pool),
        gauge("sglang:page_size", "KV cache page size in tokens.", f64::from(BLOCK_TOKENS)),
        gauge("sglang:num_pages", "Number of KV cache pages.", f64::from(stats.num_gpu_blocks)),
        gauge("sglang:context_len", "Maximum context length.", f64::from(spec.engine.max_model_len)),
        gauge("sglang:num_running_reqs", "The number of running requests.", read.running as f64),
        gauge(
            "sglang:num_queue_reqs",
            "The number of requests in the waiting queue.",
            (read.waiting - read.deferred) as f64,
        ),
        gauge(
            "sglang:num_grammar_queue_reqs",
            "The number of requests in the grammar waiting queue.",
            read.deferred as f64,
        ),
        gauge("sglang:gen_throughput", "The generation throughput (token/s).", read.throughput(now)),
        gauge("sglang:cache_hit_rate", "The prefix cache hit rate.", read.hit_ratio),
        gauge("sglang:token_usage", "The token usage.", (100.0 * read.kv_usage).round() / 100.0),
        gauge("sglang:full_token_usage", "The token usage for full attention layers.", read.kv_usage),
        gauge("sglang:swa_token_usage", "The token usage for SWA layers.", 0.0),
        gauge("sglang:mamba_usage", "The token usage for Mamba layers.", 0.0),
        gauge("sglang:num_used_tokens", "The number of used tokens.", used),
        gauge(
            "sglang:kv_available_tokens",
            "Number of free token slots in the KV cache pool.",
            pool - used - evictable,
        ),
        gauge(
            "sglang:kv_evictable_tokens",
            "Number of evictable (radix-cached) token slots in the KV cache pool.",
            evictable,
        ),
        gauge("sglang:kv_used_tokens", "Number of actively used token slots in the KV cache pool.", used),
        gauge("sglang:utilization", "The utilization.", 0.0),
        // Reset after each report, so that no scrape ever sees anything else.
        retracted.with(and(labels, "pid", "271"), 0.0),
    ]
}

/// `base` and one more label, where the alphabet puts it.
fn and(base: &Labels, name: &'static str, value: &str) -> Labels {
    let mut labels = base.clone();
    let place = labels.partition_point(|(other, _)| *other < name);
    labels.insert(place, (name, value.to_owned()));
    labels
}
