//! Pages of a real SGLang 0.5.23 server: healthy, with a queue, under other spellings, with ranks and priorities; and
//! what a broken page or a restart makes of them.

use diagnose::ObserveResult;

use super::{assert_complete, assert_no_data, assert_values, observed, replicas, told_by, value, version};
use crate::harness::{Page, Stamp, fixture, slot};

const SLOT: usize = 30;
/// The case that is an old server.
const OLD: usize = 15;

/// A namespace and its pages, a minute apart.
type Case = (&'static str, String, String);

/// Every case has a namespace and an address of its own; they share a time.
fn cases() -> Vec<Case> {
    let [before, after, queue] = ["healthy-t0", "healthy-t1", "queue-saturation"].map(page);
    let edited = |name, edit: &dyn Fn(&str) -> String| (name, edit(&before), edit(&after));
    let decode = |failed: u32| {
        let labels = "engine_type=\"decode\",model_name=\"tiny\"";
        let sum = 250 * failed;
        format!(
            "{}sglang:num_transfer_failed_reqs_total{{{labels}}} {failed}\nsglang:kv_transfer_latency_ms_sum{{{labels}}} {sum}\n\
             sglang:kv_transfer_latency_ms_count{{{labels}}} {failed}\n",
            queue.replace("unified", "decode").replace(
                "num_decode_transfer_queue_reqs{engine_type=\"decode\",model_name=\"tiny\",moe_ep_rank=\"0\",pp_rank=\"0\",tp_rank=\"0\"} 0.0",
                "num_decode_transfer_queue_reqs{engine_type=\"decode\",model_name=\"tiny\",moe_ep_rank=\"0\",pp_rank=\"0\",tp_rank=\"0\"} 7",
            )
        )
    };
    let before_any_abort = format!("{before}{}", aborted(0));
    let after_aborts = after.clone();
    vec![
        ("sg-healthy", before.clone(), after.clone()),
        ("sg-queue", queue.clone(), queue.clone()),
        edited("sg-escaped", &|page| page.replace("sglang:", "sglang_")),
        edited("sg-ray", &two_replicas),
        ("sg-ranks", ranks(&queue), ranks(&queue)),
        ("sg-priorities", priorities(&queue), priorities(&queue)),
        ("sg-refused", before.clone(), refused(&after)),
        ("sg-restarted", after.clone(), before.clone()),
        ("sg-broken", before.clone(), broken(&after)),
        ("sg-native", native(&before), native(&after)),
        ("sg-decode", decode(0), decode(6)),
        ("sg-retracting", before.clone(), format!("{after}{}", retracted(30))),
        ("sg-stalled", queue.clone(), queue),
        ("sg-frozen", frozen(&before), frozen(&before)),
        ("sg-mixed", before, after),
        ("sg-mixed", old(0), old(60)),
        ("sg-aborted", before_any_abort, format!("{}{}", refused(&after_aborts), aborted(100))),
        ("sg-hung-rank", hung_rank(0), hung_rank(60)),
    ]
}

pub(super) fn pages() -> Vec<Page> {
    let minute = |(i, (namespace, before, after)): (usize, Case)| {
        let instance = INSTANCES[i];
        let stamp = Stamp {
            job: "sglang",
            instance,
            namespace,
            pod: if i == OLD { "sglang-old" } else { "sglang-0" },
            time: slot(SLOT),
        };
        [Page::new(before, stamp), Page::new(after, Stamp { time: slot(SLOT) + 60, ..stamp })]
    };
    cases().into_iter().enumerate().flat_map(minute).collect()
}

const INSTANCES: [&str; 18] = [
    "10.3.0.1:30000",
    "10.3.0.2:30000",
    "10.3.0.3:30000",
    "10.3.0.4:8080",
    "10.3.0.5:30000",
    "10.3.0.6:30000",
    "10.3.0.7:30000",
    "10.3.0.8:30000",
    "10.3.0.9:30000",
    "10.3.0.10:30000",
    "10.3.0.11:30000",
    "10.3.0.12:30000",
    "10.3.0.13:30000",
    "10.3.0.14:30000",
    "10.3.0.15:30000",
    "10.3.0.16:30000",
    "10.3.0.17:30000",
    "10.3.0.18:30000",
];

/// A scheduler that froze before it took its requests; the server still counts them.
fn frozen(page: &str) -> String {
    let line = |line: &str| match line.rsplit_once(' ') {
        Some((series, _)) if series.starts_with("sglang:num_running_reqs{") => format!("{series} 0\n"),
        _ => format!("{line}\n"),
    };
    page.lines().map(line).collect()
}

fn page(name: &str) -> String {
    fixture(&format!("sglang/0.5.23-{name}.prom"))
}

/// The page as a Ray node has it: no colon, and every series once for each replica on it.
fn two_replicas(page: &str) -> String {
    let replica = |id: &str| {
        let line = |line: &str| match line.split_once('{') {
            Some((name, rest)) => format!("{name}{{ReplicaId=\"{id}\",WorkerId=\"w-{id}\",{rest}\n"),
            None => String::new(),
        };
        samples(page).map(|l| line(&l.replace("sglang:", "ray_sglang_"))).collect::<String>()
    };
    replica("a") + &replica("b")
}

/// Every scheduler series once for each of two tensor-parallel ranks, of two data-parallel ones.
fn ranks(page: &str) -> String {
    let copies = |line: &str| match line.contains("tp_rank=\"0\"") && !line.contains("dp_rank") {
        false => format!("{line}\n"),
        true => [("0", "0"), ("1", "0"), ("0", "1"), ("1", "1")]
            .map(|(tp, dp)| line.replace("tp_rank=\"0\"", &format!("tp_rank=\"{tp}\",dp_rank=\"{dp}\"")) + "\n")
            .concat(),
    };
    samples(page).map(copies).collect()
}

/// Scheduler gauges as a total and for each of two priorities.
fn priorities(page: &str) -> String {
    let gauges = ["num_running_reqs{", "num_queue_reqs{", "token_usage{", "num_grammar_queue_reqs{"];
    let copies = |line: &str| match gauges.iter().any(|gauge| line.contains(gauge)) {
        false => format!("{line}\n"),
        true => ["", "0", "1"].map(|p| line.replace("tp_rank=", &format!("priority=\"{p}\",tp_rank=")) + "\n").concat(),
    };
    samples(page).map(copies).collect()
}

/// A hundred streams more, which a full queue answered with 200 and an error event.
fn refused(page: &str) -> String {
    let chat = |line: &str| match line {
        l if l.starts_with("sglang:http_requests_total{endpoint=\"/v1/chat") => l.replace(" 258.0", " 358.0"),
        l if l.starts_with("sglang:http_responses_total{endpoint=\"/v1/chat") => l.replace(" 255.0", " 355.0"),
        l => l.to_owned(),
    };
    samples(page).map(|line| chat(line) + "\n").collect()
}

/// Values that a gauge may have and nobody can use, and a histogram without its buckets.
fn broken(page: &str) -> String {
    let value = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let value = match series.split('{').next().unwrap() {
            "sglang:token_usage" => "NaN",
            "sglang:max_total_num_tokens" => "+Inf",
            _ => value,
        };
        format!("{series} {value}\n")
    };
    samples(page).map(value).collect()
}

/// The page as Prometheus keeps it with native histograms alone: the plain name instead of buckets, sum and count.
fn native(page: &str) -> String {
    let classic = |line: &&str| !line.contains("_bucket{");
    let kept: String = samples(page).filter(classic).map(|line| format!("{line}\n")).collect();
    kept + "sglang:time_to_first_token_seconds{engine_type=\"unified\",model_name=\"tiny\"} 84\n"
}

/// Two schedulers of one server, of which the first stands still.
fn hung_rank(second: u32) -> String {
    let rank = |rank: u32, tokens: u32| {
        let of = format!("dp_rank=\"{rank}\",model_name=\"tiny\"");
        format!("sglang:num_running_reqs{{{of}}} 4\nsglang:realtime_tokens_total{{mode=\"decode\",{of}}} {tokens}\n")
    };
    rank(0, 700) + &rank(1, 700 + 50 * second)
}

/// What SGLang 0.4.3 had, written by hand: two requests a second of 100 prompt tokens, a quarter of them cached.
fn old(second: u32) -> String {
    let one = |name: &str, value: u32| format!("sglang:{name}{{model_name=\"tiny\"}} {value}\n");
    let rows = [
        ("num_running_reqs", 5),
        ("num_queue_reqs", 2),
        ("token_usage", 1),
        ("prompt_tokens_total", 200 * second),
        ("cached_tokens_total", 50 * second),
        ("generation_tokens_total", 60 * second),
        ("num_requests_total", 2 * second),
        ("time_per_output_token_seconds_count", 60 * second),
    ];
    let bucket = |le: &str| {
        format!("sglang:time_per_output_token_seconds_bucket{{model_name=\"tiny\",le=\"{le}\"}} {}\n", 60 * second)
    };
    rows.map(|(name, value)| one(name, value)).concat() + &bucket("0.05") + &bucket("+Inf")
}

fn aborted(count: u32) -> String {
    format!("sglang:num_aborted_requests_total{{engine_type=\"unified\",model_name=\"tiny\"}} {count}\n")
}

fn retracted(count: u32) -> String {
    format!(
        "sglang:num_retracted_requests_total{{engine_type=\"unified\",model_name=\"tiny\",tp_rank=\"0\"}} {count}\n"
    )
}

fn samples(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter(|line| !line.starts_with('#') && !line.is_empty())
}

fn read(namespace: &'static str) -> ObserveResult {
    observed(&[("namespace", namespace)], slot(SLOT) + 60)
}

#[test]
fn a_healthy_page_tells_each_signal_or_says_that_it_cannot() {
    let seen = read("sg-healthy");
    assert_eq!(version(&seen, "sglang").as_deref(), Some("0.5.22"));
    assert_eq!((seen.observations.pool.as_slice(), &seen.problems), (&["sglang-0".to_owned()][..], &Vec::new()));
    // 174 requests of 14,570 prompt tokens, 182 of them cached, and 5,958 generated ones; the first of each is not decoded.
    let (queue, prefill) = (0.110_156_448 - 0.040_408_687, 2.583_225_982 - 0.729_458_027);
    let (first, whole) = (5.018_490 - 1.184_676, 44.355_246 - 11.253_407);
    let expected = [
        ("ttft_p50", 0.050_88),
        ("ttft_p95", 0.096_67),
        ("ttft_p99", 0.163),
        ("itl_mean", 29.136_6 / 5_784.0),
        ("ttft_mean", first / 174.0),
        ("itl_p50", 0.003_701),
        ("itl_p95", 0.012_74),
        ("itl_p99", 0.028_05),
        ("e2e_p99", 0.652),
        ("e2e_mean", whole / 174.0),
        ("error_ratio", 0.0),
        ("client_error_ratio", 0.0),
        ("abandoned_ratio", 0.0),
        ("admission_rejection_rate", 0.0),
        ("admission_rejection_ratio", 0.0),
        ("request_rate", 174.0 / 60.0),
        ("offered_request_rate", 174.0 / 60.0),
        ("request_imbalance", 1.0),
        ("prompt_tokens_mean", 14_570.0 / 174.0),
        ("prompt_tokens_growth", 14_570.0 / 174.0 / (21_546.0 / 258.0)),
        ("prompt_tokens_usual", 21_546.0 / 258.0),
        ("prompt_tokens_p99", 293.0),
        ("generation_tokens_mean", 5_958.0 / 174.0),
        ("generation_tokens_usual", 8_728.0 / 258.0),
        ("prompt_token_rate", 14_570.0 / 60.0),
        ("computed_prompt_token_rate", 14_388.0 / 60.0),
        ("generation_token_rate", 5_784.0 / 60.0),
        ("prefix_cache_hit_ratio", 182.0 / 14_570.0),
        ("prefix_cache_lost", 269.0 / 21_546.0 - 182.0 / 14_570.0),
        ("requests_running", 0.0),
        ("running_per_replica", 0.0),
        ("requests_queued", 0.0),
        ("requests_waiting", 0.0),
        ("waiting_per_replica", 0.0),
        ("backlog_of_day", 0.0),
        ("requests_deferred", 0.0),
        ("queue_time_mean", queue / 174.0),
        ("prefill_time_mean", prefill / 174.0),
        ("decode_time_mean", (whole - first) / 174.0),
        ("requests_in_prefill", prefill / 60.0),
        ("queue_share_of_ttft", queue / (queue + prefill)),
        ("frontend_share_of_ttft", 1.0 - (queue + prefill) / first),
        ("kv_cache_usage", 0.0),
        ("kv_cache_peak", 0.0),
        ("grammar_queue", 0.0),
        ("preemption_rate", 0.0),
        ("kv_cache_capacity_tokens", 8_192.0),
        ("stalled_requests", 0.0),
        ("replicas_renamed", 0.0),
        ("kv_cache_leased", 0.0),
        ("replicas_serving", 1.0),
        ("replicas_down", 0.0),
        ("replicas_idle", 0.0),
        // The tokenizer's; the detokenizer used less.
        ("frontend_cpu", 4.38 / 60.0),
    ];
    // Nothing ran twice at once, no draft model, no separate prefill, one rank, no cache in host memory, none down, no
    // hour before.
    let silent = [
        "throughput_kept",
        "running_plateau",
        "spec_acceptance_ratio",
        "spec_accepted_per_draft",
        "kv_transfer_failure_rate",
        "kv_transfer_time_mean",
        "kv_transfer_speed",
        "kv_transfer_wait",
        "external_cache_hit_ratio",
        "outer_cache_failure_rate",
        "media_cache_hit_ratio",
        "media_per_request",
        "prefill_pool_waiting",
        "decode_pool_waiting",
        "rank_imbalance",
        "expert_balance",
        "down_on_live_host",
        "lora_adapters_waiting",
        "replicas_frozen",
    ];
    assert_values(&seen, &expected);
    assert_no_data(&seen, &silent);
    assert_complete("sglang", &expected, &silent);
}

#[test]
fn a_queue_is_seen_as_waiting_for_capacity_and_cached_prefixes_as_free() {
    let seen = read("sg-queue");
    assert_values(
        &seen,
        &[
            ("requests_running", 4.0),
            ("running_plateau", 1.0),
            ("requests_queued", 145.0),
            ("requests_waiting", 145.0),
            ("waiting_per_replica", 145.0),
            ("requests_deferred", 0.0),
            // 7,411 of 8,192 tokens are cached prefixes that give way.
            ("kv_cache_usage", 0.08),
            ("kv_cache_peak", 0.08),
        ],
    );
}

#[test]
fn names_with_an_underscore_give_the_values_of_names_with_a_colon() {
    let [colon, underscore] = ["sg-healthy", "sg-escaped"].map(read);
    assert_eq!(version(&underscore, "sglang").as_deref(), Some("0.5.22"));
    for signal in told_by("sglang") {
        assert_eq!(value(&underscore, signal), value(&colon, signal), "{signal}");
    }
}

#[test]
fn two_replicas_on_one_ray_node_are_two_and_name_their_pod() {
    let seen = read("sg-ray");
    assert_eq!((seen.observations.pool.as_slice(), &seen.problems), (&["sglang-0".to_owned()][..], &Vec::new()));
    assert_values(
        &seen,
        &[
            ("replicas_serving", 2.0),
            ("request_rate", 2.0 * 174.0 / 60.0),
            ("generation_token_rate", 2.0 * 5_784.0 / 60.0),
            ("prefix_cache_hit_ratio", 182.0 / 14_570.0),
            ("ttft_p99", 0.163),
            ("kv_cache_capacity_tokens", 8_192.0),
        ],
    );
}

#[test]
fn ranks_of_one_model_are_not_summed_and_data_parallel_ones_are() {
    let seen = read("sg-ranks");
    assert_values(
        &seen,
        &[
            ("requests_running", 8.0),
            ("running_per_replica", 8.0),
            ("requests_waiting", 290.0),
            ("waiting_per_replica", 290.0),
            ("requests_queued", 290.0),
            ("kv_cache_usage", 0.08),
            ("kv_cache_capacity_tokens", 16_384.0),
            ("stalled_requests", 2.0 * (4.0 + 145.0)),
            ("replicas_serving", 1.0),
            ("replicas_down", 0.0),
        ],
    );
    assert_eq!(seen.problems, Vec::<String>::new());
}

#[test]
fn a_total_and_its_priorities_are_counted_once() {
    let seen = read("sg-priorities");
    let expected = [("requests_running", 4.0), ("requests_waiting", 145.0), ("requests_queued", 145.0)];
    assert_values(&seen, &expected);
    assert_values(&seen, &[("waiting_per_replica", 145.0), ("kv_cache_usage", 0.08), ("replicas_serving", 1.0)]);
}

#[test]
fn streams_that_a_full_queue_answered_200_count_as_refused() {
    let seen = read("sg-refused");
    assert_values(&seen, &[("admission_rejection_rate", 100.0 / 60.0), ("admission_rejection_ratio", 100.0 / 274.0)]);
    assert_values(&seen, &[("error_ratio", 0.0)]);
}

#[test]
fn requests_that_clients_gave_up_in_the_queue_are_abandoned_and_not_refused() {
    let seen = read("sg-aborted");
    assert_values(&seen, &[("abandoned_ratio", 100.0 / 274.0), ("admission_rejection_rate", 0.0)]);
}

#[test]
fn a_restart_between_two_scrapes_is_no_negative_rate() {
    let seen = read("sg-restarted");
    // All that the new process counted was after the restart.
    assert_values(&seen, &[("prompt_token_rate", 6_976.0 / 60.0), ("generation_token_rate", 2_686.0 / 60.0)]);
    assert_values(&seen, &[("prefix_cache_hit_ratio", 87.0 / 6_976.0), ("admission_rejection_rate", 0.0)]);
}

#[test]
fn nan_and_infinity_are_no_data_and_the_rest_still_counts() {
    let seen = read("sg-broken");
    assert_no_data(&seen, &["kv_cache_usage", "kv_cache_capacity_tokens"]);
    assert_values(&seen, &[("request_rate", 174.0 / 60.0), ("replicas_serving", 1.0)]);
    assert_eq!(seen.problems, Vec::<String>::new());
}

#[test]
fn a_native_histogram_is_named_with_the_way_to_have_its_buckets() {
    let seen = read("sg-native");
    let ttft = &seen.observations.signals["ttft_p99"];
    assert_eq!(ttft.value, None);
    let why = "`sglang:time_to_first_token_seconds` is a native histogram here, and only classic ones are read";
    assert_eq!(ttft.why.as_deref(), Some(why));
    assert!(ttft.enable.as_deref().unwrap().starts_with("`always_scrape_classic_histograms: true`"), "{ttft:?}");
    // Of others nothing is known but that they are not there.
    assert_eq!(seen.observations.signals["itl_p99"].why.as_deref(), Some("no series"));
}

#[test]
fn a_decode_replica_tells_its_transfers_and_whoever_waits_for_one() {
    let seen = read("sg-decode");
    assert_values(
        &seen,
        &[
            ("kv_transfer_failure_rate", 0.1),
            ("kv_transfer_time_mean", 0.25),
            ("requests_deferred", 7.0),
            ("requests_waiting", 145.0),
            ("decode_pool_waiting", 145.0),
            ("requests_queued", 152.0),
            // Nobody leaves: counted as one in five minutes.
            ("kv_transfer_wait", 7.0 / 0.0033),
        ],
    );
}

#[test]
fn a_counter_that_is_born_within_the_window_does_not_hide_the_zero_of_the_others() {
    // Prometheus knows no value before the first sample: a single one gives no rate.
    assert_values(&read("sg-retracting"), &[("preemption_rate", 0.0)]);
}

#[test]
fn a_hung_scheduler_is_seen_although_its_gauges_still_stand() {
    assert_values(&read("sg-stalled"), &[("stalled_requests", 4.0 + 145.0), ("generation_token_rate", 0.0)]);
}

#[test]
fn one_of_two_data_parallel_ranks_hangs_beside_the_other() {
    assert_values(&read("sg-hung-rank"), &[("stalled_requests", 4.0), ("generation_token_rate", 50.0)]);
}

#[test]
fn a_frozen_scheduler_is_seen_by_the_requests_that_wait_for_it() {
    assert_values(&read("sg-frozen"), &[("stalled_requests", 3.0), ("requests_running", 0.0)]);
    let of_model = observed(&[("namespace", "sg-frozen"), ("model", "tiny")], slot(SLOT) + 60);
    assert_values(&of_model, &[("stalled_requests", 3.0)]);
}

#[test]
fn a_model_that_no_series_has_is_no_data_with_its_reason() {
    let seen = observed(&[("namespace", "sg-healthy"), ("model", "other")], slot(SLOT) + 60);
    assert_eq!(seen.detection.notes, ["no sglang series of the last hour has model_name=`other`"]);
    assert_no_data(&seen, &["ttft_p99", "requests_running", "error_ratio", "replicas_serving"]);
}

#[test]
fn an_old_server_beside_a_new_one_is_counted_by_what_it_has() {
    let seen = read("sg-mixed");
    assert_eq!(seen.observations.pool, ["sglang-0", "sglang-old"]);
    assert_values(
        &seen,
        &[
            ("generation_token_rate", 5_784.0 / 60.0 + 60.0),
            ("computed_prompt_token_rate", 14_388.0 / 60.0 + 150.0),
            ("prefix_cache_hit_ratio", (182.0 / 60.0 + 50.0) / (14_570.0 / 60.0 + 200.0)),
            ("requests_running", 5.0),
            ("waiting_per_replica", 1.0),
            ("kv_cache_usage", 1.0),
            ("replicas_serving", 2.0),
        ],
    );
    // What it cannot tell is not made up of zeros.
    for signal in ["preemption_rate", "kv_cache_capacity_tokens", "stalled_requests"] {
        assert_eq!(replicas(&seen, signal).keys().copied().collect::<Vec<_>>(), ["sglang-0"], "{signal}");
    }
    let slow = replicas(&seen, "itl_p50")["sglang-old"];
    assert!((slow - 0.025).abs() < 1e-6, "time_per_output_token_seconds stands in: {slow}");
}
