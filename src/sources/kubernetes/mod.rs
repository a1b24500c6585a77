//! A client of a cluster's API: specification and status of a pool's pods, events, objects, logs. Never Secrets.

mod ask;
mod connect;
mod events;
mod find;
mod kinds;
mod logs;
mod nodes;
mod objects;
mod permissions;
mod pods;
mod rollout;
mod snapshot;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Semaphore;

pub use connect::KubernetesError;
use findings::cluster::{ClusterEvent, ClusterNode, ClusterSnapshot, Container, Ended, Object, Pod};
pub use kinds::{ResourceKind, Verb, read};
pub use permissions::Permissions;
use snapshot::SnapshotGaps;

/// The access to a cluster's API.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// True to query the cluster; unset: only if the program runs in a cluster.
    pub enabled: Option<bool>,
    /// The path of a kubeconfig, for use outside of a cluster; unset: the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context; unset: its current context.
    pub context: Option<String>,
    /// Labels that an alert must carry for this cluster to be queried; empty takes every alert.
    pub labels: BTreeMap<String, String>,
    /// Namespaces that may be queried; empty takes all that the permissions allow.
    pub namespaces: Vec<String>,
}

/// The request for a snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SnapshotRequest {
    /// The pool's namespace; `None` searches the pods in all allowed namespaces.
    pub namespace: Option<String>,
    /// The pool's pods, including those that no longer exist.
    pub pods: Vec<String>,
    /// The start of the time range of events and logs.
    pub since: Timestamp,
    /// Maximum bytes of all logs together; 0 reads no logs.
    pub log_bytes: u64,
}

/// A client of a cluster's API; cheap to clone.
#[derive(Clone)]
pub struct Kubernetes {
    client: kube::Client,
    /// The address of the API server, without secrets.
    server: Arc<str>,
    slots: Arc<Semaphore>,
    /// Namespaces that may be queried; all if empty.
    allowed: Arc<[String]>,
}

impl std::fmt::Debug for Kubernetes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubernetes").finish_non_exhaustive()
    }
}
