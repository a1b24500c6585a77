//! The pools that Prometheus has, by the series of their engines.

use std::collections::{BTreeMap, BTreeSet};

use findings::scope::{Scope, engines_of, fits};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use knowledge::signal::{Engine, EngineKind, Matcher};

/// Returns the pools in the rows of [`detection`](crate::detection()) or [`last_day`](crate::last_day), each once:
/// dimension to value, by the labels of their serving engines.
///
/// If only gateways are known, the pools are theirs.
pub fn pools(library: &Library, rows: &[Labels]) -> BTreeSet<BTreeMap<String, String>> {
    by_rank(library, rows).into_values().next().unwrap_or_default()
}

/// Returns the pools of serving engines alone, as [`pools`] does; none if only gateways are known.
pub(crate) fn serving_pools(library: &Library, rows: &[Labels]) -> BTreeSet<BTreeMap<String, String>> {
    let first = by_rank(library, rows).into_iter().next();
    first.filter(|((kind, _), _)| *kind == EngineKind::Serving).map(|(_, pools)| pools).unwrap_or_default()
}

/// Returns the pools by the kind of their engines, and whether those stand in for others; the first ones count.
fn by_rank(library: &Library, rows: &[Labels]) -> BTreeMap<(EngineKind, bool), BTreeSet<BTreeMap<String, String>>> {
    let pools_of = |engine: &Engine| -> Vec<BTreeMap<String, String>> {
        let own_matchers: Vec<Matcher> = engine.own_series().collect();
        let own = telling(engine, rows).into_iter().filter(|row| fits(&own_matchers, row));
        own.map(|row| pool_of(engine, row)).collect()
    };
    let mut by_rank: BTreeMap<(EngineKind, bool), BTreeSet<BTreeMap<String, String>>> = BTreeMap::new();
    for engine in library.engines.values().filter(|engine| engine.kind.is_pool()) {
        let pools = pools_of(engine);
        if !pools.is_empty() {
            by_rank.entry((engine.kind, engine.stand_in)).or_default().extend(pools);
        }
    }
    by_rank
}

/// Returns the serving engines whose metrics an alert's expression reads, and the pools that they serve; empty if it reads
/// none of those that are there: the alert may then be about any pool.
pub fn meant<'a>(
    library: &'a Library,
    scope: &Scope,
    rows: &[Labels],
) -> (BTreeSet<&'a str>, BTreeSet<BTreeMap<String, String>>) {
    let mut engines = engines_of(library, &scope.metrics);
    engines.retain(|name| library.engines.get(*name).is_some_and(|engine| engine.kind == EngineKind::Serving));
    let own = engines.iter().filter_map(|name| library.engines.get(*name));
    let of_engine = |engine: &'a Engine| telling(engine, rows).into_iter().map(|row| pool_of(engine, row));
    let pools: BTreeSet<BTreeMap<String, String>> = own.flat_map(of_engine).collect();
    if pools.is_empty() { Default::default() } else { (engines, pools) }
}

/// Returns the rows that show an engine; rows whose model is no model are left out if others name one.
pub(crate) fn telling<'a>(engine: &Engine, rows: &'a [Labels]) -> Vec<&'a Labels> {
    let names = engine.detected_by();
    let own = rows.iter().filter(|row| row.get("__name__").is_some_and(|name| names.contains(name)));
    let labels = || engine.scope.get("model").into_iter().flatten();
    let no_model = |row: &&Labels| labels().any(|l| row.get(l).is_some_and(|value| engine.no_model.contains(value)));
    let (without, with): (Vec<&Labels>, Vec<&Labels>) = own.partition(no_model);
    if with.is_empty() { without } else { with }
}

/// Returns the pool of a row, dimension to value. A job is no pool: one pool may be scraped by several.
pub(crate) fn pool_of(engine: &Engine, row: &Labels) -> BTreeMap<String, String> {
    let dimensions = engine.scope.keys().filter(|dimension| *dimension != "job");
    dimensions
        .filter_map(|dimension| Some((dimension.clone(), engine.dimension_value(dimension, row)?.clone())))
        .collect()
}
