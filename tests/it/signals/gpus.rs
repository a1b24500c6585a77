//! GPU exporters and kube-state-metrics in what simulated fleets do not show: reasons by bit, both spellings on one page,
//! Xid codes, violation counters, a multi-node set. Pages are hand-written in the names and labels of the exporters.

use diagnose::ObserveResult;

use super::{assert_no_data, assert_table, assert_values, minute, observed, replicas};
use crate::harness::{Page, Stamp, slot};

const REASONS: usize = 137;
const VIOLATIONS: usize = 138;
const SMI: usize = 139;
const MINDPRINCE: usize = 140;
const SET: usize = 141;
const AMD: usize = 148;

/// A replica of the pool whose GPUs are looked at.
const ENGINE: &str = "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 1\n";

/// (pod, clock event bits, Xid before, Xid after, utilisation in percent, clock in MHz)
const GPUS: [(&str, u32, u32, u32, u32, u32); 4] = [
    ("vllm-0", 0x4, 0, 79, 95, 1_400),
    ("vllm-1", 0x20 | 0x1, 79, 79, 90, 1_000),
    ("vllm-2", 0x8, 0, 13, 1, 300),
    ("other-0", 0x40, 0, 95, 90, 200),
];

pub(super) fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    for pod in ["vllm-0", "vllm-1", "vllm-2"] {
        pages.extend(minute(REASONS, "reasons", pod, ENGINE, ENGINE));
    }
    pages.extend(minute(REASONS, "monitoring", "dcgm-0", &dcgm(false), &dcgm(true)));
    for (case, namespace) in [(VIOLATIONS, "violations"), (SMI, "smi"), (MINDPRINCE, "mindprince"), (AMD, "amd")] {
        pages.extend(minute(case, namespace, "vllm-0", ENGINE, ENGINE));
    }
    let violations = |seconds: u32| {
        let gpu = "gpu=\"0\",UUID=\"GPU-0\",pod=\"vllm-0\",namespace=\"violations\"";
        format!(
            "DCGM_FI_DEV_FB_USED{{{gpu}}} 9000\nDCGM_FI_DEV_FB_FREE{{{gpu}}} 1000\nDCGM_FI_DEV_SM_CLOCK{{{gpu}}} 900\n\
             DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO{{{gpu},GPU_I_ID=\"1\"}} 0.5\n\
             DCGM_FI_DEV_POWER_VIOLATION{{{gpu}}} {seconds}000000000\nDCGM_FI_DEV_THERMAL_VIOLATION{{{gpu}}} 0\n\
             DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{{{gpu}}} {}\n\
             DCGM_FI_DEV_ROW_REMAP_FAILED{{{gpu}}} 0\nDCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL{{{gpu}}} {}\n",
            seconds * 100,
            seconds / 15
        )
    };
    pages.extend(minute(VIOLATIONS, "monitoring", "dcgm-0", &violations(0), &violations(30)));
    pages.extend(minute(SMI, "monitoring", "smi-0", &smi(0), &smi(1)));
    pages.extend(minute(MINDPRINCE, "monitoring", "gpu-exporter-0", OLD, OLD));
    pages.extend(minute(AMD, "monitoring", "amd-0", &amd(0), &amd(1)));
    pages.extend(set());
    pages.extend(corrected());
    pages
}

/// Twenty-five minutes in which one of two GPUs corrects ten errors a second.
fn corrected() -> Vec<Page> {
    let page = |minute: u32| {
        let gpu = |id: u32, errors: u32| {
            let l = format!("gpu=\"{id}\",UUID=\"GPU-{id}\",exported_pod=\"vllm-0\",exported_namespace=\"corrected\"");
            format!("DCGM_FI_DEV_FB_USED{{{l}}} 9000\nDCGM_FI_DEV_ECC_SBE_VOL_TOTAL{{{l}}} {errors}\n")
        };
        let time = slot(VIOLATIONS) + 60 * (i64::from(minute) - 24);
        let exporter = Stamp { job: "dcgm", instance: "corrected-0", namespace: "monitoring", pod: "dcgm-1", time };
        let engine = Stamp { job: "engine", instance: "vllm-c", namespace: "corrected", pod: "vllm-0", time };
        [Page::new(gpu(0, 7) + &gpu(1, 600 * minute), exporter), Page::new(ENGINE.to_owned(), engine)]
    };
    (0..=25).flat_map(page).collect()
}

/// Both spellings of the Xid field are on the page.
fn dcgm(later: bool) -> String {
    let row = |(i, (pod, bits, before, after, util, clock)): (usize, &(&str, u32, u32, u32, u32, u32))| {
        let l = format!("gpu=\"{i}\",UUID=\"GPU-{i}\",pod=\"{pod}\",namespace=\"reasons\"");
        let xid = if later { after } else { before };
        format!(
            "DCGM_FI_DEV_FB_USED{{{l}}} 9000\nDCGM_FI_DEV_CLOCKS_EVENT_REASONS{{{l}}} {bits}\n\
             DCGM_FI_DEV_XID_ERRORS{{{l}}} {xid}\nDCGM_FI_DEV_XID_ERROR{{{l}}} {xid}\n\
             DCGM_FI_DEV_GPU_UTIL{{{l}}} {util}\nDCGM_FI_DEV_SM_CLOCK{{{l}}} {clock}\n\
             DCGM_FI_DEV_BOARD_POWER_WATTS{{{l}}} 280\nDCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS{{{l}}} 400\n\
             DCGM_FI_DEV_GPU_RECOVERY_ACTION{{{l}}} {}\nDCGM_FI_DEV_PCIE_LINK_WIDTH{{{l}}} 16\n\
             DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH{{{l}}} 16\nDCGM_FI_DEV_PCIE_LINK_GEN{{{l}}} 1\n\
             DCGM_FI_DEV_PCIE_MAX_LINK_GEN{{{l}}} 5\nDCGM_FI_PROF_DRAM_ACTIVE{{{l}}} 0.01\n",
            u8::from(i == 0)
        )
    };
    GPUS.iter().enumerate().map(row).collect()
}

/// One GPU that a power brake holds down; Xid 79 a hundred seconds ago, 13 more than an hour ago.
fn smi(errors: u32) -> String {
    let now = slot(SMI) + 60;
    format!(
        "nvidia_smi_memory_used_bytes{{uuid=\"u\"}} 9\nnvidia_smi_memory_total_bytes{{uuid=\"u\"}} 10\n\
         nvidia_smi_utilization_gpu_ratio{{uuid=\"u\"}} 0.95\nnvidia_smi_utilization_memory_ratio{{uuid=\"u\"}} 0.4\nnvidia_smi_clocks_current_sm_clock_hz{{uuid=\"u\"}} 9e8\n\
         nvidia_smi_clocks_event_reasons_active{{uuid=\"u\"}} {}\nnvidia_smi_temperature_gpu{{uuid=\"u\"}} 71\n\
         nvidia_smi_power_draw_instant_watts{{uuid=\"u\"}} 200\nnvidia_smi_enforced_power_limit_watts{{uuid=\"u\"}} 400\n\
         nvidia_smi_xid_last_timestamp_seconds{{uuid=\"u\",xid=\"79\"}} {}\n\
         nvidia_smi_xid_last_timestamp_seconds{{uuid=\"u\",xid=\"13\"}} {}\nnvidia_smi_nvml_return_code 0\n\
         nvidia_smi_ecc_errors_uncorrected_volatile_total{{uuid=\"u\"}} {errors}\n\
         nvidia_smi_ecc_errors_corrected_volatile_total{{uuid=\"u\"}} {}\n\
         nvidia_smi_gpu_recovery_action{{uuid=\"u\"}} 1\nnvidia_smi_pcie_link_width_current{{uuid=\"u\"}} 4\n\
         nvidia_smi_pcie_link_width_max{{uuid=\"u\"}} 16\n",
        0x88,
        now - 100,
        now - 4_000,
        6_000 * errors
    )
}

/// Two GPUs under the prefix of the exporter's example: one works against its power limit, one is idle and clocked down.
fn amd(errors: u32) -> String {
    let gpu = |id: u32, activity: u32, clock: u32, power: u32, errors: u32, speed: u32| {
        let l = format!(
            "gpu_id=\"{id}\",serial_number=\"s{id}\",card_model=\"MI300X\",hostname=\"n\",pod=\"vllm-0\",namespace=\"amd\""
        );
        format!(
            "amd_gpu_total_vram{{{l}}} 196608\namd_gpu_used_vram{{{l}}} 176947.2\namd_gpu_gfx_activity{{{l}}} {activity}\n\
             amd_gpu_clock{{{l},clock_index=\"0\",clock_type=\"system\"}} {clock}\n\
             amd_gpu_clock{{{l},clock_index=\"8\",clock_type=\"memory\"}} 90\n\
             amd_gpu_junction_temperature{{{l}}} 81\namd_gpu_ecc_uncorrect_total{{{l}}} {errors}\n\
             amd_gpu_ecc_correct_umc{{{l}}} {}\n\
             amd_gpu_violation_ppt_residency_percentage{{{l}}} {power}\n\
             amd_gpu_violation_socket_thermal_residency_percentage{{{l}}} 3\namd_gpu_health{{{l}}} {}\n\
             amd_pcie_speed{{{l}}} {speed}\namd_pcie_max_speed{{{l}}} 32\n",
            120 * errors,
            u32::from(errors == 0)
        )
    };
    gpu(0, 90, 1_500, 40, errors, 16) + &gpu(1, 0, 130, 0, 0, 8)
}

const OLD: &str = "nvidia_gpu_num_devices 1\n\
                   nvidia_gpu_memory_used_bytes{minor_number=\"0\",uuid=\"u\",name=\"V100\"} 9\n\
                   nvidia_gpu_memory_total_bytes{minor_number=\"0\",uuid=\"u\",name=\"V100\"} 10\n\
                   nvidia_gpu_duty_cycle{minor_number=\"0\",uuid=\"u\",name=\"V100\"} 90\n\
                   nvidia_gpu_temperature_celsius{minor_number=\"0\",uuid=\"u\",name=\"V100\"} 71\n";

/// A LeaderWorkerSet `qwen` whose leader serves and whose worker `qwen-0-1` crashed, beside other workloads.
fn set() -> Vec<Page> {
    let mut pages = Vec::from(minute(SET, "set", "qwen-0", ENGINE, ENGINE));
    let pods =
        [("qwen-0", 0, "Completed"), ("qwen-0-1", 1, "Error"), ("qwen-1-1", 1, "Error"), ("other-0", 1, "Error")];
    for (pod, restarts, reason) in pods {
        let page = |restarts: u32| {
            format!(
                "kube_pod_info{{node=\"n\"}} 1\nkube_pod_status_phase{{phase=\"Running\"}} 1\n\
                 kube_pod_container_status_restarts_total{{container=\"main\"}} {restarts}\n\
                 kube_pod_container_status_last_terminated_reason{{container=\"main\",reason=\"{reason}\"}} 1\n"
            )
        };
        pages.extend(honoured(pod, &page(0), &page(restarts)));
    }
    let sets: String = [("qwen", 1, 1), ("qwen-0", 1, 0), ("other", 5, 5)]
        .iter()
        .map(|(name, wanted, ready)| {
            format!(
                "kube_statefulset_replicas{{statefulset=\"{name}\"}} {wanted}\n\
                 kube_statefulset_status_replicas_ready{{statefulset=\"{name}\"}} {ready}\n"
            )
        })
        .collect();
    let daemons = "kube_daemonset_status_desired_number_scheduled{daemonset=\"dcgm-exporter\"} 9\n\
                   kube_daemonset_status_number_ready{daemonset=\"dcgm-exporter\"} 2\n";
    // Of KEDA, of the neighbour, and of a resource of its own kind.
    let scalers: String = [("keda-hpa-qwen", "StatefulSet", "qwen", 4, 4), ("x", "Deployment", "other", 9, 9), ("y", "Own", "z", 1, 3)]
        .iter()
        .map(|(name, kind, target, desired, most)| {
            let own = format!("horizontalpodautoscaler=\"{name}\"");
            format!(
                "kube_horizontalpodautoscaler_info{{{own},scaletargetref_kind=\"{kind}\",scaletargetref_name=\"{target}\"}} 1\n\
                 kube_horizontalpodautoscaler_status_desired_replicas{{{own}}} {desired}\n\
                 kube_horizontalpodautoscaler_spec_max_replicas{{{own}}} {most}\n"
            )
        })
        .collect();
    let page = sets + daemons + &scalers;
    pages.extend(honoured("kube-state-metrics-0", &page, &page));
    pages
}

/// A target that names another pod than its own: kube-state-metrics with honoured labels.
fn honoured(pod: &'static str, before: &str, after: &str) -> [Page; 3] {
    let of_target = |page: Page| {
        let stamp = Stamp { job: "kube-state-metrics", instance: "ksm:8080", ..page.stamp };
        Page { stamp, ..page }
    };
    minute(SET, "set", pod, before, after).map(of_target)
}

fn read(case: usize, namespace: &str) -> ObserveResult {
    observed(&[("namespace", namespace)], slot(case) + 60)
}

#[test]
fn power_and_heat_are_told_apart_by_bit_and_the_pools_gpus_from_others() {
    let seen = read(REASONS, "reasons");
    assert_eq!(replicas(&seen, "gpu_power_limited"), [("vllm-0", 1.0), ("vllm-1", 0.0), ("vllm-2", 0.0)].into());
    assert_eq!(replicas(&seen, "gpu_heat_limited"), [("vllm-0", 0.0), ("vllm-1", 1.0), ("vllm-2", 0.0)].into());
    // A hardware slowdown may be either.
    assert_eq!(replicas(&seen, "gpu_throttled"), [("vllm-0", 1.0), ("vllm-1", 1.0), ("vllm-2", 1.0)].into());
    // The slowest of those that work.
    assert_values(&seen, &[("gpu_sm_clock", 1_000e6), ("gpu_power_ratio", 0.7), ("gpu_reset_wanted", 1.0)]);
    // Of the only one that is busy enough to tell.
    assert_values(&seen, &[("gpu_memory_busy", 0.01)]);
    // The idle one lowered its link itself.
    assert_eq!(replicas(&seen, "pcie_links_slow"), [("vllm-0", 1.0), ("vllm-1", 1.0), ("vllm-2", 0.0)].into());
    assert_eq!(seen.problems, Vec::<String>::new());
}

#[test]
fn an_xid_counts_when_it_is_new_and_by_what_it_calls_for() {
    let seen = read(REASONS, "reasons");
    // The one that was there before is not new; 13 is the application's.
    assert_eq!(replicas(&seen, "gpu_xid_critical"), [("vllm-0", 1.0), ("vllm-1", 0.0), ("vllm-2", 0.0)].into());
    assert_eq!(replicas(&seen, "gpu_xid_application"), [("vllm-0", 0.0), ("vllm-1", 0.0), ("vllm-2", 1.0)].into());
    assert_values(&seen, &[("gpu_xid_critical", 1.0), ("gpu_xid_application", 1.0)]);
}

#[test]
fn without_reasons_the_violation_counters_tell_in_nanoseconds() {
    let seen = read(VIOLATIONS, "violations");
    assert_values(
        &seen,
        &[
            ("gpu_throttled", 0.5),
            ("gpu_power_limited", 0.5),
            ("gpu_heat_limited", 0.0),
            // A MIG device tells no utilisation but that of its graphics engine.
            ("gpu_utilization", 0.5),
            ("gpu_utilization_peak", 0.5),
            ("gpu_sm_clock", 900e6),
            ("gpu_memory_used_ratio", 0.9),
            ("gpu_ecc_uncorrected", 2.0),
            // A burst of a minute is none that lasts.
            ("gpu_ecc_corrected_rate", 0.0),
        ],
    );
    assert_eq!(seen.problems, Vec::<String>::new());
}

#[test]
fn memory_errors_that_are_corrected_for_a_quarter_of_an_hour_are_a_rate() {
    let seen = super::observed(&[("namespace", "corrected")], slot(VIOLATIONS) + 60);
    assert_values(&seen, &[("gpu_ecc_corrected_rate", 10.0)]);
}

#[test]
fn nvidia_gpu_exporter_tells_each_signal_although_it_names_no_pod() {
    let seen = read(SMI, "smi");
    let expected = [
        ("gpu_utilization", 0.95),
        ("gpu_utilization_peak", 0.95),
        ("gpu_memory_used_ratio", 0.9),
        ("gpu_sm_clock", 900e6),
        ("gpu_throttled", 1.0),
        ("gpu_power_limited", 1.0),
        ("gpu_heat_limited", 0.0),
        ("gpu_temperature", 71.0),
        ("gpu_power_ratio", 0.5),
        ("gpu_xid_critical", 1.0),
        ("gpu_xid_application", 0.0),
        ("gpu_ecc_uncorrected", 1.0),
        ("gpu_ecc_corrected_rate", 0.0),
        ("gpus_gone", 0.0),
        ("gpu_memory_busy", 0.4),
        ("gpu_reset_wanted", 1.0),
        ("pcie_links_slow", 1.0),
    ];
    assert_table(&seen, "nvidia-gpu-exporter", &expected, &[]);
}

#[test]
fn amds_exporter_tells_each_signal_or_says_that_it_cannot() {
    let seen = read(AMD, "amd");
    let expected = [
        ("gpu_utilization", 0.45),
        ("gpu_utilization_peak", 0.9),
        ("gpu_memory_used_ratio", 0.9),
        ("gpu_sm_clock", 1_500e6),
        ("gpu_throttled", 0.4),
        ("gpu_power_limited", 0.4),
        ("gpu_heat_limited", 0.03),
        ("gpu_temperature", 81.0),
        ("gpu_ecc_uncorrected", 1.0),
        ("gpu_ecc_corrected_rate", 0.0),
        ("gpus_gone", 0.0),
        // The first has counted an error; the second is idle, and may lower its link.
        ("gpu_reset_wanted", 1.0),
        ("pcie_links_slow", 1.0),
    ];
    assert_table(&seen, "rocm", &expected, &[]);
    assert_no_data(&seen, &["gpu_xid_critical", "gpu_power_ratio", "gpu_nvlink_errors"]);
}

#[test]
fn the_oldest_exporter_tells_what_it_reads() {
    let seen = read(MINDPRINCE, "mindprince");
    let expected = [
        ("gpu_utilization", 0.9),
        ("gpu_utilization_peak", 0.9),
        ("gpu_memory_used_ratio", 0.9),
        ("gpu_temperature", 71.0),
        ("gpus_gone", 0.0),
    ];
    assert_table(&seen, "mindprince", &expected, &[]);
    assert_no_data(&seen, &["gpu_throttled", "gpu_power_limited", "gpu_xid_critical"]);
}

#[test]
fn the_workers_of_a_multi_node_set_belong_to_their_leader_and_what_is_of_others_does_not_count() {
    let seen = read(SET, "set");
    assert_eq!(seen.observations.pool, ["qwen-0"]);
    assert_values(
        &seen,
        &[
            ("error_exits", 1.0),
            ("oom_killed", 0.0),
            ("pod_restarts", 1.0),
            ("replicas_wanted", 2.0),
            ("replicas_ready", 1.0),
            ("replicas_unready", 1.0),
        ],
    );
    assert_eq!(replicas(&seen, "autoscaler_at_max"), [("keda-hpa-qwen", 1.0)].into());
    assert_eq!(replicas(&seen, "error_exits"), [("qwen-0", 0.0), ("qwen-0-1", 1.0)].into());
}
