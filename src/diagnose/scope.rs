//! The pool that an alert is about, and how Prometheus' series name it.
//!
//! An alert's labels need not be the series' labels: `cluster` is often an external label that the local
//! Prometheus never sees, `model` may be `model_name`. One detection query shows which names and values are there.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::alert::{Alert, Labels, active, common_labels};
use crate::playbook::Library;
use crate::prom::Row;
use crate::signal::{Engine, EngineKind, EngineVersion, Matcher};

/// The scope's dimensions, and the alert labels that may carry each.
const DIMENSIONS: [(&str, &[&str]); 4] = [
    ("cluster", &["cluster", "k8s_cluster"]),
    ("namespace", &["namespace", "exported_namespace", "kubernetes_namespace"]),
    ("model", &["model_name", "model", "served_model_name"]),
    ("job", &["job"]),
];

/// Alert labels that name one replica.
const REPLICA_LABELS: [&str; 5] = ["exported_pod", "pod", "pod_name", "replica", "instance"];

/// Which pool is meant: dimension to value, and the replicas that the alerts name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// `cluster`, `namespace`, `model`, `job` to their values.
    pub dimensions: BTreeMap<String, String>,
    /// Named by alerts; the pool is looked at as a whole all the same, so that peers can be compared.
    pub replicas: BTreeSet<String>,
}

impl Scope {
    /// The scope of a group: the pool labels on which its firing alerts agree, and every replica they name.
    pub fn of_alerts(alerts: &[Alert]) -> Self {
        let active = active(alerts);
        let mut scope = Self::of_labels(&common_labels(&active));
        scope.replicas = active.iter().filter_map(|a| replica_of(&a.labels)).collect();
        scope
    }

    /// The scope of a set of labels.
    pub fn of_labels(labels: &Labels) -> Self {
        let dimensions = DIMENSIONS
            .iter()
            .filter_map(|(dimension, names)| {
                let value = names.iter().find_map(|name| labels.get(*name).filter(|v| !v.is_empty()))?;
                Some(((*dimension).to_owned(), value.clone()))
            })
            .collect();
        Self { dimensions, replicas: replica_of(labels).into_iter().collect() }
    }
}

fn replica_of(labels: &Labels) -> Option<String> {
    REPLICA_LABELS.iter().find_map(|name| labels.get(*name).filter(|v| !v.is_empty())).cloned()
}

/// An engine that answers for this scope.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSeen {
    /// Its name.
    pub engine: String,
    /// The lowest version that its series allow.
    pub version: Option<EngineVersion>,
    /// The prefixes that its series have here.
    pub prefixes: Vec<String>,
    /// The scope in its labels.
    pub matchers: Vec<Matcher>,
}

/// What detection found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The engines and exporters that are there.
    pub engines: Vec<EngineSeen>,
    /// The moment that serves as the past, when the pool was there.
    pub past: Option<Timestamp>,
    /// What could not be used of the alert's labels, in sentences.
    pub notes: Vec<String>,
}

/// Asks whether serving engines were there at a moment, by the labels that scopes are made of.
pub(super) fn presence(library: &Library) -> String {
    let serving = || library.engines.values().filter(|e| e.kind == EngineKind::Serving);
    let names: Vec<String> = serving().flat_map(|e| spellings(e, &e.detect)).map(|(_, name)| name).collect();
    let labels: BTreeSet<&str> = serving().flat_map(|e| e.scope.values().flatten()).map(String::as_str).collect();
    let labels: Vec<&str> = labels.into_iter().collect();
    format!("count by ({}) ({{__name__=~\"{}\"}})", labels.join(", "), names.join("|"))
}

/// Whether the rows of [`presence`] show the pool that was found.
pub(super) fn was_present(library: &Library, found: &Found, rows: &[Row]) -> bool {
    let is_serving = |name: &str| library.engines.get(name).is_some_and(|e| e.kind == EngineKind::Serving);
    let mut serving = found.engines.iter().filter(|seen| is_serving(&seen.engine));
    serving.any(|seen| rows.iter().any(|row| fits(&seen.matchers, &row.labels)))
}

/// Whether a row satisfies matchers.
pub(super) fn fits(matchers: &[Matcher], row: &Labels) -> bool {
    matchers.iter().all(|m| row.get(&m.label).map_or(m.or_absent, |value| *value == m.value))
}

/// The detection query: every engine's tell-tale series and version probes of the last hour, by the labels that
/// scopes are made of.
pub fn detection(library: &Library) -> String {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut labels: BTreeSet<&str> = BTreeSet::from(["__name__"]);
    for engine in library.engines.values() {
        for metric in std::iter::once(&engine.detect).chain(engine.versions.iter().map(|v| &v.metric)) {
            names.extend(spellings(engine, metric).into_iter().map(|(_, name)| name));
        }
        labels.extend(engine.scope.values().flatten().map(String::as_str));
    }
    let names: Vec<String> = names.into_iter().collect();
    let labels: Vec<&str> = labels.into_iter().collect();
    format!("count by ({}) (last_over_time({{__name__=~\"{}\"}}[1h]))", labels.join(", "), names.join("|"))
}

/// Every spelling of a metric with the prefix it has: as written, and with the engine's other prefixes.
pub(super) fn spellings(engine: &Engine, metric: &str) -> Vec<(Option<String>, String)> {
    match engine.prefixes.first().and_then(|written| metric.strip_prefix(written.as_str())) {
        None => vec![(None, metric.to_owned())],
        Some(bare) => engine.prefixes.iter().map(|p| (Some(p.clone()), format!("{p}{bare}"))).collect(),
    }
}

/// Reads the rows of [`detection`]: which engines answer for the scope, with which label names.
///
/// A dimension whose label no row carries is dropped with a note. A dimension whose label is there with other
/// values only is kept: then the pool is not in this Prometheus, and saying "no data" is right.
pub fn read_detection(library: &Library, scope: &Scope, rows: &[Labels]) -> Found {
    let mut found = Found::default();
    for engine in library.engines.values() {
        let named = |metric: &str| -> Vec<(Option<String>, &Labels)> {
            spellings(engine, metric)
                .into_iter()
                .flat_map(|(prefix, name)| {
                    rows.iter()
                        .filter(move |row| row.get("__name__") == Some(&name))
                        .map(move |row| (prefix.clone(), row))
                })
                .collect()
        };
        let there = named(&engine.detect);
        if there.is_empty() {
            continue;
        }
        let own: Vec<&Labels> = there.iter().map(|(_, row)| *row).collect();
        let matchers = bind(engine, scope, &own, &mut found.notes);
        let prefixes: BTreeSet<String> =
            there.iter().filter(|(_, row)| fits(&matchers, row)).filter_map(|(prefix, _)| prefix.clone()).collect();
        let version = engine
            .versions
            .iter()
            .find(|probe| named(&probe.metric).iter().any(|(_, row)| fits(&matchers, row)))
            .and_then(|probe| probe.at_least.parse().ok());
        found.engines.push(EngineSeen {
            engine: engine.engine.clone(),
            version,
            prefixes: prefixes.into_iter().collect(),
            matchers,
        });
    }
    found.notes.sort();
    found.notes.dedup();
    found
}

fn bind(engine: &Engine, scope: &Scope, rows: &[&Labels], notes: &mut Vec<String>) -> Vec<Matcher> {
    let serving = engine.kind == EngineKind::Serving;
    let mut out = Vec::new();
    for (dimension, value) in &scope.dimensions {
        let Some(labels) = engine.scope.get(dimension) else { continue };
        let carried: Vec<&String> =
            labels.iter().filter(|label| rows.iter().any(|row| row.contains_key(*label))).collect();
        let exact = carried.iter().find(|label| rows.iter().any(|row| row.get(**label) == Some(value)));
        match (exact, carried.first()) {
            (Some(label), _) => out.push(Matcher {
                label: (*label).clone(),
                value: value.clone(),
                // An exporter shared by the cluster has rows that belong to nobody; a serving engine has not.
                or_absent: !serving,
            }),
            // A job label of the rule that fired is often another exporter's.
            (None, _) if dimension == "job" => {}
            (None, None) if serving => notes.push(format!(
                "the {} series carry no label for the alert's {dimension} `{value}`: it was not used to narrow the pool",
                engine.engine
            )),
            (None, None) => {}
            (None, Some(label)) if serving => {
                notes.push(format!("no {} series of the last hour has {label}=`{value}`", engine.engine));
                out.push(Matcher { label: (*label).clone(), value: value.clone(), or_absent: false });
            }
            (None, Some(_)) => {}
        }
    }
    out
}

/// The pods of the pool: exporters' rows are told apart by pod; where the engines' series carry none, nothing can be.
pub(super) struct Pods<'a> {
    pods: BTreeSet<&'a str>,
    workloads: BTreeSet<&'a str>,
}

impl<'a> Pods<'a> {
    pub(super) fn new(pods: impl Iterator<Item = &'a str>) -> Self {
        let pods: BTreeSet<&str> = pods.filter(|pod| !pod.is_empty()).collect();
        let workloads = pods.iter().map(|pod| workload_of(pod)).collect();
        Self { pods, workloads }
    }

    pub(super) fn own(&self, row: &Labels) -> bool {
        let first = |labels: &[&str]| labels.iter().find_map(|label| row.get(*label).map(String::as_str));
        self.pods.is_empty()
            || match first(&["exported_pod", "pod"]) {
                Some(pod) => self.pods.contains(pod) || self.workloads.contains(workload_of(pod)),
                // A namespace has other workloads too.
                None => first(&["deployment", "statefulset"]).is_none_or(|name| self.workloads.contains(name)),
            }
    }
}

/// What pods of one workload have in common in their names: the name without the replica's own ending.
///
/// Deployment pods end in `-<hash>-<5 characters>`, StatefulSet pods in `-<ordinal>`.
/// Source: Kubernetes, generated names of ReplicaSets and StatefulSets.
pub(super) fn workload_of(pod: &str) -> &str {
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
