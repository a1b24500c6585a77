//! The configuration key `kubernetes:`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

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
