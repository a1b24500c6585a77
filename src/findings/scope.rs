//! The scope of an alert: the pool that it is about, by the labels that its alerts share.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use knowledge::alert::{Alert, Labels, active, common_labels};
use knowledge::playbook::{Library, expression, metrics_of, words};
use knowledge::signal::{Engine, Matcher};

/// The scope's dimensions, and the alert labels that may carry each; what an exporter reports on comes before its own.
/// `k8s_*` and `service_*` are resource attributes of OpenTelemetry.
/// Source: <https://opentelemetry.io/docs/specs/semconv/resource/k8s/>.
pub const DIMENSIONS: [(&str, &[&str]); 4] = [
    ("cluster", &["cluster", "k8s_cluster", "k8s_cluster_name"]),
    ("namespace", &["exported_namespace", "namespace", "kubernetes_namespace", "k8s_namespace_name"]),
    ("model", &["model_name", "model", "served_model_name"]),
    ("job", &["job", "service_name"]),
];

/// Alert labels that name one replica.
pub const REPLICA_LABELS: [&str; 9] = [
    "exported_pod",
    "pod",
    "kubernetes_pod",
    "pod_name",
    "kubernetes_pod_name",
    "k8s_pod_name",
    "ReplicaId",
    "replica",
    "instance",
];

/// Alert labels that name a workload, as kube-state-metrics has them.
/// Source: <https://github.com/kubernetes/kube-state-metrics/tree/main/docs/metrics/workload>.
const WORKLOAD_LABELS: [&str; 4] = ["deployment", "statefulset", "daemonset", "workload"];

/// Labels that name a row's pod; the pod that an exporter reports on comes before the exporter's own `pod`.
pub const POD_LABELS: [&str; 6] =
    ["exported_pod", "pod", "kubernetes_pod", "pod_name", "kubernetes_pod_name", "k8s_pod_name"];

/// The dimensions in the name of a pool, in order.
const NAME_DIMENSIONS: [&str; 3] = ["cluster", "namespace", "model"];

/// The pool in question: dimension to value, and the replicas that the alerts name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// `cluster`, `namespace`, `model`, `job` to their values.
    pub dimensions: BTreeMap<String, String>,
    /// Replicas that the alerts name; the whole pool is queried all the same, so that peers can be compared.
    pub replicas: BTreeSet<String>,
    /// Workloads that the alerts name, or whose pods they name.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub workloads: BTreeSet<String>,
    /// Words of the alerts' expressions that may be metrics: an alert on one engine's metrics is about pools of that engine.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub metrics: BTreeSet<String>,
}

impl Scope {
    /// Builds the scope of a group: the pool labels on which its firing alerts agree, and all replicas that they
    /// name.
    pub fn of_alerts(alerts: &[Alert]) -> Self {
        let active = active(alerts);
        let mut scope = Self::of_labels(&common_labels(&active));
        scope.replicas = active.iter().filter_map(|a| replica_of(&a.labels)).collect();
        scope.workloads = active.iter().flat_map(|alert| workloads_of(&alert.labels)).collect();
        let expressions = active.iter().filter_map(|alert| expression(&alert.generator_url));
        scope.metrics = expressions.flat_map(|text| words(&text).map(str::to_owned).collect::<Vec<_>>()).collect();
        scope
    }

    /// Returns true if a label identifies the pool. A replica alone does not: `instance` may be any machine.
    pub fn names_pool(&self) -> bool {
        !self.dimensions.is_empty()
    }

    /// Returns true if it is about pools: a label identifies one, or the alerts' expressions read an engine's metrics.
    pub fn is_about_pools(&self, library: &Library) -> bool {
        self.names_pool() || !engines_of(library, &self.metrics).is_empty()
    }

    /// Returns true if the scope is a cluster and nothing else; that is often the whole Prometheus.
    pub fn is_of_a_cluster(&self) -> bool {
        self.replicas.is_empty() && self.dimensions.keys().all(|dimension| dimension == "cluster")
    }

    /// Returns true if the scope is a namespace and nothing in it.
    pub fn is_of_a_namespace(&self) -> bool {
        let is_place = |dimension: &String| matches!(dimension.as_str(), "cluster" | "namespace");
        self.replicas.is_empty() && self.dimensions.contains_key("namespace") && self.dimensions.keys().all(is_place)
    }

    /// Builds the scope of a set of labels.
    pub fn of_labels(labels: &Labels) -> Self {
        // Beside `exported_*`, the job is the exporter's.
        let is_reported_on = labels.keys().any(|label| label.starts_with("exported_"));
        let dimensions = DIMENSIONS
            .iter()
            .filter(|(dimension, _)| !(is_reported_on && *dimension == "job"))
            .filter_map(|(dimension, names)| {
                let value = names.iter().find_map(|name| labels.get(*name).filter(|v| !v.is_empty()))?;
                Some(((*dimension).to_owned(), value.clone()))
            })
            .collect();
        let (replicas, workloads) = (replica_of(labels).into_iter().collect(), workloads_of(labels).collect());
        Self { dimensions, replicas, workloads, ..Self::default() }
    }
}

/// Returns the names of the engines and gateways that report one of these metrics: their signals read it, or it begins
/// with the engine's name, `litellm_`. What Prometheus writes itself (`up`, `scrape_*`) belongs to none.
pub fn engines_of<'a>(library: &'a Library, metrics: &BTreeSet<String>) -> BTreeSet<&'a str> {
    if metrics.is_empty() {
        return BTreeSet::new();
    }
    let own = |name: &String| name != "up" && !name.starts_with("scrape_") && metrics.contains(name);
    let reports = |engine: &&Engine| {
        let of_signals = engine.signals.values().filter_map(|entry| entry.query.as_deref()).flat_map(metrics_of);
        metrics.iter().any(|metric| is_reported_by(engine, metric))
            || of_signals.flat_map(|metric| engine.spellings(&metric)).any(|(_, name)| own(&name))
    };
    let engines = library.engines.values().filter(|engine| engine.kind.is_pool());
    engines.filter(reports).map(|engine| engine.engine.as_str()).collect()
}

/// Returns true if a metric begins with an engine's name, as the series does that shows the engine: `vllm:`, `litellm_`.
pub fn is_reported_by(engine: &Engine, metric: &str) -> bool {
    let rest = |text: &str| text.strip_prefix(engine.engine.as_str())?.chars().next();
    let separator = rest(&engine.detect).filter(|separator| matches!(separator, '_' | ':'));
    separator.is_some() && rest(metric) == separator
}

fn replica_of(labels: &Labels) -> Option<String> {
    REPLICA_LABELS.iter().find_map(|name| labels.get(*name).filter(|v| !v.is_empty())).cloned()
}

/// Returns the workloads that labels name, else that of their pod.
fn workloads_of(labels: &Labels) -> impl Iterator<Item = String> {
    let value = |name: &str| labels.get(name).filter(|value| !value.is_empty());
    // Beside a workload's name the pod is that of the exporter.
    let named: Vec<String> = WORKLOAD_LABELS.iter().filter_map(|name| value(name).cloned()).collect();
    let of_pod = POD_LABELS.iter().find_map(|name| value(name)).filter(|_| named.is_empty());
    named.into_iter().chain(of_pod.map(|pod| workload_of(pod).to_owned()))
}

/// Returns the name of a pool by its dimensions, `llm/llama-8b`; empty if none of them is in it.
pub fn pool_name(dimensions: &BTreeMap<String, String>) -> String {
    NAME_DIMENSIONS.iter().filter_map(|d| dimensions.get(*d)).map(String::as_str).collect::<Vec<_>>().join("/")
}

/// Returns true if a row satisfies all matchers.
pub fn fits(matchers: &[Matcher], row: &Labels) -> bool {
    matchers.iter().all(|m| m.accepts(row.get(&m.label).map(String::as_str)))
}

/// Returns the common part of the names of a workload's pods: the name without the replica's own suffix.
///
/// Deployment pods end in `-<hash>-<5 characters>`, StatefulSet pods in `-<ordinal>`.
/// Source: Kubernetes, generated names of ReplicaSets and StatefulSets.
pub fn workload_of(pod: &str) -> &str {
    let Some((rest, last)) = pod.rsplit_once('-') else { return pod };
    let generated = |part: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&part.len()) && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    if last.chars().all(|c| c.is_ascii_digit()) {
        return rest;
    }
    if !generated(last, 5..=5) {
        return pod;
    }
    match rest.rsplit_once('-') {
        Some((workload, hash)) if generated(hash, 6..=10) => workload,
        _ => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_one_workload_are_recognised_by_name() {
        for (pod, workload) in [
            ("llama-70b-7c9d8f5b6c-x2x4z", "llama-70b"),
            ("llama-0", "llama"),
            ("llama-70b", "llama-70b"),
            ("node-exporter", "node-exporter"),
            ("10.0.0.1:8000", "10.0.0.1:8000"),
        ] {
            assert_eq!(workload_of(pod), workload);
        }
    }
}
