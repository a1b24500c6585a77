//! What an engine's file says that the engine cannot tell, against the pages of real servers: a family on a page that tells
//! it shows that the mark is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;

use crate::harness::library;

/// Labels by which a gateway tells its backends apart.
const BACKEND: &[&str] = &["replica=\"", "model_id=\"", "worker=\"", "worker_id=\"", "api_base=\""];

/// A signal, and the series that tell it: words of which one stands in the name, the name's end, and labels of which one is
/// there.
const TELLING: &[(&str, &[&str], &str, &[&str])] = &[
    ("gateway_backends_failing", &["error_counter", "failure_responses", "cb_outcomes"], "_total", BACKEND),
    ("gateway_backends_slow", &["processing_latency", "api_latency"], "_sum", BACKEND),
    ("gateway_backend_error_ratio", &["deployment_error_counter"], "_total", &[]),
    ("gateway_backend_time_mean", &["processing_latency", "api_latency"], "_sum", &[]),
    ("gateway_backends_missing", &["target_replicas"], "", &[]),
    ("gateway_backend_starts", &["replica_starts"], "_total", &[]),
    ("gateway_queued", &["queued_queries", "queued_requests", "pending_requests"], "", &[]),
    ("gateway_inflight", &["in_flight", "ongoing_http"], "", &[]),
    ("gateway_loop_delay", &["event_loop_scheduling_latency", "event_loop_delay"], "_sum", &[]),
    ("gateway_busy", &["busy_ratio"], "", &[]),
    ("gateway_cancelled_ratio", &["responses", "error_requests"], "_total", &["code=\"499\""]),
    ("gateway_unreached_ratio", &["upstream_responses"], "_total", &["connection_failed"]),
    ("gateway_no_backend_ratio", &["responses", "request_errors"], "_total", &["no_available_workers"]),
    ("gateway_error_ratio", &["error_requests", "failed_requests"], "_total", &[]),
    ("gateway_fallback_ratio", &["successful_fallbacks"], "_total", &[]),
    ("gateway_redis_time_mean", &["redis_latency"], "_sum", &[]),
    ("gateway_database_time_mean", &["postgres_latency"], "_sum", &[]),
    ("ttft_p99", &["time_to_first_token"], "_bucket", &[]),
    ("itl_p99", &["inter_token_latency"], "_bucket", &[]),
    ("queue_time_mean", &["queue_time"], "_sum", &[]),
    ("requests_waiting", &["requests_waiting", "requests_deferred", "num_queue_reqs"], "", &[]),
    ("kv_cache_usage", &["kv_cache_usage", "token_usage"], "", &[]),
    ("preemption_rate", &["preemptions", "retracted"], "_total", &[]),
    ("prefix_cache_hit_ratio", &["prefix_cache_hits", "tokens_cached", "cached_tokens"], "_total", &[]),
    ("prompt_token_rate", &[":prompt_tokens_total", ":prompt_tokens_cached_total"], "cached_total", &[]),
    ("spec_acceptance_ratio", &["spec_decode_num_accepted", "spec_accept_rate"], "", &[]),
    ("admission_rejection_rate", &["admission_rejections"], "_total", &[]),
];

/// Families that look like it and are not.
const OTHERWISE: &[(&str, &str, &str)] = &[
    ("dynamo", "kv_cache_usage", "of its workers, which have a file of their own"),
    ("dynamo", "itl_p99", "told by its frontend under another name"),
];

/// The series of each engine's pages, by the file's prefix.
fn pages() -> BTreeMap<&'static str, BTreeSet<String>> {
    let engines = [("vllm", "vllm"), ("sglang", "sglang"), ("litellm", "litellm"), ("dynamo", "dynamo")];
    let engines = engines.into_iter().chain([("llamacpp", "llamacpp"), ("ray", "ray-serve-llm")]);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/data");
    let files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect();
    let mut out = BTreeMap::new();
    for (prefix, engine) in engines {
        let series: &mut BTreeSet<String> = out.entry(engine).or_default();
        let mine = |path: &&std::path::PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{prefix}.")))
        };
        for path in files.iter().filter(mine) {
            let mut text = String::new();
            GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
            let named = text.lines().filter(|line| !line.starts_with('#'));
            series.extend(named.filter_map(|line| Some(line.rsplitn(3, ' ').nth(2)?.to_owned())));
        }
        assert!(!series.is_empty(), "no page of {engine}");
    }
    // No capture of a router is kept: these pages have the names and labels that the programs wrote.
    for (engine, page) in super::routers::WRITTEN {
        out.entry(engine)
            .or_default()
            .extend(page.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())));
    }
    out
}

#[test]
fn no_page_of_a_real_server_has_what_its_engines_file_says_that_it_cannot_tell() {
    let mut wrong = Vec::new();
    for (engine, series) in pages() {
        for (signal, words, end, labels) in TELLING {
            let entry = library().engines[engine].signals.get(*signal);
            let known = OTHERWISE.iter().any(|(at, of, _)| *at == engine && of == signal);
            if known || entry.is_none_or(|entry| entry.unsupported.is_none()) {
                continue;
            }
            let tells = |series: &&String| {
                let name = series.split('{').next().unwrap_or_default();
                words.iter().any(|word| name.contains(word))
                    && name.ends_with(end)
                    && (labels.is_empty() || labels.iter().any(|label| series.contains(label)))
            };
            if let Some(found) = series.iter().find(tells) {
                wrong.push(format!("{engine} says that it cannot tell `{signal}`, and its page has {found}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
