//! What the orchestrator tells of a workload beside its pods' ends: autoscalers, scaling, probes, refusals, memory, room.
//! Hours of hand-written series, because growth needs a past.

use super::{assert_values, observed, replicas};
use crate::harness::slot;

/// After all other histories; it reaches back for hours.
const SLOT: usize = 166;
const MINUTES: i64 = 390;
const NAMESPACE: &str = "workload";

/// A series of kube-state-metrics or cAdvisor with its value at each minute.
fn series(name: &str, labels: &str, value: impl Fn(i64) -> f64) -> Vec<(i64, String)> {
    let begin = slot(SLOT) - 60 * MINUTES;
    let labels = format!("job=\"kube\",instance=\"ksm:8080\",namespace=\"{NAMESPACE}\",{labels}");
    let sample = |minute: i64| {
        let time = begin + 60 * minute;
        (time, format!("{name}{{{labels}}} {} {time}\n", value(minute)))
    };
    (0..=MINUTES).map(sample).collect()
}

pub(super) fn history() -> String {
    let ago = |minute: i64| MINUTES - minute;
    let mut lines = Vec::new();
    for pod in ["m-0", "m-1", "m-2"] {
        let labels = format!("pod=\"{pod}\"");
        lines.extend(series("kube_pod_info", &format!("{labels},node=\"n0\""), |_| 1.0));
        lines.extend(series("kube_pod_status_phase", &format!("{labels},phase=\"Running\""), |_| 1.0));
        let ready = format!("{labels},condition=\"true\"");
        // m-0 is always ready, m-1 comes and goes, m-2 restarted and was away once.
        lines.extend(series("kube_pod_status_ready", &ready, |minute| match pod {
            "m-1" => f64::from(u8::from(ago(minute) / 2 % 2 == 0)),
            "m-2" => f64::from(u8::from(!(5..7).contains(&ago(minute)))),
            _ => 1.0,
        }));
        let main = format!("{labels},container=\"main\"");
        let restarts = |minute: i64| f64::from(u8::from(pod == "m-2" && ago(minute) < 7));
        lines.extend(series("kube_pod_container_status_restarts_total", &main, restarts));
        // Memory of m-0 grows by 2 GB an hour from 20 GB, that of m-1 jumped within the last hour, that of m-2 is flat.
        lines.extend(series("container_memory_working_set_bytes", &main, |minute| match pod {
            "m-0" => 30e9 - 2e9 * (ago(minute) as f64) / 60.0,
            "m-1" if ago(minute) < 50 => 60e9,
            _ => 20e9,
        }));
    }
    // Scaled up and down every ten minutes within the last hour; a neighbour is never scaled.
    let scaled = |minute: i64| if ago(minute) < 60 { 3.0 + (ago(minute) / 10 % 2) as f64 } else { 3.0 };
    lines.extend(series("kube_deployment_spec_replicas", "deployment=\"m\"", scaled));
    lines.extend(series("kube_deployment_status_replicas_ready", "deployment=\"m\"", |_| 3.0));
    let refused = |deployment: &str| {
        format!("deployment=\"{deployment}\",condition=\"ReplicaFailure\",status=\"true\",reason=\"FailedCreate\"")
    };
    lines.extend(series("kube_deployment_status_condition", &refused("m"), |_| 1.0));
    // One autoscaler reads no metric, one is off because its target has no replicas, one works.
    for (name, target, active, current) in
        [("m", "m", 0.0, 3.0), ("off", "off", 0.0, 0.0), ("works", "works", 1.0, 2.0)]
    {
        let own = format!("horizontalpodautoscaler=\"{name}\"");
        for (status, value) in [("true", active), ("false", 1.0 - active)] {
            let condition = format!("{own},condition=\"ScalingActive\",status=\"{status}\"");
            lines.extend(series("kube_horizontalpodautoscaler_status_condition", &condition, |_| value));
        }
        let info = format!("{own},scaletargetref_kind=\"Deployment\",scaletargetref_name=\"{target}\"");
        lines.extend(series("kube_horizontalpodautoscaler_info", &info, |_| 1.0));
        lines.extend(series("kube_horizontalpodautoscaler_spec_max_replicas", &own, |_| 8.0));
        lines.extend(series("kube_horizontalpodautoscaler_status_current_replicas", &own, |_| current));
        lines.extend(series("kube_horizontalpodautoscaler_status_desired_replicas", &own, |_| current));
    }
    // Eight GPUs on each node. On n0 m-0 and m-1 asked for two each; m-2 waits for a node. n1 is cordoned, n2 runs no pod
    // of the pool.
    for node in ["n0", "n1", "n2"] {
        let gpus = format!("node=\"{node}\",resource=\"nvidia_com_gpu\"");
        lines.extend(series("kube_node_status_allocatable", &gpus, |_| 8.0));
        lines.extend(series("kube_node_spec_unschedulable", &format!("node=\"{node}\""), |_| {
            f64::from(u8::from(node == "n1"))
        }));
    }
    for (pod, node) in [("m-0", "n0"), ("m-1", "n0"), ("m-2", "")] {
        let asked = format!("pod=\"{pod}\",container=\"main\",node=\"{node}\",resource=\"nvidia_com_gpu\"");
        lines.extend(series("kube_pod_container_resource_requests", &asked, |_| 2.0));
    }
    let engine = "pod=\"m-0\",model_name=\"m\",engine=\"0\"";
    lines.extend(series("vllm:num_requests_running", engine, |_| 1.0));
    lines.extend(series("up", "pod=\"m-0\"", |_| 1.0));
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

#[test]
fn a_cluster_tells_of_autoscalers_probes_refusals_growing_memory_and_free_gpus() {
    let seen = observed(&[("namespace", NAMESPACE)], slot(SLOT));
    assert_values(
        &seen,
        &[
            ("autoscaler_blind", 1.0),
            ("scale_changes", 3.0),
            ("scale_downs", 3.0),
            ("readiness_flaps", 1.0),
            ("pods_refused", 1.0),
            ("gpus_free", 12.0),
            // Half an hour that ended an hour ago: m-0 had 27.5 GB on average; of that five hours ago 20 GB at most.
            ("host_memory_growth", 27.5 / 20.0),
        ],
    );
    assert_eq!(replicas(&seen, "readiness_flaps"), [("m-0", 0.0), ("m-1", 1.0), ("m-2", 0.0)].into());
    assert_eq!(replicas(&seen, "host_memory_growth")["m-1"], 1.0, "a jump within the hour is no leak");
    assert_eq!(seen.problems, Vec::<String>::new());
}
