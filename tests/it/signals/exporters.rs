//! GPUs through dcgm-exporter and pods through kube-state-metrics, as simulated fleets show them.

use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec, History};

use super::{assert_no_data, assert_values, observed, replicas, value};
use crate::harness::{simulated, slot};

/// Each case runs so long before it is looked at, the fault in the later half.
const SECONDS: i64 = 600;
/// The A30's clocks, at full speed and pulled down to a quarter.
const CLOCKS_HZ: (f64, f64) = (1_440e6, 360e6);

/// What DCGM 4.6 calls the fields that it renamed, of those that signals read.
const RENAMED: [(&str, &str); 6] = [
    ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"),
    ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"),
    ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS"),
    ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR"),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED"),
];

const EXPORTED: usize = 20;
const HONOURED: usize = 21;
const NEWER: usize = 22;
const CRASHING: usize = 23;
const ROLLED: usize = 24;

pub(super) fn histories() -> Vec<String> {
    let throttled = "gpu-throttling:replica=1,slowdown=4";
    let newer = history(NEWER, "newer", false, throttled);
    let newer = RENAMED.iter().fold(newer, |text, (old, new)| text.replace(&format!("{old}{{"), &format!("{new}{{")));
    vec![
        history(EXPORTED, "exported", false, throttled),
        history(HONOURED, "honoured", true, throttled),
        newer,
        history(CRASHING, "crashing", false, "lost-replica:replica=1"),
        history(ROLLED, "rolled", false, "slot-limit:limit=32"),
    ]
}

fn history(case: usize, namespace: &str, honor_labels: bool, fault: &str) -> String {
    let mut spec = FleetSpec { namespace: namespace.to_owned(), ..FleetSpec::sized(2) };
    spec.dcgm.honor_labels = honor_labels;
    let begin = slot(case) as f64;
    let mut fleet = Fleet::new(spec, 1, begin).unwrap();
    let mut history = History::new(15.0);
    history.record(&mut fleet, begin + (SECONDS / 2) as f64);
    fleet.inject(fault.parse::<Fault>().unwrap()).unwrap();
    history.record(&mut fleet, begin + SECONDS as f64);
    simulated(&history)
}

fn read(case: usize, namespace: &str) -> diagnose::ObserveResult {
    observed(&[("namespace", namespace)], slot(case) + SECONDS)
}

fn assert_gpus(case: usize, namespace: &str) {
    let seen = read(case, namespace);
    // Of 24,576 MiB the engine takes 92 %, the driver some more.
    assert_values(&seen, &[("gpu_sm_clock", CLOCKS_HZ.1), ("gpu_memory_used_ratio", 0.92), ("gpu_throttled", 1.0)]);
    assert_values(&seen, &[("gpu_xid_critical", 0.0), ("gpu_xid_application", 0.0), ("gpu_ecc_uncorrected", 0.0)]);
    // By the serving pods, whoever the exporter's own pod is.
    let clocks = [("vllm-llama-8b-0", CLOCKS_HZ.0), ("vllm-llama-8b-1", CLOCKS_HZ.1)];
    assert_eq!(replicas(&seen, "gpu_sm_clock"), clocks.into(), "{namespace}");
    assert_eq!(replicas(&seen, "gpu_throttled")["vllm-llama-8b-0"], 0.0, "{namespace}");
    let utilisation = value(&seen, "gpu_utilization").unwrap();
    assert!((0.5..=1.0).contains(&utilisation), "0..1, not percent: {utilisation}");
    assert!(value(&seen, "gpu_temperature").unwrap() > 85.0);
    // Neither the power limit nor NVLink is among the default fields.
    assert_no_data(&seen, &["gpu_power_ratio", "gpu_nvlink_errors"]);
}

#[test]
fn gpus_are_named_by_their_serving_pod_when_prometheus_renames_its_label() {
    assert_gpus(EXPORTED, "exported");
}

#[test]
fn gpus_are_named_by_their_serving_pod_when_the_exporters_labels_are_honoured() {
    assert_gpus(HONOURED, "honoured");
}

#[test]
fn the_renamed_fields_of_dcgm_4_6_give_the_same_values() {
    assert_gpus(NEWER, "newer");
    let [old, new] = [(EXPORTED, "exported"), (NEWER, "newer")].map(|(case, namespace)| read(case, namespace));
    for signal in ["gpu_temperature", "gpu_sm_clock", "gpu_throttled", "gpu_memory_used_ratio"] {
        assert!((value(&old, signal).unwrap() / value(&new, signal).unwrap() - 1.0).abs() < 0.05, "{signal}");
    }
}

#[test]
fn a_crash_looping_pod_is_counted_and_named() {
    let seen = read(CRASHING, "crashing");
    assert_values(
        &seen,
        &[
            ("replicas_wanted", 2.0),
            ("replicas_ready", 1.0),
            ("replicas_unready", 1.0),
            ("crash_looping", 1.0),
            ("oom_killed", 0.0),
            ("image_pull_failing", 0.0),
            ("rollout_changes", 0.0),
            ("autoscaler_at_max", 0.0),
            ("replicas_down", 1.0),
            ("replicas_serving", 1.0),
        ],
    );
    assert_eq!(replicas(&seen, "crash_looping"), [("vllm-llama-8b-0", 0.0), ("vllm-llama-8b-1", 1.0)].into());
    assert!(value(&seen, "pod_restarts").unwrap() >= 2.0);
    // cAdvisor and node conditions are not scraped here.
    assert_no_data(&seen, &["cpu_throttled"]);
}

#[test]
fn a_rollout_is_a_change_of_the_generation_and_not_a_restart() {
    let seen = read(ROLLED, "rolled");
    assert_values(&seen, &[("rollout_changes", 1.0), ("pod_restarts", 0.0), ("crash_looping", 0.0)]);
    assert_values(&seen, &[("replicas_unready", 0.0), ("replicas_ready", 2.0)]);
    let age = value(&seen, "replica_age_min").unwrap();
    assert!((200.0..300.0).contains(&age), "the replicas are new: {age}");
}
