//! The nodes that the pods run on. Pure, except for the requests.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node as Raw, NodeCondition, Taint};

use super::ask::{ApiSession, Failure};
use super::kinds::{NODE, is_name};
use super::pods::because;
use super::{ClusterNode, Pod, SnapshotGaps};

/// Maximum number of nodes.
const NODES: usize = 100;
/// Prefixes of labels about hardware, driver, zone and machine type. `nvidia.com/` are those of GPU feature discovery:
/// `gpu.product`, `gpu.count`, `gpu.memory`, `cuda.driver-version.full`, `cuda.runtime-version.full`.
const LABELS: [&str; 14] = [
    "nvidia.com/",
    "amd.com/",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-nodepool",
    "cloud.google.com/gke-spot",
    "eks.amazonaws.com/nodegroup",
    "eks.amazonaws.com/capacityType",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/",
    "feature.node.kubernetes.io/rdma",
];
/// Prefixes of taints that mean trouble; other taints reserve a node for certain workloads.
const TAINTS: [&str; 5] = [
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "karpenter.sh/disrupt",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
];

/// Reads the nodes of the pods.
pub(super) async fn read_nodes(ask: ApiSession<'_>, pods: &[Pod], missing: &mut SnapshotGaps) -> Vec<ClusterNode> {
    let names: BTreeSet<&str> = pods.iter().filter_map(|pod| pod.node.as_deref()).filter(|n| is_name(n)).collect();
    if names.len() > NODES {
        missing.note_absent("nodes", format!("the pods run on {}; the first {NODES} are listed", names.len()));
    }
    let requests =
        names.into_iter().take(NODES).map(|name| async move { (name, ask.get::<Raw>(&NODE, "v1", None, name).await) });
    let mut nodes = Vec::new();
    for (name, answer) in join_all(requests).await {
        match answer {
            Ok(raw) => nodes.push(read(raw)),
            Err(Failure::Absent) => nodes.push(ClusterNode {
                name: name.to_owned(),
                troubles: vec!["it is gone: the API does not know it any more".to_owned()],
                ..ClusterNode::default()
            }),
            Err(failure @ Failure::Forbidden { .. }) => missing.note("nodes", &failure),
            Err(failure) => missing.note(format!("node {name}"), &failure),
        }
    }
    nodes
}

fn read(raw: Raw) -> ClusterNode {
    let (spec, status) = (raw.spec.unwrap_or_default(), raw.status.unwrap_or_default());
    let mut troubles = Vec::new();
    if spec.unschedulable == Some(true) {
        troubles.push("it is cordoned: nothing is scheduled on it".to_owned());
    }
    troubles.extend(status.conditions.into_iter().flatten().filter_map(condition));
    troubles.extend(spec.taints.into_iter().flatten().filter_map(taint));
    let versions = status.node_info.map(|info| {
        BTreeMap::from([
            ("kubelet".to_owned(), info.kubelet_version),
            ("kernel".to_owned(), info.kernel_version),
            ("operating system".to_owned(), info.os_image),
            ("container runtime".to_owned(), info.container_runtime_version),
            ("architecture".to_owned(), info.architecture),
        ])
    });
    let labels = raw.metadata.labels.unwrap_or_default().into_iter();
    ClusterNode {
        name: raw.metadata.name.unwrap_or_default(),
        versions: versions.unwrap_or_default(),
        labels: labels.filter(|(name, _)| LABELS.iter().any(|prefix| name.starts_with(prefix))).collect(),
        allocatable: status.allocatable.into_iter().flatten().map(|(name, quantity)| (name, quantity.0)).collect(),
        troubles,
    }
}

/// Describes a failed condition: `Ready` should be true, every other condition false, such as `MemoryPressure` and
/// those of the node problem detector.
fn condition(condition: NodeCondition) -> Option<String> {
    let good = if condition.type_ == "Ready" { "True" } else { "False" };
    if condition.status == good {
        return None;
    }
    let since = condition.last_transition_time.map(|at| format!(" since {}", at.0)).unwrap_or_default();
    let why = because(condition.reason.unwrap_or_default(), condition.message);
    Some(format!("{} is {}{since}: {why}", condition.type_, condition.status))
}

fn taint(taint: Taint) -> Option<String> {
    let reported = TAINTS.iter().any(|prefix| taint.key.starts_with(prefix));
    reported.then(|| match taint.value.filter(|value| !value.is_empty()) {
        Some(value) => format!("taint {}={value}:{}", taint.key, taint.effect),
        None => format!("taint {}:{}", taint.key, taint.effect),
    })
}
