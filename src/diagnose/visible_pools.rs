//! The pools that Prometheus has: of serving engines, and of gateways that stand before none of these.

use std::collections::{BTreeMap, BTreeSet};

use super::scope::{Scope, fits, read_detection};
use crate::alert::Labels;
use crate::playbook::Library;
use crate::signal::{Engine, EngineKind, Matcher};

/// Returns the pools in the rows of [`detection`](super::detection()) or [`last_day`](super::last_day), each once:
/// dimension to value, by the labels of their serving engines.
///
/// If only gateways are known, the pools are theirs.
pub fn pools(library: &Library, rows: &[Labels]) -> BTreeSet<BTreeMap<String, String>> {
    let shown = |engine: &Engine| -> Vec<BTreeMap<String, String>> {
        let ours: Vec<Matcher> = engine.own_series().collect();
        let own = telling(engine, rows).into_iter().filter(|row| fits(&ours, row));
        own.map(|row| pool_of(engine, row)).collect()
    };
    let mut by_rank: BTreeMap<(EngineKind, bool), BTreeSet<BTreeMap<String, String>>> = BTreeMap::new();
    for engine in library.engines.values().filter(|engine| engine.kind.is_pool()) {
        let pools = shown(engine);
        if !pools.is_empty() {
            by_rank.entry((engine.kind, engine.stand_in)).or_default().extend(pools);
        }
    }
    by_rank.into_values().next().unwrap_or_default()
}

/// Returns the pools that only gateways have: what they serve beside these pools, dimension to value.
pub fn gateway_pools(
    library: &Library,
    rows: &[Labels],
    pools: &BTreeSet<BTreeMap<String, String>>,
) -> BTreeSet<BTreeMap<String, String>> {
    let gateways = library.engines.values().filter(|engine| engine.kind == EngineKind::Gateway);
    let shown: Vec<(&Engine, &Labels)> =
        gateways.flat_map(|engine| telling(engine, rows).into_iter().map(move |row| (engine, row))).collect();
    if shown.is_empty() {
        return BTreeSet::new();
    }
    let scopes = pools.iter().map(|pool| Scope { dimensions: pool.clone(), ..Scope::default() });
    let seen: Vec<_> = scopes.flat_map(|scope| read_detection(library, &scope, rows).engines).collect();
    let is_before = |engine: &Engine, row: &Labels| {
        let fits = |m: &Matcher| row.get(&m.label).is_none_or(|value| m.accepts(Some(value)));
        seen.iter().any(|seen| seen.engine == engine.engine && seen.matchers.iter().all(fits))
    };
    let alone = shown.into_iter().filter(|(engine, row)| !is_before(engine, row));
    alone.map(|(engine, row)| pool_of(engine, row)).filter(|pool| !pool.is_empty()).collect()
}

/// Returns the rows that show an engine; rows whose model is no model are left out if others name one.
fn telling<'a>(engine: &Engine, rows: &'a [Labels]) -> Vec<&'a Labels> {
    let names = engine.detected_by();
    let own = rows.iter().filter(|row| row.get("__name__").is_some_and(|name| names.contains(name)));
    let labels = || engine.scope.get("model").into_iter().flatten();
    let no_model = |row: &&Labels| labels().any(|l| row.get(l).is_some_and(|value| engine.no_model.contains(value)));
    let (without, with): (Vec<&Labels>, Vec<&Labels>) = own.partition(no_model);
    if with.is_empty() { without } else { with }
}

/// Returns the pool of a row, dimension to value. A job is no pool: one pool may be scraped by several.
fn pool_of(engine: &Engine, row: &Labels) -> BTreeMap<String, String> {
    let dimensions = engine.scope.keys().filter(|dimension| *dimension != "job");
    dimensions
        .filter_map(|dimension| Some((dimension.clone(), engine.dimension_value(dimension, row)?.clone())))
        .collect()
}
