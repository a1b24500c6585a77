//! The pools that only gateways have.

use std::collections::{BTreeMap, BTreeSet};

use crate::read_detection;
use crate::visible_pools::{pool_of, serving_pools, telling};
use findings::Request;
use findings::scope::Scope;
use knowledge::alert::Labels;
use knowledge::playbook::{Evidence, Library};
use knowledge::signal::{Engine, EngineKind, Matcher};

/// Returns the pools that only gateways report, beside the known ones; dimension to value.
pub fn gateway_pools(
    library: &Library,
    rows: &[Labels],
    pools: &BTreeSet<BTreeMap<String, String>>,
) -> BTreeSet<BTreeMap<String, String>> {
    let gateways = library.engines.values().filter(|engine| engine.kind == EngineKind::Gateway);
    let gateway_rows: Vec<(&Engine, &Labels)> =
        gateways.flat_map(|engine| telling(engine, rows).into_iter().map(move |row| (engine, row))).collect();
    if gateway_rows.is_empty() {
        return BTreeSet::new();
    }
    let scopes = pools.iter().map(|pool| Scope { dimensions: pool.clone(), ..Scope::default() });
    let engines_seen: Vec<_> = scopes.flat_map(|scope| read_detection(library, &scope, rows).engines).collect();
    let is_before = |engine: &Engine, row: &Labels| {
        let fits = |m: &Matcher| row.get(&m.label).is_none_or(|value| m.accepts(Some(value)));
        engines_seen
            .iter()
            .any(|engine_seen| engine_seen.engine == engine.engine && engine_seen.matchers.iter().all(fits))
    };
    let alone = gateway_rows.into_iter().filter(|(engine, row)| !is_before(engine, row));
    alone.map(|(engine, row)| pool_of(engine, row)).filter(|pool| !pool.is_empty()).collect()
}

/// Returns the pools of the namespace that a scope names and no more than that, if engines serve several models there;
/// else none. A mean over two models would tell about neither. A gateway's models share its process, and some of its series
/// name no model: they are judged together, whether or not engines are elsewhere in this Prometheus. A symptom that an
/// orchestrator tells is not split: its workloads may serve no model yet, or no longer.
pub fn pools_of_namespace(library: &Library, request: &Request, rows: &[Labels]) -> BTreeSet<BTreeMap<String, String>> {
    let scope = &request.scope;
    let symptom = library.playbooks.get(&request.playbook).into_iter().flat_map(|playbook| &playbook.symptom);
    let mut signals = symptom.flat_map(Evidence::checks).filter_map(|(signal, _)| library.signals.get(signal));
    if !scope.is_of_a_namespace() || signals.any(|signal| signal.of == [EngineKind::Platform]) {
        return BTreeSet::new();
    }
    let is_there = |pool: &BTreeMap<String, String>| {
        scope.dimensions.iter().all(|(name, value)| pool.get(name).is_none_or(|own| own == value))
            && pool.contains_key("namespace")
    };
    let serving = serving_pools(library, rows);
    let own: Vec<&BTreeMap<String, String>> = serving.iter().filter(|pool| is_there(pool)).collect();
    if own.len() < 2 || !own.iter().all(|pool| pool.contains_key("model")) {
        return BTreeSet::new();
    }
    let of_gateways = gateway_pools(library, rows, &serving);
    serving.into_iter().chain(of_gateways).filter(is_there).collect()
}
