//! Assignment of gateways to pools.
//!
//! A gateway counts as evidence only if its series name this pool's model or engines. Errors of any other gateway say
//! nothing about this pool.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::{AddressOwner, NetworkPlace, PoolNames, same_model};
use crate::visible_pools::pool_of;
use findings::scope::{Scope, fits};
use knowledge::alert::Labels;
use knowledge::signal::{Backends, Engine, Matcher};

/// Returns the matchers of a gateway's series that are about the pool; `None` if it does not name the pool.
///
/// `own` are the rows of the series that show the gateway, `behind` those of the series that name the engines behind
/// it.
pub(crate) fn before(
    engine: &Engine,
    scope: &Scope,
    pool: &PoolNames,
    own: &[&Labels],
    behind: &[(&Backends, &Labels)],
) -> Option<Vec<Matcher>> {
    // Where no engine has the scope's place, the alert is about the gateway there.
    let place = scope.dimensions.get("namespace").filter(|_| !pool.is_served());
    let is_there = |row: &&Labels| place.is_some() && engine.dimension_value("namespace", row) == place;
    let is_named = own.iter().any(is_there);
    let at_place = |row: &&Labels| !is_named || is_there(row);
    let all: Vec<&Labels> = own.iter().copied().filter(|row| pool.in_cluster(engine, row)).collect();
    let own: Vec<&Labels> = all.iter().copied().filter(at_place).collect();
    if own.is_empty() {
        return None;
    }
    let behind = behind.iter().copied().filter(|(_, row)| pool.in_cluster(engine, row) && at_place(row)).collect();
    let gateway = Gateway { engine, all, own, behind };
    let named = || {
        let mut matchers = gateway.by_name(pool).or_else(|| gateway.by_namespace(pool))?;
        if let Some(cluster) = scope.dimensions.get("cluster") {
            matchers.extend(gateway.of_dimension("cluster", cluster));
        }
        if let Some(place) = place.filter(|_| is_named) {
            matchers
                .extend(gateway.of_dimension("namespace", place).map(|place| Matcher { or_absent: false, ..place }));
        }
        Some(matchers)
    };
    gateway.by_place(scope, pool).or_else(named).map(|named| engine.own_series().chain(named).collect())
}

/// A gateway, the rows of the series that show it, and those of the series that name the engines behind it.
pub(crate) type GatewayRows<'a> = (&'a Engine, Vec<&'a Labels>, Vec<(&'a Backends, &'a Labels)>);

/// The rows of one kind of gateway in the scope's cluster.
struct Gateway<'a> {
    engine: &'a Engine,
    /// Rows of the series that show gateways of its kind, wherever they are.
    all: Vec<&'a Labels>,
    /// Rows of the series that show it.
    own: Vec<&'a Labels>,
    /// Rows of the series that name the engines behind it.
    behind: Vec<(&'a Backends, &'a Labels)>,
}

impl Gateway<'_> {
    /// Returns the labels that hold a model's name.
    fn models(&self) -> &[String] {
        self.engine.scope.get("model").map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the matcher of a dimension, on the label that has this value in a row. Shared series lack the label, and so does
    /// a gateway that is elsewhere: where one of its kind does, only what has the value counts.
    fn of_dimension(&self, dimension: &str, value: &str) -> Option<Matcher> {
        let has = |label: &&String| self.own.iter().any(|row| row.get(*label).is_some_and(|text| text == value));
        let label = self.engine.scope.get(dimension)?.iter().find(has)?;
        let or_absent = self.all.iter().all(|row| row.get(label).is_some_and(|text| !text.is_empty()));
        Some(Matcher { or_absent, ..Matcher::one(label, value) })
    }

    /// Returns the matchers of a scope without a model: everything at its place.
    fn by_place(&self, scope: &Scope, pool: &PoolNames) -> Option<Vec<Matcher>> {
        if scope.dimensions.contains_key("model") {
            return None;
        }
        let mut matchers = Vec::new();
        for (dimension, value) in &scope.dimensions {
            match self.of_dimension(dimension, value) {
                Some(matcher) => matchers.push(matcher),
                None if dimension == "namespace" => return None,
                None if dimension == "job" && pool.narrowed_by_job => return None,
                None => {}
            }
        }
        Some(matchers)
    }

    /// Returns the matchers of the rows that name the pool's models or engines.
    fn by_name(&self, pool: &PoolNames) -> Option<Vec<Matcher>> {
        let (engine, models, own) = (self.engine, self.models(), &self.own);
        let any_label = |labels: &[String], row: &Labels, is: &dyn Fn(&str) -> bool| {
            labels.iter().any(|label| row.get(label).is_some_and(|value| is(value)))
        };
        let named = |row: &Labels| any_label(models, row, &|model| pool.has_model(model));
        let is_named =
            |of: &Backends, row: &Labels| named(row) || any_label(&of.model, row, &|model| pool.has_model(model));
        let of_pool = |row: &Labels| {
            !engine.dimension_value("namespace", row).is_some_and(|namespace| pool.is_anothers(namespace))
        };
        let every = || own.iter().copied().chain(self.behind.iter().map(|(_, row)| *row));
        let naming = own.iter().copied().filter(|row| named(row) && !self.is_elsewhere(pool, row));
        // An address tells more than a name: one that is not the pool's outweighs an equal model.
        let serves = |(of, row): &&(&Backends, &Labels)| match self.owner(pool, of, row) {
            Some(AddressOwner::Pool) => true,
            Some(AddressOwner::Other) => false,
            Some(AddressOwner::Unknown) | None => is_named(of, row) && !self.is_elsewhere(pool, row),
        };
        let serving = self.behind.iter().filter(serves).map(|(_, row)| *row);
        let naming: Vec<&Labels> = naming.chain(serving).filter(|row| of_pool(row)).collect();
        if naming.is_empty() {
            return None;
        }
        let mut matchers = Vec::new();
        let values = |label: &String, rows: &[&Labels]| -> BTreeSet<String> {
            let names =
                |value: &&String| !(value.is_empty() || models.contains(label) && engine.no_model.contains(value));
            rows.iter().filter_map(|row| row.get(label).filter(names)).cloned().collect()
        };
        if let Some(label) = models.iter().find(|label| own.iter().any(|row| row.contains_key(*label))) {
            let model_names = values(label, &naming);
            // Series without the label are about all models: they count if the gateway serves only this pool.
            let or_absent = values(label, own).is_subset(&model_names);
            if !model_names.is_empty() {
                matchers.push(Matcher { label: label.clone(), values: model_names.into_iter().collect(), or_absent });
            }
        }
        // Of several gateways of one kind, those at the place that names the pool.
        let places = engine.scope.iter().filter(|(dimension, _)| *dimension != "model").flat_map(|(_, labels)| labels);
        for label in places.chain(&engine.replica) {
            let place_values = values(label, &naming);
            let all = naming.iter().all(|row| row.get(label).is_some_and(|value| !value.is_empty()));
            let other =
                |row: &Labels| row.get(label).is_some_and(|value| !value.is_empty() && !place_values.contains(value));
            if all && every().any(other) {
                matchers.push(Matcher {
                    label: label.clone(),
                    values: place_values.into_iter().collect(),
                    or_absent: false,
                });
            }
        }
        Some(matchers)
    }

    /// Returns whose the addresses of a row are; `None` if it has none.
    fn owner(&self, pool: &PoolNames, of: &Backends, row: &Labels) -> Option<AddressOwner> {
        let place = NetworkPlace::of(self.engine, row);
        let addresses = of.address.iter().filter_map(|label| row.get(label)).filter(|address| !address.is_empty());
        addresses.map(|address| pool.owner_of(address, place)).min()
    }

    /// Returns true if the gateway says where it sends the model of a row, and none of these addresses can be the pool's.
    fn is_elsewhere(&self, pool: &PoolNames, row: &Labels) -> bool {
        let models = |row: &Labels| -> BTreeSet<String> {
            self.models().iter().filter_map(|label| row.get(label)).filter(|model| !model.is_empty()).cloned().collect()
        };
        let own = models(row);
        let namespace = |row: &Labels| self.engine.dimension_value("namespace", row).cloned();
        let same = |(of, other): &&(&Backends, &Labels)| {
            let of_backend = of.model.iter().filter_map(|label| other.get(label));
            let others: BTreeSet<String> = models(other).into_iter().chain(of_backend.cloned()).collect();
            namespace(row) == namespace(other) && own.iter().any(|own| others.iter().any(|one| same_model(own, one)))
        };
        let mut owners =
            self.behind.iter().filter(same).filter_map(|(of, other)| self.owner(pool, of, other)).peekable();
        owners.peek().is_some() && owners.all(|owner| owner == AddressOwner::Other)
    }

    /// Returns the matchers of a gateway that names no pool, in a namespace where all engines are the pool's.
    fn by_namespace(&self, pool: &PoolNames) -> Option<Vec<Matcher>> {
        let names_models = self.own.iter().any(|row| self.models().iter().any(|label| row.contains_key(label)));
        if names_models && !pool.models.is_empty() || !self.behind.is_empty() {
            return None;
        }
        let labels = self.engine.scope.get("namespace").map(Vec::as_slice).unwrap_or_default();
        let owned_namespaces = |label: &String| -> BTreeSet<String> {
            let namespaces = self.own.iter().filter_map(|row| row.get(label));
            namespaces.filter(|value| pool.is_alone_in(value)).cloned().collect()
        };
        let (label, values) =
            labels.iter().map(|label| (label, owned_namespaces(label))).find(|(_, values)| !values.is_empty())?;
        Some(vec![Matcher { label: label.clone(), values: values.into_iter().collect(), or_absent: false }])
    }
}

/// Returns the engines behind gateways, for an alert about a gateway: matchers of a serving engine's series.
///
/// `gateways` are the gateways of the alert with their rows and, of these, the ones that name the engines behind it; `rows`
/// those of the engine. A pool is behind a gateway that has one of its addresses, or names its model and no other place.
pub(crate) fn behind(engine: &Engine, gateways: &[&GatewayRows<'_>], rows: &[&Labels]) -> Option<Vec<Matcher>> {
    let own_matchers: Vec<Matcher> = engine.own_series().collect();
    let mut pools: BTreeMap<BTreeMap<String, String>, Vec<&Labels>> = BTreeMap::new();
    for row in rows.iter().copied().filter(|row| fits(&own_matchers, row)) {
        pools.entry(pool_of(engine, row)).or_default().push(row);
    }
    let is_behind = |pool: &BTreeMap<String, String>| {
        let mut names = PoolNames::default();
        for (other, rows) in &pools {
            rows.iter().for_each(|row| names.learn(engine, &Scope::default(), other == pool, row));
        }
        gateways.iter().any(|(gateway, rows, behind)| {
            let in_cluster = |row: &&Labels| names.in_cluster(gateway, row);
            let own: Vec<&Labels> = rows.iter().copied().filter(in_cluster).collect();
            let behind = behind.iter().copied().filter(|(_, row)| in_cluster(row)).collect();
            let gateway = Gateway { engine: gateway, all: own.clone(), own, behind };
            gateway.by_name(&names).is_some()
        })
    };
    let behind: Vec<&BTreeMap<String, String>> = pools.keys().filter(|pool| is_behind(pool)).collect();
    let all = pools_matchers(engine, &behind, rows);
    // Labels of several pools also select what none of them is: then the first stands for all.
    let others = pools.iter().filter(|(pool, _)| !behind.contains(pool)).flat_map(|(_, rows)| rows);
    let is_exact = others.into_iter().all(|row| !fits(&all, row));
    let places = if is_exact { all } else { pools_matchers(engine, behind.get(..1).unwrap_or_default(), rows) };
    (!behind.is_empty()).then(|| own_matchers.iter().cloned().chain(places).collect())
}

/// Returns matchers that select these pools of an engine.
fn pools_matchers(engine: &Engine, behind: &[&BTreeMap<String, String>], rows: &[&Labels]) -> Vec<Matcher> {
    let matcher = |(dimension, labels): (&String, &Vec<String>)| {
        let label =
            labels.iter().find(|label| rows.iter().any(|row| row.get(*label).is_some_and(|v| !v.is_empty())))?;
        let values: BTreeSet<&String> = behind.iter().filter_map(|pool| pool.get(dimension)).collect();
        let values: Vec<String> = values.into_iter().cloned().collect();
        (!values.is_empty()).then(|| Matcher { label: label.clone(), values, or_absent: false })
    };
    engine.scope.iter().filter(|(dimension, _)| *dimension != "job").filter_map(matcher).collect()
}

#[cfg(test)]
mod tests;
