//! The page of a self-made exporter in each pod: what a team without an engine's own metrics tends to write.

use super::exposition::{Family, Kind, Labels};
use super::fleet::Replica;
use super::gpu;
use super::spec::FleetSpec;
use super::stats::EngineStats;

/// The page at `now` (unix seconds); the scrape adds `instance` and `pod`.
pub fn families(spec: &FleetSpec, replica: &Replica, stats: &EngineStats, now: f64) -> Vec<Family> {
    let base: Labels = vec![("model", spec.model_name.clone())];
    let gauge = |name, help, value: f64| Family::new(name, Kind::Gauge, help).with(base.clone(), value);
    let counter = |name, help, value: u64| Family::new(name, Kind::Counter, help).with(base.clone(), value as f64);
    let refused = stats.http_4xx + stats.http_5xx;
    let failed = refused + stats.finished_error;
    let memory = spec.engine.gpu_memory_utilization * gpu::MEMORY_MIB * 1024.0 * 1024.0;
    let rate = stats.readings.as_ref().map_or(0.0, |readings| readings.throughput(now));
    let mut page = vec![
        gauge("llm_tokens_per_second", "Generated tokens per second", rate),
        counter("llm_requests_total", "Requests answered", stats.http_2xx + refused),
        counter("llm_error_total", "Requests answered with an error", failed),
        counter("llm_preemption_total", "Preempted sequences", stats.preemptions),
        gauge("llm_gpu_utilization", "Share of the time a kernel ran, 0 to 1", replica.gpu.util),
        gauge("llm_gpu_memory_used_bytes", "Device memory in use", memory.round()),
        gauge("llm_kv_cache_utilization", "Used part of the KV cache, 0 to 1", stats.kv_usage),
        gauge("llm_queue_depth", "Requests that wait", stats.waiting as f64),
        gauge("llm_batch_size", "Sequences in the batch", stats.running as f64),
    ];
    for (name, help, histogram) in [
        ("llm_ttft_seconds", "Time to the first token", &stats.ttft),
        ("llm_tbt_seconds", "Time between tokens", &stats.itl),
        ("llm_request_duration_seconds", "Duration of requests", &stats.e2e),
    ] {
        page.push(Family::new(name, Kind::Histogram, help).with_histogram(&base, histogram));
    }
    page
}
