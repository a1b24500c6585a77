//! The pools and pods that Prometheus has, and the search among them for a typed part of a name.

use std::collections::{BTreeMap, BTreeSet};

use crate::pools;
use crate::unknown_labels::typed_label;
use findings::scope::{Scope, pool_name, workload_of};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use knowledge::signal::{Engine, EngineKind};

/// A pool with the pods that serve it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetPool {
    /// Dimension to value.
    pub dimensions: BTreeMap<String, String>,
    /// Pods of the last hour; addresses if the series name no pods.
    pub pods: BTreeSet<String>,
    /// Every value of a label that may name a replica: its pod, its instance.
    pub replicas: BTreeSet<String>,
    /// The jobs of its series, as Prometheus calls them.
    pub jobs: BTreeSet<String>,
}

/// A search result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolMatch {
    /// The index of the place.
    pub place: usize,
    /// The pod that was named.
    pub pod: Option<String>,
}

/// Builds the query for all pools with their pods, by the detection series of the last hour.
pub fn fleet(library: &Library) -> String {
    let engines = || library.engines.values().filter(|e| e.kind.is_pool());
    let names: BTreeSet<String> = engines().flat_map(Engine::detected_by).collect();
    let scopes = engines().flat_map(|e| e.scope.values().flatten().chain(&e.foreign));
    let labels: BTreeSet<&str> = scopes.chain(replica_labels(library)).map(String::as_str).collect();
    let names: Vec<String> = names.into_iter().collect();
    let labels: Vec<&str> = labels.into_iter().collect();
    format!("count by (__name__, {}) (last_over_time({{__name__=~\"{}\"}}[1h]))", labels.join(", "), names.join("|"))
}

fn replica_labels(library: &Library) -> impl Iterator<Item = &String> {
    let serving = library.engines.values().filter(|e| e.kind == EngineKind::Serving);
    serving.chain(library.engines.values().filter(|e| e.kind == EngineKind::Gateway)).flat_map(|e| &e.replica)
}

/// Reads the rows of [`fleet`]: each pool once, by name.
pub fn places(library: &Library, rows: &[Labels]) -> Vec<FleetPool> {
    let mut places: BTreeMap<BTreeMap<String, String>, FleetPool> = pools(library, rows)
        .into_iter()
        .map(|dimensions| (dimensions.clone(), FleetPool { dimensions, ..FleetPool::default() }))
        .collect();
    let job_labels = || library.engines.values().filter_map(|engine| engine.scope.get("job")).flatten();
    let value = |row: &Labels, label: &String| row.get(label).filter(|value| !value.is_empty()).cloned();
    for row in rows {
        let replicas: Vec<String> = replica_labels(library).filter_map(|label| value(row, label)).collect();
        let job = job_labels().find_map(|label| value(row, label));
        for dimensions in pools(library, std::slice::from_ref(row)) {
            if let Some(place) = places.get_mut(&dimensions) {
                place.pods.extend(replicas.first().cloned());
                place.replicas.extend(replicas.iter().cloned());
                place.jobs.extend(job.clone());
            }
        }
    }
    places.into_values().collect()
}

impl FleetPool {
    /// Returns the name, `llm/llama-8b`; the cluster comes first if its series carry one.
    pub fn name(&self) -> String {
        match pool_name(&self.dimensions) {
            name if name.is_empty() => self.pods.first().cloned().unwrap_or_default(),
            name => name,
        }
    }

    /// Returns the scope for a diagnosis.
    pub fn scope(&self, pod: Option<&str>) -> Scope {
        Scope {
            dimensions: self.dimensions.clone(),
            replicas: pod.map(str::to_owned).into_iter().collect(),
            ..Scope::default()
        }
    }

    /// Returns true if it has the scope's dimensions, as far as its series carry them, its job, and one of its replicas.
    pub fn is_in(&self, scope: &Scope) -> bool {
        let has = |(dimension, value): (&String, &String)| match dimension.as_str() {
            "job" => self.jobs.contains(value),
            _ => self.dimensions.get(dimension).is_none_or(|own| own == value),
        };
        let has_replica = scope.replicas.is_empty() || scope.replicas.iter().any(|name| self.replicas.contains(name));
        scope.dimensions.iter().all(has) && has_replica
    }

    /// Returns all names that users may type for it, in lower case.
    fn names(&self) -> BTreeSet<String> {
        let of = |dimension: &str| self.dimensions.get(dimension).map(|value| value.to_lowercase());
        let workloads = self.pods.iter().map(|pod| workload_of(pod).to_lowercase());
        let mut short: BTreeSet<String> = workloads.collect();
        if let Some(model) = of("model") {
            short.extend(model.rsplit('/').next().map(str::to_owned));
            short.insert(model);
        }
        let mut names = short.clone();
        if let Some(namespace) = of("namespace") {
            names.extend(short.iter().map(|name| format!("{namespace}/{name}")));
            names.insert(namespace);
        }
        names.extend(of("cluster"));
        names.insert(self.name().to_lowercase());
        names
    }

    /// Returns a pod's name that is unique among all pools: `llm-dev/qwen-0`; the cluster comes first if its series
    /// carry one.
    pub fn pod_name(&self, pod: &str) -> String {
        let places = ["cluster", "namespace"].iter().filter_map(|d| self.dimensions.get(*d)).map(String::as_str);
        places.chain([pod]).collect::<Vec<_>>().join("/")
    }

    /// Returns the names that users may type for its pods, each with the pod.
    fn called(&self) -> impl Iterator<Item = (String, &String)> {
        let namespace = self.dimensions.get("namespace").map(|n| format!("{}/", n.to_lowercase())).unwrap_or_default();
        self.pods.iter().flat_map(move |pod| {
            let short = pod.to_lowercase();
            [(self.pod_name(pod).to_lowercase(), pod), (format!("{namespace}{short}"), pod), (short, pod)]
        })
    }
}

/// Finds the places that `typed` may mean: exact names, else prefixes, else substrings; case is ignored. Pools take
/// precedence over pods. `model=llama` selects the pools with exactly this label.
pub fn find_pools(places: &[FleetPool], typed: &str) -> Vec<PoolMatch> {
    if let Ok(Some((dimension, value))) = typed_label(typed) {
        let own = |place: &FleetPool| place.dimensions.get(dimension).is_some_and(|own| own == value);
        let pools = places.iter().enumerate().filter(|(_, place)| own(place));
        return pools.map(|(place, _)| PoolMatch { place, pod: None }).collect();
    }
    let typed = typed.trim().trim_matches('/').to_lowercase();
    let fits: [fn(&str, &str) -> bool; 3] =
        [|name, typed| name == typed, |name, typed| name.starts_with(typed), |name, typed| name.contains(typed)];
    for fit in fits {
        let numbered = || places.iter().enumerate();
        let pools = numbered().filter(|(_, place)| place.names().iter().any(|name| fit(name, &typed)));
        let pools: Vec<PoolMatch> = pools.map(|(i, _)| PoolMatch { place: i, pod: None }).collect();
        if !pools.is_empty() {
            return pools;
        }
        let mut pods: Vec<(usize, &String)> = numbered()
            .flat_map(|(i, place)| place.called().filter(|(name, _)| fit(name, &typed)).map(move |(_, pod)| (i, pod)))
            .collect();
        pods.dedup();
        if !pods.is_empty() {
            return pods.into_iter().map(|(place, pod)| PoolMatch { place, pod: Some(pod.clone()) }).collect();
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(namespace: &str, model: &str, pods: &[&str]) -> FleetPool {
        let dimensions = [("namespace", namespace), ("model", model)].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let pods = pods.iter().map(|pod| (*pod).to_owned()).collect();
        FleetPool { dimensions: dimensions.into(), pods, ..FleetPool::default() }
    }

    #[test]
    fn exact_wins_over_prefix_over_part_and_pools_over_pods() {
        let places = [
            place("llm", "meta-llama/Llama-3.1-8B", &["chat-7c9d8f5b6c-x2x4z", "chat-7c9d8f5b6c-abcde"]),
            place("llm", "qwen", &["qwen-0"]),
            place("llm-dev", "qwen", &["qwen-0", "qwen-1"]),
        ];
        let matches = |typed: &str| -> Vec<(usize, Option<String>)> {
            find_pools(&places, typed).into_iter().map(|hit| (hit.place, hit.pod)).collect()
        };
        assert_eq!(matches("LLM"), [(0, None), (1, None)], "the namespace, not the one that begins so");
        assert_eq!(matches("llama-3.1-8b"), [(0, None)]);
        assert_eq!(matches("llm/chat"), [(0, None)]);
        assert_eq!(matches("qwen"), [(1, None), (2, None)]);
        assert_eq!(matches("llm-dev/qwen"), [(2, None)]);
        assert_eq!(matches("qwen-1"), [(2, Some("qwen-1".to_owned()))]);
        assert_eq!(matches("8f5b6c-x2"), [(0, Some("chat-7c9d8f5b6c-x2x4z".to_owned()))]);
        assert_eq!(matches("llam"), [(0, None)]);
        assert_eq!(matches("gpt"), []);
        assert_eq!(matches("model=qwen"), [(1, None), (2, None)]);
        assert_eq!(matches("namespace=llm-dev"), [(2, None)]);
        assert_eq!([matches("model=qwe"), matches("modle=qwen")], [vec![], vec![]]);
    }
}
