//! What a vLLM page has only with certain options: LoRA, speculative decoding, KV transfer, NaN counting.

use super::exposition::{Family, Kind, Labels};
use super::page_vllm::and;
use super::spec::FleetSpec;
use super::stats::EngineStats;

/// The families of the options that are on.
pub fn families(spec: &FleetSpec, stats: &EngineStats, base: &Labels) -> Vec<Family> {
    let engine = &spec.engine;
    let mut page = Vec::new();
    if engine.counts_nans {
        page.push(counter(
            "vllm:corrupted_requests_total",
            "Corrupted requests, in terms of total number of requests with NaNs in logits.",
            base,
            stats.corrupted as f64,
        ));
    }
    if let Some(lora) = &engine.lora {
        let info = Family::new("vllm:lora_requests_info", Kind::Gauge, "Running stats on lora requests.");
        page.push(stats.lora.iter().fold(info, |info, (running, waiting, at)| {
            let labels = vec![
                ("max_lora", lora.max_loras.to_string()),
                ("running_lora_adapters", running.clone()),
                ("waiting_lora_adapters", waiting.clone()),
            ];
            info.with(labels, *at)
        }));
    }
    if engine.speculative.is_some() {
        page.extend(speculative(stats, base));
    }
    if engine.offload.is_some() {
        page.extend(offloading(stats, base));
    }
    if engine.kv_transfer.is_some() || engine.offload.is_some() {
        page.extend(external(stats, base));
    }
    if engine.kv_transfer.is_some() {
        page.extend(transfers(stats, base));
    }
    page
}

fn speculative(stats: &EngineStats, base: &Labels) -> Vec<Family> {
    let accepted: u64 = stats.accepted_tokens.iter().sum();
    let mut by_position = Family::new(
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
        Kind::Counter,
        "Accepted tokens per draft position.",
    );
    for (position, accepted) in stats.accepted_tokens.iter().enumerate() {
        by_position = by_position.with(and(base, "position", &position.to_string()), *accepted as f64);
    }
    vec![
        counter("vllm:spec_decode_num_drafts_total", "Number of spec decoding drafts.", base, stats.drafts as f64),
        counter("vllm:spec_decode_num_draft_tokens_total", "Number of draft tokens.", base, stats.draft_tokens as f64),
        counter("vllm:spec_decode_num_accepted_tokens_total", "Number of accepted tokens.", base, accepted as f64),
        by_position,
    ]
}

fn external(stats: &EngineStats, base: &Labels) -> [Family; 2] {
    [
        counter(
            "vllm:external_prefix_cache_queries_total",
            "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of queried tokens.",
            base,
            stats.external_queries as f64,
        ),
        counter(
            "vllm:external_prefix_cache_hits_total",
            "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of cached tokens.",
            base,
            stats.prompt_tokens_external as f64,
        ),
    ]
}

/// Bytes per second between the GPU and host memory.
const OFFLOAD_SPEED: f64 = 20e9;

fn offloading(stats: &EngineStats, base: &Labels) -> [Family; 4] {
    let (loaded, stored) = stats.offloaded;
    [
        counter("vllm:kv_offload_load_bytes_total", "Total bytes loaded from offload storage to GPU.", base, loaded),
        counter(
            "vllm:kv_offload_load_time_total",
            "Total load time from offload storage to GPU, in seconds.",
            base,
            loaded / OFFLOAD_SPEED,
        ),
        counter("vllm:kv_offload_store_bytes_total", "Total bytes stored from GPU to offload storage.", base, stored),
        counter(
            "vllm:kv_offload_store_time_total",
            "Total store time from GPU to offload storage, in seconds.",
            base,
            stored / OFFLOAD_SPEED,
        ),
    ]
}

fn transfers(stats: &EngineStats, base: &Labels) -> Vec<Family> {
    let stages = Family::new(
        "vllm:num_requests_kv_fetch_by_stage",
        Kind::Gauge,
        "Number of waiting requests by async KV load stage.",
    );
    // The link takes one at a time.
    let loading = stats.fetching.min(1);
    vec![
        stages
            .with(and(base, "stage", "waiting_to_start"), (stats.fetching - loading) as f64)
            .with(and(base, "stage", "in_progress"), loading as f64)
            .with(and(base, "stage", "completed_waiting"), 0.0),
        Family::new(
            "vllm:nixl_xfer_time_seconds",
            Kind::Histogram,
            "Histogram of transfer duration for NIXL KV Cache transfers.",
        )
        .with_histogram(base, &stats.transfer),
        Family::new(
            "vllm:nixl_bytes_transferred",
            Kind::Histogram,
            "Histogram of bytes transferred per NIXL KV Cache transfers.",
        )
        .with_histogram(base, &stats.transfer_bytes),
        counter(
            "vllm:nixl_num_failed_transfers_total",
            "Number of failed NIXL KV Cache transfers, including handshake and notification failures.",
            base,
            stats.failed_transfers as f64,
        ),
        counter("vllm:nixl_num_failed_notifications_total", "Number of failed NIXL KV Cache notifications.", base, 0.0),
        counter(
            "vllm:nixl_num_kv_expired_reqs_total",
            "Number of requests that had their KV expire. NOTE: This metric is tracked on the P instance.",
            base,
            stats.expired_leases as f64,
        ),
    ]
}

fn counter(name: &'static str, help: &'static str, base: &Labels, value: f64) -> Family {
    Family::new(name, Kind::Counter, help).with(base.clone(), value)
}
