//! The state of a pool in a cluster, as its API tells it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use knowledge::gap::Gap;
use logs::Log;

/// The snapshot of a pool; parts that could not be read are in `missing`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterSnapshot {
    /// The API server's version: `v1.34.2`.
    pub version: Option<String>,
    /// The pool's pods.
    pub pods: Vec<Pod>,
    /// The nodes of the pods.
    pub nodes: Vec<ClusterNode>,
    /// Events of the pods, their owners and nodes, oldest first.
    pub events: Vec<ClusterEvent>,
    /// Objects that own the pods or route to them: Deployment, LLMInferenceService, InferencePool, HTTPRoute, …
    pub objects: Vec<Object>,
    /// The containers' logs.
    pub logs: Vec<Log>,
    /// The parts that could not be read, each with a reason in a sentence.
    pub missing: Vec<Gap>,
}

/// A pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pod {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The node that it runs on.
    pub node: Option<String>,
    /// The phase: `Running`, `Pending`, …
    pub phase: String,
    /// Kind and name of its top-level owner: `Deployment/llama`.
    pub owner: Option<String>,
    /// The creation time.
    pub created_at: Option<Timestamp>,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The containers, init containers first.
    pub containers: Vec<Container>,
    /// Problems, in a sentence each: failed conditions, and why containers wait.
    pub troubles: Vec<String>,
}

/// A container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Container {
    /// The name.
    pub name: String,
    /// The image as the pod specifies it.
    pub image: String,
    /// The image as it was pulled, with its digest.
    pub image_id: Option<String>,
    /// Command and arguments in one list.
    pub args: Vec<String>,
    /// Plain environment variables; those from Secrets by their reference, never by value.
    pub env: BTreeMap<String, String>,
    /// Limits and requests: `limits.nvidia.com/gpu`.
    pub resources: BTreeMap<String, String>,
    /// The number of restarts.
    pub restarts: u32,
    /// True if the container is ready.
    pub ready: bool,
    /// The start time of the current run; unset if it does not run.
    pub started_at: Option<Timestamp>,
    /// The reason why it waits: `CrashLoopBackOff`.
    pub waiting: Option<String>,
    /// The end of the last run that has ended.
    pub ended: Option<Ended>,
}

/// The end of a container's run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ended {
    /// The reason: `OOMKilled`, `Error`.
    pub reason: String,
    /// The exit code.
    pub exit_code: i32,
    /// The time of the end.
    pub at: Option<Timestamp>,
    /// The termination message.
    pub message: Option<String>,
}

/// A node of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterNode {
    /// The name.
    pub name: String,
    /// Kubelet, kernel, operating system, container runtime.
    pub versions: BTreeMap<String, String>,
    /// Labels about hardware, driver, zone and machine type.
    pub labels: BTreeMap<String, String>,
    /// The allocatable resources: `nvidia.com/gpu`.
    pub allocatable: BTreeMap<String, String>,
    /// Failed conditions and taints that mean trouble, in a sentence each.
    pub troubles: Vec<String>,
}

/// An event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterEvent {
    /// The time of the last occurrence.
    pub at: Option<Timestamp>,
    /// Kind and name of the object: `Pod/llama-0`.
    pub about: String,
    /// True if the type is `Warning` rather than `Normal`.
    pub warning: bool,
    /// The reason: `BackOff`.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The number of occurrences.
    pub count: u32,
}

/// An object as the API returns it, without managed fields and without data that may be secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Object {
    /// `apiVersion/kind`: `serving.kserve.io/v1alpha1/LLMInferenceService`.
    pub kind: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The whole object.
    pub value: Value,
}
