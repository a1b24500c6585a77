//! The rows of the detection that show one engine, and what they tell of it.

use std::collections::BTreeSet;

use crate::names::{AddressOwner, NetworkPlace, PoolNames, SERVICE};
use crate::{EngineSeen, host, names_behind};
use findings::scope::{Scope, fits};
use knowledge::alert::Labels;
use knowledge::signal::{Backends, Engine, EngineKind, Matcher};

/// An engine's rows of [`detection`](crate::detection()).
pub(crate) struct EngineRows<'a> {
    pub(crate) engine: &'a Engine,
    /// Rows of the series that show it, each with the prefix of its name.
    detection_rows: Vec<(Option<String>, &'a Labels)>,
    /// Rows of the series that name the engines behind it.
    pub(crate) behind: Vec<(&'a Backends, &'a Labels)>,
    /// Rows of the series that reveal its version, newest first.
    probes: Vec<(&'a str, Vec<&'a Labels>)>,
}

impl<'a> EngineRows<'a> {
    /// Collects an engine's rows; `None` if the engine is not there.
    pub(crate) fn of(engine: &'a Engine, rows: &'a [Labels]) -> Option<Self> {
        let called = |name: String| rows.iter().filter(move |row| row.get("__name__") == Some(&name));
        let own_matchers: Vec<Matcher> = engine.own_series().collect();
        let spelt = |metric: &str| engine.spellings(metric).into_iter();
        let detection_rows: Vec<(Option<String>, &Labels)> = engine
            .detection_series()
            .flat_map(spelt)
            .flat_map(|(prefix, name)| called(name).map(move |row| (prefix.clone(), row)))
            .filter(|(_, row)| fits(&own_matchers, row))
            .collect();
        if detection_rows.is_empty() {
            return None;
        }
        let behind =
            engine.backends.iter().flat_map(|of| names_behind(engine, of).into_iter().map(move |name| (of, name)));
        let behind = behind.flat_map(|(of, name)| called(name).map(move |row| (of, row))).collect();
        let of_probe = |metric: &str| spelt(metric).flat_map(|(_, name)| called(name)).collect();
        let probes = engine.versions.iter().map(|v| (v.at_least.as_str(), of_probe(&v.metric))).collect();
        Some(Self { engine, detection_rows, behind, probes })
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &'a Labels> {
        self.detection_rows.iter().map(|(_, row)| *row)
    }

    pub(crate) fn name(&self) -> &'a str {
        &self.engine.engine
    }

    pub(crate) fn serves(&self) -> bool {
        self.engine.kind == EngineKind::Serving
    }

    /// Returns two flags: its rows carry the dimension at all; they carry it with this value.
    pub(crate) fn carries(&self, dimension: &str, value: &str) -> (bool, bool) {
        let labels = || self.engine.scope.get(dimension).into_iter().flatten();
        let values = || self.rows().flat_map(|row| labels().filter_map(|label| row.get(label)));
        (values().any(|text| !text.is_empty()), values().any(|text| text == value))
    }

    /// Returns true if a row has the scope's namespace, model or job.
    pub(crate) fn is_named(&self, scope: &Scope) -> bool {
        ["namespace", "model", "job"]
            .iter()
            .any(|dimension| scope.dimensions.get(*dimension).is_some_and(|value| self.carries(dimension, value).1))
    }

    /// Returns true if the engine lacks a dimension whose value no series has: the alert is then not about this engine.
    pub(crate) fn is_silent_on(&self, scope: &Scope, nobody: &BTreeSet<&str>) -> bool {
        scope.dimensions.iter().any(|(dimension, value)| {
            let relevant = nobody.contains(dimension.as_str()) && (self.engine.kind.is_pool() || dimension != "model");
            relevant && !self.carries(dimension, value).0
        })
    }

    /// Returns the Services of the engines that match.
    pub(crate) fn services(&self, matchers: &[Matcher]) -> BTreeSet<String> {
        let rows = self.rows().filter(|row| self.serves() && fits(matchers, row));
        rows.filter_map(|row| row.get(SERVICE).filter(|service| !service.is_empty()).cloned()).collect()
    }

    /// Returns the addresses of the pool's engines behind it. Unknown addresses are left out: no request may go
    /// there.
    pub(crate) fn backends(&self, matchers: &[Matcher], pool: &PoolNames) -> BTreeSet<String> {
        let rows = self.behind.iter().filter(|(_, row)| fits(matchers, row));
        let addressed_rows =
            rows.flat_map(|(of, row)| of.address.iter().filter_map(|label| Some((row.get(label)?, *row))));
        let of_pool = |(address, row): &(&String, &Labels)| {
            pool.owner_of(address, NetworkPlace::of(self.engine, row)) == AddressOwner::Pool
        };
        // A bare pod name, as llm-d's picker writes it, is no address for a request, nor is a scheme other than HTTP.
        let speaks_http = |address: &str| match address.split_once("://") {
            Some((scheme, _)) => matches!(scheme, "http" | "https"),
            None => host(address).len() < address.len(),
        };
        addressed_rows
            .filter(of_pool)
            .map(|(address, _)| address.clone())
            .filter(|address| speaks_http(address))
            .collect()
    }

    /// Returns the labels that identify one of its targets. An `exported_` label is the metric's own: `up` does not have it.
    fn target(&self) -> String {
        let scope = &self.engine.scope;
        let places = self.engine.places().iter().filter_map(|dimension| scope.get(*dimension)).flatten();
        let carried = |label: &&String| {
            !label.starts_with("exported_") && self.rows().any(|row| row.get(*label).is_some_and(|v| !v.is_empty()))
        };
        places.filter(carried).map(String::as_str).chain(["job", "instance"]).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn engine_seen(&self, matchers: Vec<Matcher>) -> EngineSeen {
        let engine = self.engine;
        let own = self.detection_rows.iter().filter(|(_, row)| fits(&matchers, row));
        let mut prefixes: BTreeSet<String> = own.filter_map(|(prefix, _)| prefix.clone()).collect();
        // A sum over a series and its copy would count twice.
        if prefixes.iter().any(|prefix| engine.prefixes.contains(prefix)) {
            prefixes.retain(|prefix| !engine.copies.contains(prefix));
        }
        let probe = self.probes.iter().find(|(_, rows)| rows.iter().any(|row| fits(&matchers, row)));
        EngineSeen {
            engine: engine.engine.clone(),
            version: probe.and_then(|(at_least, _)| at_least.parse().ok()),
            prefixes: prefixes.into_iter().collect(),
            matchers,
            target: self.target(),
        }
    }
}
