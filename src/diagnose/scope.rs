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
const REPLICA_LABELS: [&str; 7] =
    ["exported_pod", "pod", "kubernetes_pod", "pod_name", "ReplicaId", "replica", "instance"];

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

impl Found {
    /// The engines whose replicas are the pool: serving ones, or gateways where only those are known.
    pub(super) fn pool<'a>(&'a self, library: &'a Library) -> impl Iterator<Item = (&'a Engine, &'a EngineSeen)> {
        let known = || self.engines.iter().filter_map(|seen| Some((library.engines.get(&seen.engine)?, seen)));
        let rank = |engine: &Engine| (engine.kind, engine.stand_in);
        let best = known().map(|(engine, _)| rank(engine)).filter(|(kind, _)| kind.is_pool()).min();
        known().filter(move |(engine, _)| Some(rank(engine)) == best)
    }
}

/// Asks whether what serves was there at a moment, by the labels that scopes are made of.
pub(super) fn presence(library: &Library) -> String {
    served_by_scope(library, "", "")
}

/// Asks what served within the last day, with the names of the series, by the labels of scopes.
pub fn last_day(library: &Library) -> String {
    served_by_scope(library, "__name__, ", "[1d]")
}

fn served_by_scope(library: &Library, more: &str, range: &str) -> String {
    let pools = || library.engines.values().filter(|e| e.kind.is_pool());
    let names: Vec<String> = pools().flat_map(Engine::detected_by).collect();
    let labels: BTreeSet<&str> = pools().flat_map(telling_labels).collect();
    let labels: Vec<&str> = labels.into_iter().collect();
    let series = format!("{{__name__=~\"{}\"}}{range}", names.join("|"));
    let series = if range.is_empty() { series } else { format!("last_over_time({series})") };
    format!("count by ({more}{}) ({series})", labels.join(", "))
}

/// Asks for the time of the serving engines' newest sample, in unix seconds.
pub fn newest(library: &Library) -> String {
    let serving = library.engines.values().filter(|e| e.kind == EngineKind::Serving);
    let names: Vec<String> = serving.flat_map(Engine::detected_by).collect();
    format!("max(timestamp({{__name__=~\"{}\"}}))", names.join("|"))
}

/// Whether the rows of [`presence`] show the pool that was found.
pub(super) fn was_present(library: &Library, found: &Found, rows: &[Row]) -> bool {
    let mut pool = found.pool(library);
    pool.any(|(_, seen)| rows.iter().any(|row| fits(&seen.matchers, &row.labels)))
}

/// Whether a row satisfies matchers.
pub(super) fn fits(matchers: &[Matcher], row: &Labels) -> bool {
    matchers.iter().all(|m| row.get(&m.label).map_or(m.or_absent || m.value.is_empty(), |value| *value == m.value))
}

/// The detection query: every engine's tell-tale series and version probes of the last hour, by the labels that
/// scopes are made of.
pub fn detection(library: &Library) -> String {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut labels: BTreeSet<&str> = BTreeSet::from(["__name__"]);
    for engine in library.engines.values() {
        for metric in engine.tell_tales().chain(engine.versions.iter().map(|v| v.metric.as_str())) {
            names.extend(engine.spellings(metric).into_iter().map(|(_, name)| name));
        }
        labels.extend(telling_labels(engine));
    }
    let names: Vec<String> = names.into_iter().collect();
    let labels: Vec<&str> = labels.into_iter().collect();
    format!("count by ({}) (last_over_time({{__name__=~\"{}\"}}[1h]))", labels.join(", "), names.join("|"))
}

/// The pools that the rows of [`detection`] or [`last_day`] show: dimension to value, as their serving engines tell it; each once.
///
/// Where only gateways are known, the pools are theirs. A job is no pool: one pool may be scraped by several.
pub fn pools(library: &Library, rows: &[Labels]) -> BTreeSet<BTreeMap<String, String>> {
    let told = |engine: &Engine| -> Vec<BTreeMap<String, String>> {
        let names = engine.detected_by();
        let there = rows.iter().filter(|row| row.get("__name__").is_some_and(|name| names.contains(name)));
        there
            .filter(|row| fits(&engine.own_series().collect::<Vec<_>>(), row))
            .map(|row| {
                let dimensions = engine.scope.iter().filter(|(dimension, _)| *dimension != "job");
                let valued = dimensions.filter_map(|(dimension, labels)| {
                    let value = labels.iter().find_map(|label| row.get(label).filter(|v| !v.is_empty()))?;
                    Some((dimension.clone(), value.clone()))
                });
                valued.collect()
            })
            .collect()
    };
    let mut by_rank: BTreeMap<(EngineKind, bool), BTreeSet<BTreeMap<String, String>>> = BTreeMap::new();
    for engine in library.engines.values().filter(|engine| engine.kind.is_pool()) {
        let pools = told(engine);
        if !pools.is_empty() {
            by_rank.entry((engine.kind, engine.stand_in)).or_default().extend(pools);
        }
    }
    by_rank.into_values().next().unwrap_or_default()
}

/// The namespaces in which the rows of [`detection`] show an orchestrator at work.
pub fn orchestrated(library: &Library, rows: &[Labels]) -> BTreeSet<String> {
    let platforms = library.engines.values().filter(|e| e.kind == EngineKind::Platform);
    let labels: Vec<(&String, &String)> = platforms
        .filter_map(|engine| Some((&engine.detect, engine.scope.get("namespace")?)))
        .flat_map(|(detect, labels)| labels.iter().map(move |label| (detect, label)))
        .collect();
    let of = |row: &Labels| -> Vec<String> {
        let told = labels.iter().filter(|(detect, _)| row.get("__name__") == Some(detect));
        told.filter_map(|(_, label)| row.get(*label).cloned()).collect()
    };
    rows.iter().flat_map(of).collect()
}

/// The labels by which an engine's series are bound to a scope, or known as another program's.
fn telling_labels(engine: &Engine) -> impl Iterator<Item = &str> {
    engine.scope.values().flatten().chain(&engine.foreign).map(String::as_str)
}

/// Reads the rows of [`detection`]: which engines answer for the scope, with which label names.
///
/// A dimension whose label no row carries is dropped with a note. A dimension whose label is there with other
/// values only is kept: then the pool is not in this Prometheus, and saying "no data" is right. Engines that serve
/// only other pools are left out where one serves this one.
pub fn read_detection(library: &Library, scope: &Scope, rows: &[Labels]) -> Found {
    let mut found = Found::default();
    let mut notes = Vec::new();
    let mut fitting = BTreeSet::new();
    for engine in library.engines.values() {
        let named = |metric: &str| -> Vec<(Option<String>, &Labels)> {
            engine
                .spellings(metric)
                .into_iter()
                .flat_map(|(prefix, name)| {
                    rows.iter()
                        .filter(move |row| row.get("__name__") == Some(&name))
                        .map(move |row| (prefix.clone(), row))
                })
                .collect()
        };
        let ours: Vec<Matcher> = engine.own_series().collect();
        let there: Vec<_> = engine.tell_tales().flat_map(named).filter(|(_, row)| fits(&ours, row)).collect();
        if there.is_empty() {
            continue;
        }
        let own: Vec<&Labels> = there.iter().map(|(_, row)| *row).collect();
        let (matchers, said) = bind(engine, scope, &own);
        notes.push((engine, said));
        let mut prefixes: BTreeSet<String> =
            there.iter().filter(|(_, row)| fits(&matchers, row)).filter_map(|(prefix, _)| prefix.clone()).collect();
        if there.iter().any(|(_, row)| fits(&matchers, row)) {
            fitting.insert(&engine.engine);
        }
        // A sum over a series and its copy would count twice.
        if prefixes.iter().any(|prefix| engine.prefixes.contains(prefix)) {
            prefixes.retain(|prefix| !engine.copies.contains(prefix));
        }
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
    // A gateway that names the pool's namespace or model is its own; a stranger's errors are none of its.
    let near = |seen: &EngineSeen| seen.matchers.iter().any(|m| !m.value.is_empty());
    let is_gateway =
        |seen: &EngineSeen| library.engines.get(&seen.engine).is_some_and(|e| e.kind == EngineKind::Gateway);
    if found.engines.iter().any(|seen| is_gateway(seen) && near(seen)) {
        found.engines.retain(|seen| !is_gateway(seen) || near(seen));
    }
    let of_another_pool = |engine: &Engine| {
        let served = library.engines.values().any(|e| e.kind == engine.kind && fitting.contains(&e.engine));
        engine.kind.is_pool() && served && !fitting.contains(&engine.engine)
    };
    found.engines.retain(|seen| !library.engines.get(&seen.engine).is_some_and(of_another_pool));
    // What engines of other pools lack is no news.
    found.notes = notes.into_iter().filter(|(engine, _)| !of_another_pool(engine)).flat_map(|(_, said)| said).collect();
    found.notes.sort();
    found.notes.dedup();
    found
}

fn bind(engine: &Engine, scope: &Scope, rows: &[&Labels]) -> (Vec<Matcher>, Vec<String>) {
    let serving = engine.kind == EngineKind::Serving;
    let mut out: Vec<Matcher> = engine.own_series().collect();
    let mut notes = Vec::new();
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
            // A gateway often lives in a namespace of its own.
            (None, _) if engine.kind == EngineKind::Gateway && dimension != "model" => {}
            (None, None) if engine.kind.is_pool() => notes.push(format!(
                "the {} series carry no label for the alert's {dimension} `{value}`: it was not used to narrow the pool",
                engine.engine
            )),
            (None, Some(label)) if engine.kind == EngineKind::Gateway => notes.push(format!(
                "no {} series of the last hour has {label}=`{value}`: the gateway was looked at as a whole",
                engine.engine
            )),
            (None, Some(label)) if serving => {
                notes.push(format!("no {} series of the last hour has {label}=`{value}`", engine.engine));
                out.push(Matcher { label: (*label).clone(), value: value.clone(), or_absent: false });
            }
            (None, _) => {}
        }
    }
    (out, notes)
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
