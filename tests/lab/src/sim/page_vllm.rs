//! The metrics page of one vLLM server; names, labels and help as on a page of vLLM 0.32.

use super::exposition::{Family, Kind, Labels, Sample};
use super::page_vllm_options;
use super::spec::{BLOCK_TOKENS, FleetSpec, Release};
use super::stats::{EngineStats, Histogram};

/// One name per row, with where its value comes from.
type Counted = (&'static str, &'static str, fn(&EngineStats) -> u64);
type Observed = (&'static str, &'static str, fn(&EngineStats) -> &Histogram);

static COUNTERS: [Counted; 6] = [
    ("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", |s| {
        s.cache_queries
    }),
    ("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", |s| s.cache_hits),
    ("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", |s| s.preemptions),
    ("vllm:prompt_tokens_total", "Number of prefill tokens processed.", |s| s.prompt_tokens),
    ("vllm:prompt_tokens_cached_total", "Number of cached prompt tokens (local + external).", |s| {
        s.prompt_tokens_cached + s.prompt_tokens_external
    }),
    ("vllm:generation_tokens_total", "Number of generation tokens processed.", |s| s.generation_tokens),
];

static HISTOGRAMS: [Observed; 14] = [
    ("vllm:request_prompt_tokens", "Number of prefill tokens processed.", |s| &s.request_prompt_tokens),
    ("vllm:request_generation_tokens", "Number of generation tokens processed.", |s| &s.request_generation_tokens),
    ("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", |s| &s.iteration_tokens),
    ("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", |s| &s.request_max_tokens),
    ("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", |s| &s.ttft),
    ("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", |s| &s.itl),
    ("vllm:request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", |s| {
        &s.time_per_output_token
    }),
    ("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", |s| &s.e2e),
    ("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", |s| &s.queue),
    ("vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", |s| &s.inference),
    ("vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", |s| &s.prefill),
    ("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", |s| &s.decode),
    ("vllm:request_num_preemptions", "Histogram of the number of times a request was preempted.", |s| {
        &s.request_preemptions
    }),
    (
        "vllm:request_prefill_kv_computed_tokens",
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
        |s| &s.request_computed_tokens,
    ),
];

/// The page at `now` (unix seconds) in the names of the spec's release.
pub fn families(spec: &FleetSpec, stats: &EngineStats, now: f64) -> Vec<Family> {
    let base: Labels = vec![("engine", "0".to_owned()), ("model_name", spec.model_name.clone())];
    let mut page = process(stats, now);
    page.extend(gauges(stats, &base));
    for (name, help, value) in &COUNTERS {
        page.push(Family::new(name, Kind::Counter, help).with(base.clone(), value(stats) as f64));
    }
    page.push(by_source(stats, &base));
    page.push(successes(stats, &base));
    for (name, help, histogram) in &HISTOGRAMS {
        page.push(Family::new(name, Kind::Histogram, help).with_histogram(&base, histogram(stats)));
    }
    page.extend(page_vllm_options::families(spec, stats, &base));
    page.push(cache_config(spec, stats));
    page.push(http(stats, if spec.engine.pooling { "/v1/embeddings" } else { "/v1/chat/completions" }));
    match spec.engine.release {
        Release::Current => page,
        Release::V0_8 => page.into_iter().filter_map(as_in_0_8).collect(),
    }
}

/// The page of a server whose engines have these; one engine's is as it is.
pub fn of_ranks(mut pages: Vec<Vec<Family>>) -> Vec<Family> {
    if pages.len() < 2 {
        return pages.pop().unwrap_or_default();
    }
    let mut whole: Vec<Family> = Vec::new();
    for (rank, page) in pages.into_iter().enumerate() {
        for (place, mut family) in page.into_iter().enumerate() {
            let labels = family.samples.iter_mut().flat_map(|sample| &mut sample.labels);
            labels.filter(|(name, _)| *name == "engine").for_each(|(_, engine)| *engine = rank.to_string());
            match whole.get_mut(place) {
                None => whole.push(family),
                // What is of the server and not of an engine is counted once.
                Some(known) => {
                    for sample in family.samples {
                        match known
                            .samples
                            .iter_mut()
                            .find(|s| (s.suffix, &s.labels) == (sample.suffix, &sample.labels))
                        {
                            Some(same) => same.value += sample.value,
                            None => known.samples.push(sample),
                        }
                    }
                }
            }
        }
    }
    // Of several processes the client library sums no `process_*`.
    whole.retain(|family| !family.name.starts_with("process_"));
    whole
}

fn process(stats: &EngineStats, now: f64) -> Vec<Family> {
    vec![
        Family::new(
            "process_start_time_seconds",
            Kind::Gauge,
            "Start time of the process since unix epoch in seconds.",
        )
        .with(Vec::new(), hundredths(stats.started)),
        Family::new("process_cpu_seconds_total", Kind::Counter, "Total user and system CPU time spent in seconds.")
            .with(Vec::new(), hundredths(stats.cpu_seconds(now))),
    ]
}

fn gauges(stats: &EngineStats, base: &Labels) -> Vec<Family> {
    let by_reason = Family::new(
        "vllm:num_requests_waiting_by_reason",
        Kind::Gauge,
        "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; \
         'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). \
         Sum of all reasons equals vllm:num_requests_waiting.",
    );
    vec![
        Family::new("vllm:num_requests_running", Kind::Gauge, "Number of requests in model execution batches.")
            .with(base.clone(), stats.running as f64),
        Family::new("vllm:num_requests_waiting", Kind::Gauge, "Number of requests waiting to be processed.")
            .with(base.clone(), stats.waiting as f64),
        by_reason
            .with(and(base, "reason", "capacity"), (stats.waiting - stats.deferred) as f64)
            .with(and(base, "reason", "deferred"), stats.deferred as f64),
        Family::new("vllm:kv_cache_usage_perc", Kind::Gauge, "KV-cache usage. 1 means 100 percent usage.")
            .with(base.clone(), stats.kv_usage),
        sleep_state(stats, base),
    ]
}

/// Level 1: the weights are in host memory, and the KV cache is gone.
fn sleep_state(stats: &EngineStats, base: &Labels) -> Family {
    let family = Family::new(
        "vllm:engine_sleep_state",
        Kind::Gauge,
        "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; \
         weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
    );
    let states = [("awake", !stats.asleep), ("weights_offloaded", stats.asleep), ("discard_all", false)];
    let labelled = states.map(|(state, holds)| (and(base, "sleep_state", state), f64::from(u8::from(holds))));
    labelled.into_iter().fold(family, |family, (labels, holds)| family.with(labels, holds))
}

fn by_source(stats: &EngineStats, base: &Labels) -> Family {
    let computed = stats.prompt_tokens - stats.prompt_tokens_cached - stats.prompt_tokens_external;
    Family::new("vllm:prompt_tokens_by_source_total", Kind::Counter, "Number of prompt tokens by source.")
        .with(and(base, "source", "local_compute"), computed as f64)
        .with(and(base, "source", "local_cache_hit"), stats.prompt_tokens_cached as f64)
        .with(and(base, "source", "external_kv_transfer"), stats.prompt_tokens_external as f64)
}

fn successes(stats: &EngineStats, base: &Labels) -> Family {
    let family = Family::new("vllm:request_success_total", Kind::Counter, "Count of successfully processed requests.");
    // Clients that go away are not counted under `abort` either (https://github.com/vllm-project/vllm/issues/31503).
    let reasons = [
        ("stop", stats.finished_stop),
        ("length", stats.finished_length),
        ("abort", 0),
        ("error", stats.finished_error),
        ("repetition", 0),
    ];
    let labelled = reasons.map(|(reason, count)| (and(base, "finished_reason", reason), count));
    labelled.into_iter().fold(family, |family, (labels, count)| family.with(labels, count as f64))
}

fn cache_config(spec: &FleetSpec, stats: &EngineStats) -> Family {
    let labels = vec![
        ("block_size", BLOCK_TOKENS.to_string()),
        ("cache_dtype", "auto".to_owned()),
        ("enable_prefix_caching", if spec.engine.pooling { "False" } else { "True" }.to_owned()),
        ("engine", "0".to_owned()),
        ("gpu_memory_utilization", spec.engine.gpu_memory_utilization.to_string()),
        ("kv_cache_size_tokens", (stats.num_gpu_blocks * BLOCK_TOKENS).to_string()),
        ("num_cpu_blocks", "None".to_owned()),
        ("num_gpu_blocks", stats.num_gpu_blocks.to_string()),
        ("num_gpu_blocks_override", "None".to_owned()),
        ("sliding_window", "None".to_owned()),
    ];
    Family::new("vllm:cache_config_info", Kind::Gauge, "Information of the LLMEngine CacheConfig").with(labels, 1.0)
}

fn http(stats: &EngineStats, handler: &str) -> Family {
    let mut family =
        Family::new("http_requests_total", Kind::Counter, "Total number of requests by method, status and handler.");
    // A child of a counter is born with its first event.
    for (status, count) in [("2xx", stats.http_2xx), ("4xx", stats.http_4xx), ("5xx", stats.http_5xx)] {
        if count > 0 {
            let labels =
                vec![("handler", handler.to_owned()), ("method", "POST".to_owned()), ("status", status.to_owned())];
            family = family.with(labels, count as f64);
        }
    }
    family
}

/// The family under its name of 0.8.5, `None` if that version did not have it.
fn as_in_0_8(mut family: Family) -> Option<Family> {
    family.name = match family.name {
        "vllm:kv_cache_usage_perc" => "vllm:gpu_cache_usage_perc",
        "vllm:prefix_cache_queries_total" => "vllm:gpu_prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total" => "vllm:gpu_prefix_cache_hits_total",
        "vllm:inter_token_latency_seconds" => "vllm:time_per_output_token_seconds",
        "vllm:num_requests_waiting_by_reason"
        | "vllm:engine_sleep_state"
        | "vllm:prompt_tokens_by_source_total"
        | "vllm:num_requests_kv_fetch_by_stage"
        | "vllm:corrupted_requests_total"
        | "vllm:prompt_tokens_cached_total"
        | "vllm:request_time_per_output_token_seconds"
        | "vllm:request_num_preemptions"
        | "vllm:request_prefill_kv_computed_tokens" => return None,
        same => same,
    };
    let is_new = |sample: &Sample| {
        let new = |(name, value): &(&str, String)| {
            *name == "finished_reason" && matches!(value.as_str(), "error" | "repetition")
        };
        sample.labels.iter().any(new)
    };
    family.samples.retain(|sample| !is_new(sample));
    for sample in &mut family.samples {
        sample.labels.retain(|(name, _)| *name != "kv_cache_size_tokens");
    }
    Some(family)
}

/// `base` and one more label, where the alphabet puts it.
pub(super) fn and(base: &Labels, name: &'static str, value: &str) -> Labels {
    let mut labels = base.clone();
    let place = labels.partition_point(|(other, _)| *other < name);
    labels.insert(place, (name, value.to_owned()));
    labels
}

/// As coarse as the kernel's clock ticks.
fn hundredths(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}
