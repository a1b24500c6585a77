//! What goes wrong or only changes around the engines shows where Kubernetes and the GPUs are looked at.

use super::exposition::Family;
use super::figures::measure;
use super::spec::Unrest;
use super::{Fault, Fleet, FleetSpec, History, TargetKind};

const START: f64 = 1_780_000_000.0;

fn fault(text: &str) -> Fault {
    text.parse().expect("a known fault")
}

/// A fleet some seconds after the fault.
fn after(text: &str, seconds: f64) -> Fleet {
    let mut fleet = Fleet::new(FleetSpec::for_fault(&fault(text), 4), 1, START).expect("valid");
    fleet.advance_to(START + 120.0);
    fleet.inject(fault(text)).expect("the fleet can have it");
    fleet.advance_to(fleet.now() + seconds);
    fleet
}

/// The pages of a kind, as text.
fn pages(fleet: &Fleet, kind: fn(&TargetKind) -> bool) -> Vec<Option<String>> {
    fleet.targets().iter().filter(|target| kind(&target.kind)).map(|target| fleet.page(target)).collect()
}

fn kube(fleet: &Fleet) -> String {
    pages(fleet, |kind| *kind == TargetKind::KubeStateMetrics).remove(0).expect("up")
}

/// The sum of the samples on `page` that have this name and hold all `labels`.
fn sum(page: &str, name: &str, labels: &[&str]) -> f64 {
    let lines = page.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
    let meant = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
    meant.map(|line| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).expect("a number")).sum()
}

fn gpu_page(fleet: &Fleet) -> String {
    pages(fleet, |kind| matches!(kind, TargetKind::Dcgm(0))).remove(0).expect("up")
}

#[test]
fn an_xid_stays_with_its_gpu_and_takes_with_it_what_it_must() {
    let fleet = after("gpu-hardware-fault:replica=1,xid=79", 60.0);
    let page = gpu_page(&fleet);
    assert_eq!(sum(&page, "DCGM_FI_DEV_XID_ERRORS", &["gpu=\"1\""]), 79.0);
    assert!(!page.contains("DCGM_FI_DEV_FB_USED{gpu=\"1\"") && page.contains("DCGM_FI_DEV_FB_USED{gpu=\"0\""));
    assert!(!fleet.replicas()[1].pod.is_ready() && fleet.replicas()[1].pod.restarts > 1);

    let fleet = after("gpu-hardware-fault:xid=31", 60.0);
    assert_eq!((fleet.replicas()[1].pod.restarts, fleet.replicas()[1].pod.is_ready()), (1, true));
    assert_eq!(sum(&gpu_page(&fleet), "DCGM_FI_DEV_XID_ERRORS", &["gpu=\"1\""]), 31.0);
    assert_eq!(sum(&gpu_page(&fleet), "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", &[]), 0.0);

    let mut fleet = after("gpu-hardware-fault:xid=48", 60.0);
    assert!(sum(&gpu_page(&fleet), "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", &["gpu=\"1\""]) > 0.0);
    assert!(sum(&gpu_page(&fleet), "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", &[]) > 0.0);
    fleet.clear_all();
    fleet.advance_to(fleet.now() + 60.0);
    assert_eq!(sum(&gpu_page(&fleet), "DCGM_FI_DEV_XID_ERRORS", &[]), 48.0, "it keeps its last value");

    let fleet = after("gpu-hardware-fault:xid=64,dies=false", 60.0);
    assert!(sum(&gpu_page(&fleet), "DCGM_FI_DEV_ROW_REMAP_FAILURE", &[]) == 1.0 && fleet.replicas()[1].pod.is_ready());
    let fleet = after("gpu-hardware-fault:xid=74", 60.0);
    assert!(sum(&gpu_page(&fleet), "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", &["gpu=\"1\""]) > 0.0);
}

#[test]
fn a_server_killed_for_its_memory_restarts_with_that_reason() {
    let fleet = after("host-oom", 200.0);
    let page = kube(&fleet);
    let reason = ["vllm-llama-8b-0", "OOMKilled"];
    assert_eq!(sum(&page, "kube_pod_container_status_last_terminated_reason", &reason), 1.0);
    assert_eq!(sum(&page, "kube_pod_container_status_last_terminated_exitcode", &reason[..1]), 137.0);
    assert_eq!(sum(&page, "kube_pod_container_status_restarts_total", &[]), 3.0);
    let page = kube(&after("gpu-oom:replica=2", 200.0));
    assert_eq!(sum(&page, "kube_pod_container_status_restarts_total", &["vllm-llama-8b-2"]), 3.0);
    assert!(!page.contains("OOMKilled") && page.contains("Completed"), "{page}");
}

#[test]
fn a_model_that_does_not_load_stops_the_rollout_and_the_old_replicas_serve() {
    let mut fleet = after("model-load-failure", 300.0);
    let page = kube(&fleet);
    assert_eq!(sum(&page, "kube_deployment_status_replicas_ready", &[]), 3.0);
    assert_eq!(sum(&page, "kube_deployment_status_replicas_updated", &[]), 1.0);
    let restarts = fleet.replicas()[0].pod.restarts;
    assert!(restarts >= 3 && fleet.replicas()[0].engine.is_none(), "{restarts}");
    // Another pod than the one that was ready under this name.
    assert!(!page.contains("5f0c1a52-7d3e-4b8a-9c61-9e3779b97f4a"), "{page}");
    let (pool, _) = measure(&mut fleet, 60.0);
    assert!(pool.finished > 2.0 && pool.ready == 0.75, "{pool:?}");
}

#[test]
fn an_image_that_cannot_be_pulled_keeps_its_pod_pending() {
    let mut fleet = after("image-pull-failure", 30.0);
    let mut reasons = [0, 0];
    for _ in 0..240 {
        fleet.advance_to(fleet.now() + 1.0);
        let page = kube(&fleet);
        for (count, reason) in reasons.iter_mut().zip(["\"ImagePullBackOff\"", "\"ErrImagePull\""]) {
            *count += u32::from(sum(&page, "kube_pod_container_status_waiting_reason", &[reason]) == 1.0);
        }
        assert_eq!(sum(&page, "kube_pod_status_phase", &["phase=\"Pending\""]), 1.0);
    }
    assert!(reasons[0] > 100 && reasons[1] > 10 && reasons[0] + reasons[1] == 240, "{reasons:?}");
}

#[test]
fn replicas_without_a_place_are_pending_and_no_targets() {
    let mut fleet = after("unschedulable:by=2", 60.0);
    let page = kube(&fleet);
    assert_eq!(sum(&page, "kube_deployment_spec_replicas", &[]), 6.0);
    assert_eq!(sum(&page, "kube_pod_status_unschedulable", &[]), 2.0);
    assert_eq!(sum(&page, "kube_pod_status_scheduled", &["condition=\"false\""]), 2.0);
    assert_eq!(sum(&page, "kube_deployment_status_replicas_ready", &[]), 4.0);
    assert_eq!(pages(&fleet, |kind| matches!(kind, TargetKind::Vllm(_))).len(), 4);
    fleet.clear_all();
    let page = kube(&fleet);
    assert_eq!(sum(&page, "kube_deployment_spec_replicas", &[]), 4.0);
    assert!(!page.contains("kube_pod_status_unschedulable{") && !page.contains("vllm-llama-8b-5"));
}

#[test]
fn a_dead_node_takes_its_pods_and_its_exporter() {
    let fleet = after("node-down:node=1", 60.0);
    let page = kube(&fleet);
    let ready = ["condition=\"Ready\"", "status=\"unknown\"", "gpu-node-1"];
    assert_eq!(sum(&page, "kube_node_status_condition", &ready), 1.0);
    assert_eq!(sum(&page, "kube_node_status_condition", &["condition=\"Ready\"", "status=\"true\""]), 1.0);
    let up = pages(&fleet, |_| true).iter().map(Option::is_some).collect::<Vec<_>>();
    assert_eq!(up, [true, true, false, false, true, false, true]);
}

#[test]
fn an_autoscaler_follows_demand_to_its_maximum_and_back() {
    let mut fleet = after("autoscaler-at-max", 240.0);
    let page = kube(&fleet);
    let (desired, most) = ("status_desired_replicas", "spec_max_replicas");
    let of = |page: &str, name: &str| sum(page, &format!("kube_horizontalpodautoscaler_{name}"), &[]);
    assert_eq!((of(&page, desired), of(&page, most), of(&page, "status_current_replicas")), (5.0, 5.0, 5.0));
    assert_eq!(fleet.targets().last().map(|target| target.kind), Some(TargetKind::Dcgm(2)));
    fleet.clear_all();
    fleet.advance_to(fleet.now() + 600.0);
    assert!(of(&kube(&fleet), desired) < 5.0, "five minutes of calm are enough");
}

#[test]
fn a_neighbour_shows_where_it_takes() {
    let cpu = |fleet: &Fleet, name: &str| {
        let pages = pages(fleet, |kind| matches!(kind, TargetKind::Cadvisor(0)));
        sum(pages[0].as_ref().expect("up"), name, &["vllm-llama-8b-1"])
    };
    let throttled = "container_cpu_cfs_throttled_periods_total";
    let memory = |fleet: &Fleet, gpu: &str| sum(&gpu_page(fleet), "DCGM_FI_DEV_FB_USED", &[gpu]);
    for (takes, own, other) in [("throttle", true, false), ("steal", false, false), ("gpu", false, true)] {
        let mut fleet = after(&format!("noisy-neighbour:takes={takes}"), 120.0);
        assert_eq!(cpu(&fleet, throttled) > 500.0, own, "{takes}");
        assert!(cpu(&fleet, "container_cpu_cfs_periods_total") > 2_000.0);
        assert_eq!(memory(&fleet, "gpu=\"1\"") > memory(&fleet, "gpu=\"0\"") + 1_000.0, other, "{takes}");
        let (_, each) = measure(&mut fleet, 120.0);
        assert!(each[1].itl_mean > 2.0 * each[0].itl_mean, "{takes} {each:?}");
    }
}

#[test]
fn clients_that_leave_are_in_no_count_but_that_of_first_tokens() {
    let fleet = after("client-aborts", 300.0);
    let page = pages(&fleet, |kind| *kind == TargetKind::Vllm(0)).remove(0).expect("up");
    let done = sum(&page, "vllm:request_success_total", &[]);
    let begun = sum(&page, "vllm:time_to_first_token_seconds_count", &[]);
    assert!(begun > 1.1 * done && sum(&page, "vllm:request_success_total", &["abort"]) == 0.0, "{begun} {done}");
    assert!(sum(&page, "http_requests_total", &["2xx"]) > done);
}

#[test]
fn errors_of_an_engine_and_of_a_replica_are_told_apart() {
    let page =
        |fleet: &Fleet, i: usize| pages(fleet, |kind| matches!(kind, TargetKind::Vllm(_)))[i].clone().expect("up");
    let fleet = after("engine-errors", 300.0);
    let (error, all) = ("finished_reason=\"error\"", "vllm:request_success_total");
    let share = sum(&page(&fleet, 0), all, &[error]) / sum(&page(&fleet, 0), all, &[]);
    assert!((0.08..0.2).contains(&share) && !page(&fleet, 0).contains("5xx"), "{share}");
    let fleet = after("replica-errors", 300.0);
    assert!(page(&fleet, 1).contains("status=\"5xx\"") && !page(&fleet, 0).contains("status=\"5xx\""));
    assert_eq!(sum(&page(&fleet, 1), all, &[error]), 0.0);
}

#[test]
fn garbage_is_counted_and_runs_to_the_limit_after_a_rollout() {
    let mut fleet = after("output-corrupted", 120.0);
    let (pool, _) = measure(&mut fleet, 240.0);
    assert!(pool.length_share > 0.3 && pool.output_tokens > 350.0 && fleet.generation() == 2, "{pool:?}");
    let page = pages(&fleet, |kind| *kind == TargetKind::Vllm(0)).remove(0).expect("up");
    assert!(sum(&page, "vllm:corrupted_requests_total", &[]) > 50.0);
}

#[test]
fn a_rollout_alone_changes_generation_and_image_and_nothing_else() {
    let mut fleet = after("rollout", 120.0);
    let (pool, _) = measure(&mut fleet, 120.0);
    assert!(pool.ttft_p99 < 1.0 && pool.itl_p99 < 0.06 && pool.ready == 1.0, "{pool:?}");
    assert_eq!(sum(&kube(&fleet), "kube_deployment_metadata_generation", &[]), 2.0);
    assert_eq!(sum(&kube(&fleet), "kube_pod_container_info", &["build-102"]), 4.0);
    fleet.clear_all();
    assert_eq!(fleet.generation(), 2, "there is nothing to roll back");
    let mut worse = after("rollout-regression", 120.0);
    let (pool, _) = measure(&mut worse, 120.0);
    assert!(pool.itl_p99 > 0.15 && pool.clock_mhz > 1_400.0 && worse.generation() == 2, "{pool:?}");
}

#[test]
fn scaling_is_no_rollout_and_takes_nobody_by_surprise() {
    for (text, replicas) in [("scale-down", 3.0), ("scale-up:by=2", 6.0)] {
        let mut fleet = after(text, 60.0);
        let page = kube(&fleet);
        let of = |name: &str| sum(&page, &format!("kube_deployment_{name}"), &[]);
        assert_eq!((of("spec_replicas"), of("status_replicas_ready")), (replicas, replicas), "{text}");
        assert_eq!((fleet.generation(), fleet.metadata_generation()), (1, 2));
        assert_eq!(pages(&fleet, |kind| matches!(kind, TargetKind::Vllm(_))).len(), replicas as usize);
        let before = fleet.ended().refused;
        let (pool, each) = measure(&mut fleet, 60.0);
        assert!(pool.ready == 1.0 && fleet.ended().refused == before, "{text} {pool:?}");
        assert!(each.iter().take(replicas as usize).all(|replica| replica.sent > 0.5), "{text} {each:?}");
    }
}

#[test]
fn a_blip_ends_by_itself_and_less_demand_is_no_harm() {
    let mut fleet = after("blip:seconds=60", 30.0);
    let (in_it, _) = measure(&mut fleet, 29.0);
    fleet.advance_to(fleet.now() + 120.0);
    let (later, _) = measure(&mut fleet, 60.0);
    assert!(in_it.sent > 6.0 && later.sent < 4.0 && fleet.faults().is_empty(), "{later:?}");
    let (pool, _) = measure(&mut after("demand-drop", 60.0), 120.0);
    assert!(pool.sent < 1.2 && pool.ttft_p99 < 1.0 && pool.finished > 0.6, "{pool:?}");
}

#[test]
fn missing_pages_are_missing_while_everything_works() {
    let up = |fleet: &Fleet| pages(fleet, |_| true).iter().map(Option::is_some).collect::<Vec<_>>();
    let mut fleet = after("metrics-missing:replica=2", 30.0);
    assert_eq!(up(&fleet), [true, true, false, true, true, true, true]);
    let (_, each) = measure(&mut fleet, 60.0);
    assert!(each[2].finished > 2.0, "{each:?}");
    assert_eq!(up(&after("metrics-missing:page=gpu,replica=3", 30.0)), [true, true, true, true, true, false, true]);
    assert!(!up(&after("metrics-missing:page=kube", 30.0))[6]);
    let fleet = after("metrics-missing:page=stats,replica=1", 30.0);
    let page = pages(&fleet, |kind| *kind == TargetKind::Vllm(1)).remove(0).expect("up");
    assert!(!page.contains("vllm:") && page.contains("process_cpu_seconds_total"), "{page}");
}

#[test]
fn some_things_are_so_by_nature() {
    let long = |spec: FleetSpec| {
        let mut fleet = Fleet::new(spec, 1, START).expect("valid");
        fleet.advance_to(START + 300.0);
        measure(&mut fleet, 900.0).0
    };
    let full = long(FleetSpec::nearly_full(4));
    assert!(full.kv_mean > 0.8 && full.waiting_mean < 0.5 && full.preemptions < 0.01, "{full:?}");
    assert!(full.ttft_p99 < 1.0 && full.itl_p99 < 0.11, "{full:?}");
    let fresh = long(FleetSpec::fresh_prompts(4));
    assert!(fresh.hit_ratio < 0.1 && fresh.ttft_p99 < 1.5 && fresh.waiting_mean < 0.5, "{fresh:?}");
    let agents = long(FleetSpec::agents(4));
    assert!(agents.ttft_p99 < 2.0 && agents.aborted == 0.0, "{agents:?}");
}

#[test]
fn a_fault_that_the_fleet_cannot_have_is_refused_with_the_reason() {
    let mut fleet = Fleet::new(FleetSpec::sized(2), 1, START).expect("valid");
    let mut refused = |text: &str| format!("{}", fleet.inject(fault(text)).expect_err("cannot be"));
    assert!(refused("lora-thrash").ends_with("its engines have no LoRA (`engine.lora`)"));
    assert_eq!(refused("node-down:node=1"), "fault `node-down:node=1`: the fleet has nodes 0 to 0");
    assert!(fleet.faults().is_empty());
}

#[test]
fn arrivals_wander_around_their_mean_when_they_are_told_to() {
    let counts = |unrest: Unrest| {
        let spec = FleetSpec { unrest, diurnal_amplitude: 0.0, ..FleetSpec::sized(2) };
        let mut fleet = Fleet::new(spec, 5, START).expect("valid");
        let mut last = 0;
        let counts: Vec<f64> = (1..=240)
            .map(|minute| {
                fleet.advance_to(START + 60.0 * f64::from(minute));
                let arrived = fleet.ended().arrived;
                (arrived - std::mem::replace(&mut last, arrived)) as f64
            })
            .collect();
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        (mean, variance / mean)
    };
    let (calm, wild) = (counts(Unrest::default()), counts(Unrest::usual()));
    // Of a Poisson process the variance is the mean.
    assert!((340.0..380.0).contains(&calm.0) && (0.6..1.5).contains(&calm.1), "{calm:?}");
    assert!((300.0..430.0).contains(&wild.0) && wild.1 > 3.0, "{wild:?}");
}

/// The (seconds, value) of the samples of a series whose line holds all of `parts`.
fn written(history: &History, parts: &[&str]) -> Vec<(f64, f64)> {
    let mut text = Vec::new();
    history.write(&mut text).expect("memory");
    let text = String::from_utf8(text).expect("text");
    let lines = text.lines().filter(|line| parts.iter().all(|part| line.contains(part)));
    let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).expect("a number");
    lines
        .map(|line| {
            let mut ends = line.rsplitn(3, ' ');
            let at = number(ends.next());
            (at, number(ends.next()))
        })
        .collect()
}

#[test]
fn a_history_is_dense_where_it_is_asked_to_be_and_keeps_only_what_is_wanted() {
    let mut fleet = Fleet::new(FleetSpec::sized(2), 1, START).expect("valid");
    let mut history = History::new(15.0)
        .sparse(120.0, &[(START + 600.0, START + 900.0)])
        .only(|name| name == "vllm:num_requests_running" || name == "vllm:request_prompt_tokens_sum");
    history.record(&mut fleet, START + 700.0);
    history.record(&mut fleet, START + 1_800.0);
    let up = written(&history, &["up{", "10.42.0.10:"]);
    let gaps: Vec<f64> = up.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(gaps.iter().all(|gap| (0.0..=120.0).contains(gap) && *gap >= 15.0), "{gaps:?}");
    assert_eq!(up.iter().filter(|(at, _)| (600.0..=900.0).contains(&(at - START))).count(), 20, "{up:?}");
    let running = written(&history, &["vllm:num_requests_running{", "10.42.0.10:"]);
    assert_eq!(running.len(), up.len());
    assert!(written(&history, &["vllm:request_prompt_tokens_sum{"]).len() == 2 * up.len());
    assert!(written(&history, &["_bucket"]).is_empty() && written(&history, &["DCGM_"]).is_empty());
    // Recording looks on; it changes nothing.
    let mut alone = Fleet::new(FleetSpec::sized(2), 1, START).expect("valid");
    alone.advance_to(START + 1_800.0);
    let pages = |fleet: &Fleet| fleet.targets().iter().map(|target| fleet.page(target)).collect::<Vec<_>>();
    assert_eq!(pages(&alone), pages(&fleet));
}

#[test]
fn lost_scrapes_are_gaps_and_targets_are_scraped_at_moments_of_their_own() {
    let mut fleet = Fleet::new(FleetSpec::sized(4), 1, START).expect("valid");
    let mut history = History::new(15.0).missing(0.1).spread();
    history.record(&mut fleet, START + 3_600.0);
    let mut offsets = Vec::new();
    let mut lost = 0;
    for last in 10..14 {
        let instance = format!("10.42.0.{last}:");
        let up = written(&history, &["up{", &instance]);
        let running = written(&history, &["vllm:num_requests_running{", &instance]);
        assert!((239..=241).contains(&up.len()), "{}", up.len());
        assert!(up.windows(2).all(|pair| (pair[1].0 - pair[0].0 - 15.0).abs() < 1e-6));
        let down = up.iter().filter(|(_, value)| *value == 0.0).count();
        assert_eq!(running.len(), up.len() - down);
        lost += down;
        offsets.push(up[0].0.rem_euclid(15.0));
    }
    assert!((60..140).contains(&lost), "{lost}");
    offsets.sort_by(f64::total_cmp);
    offsets.dedup();
    assert_eq!(offsets.len(), 4);
}

#[test]
fn options_of_the_exporters_are_on_their_pages_only_when_they_are_on() {
    let names = |fleet: &Fleet| -> Vec<&'static str> {
        let families = fleet.targets().into_iter().filter_map(|target| fleet.families(&target)).flatten();
        families.map(|family: Family| family.name).collect()
    };
    let plain = names(&Fleet::new(FleetSpec::sized(2), 1, START).expect("valid"));
    for name in ["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "vllm:lora_requests_info", "container_cpu_cfs_periods_total"] {
        assert!(!plain.contains(&name), "{name}");
    }
    let mut spec = FleetSpec::with_lora(2);
    (spec.dcgm.ecc, spec.cadvisor) = (true, true);
    let full = names(&Fleet::new(spec, 1, START).expect("valid"));
    for name in ["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "vllm:lora_requests_info", "container_cpu_cfs_periods_total"] {
        assert!(full.contains(&name), "{name}");
    }
}
