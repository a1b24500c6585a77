//! Objects as a cluster has them, to be changed at will before they are added.

use serde_json::{Value, json};

/// When everything was made.
const MADE: &str = "2026-11-20T01:00:00Z";

/// A pod that runs well: one container `main`, with a GPU.
pub fn pod(namespace: &str, name: &str, image: &str, args: &[&str], node: &str) -> Value {
    let condition = |kind| json!({ "type": kind, "status": "True", "lastTransitionTime": MADE });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name, "creationTimestamp": MADE, "labels": {} },
        "spec": {
            "nodeName": node,
            "containers": [{
                "name": "main",
                "image": image,
                "args": args,
                "env": [],
                "resources": { "limits": { "nvidia.com/gpu": "1" }, "requests": { "cpu": "4" } },
            }],
        },
        "status": {
            "phase": "Running",
            "conditions": [condition("PodScheduled"), condition("ContainersReady"), condition("Ready")],
            "containerStatuses": [{
                "name": "main",
                "image": image,
                "imageID": format!("{image}@sha256:0123456789abcdef"),
                "ready": true,
                "restartCount": 0,
                "state": { "running": { "startedAt": MADE } },
                "lastState": {},
            }],
        },
    })
}

/// A node with H100s, labelled by GPU feature discovery.
pub fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "node.kubernetes.io/instance-type": "p5.48xlarge",
                "topology.kubernetes.io/zone": "eu-west-1a",
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
                "nvidia.com/gpu.count": "8",
                "nvidia.com/gpu.memory": "81559",
                "nvidia.com/cuda.driver-version.full": "580.95.05",
                "nvidia.com/cuda.runtime-version.full": "13.0",
            },
        },
        "spec": {},
        "status": {
            "allocatable": { "nvidia.com/gpu": "8", "cpu": "190", "memory": "2000Gi" },
            "conditions": [
                { "type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory" },
                { "type": "Ready", "status": "True", "reason": "KubeletReady" },
            ],
            "nodeInfo": {
                "kubeletVersion": "v1.34.2",
                "kernelVersion": "6.8.0-1040-aws",
                "osImage": "Ubuntu 24.04.3 LTS",
                "containerRuntimeVersion": "containerd://2.1.4",
                "architecture": "amd64",
            },
        },
    })
}

/// A Deployment.
pub fn deployment(namespace: &str, name: &str) -> Value {
    object("apps/v1", "Deployment", namespace, name)
}

/// Any object, with the fields that API servers repeat it in.
pub fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "namespace": namespace,
            "name": name,
            "creationTimestamp": MADE,
            "managedFields": [{ "manager": "kubectl", "operation": "Apply" }],
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "serving" },
        },
        "spec": { "replicas": 2 },
    })
}

/// The same object, controlled by another one.
pub fn owned(mut object: Value, api_version: &str, kind: &str, name: &str) -> Value {
    let owner = json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": name, "controller": true });
    object["metadata"]["ownerReferences"] = json!([owner]);
    object
}

/// A warning about an object.
pub fn event(namespace: &str, kind: &str, name: &str, reason: &str, message: &str, at: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "namespace": namespace, "name": format!("{name}.{}", reason.to_lowercase()) },
        "involvedObject": { "kind": kind, "name": name, "namespace": namespace },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "count": 3,
        "firstTimestamp": at,
        "lastTimestamp": at,
    })
}
