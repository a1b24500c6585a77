//! What a cluster's API tells of a pool: pods as they were made and as they stand, events, objects, logs. Never Secrets.

mod ask;
mod config;
mod connect;
mod events;
mod find;
mod kinds;
mod logs;
mod look;
mod nodes;
mod objects;
mod permissions;
mod pods;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::logs::Log;
pub use config::Config;
pub use connect::KubernetesError;
pub use kinds::{Kind, Verb, read};
use look::Missing;
pub use permissions::Permissions;

/// Everything that was seen; what could not be is in `missing`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Seen {
    /// The API server's version: `v1.34.2`.
    pub version: Option<String>,
    /// The pool's pods.
    pub pods: Vec<Pod>,
    /// Their nodes.
    pub nodes: Vec<Node>,
    /// Events of the pods, their owners and nodes, oldest first.
    pub events: Vec<Event>,
    /// What owns or routes to them: Deployment, LLMInferenceService, InferencePool, HTTPRoute, DynamoGraphDeployment, …
    pub objects: Vec<Object>,
    /// The containers' logs.
    pub logs: Vec<Log>,
    /// What could not be seen: what, and why, in a sentence.
    pub missing: Vec<(String, String)>,
}

/// A pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub node: Option<String>,
    /// `Running`, `Pending`, …
    pub phase: String,
    /// Kind and name of what made it, up to the top: `Deployment/llama`.
    pub owner: Option<String>,
    /// When it was made.
    #[schemars(with = "Option<String>")]
    pub created_at: Option<Timestamp>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its containers, init containers first.
    pub containers: Vec<Container>,
    /// Conditions that do not hold, in a sentence each: why it is not scheduled, not ready.
    pub troubles: Vec<String>,
}

/// Why a pod is missing that metrics still remember: nothing failed.
pub const GONE: &str = "it is gone: the API does not know it any more; its events may still tell";

/// A container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// As the pod asks for it.
    pub image: String,
    /// As it was pulled, with its digest.
    pub image_id: Option<String>,
    /// Command and arguments, one list.
    pub args: Vec<String>,
    /// Plain environment variables; those from Secrets by their reference, never by value.
    pub env: BTreeMap<String, String>,
    /// Limits and requests: `limits.nvidia.com/gpu`.
    pub resources: BTreeMap<String, String>,
    /// Restarts so far.
    pub restarts: u32,
    /// Ready.
    pub ready: bool,
    /// Since when it runs.
    #[schemars(with = "Option<String>")]
    pub started_at: Option<Timestamp>,
    /// Why it waits: `CrashLoopBackOff`.
    pub waiting: Option<String>,
    /// How the one before it ended.
    pub ended: Option<Ended>,
}

/// How a container ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ended {
    /// `OOMKilled`, `Error`.
    pub reason: String,
    /// Its exit status.
    pub exit_code: i32,
    /// When.
    #[schemars(with = "Option<String>")]
    pub at: Option<Timestamp>,
    /// What it left as its last words.
    pub message: Option<String>,
}

/// A machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Kubelet, kernel, operating system, container runtime.
    pub versions: BTreeMap<String, String>,
    /// Labels that tell hardware, driver, zone and machine type.
    pub labels: BTreeMap<String, String>,
    /// What it can give: `nvidia.com/gpu`.
    pub allocatable: BTreeMap<String, String>,
    /// Conditions and taints that are trouble, in a sentence each.
    pub troubles: Vec<String>,
}

/// An event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When it was last seen.
    #[schemars(with = "Option<String>")]
    pub at: Option<Timestamp>,
    /// Kind and name: `Pod/llama-0`.
    pub about: String,
    /// `Warning` rather than `Normal`.
    pub warning: bool,
    /// `BackOff`.
    pub reason: String,
    /// The sentence.
    pub message: String,
    /// How often.
    pub count: u32,
}

/// Any object, as the API has it, without managed fields and without data that may be secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Object {
    /// `apiVersion/kind`: `serving.kserve.io/v1alpha1/LLMInferenceService`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// All of it.
    pub value: Value,
}

/// What to look for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// The pool's namespace; without one the pods are looked for in all that may be asked.
    pub namespace: Option<String>,
    /// The pool's pods, those that are gone included.
    pub pods: Vec<String>,
    /// Events and logs since then.
    pub since: Timestamp,
    /// Bytes of all logs together; none fetches no logs.
    pub log_bytes: u64,
}

/// A cluster's API; cheap to clone.
#[derive(Clone)]
pub struct Kubernetes {
    client: kube::Client,
    /// The API server's address, as it may be shown.
    server: Arc<str>,
    slots: Arc<Semaphore>,
    /// Namespaces that may be asked; all when empty.
    allowed: Arc<[String]>,
}

impl std::fmt::Debug for Kubernetes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubernetes").finish_non_exhaustive()
    }
}
