//! Replicas of operators that make no Deployment, containers that are refused, and nodes that are closed to new pods.

use super::assert_values;
use super::losses::{MINUTES, SLOT, always, read, series};
use crate::harness::slot;

const KSM: &str = "job=\"kube-state-metrics\",instance=\"ksm:8080\"";

/// The series, in no order.
pub(super) fn lines() -> Vec<(i64, String)> {
    [rollout(), pods_of_operators(), closed()].concat()
}

fn engine(namespace: &str, pod: &str) -> Vec<(i64, String)> {
    let target = format!("job=\"vllm\",instance=\"{namespace}-{pod}:8000\",namespace=\"{namespace}\",pod=\"{pod}\"");
    let running = series("vllm:num_requests_running", &format!("{target},model_name=\"m\""), always(1.0));
    let info = format!("{KSM},namespace=\"{namespace}\",pod=\"{pod}\",node=\"n\"");
    let pod = series("kube_pod_info", &info, always(1.0));
    [running, pod, series("up", &target, always(1.0))].concat()
}

/// An Argo Rollout with an old and a new ReplicaSet, beside a Deployment of another program.
fn rollout() -> Vec<(i64, String)> {
    let mut lines = engine("argo", "chat-6f5d8c7b9-abcde");
    for (set, kind, owner, wanted, ready) in [
        ("chat-1", "Rollout", "chat", 0.0, 0.0),
        ("chat-2", "Rollout", "chat", 4.0, 3.0),
        ("router-1", "Deployment", "router", 2.0, 2.0),
    ] {
        let of = format!("{KSM},namespace=\"argo\",replicaset=\"{set}\"");
        let owned = format!("{of},owner_kind=\"{kind}\",owner_name=\"{owner}\",owner_is_controller=\"true\"");
        lines.extend(series("kube_replicaset_owner", &owned, always(1.0)));
        lines.extend(series("kube_replicaset_spec_replicas", &of, always(wanted)));
        lines.extend(series("kube_replicaset_status_ready_replicas", &of, always(ready)));
    }
    let router = format!("{KSM},namespace=\"argo\",deployment=\"router\"");
    lines.extend(series("kube_deployment_spec_replicas", &router, always(2.0)));
    lines.extend(series("kube_deployment_status_replicas_ready", &router, always(2.0)));
    lines
}

/// Pods that a PodClique and a RayCluster own themselves, named as Grove and KubeRay do. One has ended, and a Job beside
/// them is of no pool.
fn pods_of_operators() -> Vec<(i64, String)> {
    let mut lines = engine("grove", "disagg-0-decode-b4n5m");
    lines.extend(engine("ray", "rs-raycluster-x7k2p-gpu-worker-b4n5m"));
    for (namespace, pod, kind, phase, ready) in [
        ("grove", "disagg-0-decode-b4n5m", "PodClique", "Running", 1.0),
        ("grove", "disagg-0-decode-q7w8e", "PodClique", "Pending", 0.0),
        ("grove", "disagg-0-decode-z1x2c", "PodClique", "Failed", 0.0),
        ("grove", "download-v5b6n", "Job", "Running", 1.0),
        ("ray", "rs-raycluster-x7k2p-gpu-worker-b4n5m", "RayCluster", "Running", 1.0),
        ("ray", "rs-raycluster-x7k2p-gpu-worker-q7w8e", "RayCluster", "Pending", 0.0),
    ] {
        let of = format!("{KSM},namespace=\"{namespace}\",pod=\"{pod}\",uid=\"{pod}\"");
        let owned = format!("{of},owner_kind=\"{kind}\",owner_name=\"{namespace}\",owner_is_controller=\"true\"");
        lines.extend(series("kube_pod_owner", &owned, always(1.0)));
        for other in ["Pending", "Running", "Failed"] {
            let value = if other == phase { 1.0 } else { 0.0 };
            lines.extend(series("kube_pod_status_phase", &format!("{of},phase=\"{other}\""), always(value)));
        }
        // A pod that finds no node has no such condition.
        if phase != "Pending" {
            lines.extend(series("kube_pod_status_ready", &format!("{of},condition=\"true\""), always(ready)));
        }
    }
    lines
}

/// Nodes of a pool: one is cordoned, one got a taint, one has had its taint all along, and one has the control plane's own.
/// A container lacks a Secret, and another its image. A cordoned node that runs nothing of the pool is not looked at.
fn closed() -> Vec<(i64, String)> {
    let end = slot(SLOT) + 60 * MINUTES;
    let six_hours_ago = |name: &str, labels: &str| {
        let times = (0..4).map(|minutes| end - 6 * 3_600 - 60 * minutes);
        times.map(|time| (time, format!("{name}{{{labels}}} 1 {time}\n"))).collect::<Vec<_>>()
    };
    let mut lines: Vec<_> = ["m-0", "m-1", "m-2", "m-3"].iter().flat_map(|pod| engine("closed", pod)).collect();
    for (i, cordoned) in [1.0, 0.0, 0.0, 0.0].into_iter().enumerate() {
        let node = format!("{KSM},node=\"closed-{i}\"");
        let pod = format!("{KSM},namespace=\"closed\",pod=\"m-{i}\"");
        lines.extend(series("kube_pod_info", &format!("{pod},node=\"closed-{i}\""), always(1.0)));
        lines.extend(series("kube_pod_status_phase", &format!("{pod},phase=\"Running\""), always(1.0)));
        lines.extend(series("kube_node_info", &node, always(1.0)));
        lines.extend(six_hours_ago("kube_node_info", &node));
        lines.extend(series("kube_node_spec_unschedulable", &node, always(cordoned)));
    }
    lines.extend(series("kube_node_spec_unschedulable", &format!("{KSM},node=\"elsewhere-closed\""), always(1.0)));
    let taint = |node: u32, key: &str| {
        format!("{KSM},node=\"closed-{node}\",key=\"{key}\",value=\"true\",effect=\"NoSchedule\"")
    };
    lines.extend(series("kube_node_spec_taint", &taint(1, "AggregatedNodeHealth"), always(1.0)));
    lines.extend(series("kube_node_spec_taint", &taint(2, "nvidia.com/gpu"), always(1.0)));
    lines.extend(six_hours_ago("kube_node_spec_taint", &taint(2, "nvidia.com/gpu")));
    lines.extend(series("kube_node_spec_taint", &taint(3, "node.kubernetes.io/not-ready"), always(1.0)));
    for (pod, reason) in [("m-2", "CreateContainerConfigError"), ("m-3", "ImagePullBackOff")] {
        let waiting = format!("{KSM},namespace=\"closed\",pod=\"{pod}\",container=\"main\",reason=\"{reason}\"");
        lines.extend(series("kube_pod_container_status_waiting_reason", &waiting, always(1.0)));
    }
    lines
}

#[test]
fn replicas_of_a_rollout_and_of_operators_that_own_their_pods_are_counted_once() {
    let expected =
        |wanted, ready| [("replicas_wanted", wanted), ("replicas_ready", ready), ("replicas_unready", wanted - ready)];
    assert_values(&read("argo"), &expected(4.0, 3.0));
    assert_values(&read("grove"), &expected(2.0, 1.0));
    assert_values(&read("ray"), &expected(2.0, 1.0));
}

#[test]
fn nodes_that_are_cordoned_or_newly_tainted_and_refused_containers_are_those_of_the_pool() {
    let seen = read("closed");
    assert_values(&seen, &[("nodes_closed", 2.0), ("containers_refused", 1.0), ("image_pull_failing", 1.0)]);
    assert_values(&read("cluster"), &[("containers_refused", 0.0)]);
}
