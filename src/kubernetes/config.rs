//! The key `kubernetes:`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// Whether and how a cluster's API is asked.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Ask it; not set, when we run in a cluster.
    pub enabled: Option<bool>,
    /// A kubeconfig, for use outside of a cluster; not set, the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context; not set, its current one.
    pub context: Option<String>,
    /// Labels of an alert that must all be equal for this cluster to be asked; empty takes every alert.
    pub labels: BTreeMap<String, String>,
    /// Namespaces that may be asked; empty takes all that the permissions allow.
    pub namespaces: Vec<String>,
}
