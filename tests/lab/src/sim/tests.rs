//! The promises of the simulation: nothing gets lost, everything repeats, each fault shows its tells.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::figures::{Figures, measure};
use super::spec::{Release, Routing};
use super::{Fault, Fleet, FleetSpec, History, TargetKind, history, live};

const START: f64 = 1_780_000_000.0;

/// A fleet after two minutes of normal service.
fn warm(spec: FleetSpec) -> Fleet {
    let mut fleet = Fleet::new(spec, 1, START).expect("the spec is valid");
    fleet.advance_to(START + 120.0);
    fleet
}

fn fault(text: &str) -> Fault {
    text.parse().expect("a known fault")
}

/// The pool's and the replicas' figures in minutes two to five of a fault.
fn under(text: &str) -> (Figures, Vec<Figures>) {
    let mut fleet = warm(FleetSpec::sized(4));
    fleet.inject(fault(text)).expect("the replica exists");
    measure(&mut fleet, 60.0);
    measure(&mut fleet, 240.0)
}

#[test]
fn a_healthy_fleet_is_fast_and_has_room_at_every_hour() {
    for replicas in [4, 8] {
        for hour in 0..6 {
            let start = START + f64::from(hour) * 14_400.0;
            let mut fleet = Fleet::new(FleetSpec::sized(replicas), 3, start).expect("valid");
            fleet.advance_to(start + 120.0);
            let (pool, _) = measure(&mut fleet, 300.0);
            assert!(pool.ttft_p99 < 1.0 && pool.itl_p99 < 0.06, "{pool:?}");
            assert!((0.3..0.6).contains(&pool.kv_mean) && pool.waiting_mean < 0.5, "{pool:?}");
            assert!(pool.preemptions < 0.01 && pool.aborted == 0.0 && pool.ready == 1.0, "{pool:?}");
        }
    }
}

#[test]
fn every_request_ends_once_or_is_in_flight_whatever_goes_wrong() {
    for all in Fault::ALL {
        let mut fleet = warm(FleetSpec::for_fault(&all, 4));
        fleet.inject(all).expect("the replica exists");
        for second in 0..400 {
            if second == 200 {
                fleet.clear(all);
            }
            fleet.advance_to(fleet.now() + 1.0);
            let ended = fleet.ended();
            let known = ended.finished + ended.aborted + ended.rejected + ended.lost + ended.refused;
            assert_eq!(ended.arrived, known + fleet.in_flight(), "{all} after {second} s: {ended:?}");
        }
        assert!(fleet.ended().finished > 1_000, "{all}");
    }
}

#[test]
fn the_blocks_in_use_are_those_of_the_sequences_and_never_more_than_the_pool() {
    let mut fleet = warm(FleetSpec::sized(2));
    for all in [fault("longer-outputs"), fault("capacity-shrunk")] {
        fleet.inject(all).expect("pool-wide");
        for _ in 0..3_000 {
            fleet.advance_to(fleet.now() + 0.1);
            for engine in fleet.replicas().iter().filter_map(|replica| replica.engine.as_ref()) {
                assert_eq!(engine.used_blocks(), engine.held_blocks());
                assert!(engine.used_blocks() <= engine.stats.num_gpu_blocks);
            }
        }
    }
}

#[test]
fn a_drained_engine_has_all_its_blocks_back() {
    let mut fleet = warm(FleetSpec::sized(1));
    fleet.inject(fault("longer-outputs")).expect("pool-wide");
    fleet.advance_to(fleet.now() + 120.0);
    fleet.clear_all();
    fleet.inject(fault("client-errors:share=1")).expect("pool-wide");
    fleet.advance_to(fleet.now() + 120.0);
    let engine = fleet.replicas()[0].engine.as_ref().expect("nothing stopped it");
    assert_eq!((engine.in_flight(), engine.used_blocks()), (0, 0));
}

#[test]
fn the_same_seed_and_faults_give_the_same_bytes() {
    let run = |seed| {
        let mut fleet = Fleet::new(FleetSpec::sized(2), seed, START).expect("valid");
        let mut history = History::new(5.0);
        history.record(&mut fleet, START + 60.0);
        fleet.inject(fault("lost-replica")).expect("there is a replica 0");
        history.record(&mut fleet, START + 120.0);
        let mut bytes = Vec::new();
        history.write(&mut bytes).expect("memory");
        bytes
    };
    assert!(run(7) == run(7));
    assert!(run(7) != run(8));
}

#[test]
fn how_often_one_looks_does_not_change_what_happens() {
    let look = |step: f64| {
        let mut fleet = Fleet::new(FleetSpec::sized(2), 7, START).expect("valid");
        let mut t = START;
        while t < START + 90.0 {
            t += step;
            fleet.advance_to(t);
        }
        fleet.advance_to(START + 90.0);
        fleet.targets().iter().map(|target| fleet.page(target)).collect::<Vec<_>>()
    };
    assert_eq!(look(0.125), look(90.0));
}

#[test]
fn longer_prompts_exhaust_the_kv_cache_within_a_minute() {
    let mut fleet = warm(FleetSpec::sized(4));
    fleet.inject(fault("longer-prompts")).expect("pool-wide");
    measure(&mut fleet, 30.0);
    let (soon, _) = measure(&mut fleet, 30.0);
    assert!(soon.ttft_p99 > 5.0, "{soon:?}");
    let (pool, _) = measure(&mut fleet, 240.0);
    assert!(pool.kv_mean > 0.9 && pool.kv_max > 0.98, "{pool:?}");
    assert!(pool.waiting_mean > 10.0 && pool.preemptions > 0.05, "{pool:?}");
    assert!(pool.prompt_tokens > 1_800.0 && (2.7..3.3).contains(&pool.sent), "{pool:?}");
}

#[test]
fn a_slot_limit_queues_requests_while_blocks_are_free() {
    let (pool, _) = under("slot-limit");
    assert!(pool.ttft_p99 > 5.0 && pool.waiting_mean > 10.0, "{pool:?}");
    assert!(pool.kv_max < 0.85 && pool.preemptions == 0.0, "{pool:?}");
    assert!(pool.running_max == 8.0 && pool.running_mean > 7.5, "{pool:?}");
}

#[test]
fn a_prefill_bound_fleet_is_slow_to_answer_with_a_short_queue() {
    let (pool, _) = under("prefill-bound");
    assert!(pool.ttft_p99 > 5.0 && pool.prefill_mean > 0.4, "{pool:?}");
    assert!(pool.kv_mean < 0.6 && pool.waiting_mean < 10.0 && pool.preemptions == 0.0, "{pool:?}");
    assert!(pool.itl_p99 < 0.06 && pool.computed_prompt_tokens > 4_000.0, "{pool:?}");
}

#[test]
fn throttled_gpus_slow_every_token_at_a_low_clock() {
    let (pool, _) = under("gpu-throttling");
    assert!(pool.itl_p99 > 0.15 && pool.clock_mhz < 500.0, "{pool:?}");
    let (pool, each) = under("gpu-throttling:replica=2,cause=power");
    assert!(each[2].clock_mhz < 500.0 && each[1].clock_mhz > 1_400.0, "{pool:?}");
    assert!(each[2].itl_p99 > 3.0 * each[1].itl_p99, "{pool:?}");
}

#[test]
fn a_bad_replica_stands_out_from_its_peers_at_a_normal_clock() {
    let (_, each) = under("bad-replica");
    assert!(each[1].itl_p99 > 3.0 * each[0].itl_p99, "{each:?}");
    assert!(each[1].ttft_p99 > 3.0 * each[0].ttft_p99 && each[0].ttft_p99 < 1.0, "{each:?}");
    assert!(each[1].clock_mhz == each[0].clock_mhz, "{each:?}");
}

#[test]
fn a_stalled_engine_has_running_requests_and_makes_no_tokens() {
    let (_, each) = under("stalled-engine");
    assert!(each[0].running_mean > 0.0 && each[0].generated == 0.0 && each[0].ready == 1.0, "{each:?}");
    assert!(each[1].generated > 100.0, "{each:?}");
}

#[test]
fn a_lost_replica_leaves_its_load_to_the_others() {
    let (pool, each) = under("lost-replica");
    assert!(pool.ready == 0.75 && each[0].sent == 0.0 && each[1].sent > 3.5, "{each:?}");
    let mut fleet = warm(FleetSpec::sized(4));
    let healthy = measure(&mut fleet, 60.0).0;
    assert!(pool.kv_mean > 0.1 + 0.75 * healthy.kv_mean, "{pool:?}");
}

#[test]
fn a_surge_brings_more_requests_of_the_same_length() {
    let (pool, _) = under("traffic-surge");
    assert!(pool.sent > 6.5 && pool.ttft_p99 > 5.0 && pool.kv_mean > 0.9, "{pool:?}");
    assert!((600.0..900.0).contains(&pool.prompt_tokens), "{pool:?}");
}

#[test]
fn outputs_tell_longer_answers_from_runaway_ones() {
    let (longer, _) = under("longer-outputs");
    assert!(longer.output_tokens > 400.0 && longer.length_share < 0.1 && longer.ttft_p99 > 5.0, "{longer:?}");
    let (runaway, _) = under("runaway-generation");
    assert!(runaway.output_tokens > 400.0 && runaway.length_share > 0.95, "{runaway:?}");
}

#[test]
fn a_lost_prefix_cache_means_more_computed_tokens_for_the_same_prompts() {
    let (pool, _) = under("prefix-cache-collapse");
    assert!(pool.hit_ratio < 0.1 && pool.computed_prompt_tokens > 2_000.0 && pool.kv_mean < 0.7, "{pool:?}");
}

#[test]
fn less_capacity_fills_the_pool_with_the_same_requests() {
    let (pool, _) = under("capacity-shrunk");
    assert!(pool.kv_mean > 0.9 && pool.preemptions > 0.05 && pool.ttft_p99 > 5.0, "{pool:?}");
    assert!(pool.running_mean < 16.0 && (2.7..3.3).contains(&pool.sent), "{pool:?}");
}

#[test]
fn a_skewed_router_overloads_one_replica_while_others_idle() {
    let (_, each) = under("routing-skew");
    assert!(each[0].sent > 3.0 * each[1].sent && each[0].waiting_mean > 10.0, "{each:?}");
    assert!(each[1].kv_mean < 0.4 && each[1].waiting_mean < 0.5, "{each:?}");
}

#[test]
fn errors_show_in_the_status_class_that_was_asked_for() {
    let (pool, _) = under("client-errors:share=0.3");
    assert!((0.25..0.35).contains(&pool.error_share) && pool.ttft_p99 < 1.0, "{pool:?}");
    let mut fleet = warm(FleetSpec::sized(1));
    fleet.inject(fault("client-errors:status=5xx")).expect("pool-wide");
    fleet.advance_to(fleet.now() + 60.0);
    let page = fleet.page(&fleet.targets()[0]).expect("up");
    assert!(page.contains("status=\"5xx\"") && !page.contains("status=\"4xx\""));
}

#[test]
fn a_fleet_recovers_within_two_minutes_of_any_fault() {
    for all in Fault::ALL {
        let mut fleet = warm(FleetSpec::for_fault(&all, 4));
        let (healthy, _) = measure(&mut fleet, 60.0);
        fleet.inject(all).expect("the replica exists");
        measure(&mut fleet, 300.0);
        fleet.clear(all);
        measure(&mut fleet, 120.0);
        let (pool, _) = measure(&mut fleet, 60.0);
        assert!(
            pool.ttft_p99 < (1.5 * healthy.ttft_p99).max(1.0)
                && pool.itl_p99 < (1.4 * healthy.itl_p99).max(0.06)
                && pool.kv_mean < 0.65
                && pool.ready == 1.0,
            "{all} {pool:?}"
        );
    }
}

#[test]
fn a_rollout_changes_generation_and_process_start_but_not_the_names() {
    let mut fleet = warm(FleetSpec::sized(4));
    let before = fleet.targets();
    let started = |fleet: &Fleet| fleet.replicas().iter().map(|r| r.stats().map(|s| s.started)).collect::<Vec<_>>();
    let old = started(&fleet);
    fleet.inject(fault("slot-limit")).expect("pool-wide");
    fleet.advance_to(fleet.now() + 60.0);
    let new = started(&fleet);
    assert!(old.iter().zip(&new).all(|(old, new)| new > old));
    assert_eq!((fleet.generation(), fleet.targets()), (2, before));
}

#[test]
fn a_crash_loop_counts_restarts_and_waits_longer_each_time() {
    let mut fleet = warm(FleetSpec::sized(2));
    fleet.inject(fault("lost-replica:replica=1")).expect("there is a replica 1");
    let state = fleet.targets().into_iter().find(|t| t.kind == TargetKind::KubeStateMetrics).expect("always there");
    let mut waiting = 0;
    for _ in 0..120 {
        fleet.advance_to(fleet.now() + 1.0);
        let page = fleet.page(&state).expect("up");
        waiting += u32::from(page.contains("reason=\"CrashLoopBackOff\"} 1"));
    }
    assert!((80..110).contains(&waiting), "{waiting}");
    assert_eq!(fleet.replicas()[1].pod.restarts, 4);
    assert!(fleet.page(&fleet.targets()[1]).is_none());
}

#[test]
fn a_least_loaded_router_steers_around_a_slow_replica() {
    let spec = FleetSpec { routing: Routing::LeastLoaded, ..FleetSpec::sized(4) };
    let mut fleet = warm(spec);
    fleet.inject(fault("bad-replica")).expect("there is a replica 1");
    measure(&mut fleet, 60.0);
    let (pool, each) = measure(&mut fleet, 240.0);
    assert!(pool.ttft_p99 < 2.0 && each[1].sent < 0.6 * each[0].sent, "{each:?}");
}

#[test]
fn a_fault_reads_as_it_is_written_and_bad_ones_are_explained() {
    for all in Fault::ALL {
        assert_eq!(fault(&all.to_string()), all);
        assert_eq!(fault(all.name()), all);
    }
    let error = |text: &str| format!("{:#}", text.parse::<Fault>().expect_err("not a fault"));
    assert!(error("nonsense").starts_with("unknown fault `nonsense`, expected one of longer-prompts,"));
    assert_eq!(error("bad-replica:slowdown=-1"), "fault `bad-replica`: parameter `slowdown=-1`: expected 0.01 to 100");
    assert_eq!(error("slot-limit:share=1"), "fault `slot-limit`: parameter `share=1`: no such parameter");
    let unknown = warm(FleetSpec::sized(2)).inject(fault("lost-replica:replica=2")).expect_err("only two");
    assert_eq!(unknown.to_string(), "fault `lost-replica:replica=2`: the fleet has replicas 0 to 1");
}

#[test]
fn promtool_finds_every_page_well_formed() {
    let mut old = FleetSpec::sized(2);
    old.engine.release = Release::V0_8;
    let recipes =
        ["lora-thrash", "spec-decode-ineffective", "kv-transfer-slow", "noisy-neighbour", "gpu-hardware-fault"];
    let specs = recipes.map(|text| FleetSpec::for_fault(&fault(text), 2));
    for spec in [FleetSpec::sized(2), old].into_iter().chain(specs) {
        let fleet = warm(spec);
        for target in fleet.targets() {
            let page = fleet.page(&target).expect("up");
            let mut promtool = Command::new("promtool")
                .args(["check", "metrics"])
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("promtool is installed");
            promtool.stdin.take().expect("piped").write_all(page.as_bytes()).expect("it reads");
            let output = promtool.wait_with_output().expect("it ends");
            // 3 is for opinions on names, which are vLLM's and not ours.
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(output.status.code(), Some(0 | 3)), "{}: {errors}", target.job);
        }
    }
}

#[test]
fn promtool_makes_blocks_of_a_history() {
    let mut fleet = warm(FleetSpec::sized(2));
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("history.txt");
    let file = std::fs::File::create(&text).expect("a file");
    let from = fleet.now();
    history::write(&mut fleet, from, from + 300.0, 5.0, file).expect("it is written");
    let made = Command::new("promtool")
        .args(["tsdb", "create-blocks-from", "openmetrics"])
        .args([&text, &folder.path().join("data")])
        .output()
        .expect("promtool is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // Without a write-ahead log, `dump` refuses the folder.
    std::fs::create_dir(folder.path().join("data/wal")).expect("a folder");
    let dumped = Command::new("promtool")
        .args(["tsdb", "dump", "--match", "{__name__=~'up|DCGM_FI_DEV_SM_CLOCK'}"])
        .arg(folder.path().join("data"))
        .output()
        .expect("promtool is installed");
    let dumped = String::from_utf8_lossy(&dumped.stdout).into_owned();
    // Two servers, one GPU node, kube-state-metrics; two GPUs; 61 scrapes.
    assert_eq!(dumped.matches("__name__=\"up\"").count(), 4 * 61);
    assert_eq!(dumped.matches("exported_pod=\"vllm-llama-8b-1\"").count(), 61);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the live server follows the wall clock")]
async fn the_live_server_shows_the_present_and_takes_faults() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let fleet = Fleet::new(FleetSpec::sized(2), 1, now - 60.0).expect("valid");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let configs = live::scrape_configs(&fleet.targets(), &address.to_string(), "1s");
    let server = tokio::spawn(live::serve(fleet, listener));

    // Building a client needs a TLS provider even for plain HTTP; another test may have been first.
    rustls::crypto::ring::default_provider().install_default().ok();
    let client = reqwest::Client::builder().no_proxy().build().expect("plain HTTP");
    let url = |path: &str| format!("http://{address}{path}");
    let status = async |path: &str| client.get(url(path)).send().await.expect("an answer").status().as_u16();
    let groups = configs[0]["static_configs"].as_array().expect("one per replica");
    for group in groups {
        assert_eq!(status(group["labels"]["__metrics_path__"].as_str().expect("a path")).await, 200);
    }
    let inject = client.post(url("/faults/lost-replica:replica=1")).send().await.expect("an answer");
    let faults: serde_json::Value = inject.json().await.expect("the faults");
    assert_eq!(faults[3]["active"], serde_json::json!(["lost-replica:replica=1"]));
    assert_eq!((status("/targets/0/metrics").await, status("/targets/1/metrics").await), (200, 503));
    assert_eq!(status("/targets/9/metrics").await, 404);
    let nonsense = client.post(url("/faults/nonsense")).send().await.expect("an answer");
    assert_eq!(nonsense.status().as_u16(), 400);
    let cleared = client.delete(url("/faults/lost-replica")).send().await.expect("an answer");
    let faults: serde_json::Value = cleared.json().await.expect("the faults");
    assert_eq!(faults[3]["active"], serde_json::json!([]));
    server.abort();
}
