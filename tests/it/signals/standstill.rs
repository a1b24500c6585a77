//! What stands still, what waits for a transfer, and what is spread unevenly over ranks: hand-written pages, a minute apart.

use super::{assert_no_data, assert_values, observed};
use crate::harness::{Page, Stamp, slot};

/// Where the pages of data-parallel servers stand, too.
const SLOT: usize = 146;

/// A namespace and its pages.
type Case = (&'static str, String, String);

/// An engine of vLLM: what runs and waits, tokens, prompts and finished requests, and its cache.
fn engine(rank: u32, running: u32, waiting: u32, [tokens, prompts, done]: [u32; 3], cache: f64) -> String {
    let of = format!("engine=\"{rank}\",model_name=\"m\"");
    format!(
        "vllm:num_requests_running{{{of}}} {running}\nvllm:num_requests_waiting{{{of}}} {waiting}\n\
         vllm:generation_tokens_total{{{of}}} {tokens}\nvllm:prompt_tokens_total{{{of}}} {prompts}\n\
         vllm:request_success_total{{{of},finished_reason=\"stop\"}} {done}\nvllm:kv_cache_usage_perc{{{of}}} {cache}\n"
    )
}

fn asleep() -> String {
    engine(0, 0, 2, [700, 500, 20], 0.0)
        + "vllm:engine_sleep_state{engine=\"0\",model_name=\"m\",sleep_state=\"awake\"} 0\n"
}

fn ranks(waiting: [u32; 4], cache: [f64; 4], tokens: u32) -> String {
    busy_ranks(10, waiting, cache, tokens)
}

fn busy_ranks(running: u32, waiting: [u32; 4], cache: [f64; 4], tokens: u32) -> String {
    (0..4).map(|i| engine(i, running, waiting[i as usize], [tokens, tokens, tokens], cache[i as usize])).collect()
}

/// A prefill replica whose finished prompts nobody reads: leases end, and of its transfers the notifications fail.
fn leased(expired: u32, failed: u32, unnotified: u32) -> String {
    let of = "engine=\"0\",model_name=\"m\"";
    engine(0, 0, 4, [700 + expired, 500, 20], 0.98)
        + &format!(
            "vllm:nixl_num_kv_expired_reqs_total{{{of}}} {expired}\nvllm:nixl_num_failed_transfers_total{{{of}}} {failed}\n\
             vllm:nixl_num_failed_notifications_total{{{of}}} {unnotified}\n"
        )
}

/// A decode replica that reads one request of 500 MB in ten seconds.
fn fetching(requests: u32) -> String {
    let of = "engine=\"0\",model_name=\"m\"";
    let seconds = 0.5 * f64::from(requests);
    engine(0, 1, 12, [700 + requests, 500, requests], 0.1)
        + &format!(
            "vllm:num_requests_kv_fetch_by_stage{{{of},stage=\"waiting_to_start\"}} 3\n\
             vllm:num_requests_kv_fetch_by_stage{{{of},stage=\"in_progress\"}} 9\n\
             vllm:num_requests_kv_fetch_by_stage{{{of},stage=\"completed_waiting\"}} 70\n\
             vllm:num_requests_waiting_by_reason{{{of},reason=\"capacity\"}} 1\n\
             vllm:time_to_first_token_seconds_count{{{of}}} {requests}\nvllm:nixl_xfer_time_seconds_sum{{{of}}} {seconds}\n\
             vllm:nixl_xfer_time_seconds_count{{{of}}} {requests}\nvllm:nixl_bytes_transferred_sum{{{of}}} {}\n",
            500_000_000_u64 * u64::from(requests)
        )
}

/// A decode replica that is full: what has not begun to read waits for its blocks.
fn without_room(requests: u32) -> String {
    let of = "engine=\"0\",model_name=\"m\"";
    engine(0, 30, 30, [700 + requests, 500, requests], 0.99)
        + &format!(
            "vllm:num_requests_kv_fetch_by_stage{{{of},stage=\"waiting_to_start\"}} 30\n\
             vllm:num_requests_kv_fetch_by_stage{{{of},stage=\"in_progress\"}} 0\n\
             vllm:num_requests_waiting_by_reason{{{of},reason=\"capacity\"}} 30\n\
             vllm:time_to_first_token_seconds_count{{{of}}} {requests}\nvllm:nixl_xfer_time_seconds_count{{{of}}} {requests}\n"
        )
}

/// An older decode replica whose transfers never end.
fn deferred() -> String {
    let of = "engine=\"0\",model_name=\"m\"";
    engine(0, 1, 12, [700, 500, 20], 0.1)
        + &format!(
            "vllm:num_requests_waiting_by_reason{{{of},reason=\"deferred\"}} 12\n\
             vllm:time_to_first_token_seconds_count{{{of}}} 20\nvllm:nixl_xfer_time_seconds_count{{{of}}} 20\n"
        )
}

/// A prefill server of SGLang that has computed what the decode side takes slowly.
fn taken(done: u32) -> String {
    let of = "engine_type=\"prefill\",model_name=\"m\"";
    let (ms, speed) = (30_000 * done, 0.25 * f64::from(done));
    format!(
        "sglang:num_running_reqs{{{of}}} 0\nsglang:num_queue_reqs{{{of}}} 0\nsglang:token_usage{{{of}}} 0.97\n\
         sglang:num_prefill_inflight_queue_reqs{{{of}}} 150\nsglang:num_requests_total{{{of}}} {done}\n\
         sglang:kv_transfer_latency_ms_sum{{{of}}} {ms}\nsglang:kv_transfer_latency_ms_count{{{of}}} {done}\n\
         sglang:kv_transfer_speed_gb_s_sum{{{of}}} {speed}\nsglang:kv_transfer_speed_gb_s_count{{{of}}} {done}\n"
    )
}

/// A decode server of SGLang that has reserved its whole cache for what still comes, and finished nothing yet.
fn reserved(first_tokens: u32) -> String {
    let of = "engine_type=\"decode\",model_name=\"m\"";
    format!(
        "sglang:num_running_reqs{{{of}}} 0\nsglang:num_queue_reqs{{{of}}} 0\nsglang:token_usage{{{of}}} 0.97\n\
         sglang:prealloc_full_token_usage{{{of}}} 0.97\nsglang:num_decode_transfer_queue_reqs{{{of}}} 30\n\
         sglang:time_to_first_token_seconds_count{{{of}}} {first_tokens}\nsglang:num_requests_total{{{of}}} 20\n"
    )
}

/// An engine that asks a slower tier for its prompts.
fn loading(loads: u32) -> String {
    let of = "engine=\"0\",model_name=\"m\"";
    engine(0, 1, 3, [700 + loads, 500, loads], 0.6)
        + &format!(
            "vllm:kv_offload_lookup_async_delay_seconds_sum{{{of}}} {}\nvllm:kv_offload_lookup_async_delay_seconds_count{{{of}}} {loads}\n",
            28 * loads
        )
}

/// A server of SGLang whose two ranks all tell what they have.
fn sglang_ranks(tokens: u32) -> String {
    let rank = |rank: u32, waiting: u32| {
        let of = format!("dp_rank=\"{rank}\",model_name=\"m\"");
        format!(
            "sglang:num_running_reqs{{{of}}} 8\nsglang:num_queue_reqs{{{of}}} {waiting}\n\
             sglang:realtime_tokens_total{{mode=\"decode\",{of}}} {tokens}\n"
        )
    };
    rank(0, 24) + &rank(1, 0)
}

/// TensorRT-LLM after its last step: it may idle or hang.
fn steps() -> String {
    "trtllm_num_requests_running{model_name=\"m\"} 0\ntrtllm_num_requests_waiting{model_name=\"m\"} 3\n\
     trtllm_iteration_latency_seconds_count{model_name=\"m\"} 200\ntrtllm_kv_cache_usage_perc{model_name=\"m\"} 0.96\n"
        .to_owned()
}

/// Dynamo's shell around an engine that exports nothing.
fn shell(bytes: u32, refused: u32) -> String {
    let of = "dynamo_component=\"backend\",dynamo_endpoint=\"generate\",dynamo_namespace=\"dynamo\"";
    format!(
        "dynamo_component_inflight_requests{{{of}}} 7\ndynamo_component_response_bytes_total{{{of}}} {bytes}\n\
         dynamo_component_requests_total{{{of}}} 40\ndynamo_backend_admission_rejection_total{{reason=\"queue_full\"}} {refused}\n\
         dynamo_backend_admission_rejection_total{{reason=\"request_expired\"}} 0\n"
    )
}

/// Ten minutes in which a cache fills and empties, and no token comes; how many requests ended at the HTTP server.
fn again(namespace: &'static str, ended_per_minute: u32) -> Vec<Page> {
    let page = |minute: u32| {
        let cache = if minute.is_multiple_of(2) { 0.99 } else { 0.46 };
        let text = engine(0, 1, 4, [700, 500 + 60_000 * minute, 20], cache)
            + &format!(
                "http_requests_total{{handler=\"/metrics\",method=\"GET\",status=\"2xx\"}} {minute}\n\
                 http_requests_total{{handler=\"/v1/chat/completions\",method=\"POST\",status=\"2xx\"}} {}\n",
                40 + ended_per_minute * minute
            );
        let time = slot(SLOT) + 60 * (i64::from(minute) - 9);
        Page::new(text, Stamp { job: "engine", instance: namespace, namespace, pod: namespace, time })
    };
    (0..=10).map(page).collect()
}

fn cases() -> Vec<Case> {
    let twice = |name, page: String| (name, page.clone(), page);
    let even = [1.0, 0.3, 0.3, 0.4];
    let half = [0.8, 0.2, 0.3, 0.3];
    vec![
        twice("scheduler-stands", engine(0, 0, 6, [700, 500, 20], 0.0)),
        ("embeddings", engine(0, 5, 3, [0, 500, 20], 0.0), engine(0, 5, 3, [0, 6_500, 80], 0.0)),
        ("prompts-alone", engine(0, 5, 3, [700, 500, 20], 0.0), engine(0, 5, 3, [700, 6_500, 20], 0.0)),
        twice("asleep", asleep()),
        ("ranks-uneven", ranks([40, 0, 0, 0], [0.5; 4], 100), ranks([40, 0, 0, 0], [0.5; 4], 700)),
        ("ranks-one-full", ranks([2, 2, 2, 2], even, 100), ranks([2, 2, 2, 2], even, 700)),
        ("ranks-half-full", ranks([0; 4], half, 100), ranks([0; 4], half, 700)),
        ("ranks-of-tokens", busy_ranks(20, [0; 4], half, 100), busy_ranks(20, [0; 4], half, 700)),
        ("loading", loading(1), loading(4)),
        ("renamed", engine(0, 1, 0, [700, 500, 20], 0.1), engine(0, 1, 0, [9, 9, 1], 0.1).replace("\"m\"", "\"n\"")),
        ("leased", leased(0, 0, 0), leased(30, 12, 18)),
        ("fetching", fetching(0), fetching(6)),
        ("without-room", without_room(0), without_room(6)),
        twice("deferred-for-ever", deferred()),
        ("taken-slowly", taken(60), taken(120)),
        ("reserved", reserved(60), reserved(120)),
        ("sglang-ranks", sglang_ranks(100), sglang_ranks(700)),
        twice("steps-stand", steps()),
        twice("shell-stands", shell(9_000, 0)),
        ("shell-streams", shell(9_000, 0), shell(15_000, 30)),
    ]
}

pub(super) fn pages() -> Vec<Page> {
    let stamp = |namespace, minutes: i64| Stamp {
        job: "engine",
        instance: namespace,
        namespace,
        pod: namespace,
        time: slot(SLOT) + 60 * minutes,
    };
    let minute =
        |(namespace, before, after)| [Page::new(before, stamp(namespace, 0)), Page::new(after, stamp(namespace, 1))];
    cases().into_iter().flat_map(minute).chain(again("again", 0)).chain(again("given-up", 2)).collect()
}

fn told(namespace: &'static str, expected: &[(&str, f64)]) {
    assert_values(&observed(&[("namespace", namespace)], slot(SLOT) + 60), expected);
}

#[test]
fn nothing_moves_where_requests_wait_and_something_does_where_they_finish() {
    told("scheduler-stands", &[("stalled_requests", 6.0), ("requests_running", 0.0)]);
    told("embeddings", &[("stalled_requests", 0.0), ("generation_token_rate", 0.0)]);
    told("prompts-alone", &[("stalled_requests", 0.0)]);
    told("asleep", &[("stalled_requests", 0.0)]);
    // One prompt is computed for ever, or clients give up before their first token, which only the HTTP server counts.
    told("again", &[("stalled_requests", 5.0)]);
    told("given-up", &[("stalled_requests", 0.0)]);
    told("steps-stand", &[("kv_cache_leased", 0.96), ("kv_cache_usage", 0.96)]);
    assert_no_data(&observed(&[("namespace", "steps-stand")], slot(SLOT) + 60), &["stalled_requests"]);
    told("shell-stands", &[("stalled_requests", 7.0), ("admission_rejection_rate", 0.0)]);
    told("shell-streams", &[("stalled_requests", 0.0), ("admission_rejection_rate", 0.5)]);
}

#[test]
fn an_address_that_serves_another_model_and_loads_from_a_slower_tier_are_told() {
    // Five minutes after its last scrape a series is gone.
    let renamed = |model| observed(&[("namespace", "renamed"), ("model_name", model)], slot(SLOT) + 330);
    assert_values(&renamed("m"), &[("replicas_renamed", 1.0)]);
    assert_values(&renamed("n"), &[("replicas_renamed", 0.0)]);
    told("loading", &[("outer_cache_wait", 28.0), ("replicas_renamed", 0.0)]);
}

#[test]
fn ranks_are_compared_by_all_that_they_have_and_by_their_caches() {
    // 50 of 20 on average.
    told("ranks-uneven", &[("rank_imbalance", 2.5), ("stalled_requests", 0.0)]);
    told("ranks-one-full", &[("rank_imbalance", 2.0)]);
    // Ten requests a rank differ in length by chance; of twenty 0.8 is twice the mean of 0.4.
    told("ranks-half-full", &[("rank_imbalance", 1.0)]);
    told("ranks-of-tokens", &[("rank_imbalance", 2.0)]);
    told("sglang-ranks", &[("rank_imbalance", 32.0 / 20.0)]);
}

#[test]
fn transfers_are_told_by_their_failures_their_speed_and_how_long_requests_wait_for_them() {
    told("leased", &[("kv_cache_leased", 0.98), ("kv_transfer_failure_rate", (30.0 + 18.0) / 60.0)]);
    // Nine are on their way and two could be, and one leaves in ten seconds.
    told(
        "fetching",
        &[
            ("kv_transfer_wait", 110.0),
            ("kv_transfer_time_mean", 0.5),
            ("kv_transfer_speed", 1e9),
            ("kv_cache_leased", 0.0),
        ],
    );
    told("without-room", &[("kv_transfer_wait", 0.0), ("kv_cache_leased", 0.0)]);
    told("reserved", &[("kv_transfer_wait", 30.0), ("kv_cache_leased", 0.0)]);
    told("deferred-for-ever", &[("kv_transfer_wait", 12.0 / 0.0033)]);
    let expected = [
        ("kv_transfer_wait", 150.0),
        ("kv_transfer_time_mean", 30.0),
        ("kv_transfer_speed", 2.5e8),
        ("kv_cache_leased", 0.97),
    ];
    told("taken-slowly", &expected);
}
