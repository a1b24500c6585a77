//! Each fault shows on the pages what tells it apart, and nothing that it is not.

use super::exposition::Family;
use super::figures::{Figures, measure};
use super::{Fault, Fleet, FleetSpec};

const START: f64 = 1_780_000_000.0;

/// A fleet on which the fault shows, after ten minutes of normal service.
fn warm(text: &str) -> Fleet {
    let fault: Fault = text.parse().expect("a known fault");
    warm_of(FleetSpec::for_fault(&fault, 4))
}

fn warm_of(spec: FleetSpec) -> Fleet {
    let mut fleet = Fleet::new(spec, 1, START).expect("the spec is valid");
    fleet.advance_to(START + 600.0);
    fleet
}

/// A stretch of time: its figures, and what the pages counted in it.
struct Seen {
    before: Vec<(String, f64)>,
    after: Vec<(String, f64)>,
    pool: Figures,
}

impl Seen {
    /// The sum over the samples whose text begins with `name` and holds all of `labels`.
    fn now(&self, name: &str, labels: &[&str]) -> f64 {
        sum(&self.after, name, labels)
    }

    /// By how much that rose.
    fn rise(&self, name: &str, labels: &[&str]) -> f64 {
        self.now(name, labels) - sum(&self.before, name, labels)
    }

    /// Mean of a histogram's observations, 0 without any.
    fn mean(&self, histogram: &str) -> f64 {
        let count = self.rise(&format!("{histogram}_count"), &[]);
        if count > 0.0 { self.rise(&format!("{histogram}_sum"), &[]) / count } else { 0.0 }
    }
}

fn sum(samples: &[(String, f64)], name: &str, labels: &[&str]) -> f64 {
    let named = |text: &str| text.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
    let meant = samples.iter().filter(|(text, _)| named(text) && labels.iter().all(|label| text.contains(label)));
    meant.map(|(_, value)| value).sum()
}

/// All samples of all pages that answer, as `name{instance="..",label="value",}`.
fn samples(fleet: &Fleet) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for target in fleet.targets() {
        let families: Vec<Family> = fleet.families(&target).unwrap_or_default();
        for family in &families {
            for sample in &family.samples {
                let mut text = format!("{}{}{{instance=\"{}\",", family.name, sample.suffix, target.instance);
                for (name, value) in &sample.labels {
                    text.push_str(&format!("{name}=\"{value}\","));
                }
                text.push('}');
                all.push((text, sample.value));
            }
        }
    }
    all
}

fn seen(fleet: &mut Fleet, seconds: f64) -> Seen {
    let before = samples(fleet);
    let (pool, _) = measure(fleet, seconds);
    Seen { before, after: samples(fleet), pool }
}

/// Five minutes that begin a minute after the fault.
fn under(text: &str) -> Seen {
    let mut fleet = warm(text);
    fleet.inject(text.parse().expect("a known fault")).expect("the fleet can have it");
    fleet.advance_to(fleet.now() + 60.0);
    seen(&mut fleet, 300.0)
}

fn healthy(spec: FleetSpec) -> Seen {
    seen(&mut warm_of(spec), 300.0)
}

#[test]
fn every_recipe_is_healthy_before_its_fault() {
    for fault in Fault::ALL.iter().filter(|fault| !matches!(fault, Fault::SlotsRaised { .. })) {
        let pool = healthy(FleetSpec::for_fault(fault, 4)).pool;
        assert!(pool.ttft_p99 < 1.5 && pool.itl_p99 < 0.11 && pool.waiting_mean < 0.5, "{fault} {pool:?}");
        assert!(pool.aborted == 0.0 && pool.ready == 1.0 && pool.error_share == 0.0, "{fault} {pool:?}");
    }
}

#[test]
fn a_few_huge_prompts_stall_the_small_ones_while_the_pool_has_room() {
    let Seen { pool, .. } = under("head-of-line-blocking");
    assert!(pool.ttft_p99 > 5.0 && pool.ttft_p99 > 6.0 * pool.ttft_p50, "{pool:?}");
    assert!(pool.waiting_mean > 0.5 && pool.kv_mean < 0.6 && pool.preemptions == 0.0, "{pool:?}");
}

#[test]
fn a_full_api_server_delays_first_tokens_and_nobody_waits_in_the_engine() {
    let seen = under("frontend-cpu-bound");
    let cpu = seen.rise("process_cpu_seconds_total", &[]) / 300.0 / 4.0;
    assert!(seen.pool.ttft_p99 > 5.0 && cpu > 0.9 && cpu < 1.05, "{cpu} {:?}", seen.pool);
    assert!(seen.mean("vllm:request_queue_time_seconds") < 0.5 && seen.pool.waiting_mean < 1.0, "{:?}", seen.pool);
    assert!(seen.mean("vllm:time_to_first_token_seconds") > 3.0, "{:?}", seen.pool);
    assert!(seen.rise("container_cpu_usage_seconds_total", &[]) > 300.0 * 4.0 * 0.9);
    let fine = healthy(FleetSpec::sized(4));
    assert!(fine.rise("process_cpu_seconds_total", &[]) / 300.0 / 4.0 < 0.4);
}

#[test]
fn more_slots_make_each_token_later_and_leave_the_pool_empty() {
    let seen = under("slots-raised");
    assert!(seen.pool.itl_p99 > 0.15 && seen.pool.running_mean > 100.0, "{:?}", seen.pool);
    assert!(seen.pool.kv_mean < 0.6 && seen.pool.waiting_mean < 1.0, "{:?}", seen.pool);
    let mut surge = warm_of(FleetSpec::decode_heavy(4));
    surge.inject("traffic-surge:factor=2.1".parse().expect("known")).expect("pool-wide");
    surge.advance_to(surge.now() + 120.0);
    let (pool, _) = measure(&mut surge, 300.0);
    assert!(pool.itl_p99 > 0.15 && pool.kv_mean < 0.6 && pool.waiting_mean < 1.0, "{pool:?}");
}

#[test]
fn grammars_defer_requests_that_the_scheduler_has_room_for() {
    let seen = under("deferred-queue");
    let deferred = seen.now("vllm:num_requests_waiting_by_reason", &["reason=\"deferred\""]);
    let capacity = seen.now("vllm:num_requests_waiting_by_reason", &["reason=\"capacity\""]);
    assert!(deferred > 4.0 && capacity < 2.0, "{deferred} {capacity}");
    assert_eq!(deferred + capacity, seen.now("vllm:num_requests_waiting", &[]));
    assert!(seen.pool.ttft_p99 > 5.0 && seen.pool.kv_mean < 0.6, "{:?}", seen.pool);
}

#[test]
fn too_many_adapters_wait_for_slots_and_are_named() {
    let seen = under("lora-thrash");
    let fine = healthy(FleetSpec::with_lora(4));
    let waits = |seen: &Seen| {
        let newest = |text: &str| {
            let of =
                |(other, _): &&(String, f64)| other.starts_with("vllm:lora_requests_info{") && other.contains(text);
            let latest = seen.after.iter().filter(of).max_by(|a, b| a.1.total_cmp(&b.1));
            latest.is_some_and(|(text, _)| !text.contains("waiting_lora_adapters=\"\""))
        };
        (10..14).filter(|last| newest(&format!("instance=\"10.42.0.{last}:"))).count()
    };
    assert_eq!((waits(&fine), waits(&seen)), (0, 4));
    assert!(seen.now("vllm:num_requests_waiting_by_reason", &["deferred"]) > 20.0);
    assert!(seen.pool.ttft_p99 > 5.0 && seen.pool.kv_mean < 0.5 && seen.pool.preemptions < 0.01, "{:?}", seen.pool);
}

#[test]
fn rejected_drafts_make_answers_slow_at_the_same_demand() {
    let ratio = |seen: &Seen| {
        seen.rise("vllm:spec_decode_num_accepted_tokens_total", &[])
            / seen.rise("vllm:spec_decode_num_draft_tokens_total", &[])
    };
    let (fine, bad) = (healthy(FleetSpec::speculative(4)), under("spec-decode-ineffective"));
    assert!(ratio(&fine) > 0.5 && ratio(&bad) < 0.05, "{} {}", ratio(&fine), ratio(&bad));
    let tpot = "vllm:request_time_per_output_token_seconds";
    assert!(bad.mean(tpot) > 2.0 * fine.mean(tpot), "{} {}", bad.mean(tpot), fine.mean(tpot));
    assert!(bad.pool.itl_mean > 1.3 * fine.pool.itl_mean, "{:?}", bad.pool);
    // Each step yields one token and those accepted, so tokens and answers still add up.
    let tokens = fine.rise("vllm:generation_tokens_total", &[]);
    let answers = fine.rise("vllm:request_generation_tokens_sum", &[]);
    assert!((tokens / answers - 1.0).abs() < 0.1, "{tokens} {answers}");
}

#[test]
fn a_slow_link_shows_at_the_bus_or_in_its_errors() {
    let pcie = |seen: &Seen| seen.now("DCGM_FI_PROF_PCIE_TX_BYTES", &[]) / 4.0;
    let errors = |seen: &Seen| seen.rise("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", &[]);
    let fine = healthy(FleetSpec::for_fault(&"interconnect-slow".parse().expect("known"), 4));
    let (slow, broken) = (under("interconnect-slow"), under("interconnect-slow:link=nvlink"));
    assert!(pcie(&slow) > 10.0 * pcie(&fine) && errors(&slow) == 0.0, "{}", pcie(&slow));
    assert_eq!(slow.rise("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", &[]), 0.0);
    assert!(pcie(&broken) < 2.0 * pcie(&fine) && errors(&broken) > 100.0 && errors(&fine) == 0.0);
    assert!(slow.pool.itl_p99 > 0.15 && slow.pool.clock_mhz > 1_400.0, "{:?}", slow.pool);
}

#[test]
fn slow_decoding_without_a_reason_is_slow_with_few_requests_too() {
    let mut fleet = warm_of(FleetSpec { requests_per_second: 0.8, ..FleetSpec::sized(4) });
    fleet.inject("slow-decode:slowdown=10".parse().expect("known")).expect("pool-wide");
    fleet.advance_to(fleet.now() + 60.0);
    let (pool, _) = measure(&mut fleet, 300.0);
    assert!(pool.itl_p99 > 0.15 && pool.running_mean < 15.0 && pool.clock_mhz > 1_400.0, "{pool:?}");
    assert_eq!(fleet.generation(), 1);
}

#[test]
fn slow_kv_transfers_defer_requests_and_failed_ones_are_computed_here() {
    let local = |seen: &Seen| seen.rise("vllm:prompt_tokens_by_source_total", &["local_compute"]);
    let xfer = "vllm:nixl_xfer_time_seconds";
    let (fine, bad) = (healthy(FleetSpec::decode_pods(4)), under("kv-transfer-slow"));
    assert!(bad.mean(xfer) > 15.0 * fine.mean(xfer), "{} {}", bad.mean(xfer), fine.mean(xfer));
    assert!(fine.rise("vllm:nixl_num_failed_transfers_total", &[]) == 0.0);
    assert!(bad.rise("vllm:nixl_num_failed_transfers_total", &[]) > 50.0);
    assert!(local(&bad) > 10.0 * local(&fine), "{} {}", local(&bad), local(&fine));
    assert!(bad.pool.ttft_p50 > 5.0 * fine.pool.ttft_p50 && bad.pool.kv_mean < 0.7, "{:?}", bad.pool);
    let fetching = bad.now("vllm:num_requests_kv_fetch_by_stage", &[]);
    assert_eq!(fetching, bad.now("vllm:num_requests_waiting_by_reason", &["deferred"]));
}

#[test]
fn a_cold_replica_is_slow_at_first_and_recovers_by_itself() {
    let mut fleet = warm("cold-start");
    let started = |fleet: &Fleet| fleet.replicas()[1].stats().map(|stats| stats.started);
    let before = started(&fleet);
    fleet.inject("cold-start:replica=1".parse().expect("known")).expect("there is a replica 1");
    let (_, early) = measure(&mut fleet, 90.0);
    assert!(early[1].itl_mean > 2.5 * early[0].itl_mean, "{early:?}");
    assert!(started(&fleet) > before && fleet.replicas()[1].pod.last_terminated == Some("Completed"));
    fleet.advance_to(fleet.now() + 240.0);
    let (_, late) = measure(&mut fleet, 120.0);
    assert!(late[1].itl_mean < 1.2 * late[0].itl_mean && late[1].ttft_p99 < 1.5, "{late:?}");
}

#[test]
fn an_engine_that_makes_embeddings_answers_without_a_token() {
    let seen = healthy(FleetSpec::embedding(4));
    assert!(seen.rise("vllm:request_success_total", &["stop"]) > 4_000.0 && seen.pool.waiting_mean < 0.5);
    assert!(seen.rise("vllm:prompt_tokens_total", &[]) > 2e6);
    assert_eq!(seen.now("vllm:generation_tokens_total", &[]), 0.0);
    assert_eq!(seen.now("vllm:prefix_cache_queries_total", &[]), 0.0);
    assert!(seen.rise("http_requests_total", &["/v1/embeddings"]) > 4_000.0);
}

#[test]
fn a_sleeping_engine_says_so_and_gets_no_request() {
    let seen = under("engine-asleep:replica=1");
    assert_eq!(seen.now("vllm:engine_sleep_state", &["awake"]), 3.0);
    assert_eq!(seen.now("vllm:engine_sleep_state", &["weights_offloaded"]), 1.0);
    assert_eq!(seen.rise("vllm:time_to_first_token_seconds_count", &["10.42.0.11:"]), 0.0);
    assert!(seen.now("DCGM_FI_DEV_FB_USED", &["8b-1\""]) < seen.now("DCGM_FI_DEV_FB_USED", &["8b-0\""]));
    assert!(seen.pool.ttft_p99 < 2.0, "{:?}", seen.pool);
}

#[test]
fn a_deadlocked_scheduler_runs_nothing_while_requests_wait() {
    let seen = under("engine-deadlocked:replica=0");
    let of = |name| seen.now(name, &["10.42.0.10:"]);
    assert_eq!(of("vllm:num_requests_running"), 0.0);
    assert!(of("vllm:num_requests_waiting") > 20.0 && of("vllm:kv_cache_usage_perc") == 0.0);
    for still in ["vllm:generation_tokens_total", "vllm:prompt_tokens_total", "vllm:request_success_total"] {
        assert_eq!(seen.rise(still, &["10.42.0.10:"]), 0.0);
    }
}

#[test]
fn two_ranks_share_a_page_on_which_their_engine_tells_them_apart() {
    let seen = under("ranks-uneven:factor=3");
    let tokens = |engine| seen.rise("vllm:generation_tokens_total", &[engine]);
    assert!(tokens("engine=\"0\"") > 2.0 * tokens("engine=\"1\"") && tokens("engine=\"1\"") > 1_000.0);
    assert_eq!(seen.now("kube_deployment_status_replicas_ready", &[]), 4.0);
    assert_eq!(seen.now("process_start_time_seconds", &[]), 0.0);
}

#[test]
fn leases_that_nobody_ends_fill_a_cache_that_nothing_runs_on() {
    let seen = under("kv-leases-kept:seconds=200");
    let of = |name, pod| seen.now(name, &[pod]);
    assert!(of("vllm:kv_cache_usage_perc", "10.42.0.10:") > 0.95);
    assert!(of("vllm:num_requests_running", "10.42.0.10:") <= 1.0);
    assert!(seen.rise("vllm:nixl_num_kv_expired_reqs_total", &[]) > 50.0);
    let fine = healthy(FleetSpec::prefill_decode(4));
    let answers = |engine| fine.rise("vllm:request_generation_tokens_sum", &[engine]);
    let prompts = |engine| fine.rise("vllm:request_generation_tokens_count", &[engine]);
    assert_eq!(answers("10.42.0.10:"), prompts("10.42.0.10:"));
    assert!(answers("10.42.0.14:") > 100.0 * prompts("10.42.0.14:"));
    assert!(fine.now("vllm:kv_cache_usage_perc", &["10.42.0.10:"]) < 0.2);
}

#[test]
fn a_cache_in_host_memory_moves_gigabytes_over_pcie() {
    let seen = healthy(FleetSpec::offloading(4));
    let bytes = ["load", "store"].map(|way| seen.rise(&format!("vllm:kv_offload_{way}_bytes_total"), &[]) / 300.0);
    assert!(bytes.iter().all(|bytes| (2e9..2e10).contains(bytes)), "{bytes:?}");
    let pcie = ["TX", "RX"].map(|way| seen.now(&format!("DCGM_FI_PROF_PCIE_{way}_BYTES"), &[]));
    assert!(pcie.iter().sum::<f64>() > 0.5 * bytes.iter().sum::<f64>(), "{pcie:?} {bytes:?}");
    assert!(seen.rise("vllm:external_prefix_cache_hits_total", &[]) > 1e5);
}
