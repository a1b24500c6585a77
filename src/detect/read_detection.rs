//! Reads the detection: which engines serve a scope, and how their series name it.
//!
//! An alert's labels need not be the series' labels: `cluster` is often an external label that the local
//! Prometheus never sees, `model` may be `model_name`. One detection query shows which names and values are there.

use std::collections::BTreeSet;

use crate::names::{AddressOwner, NetworkPlace, PoolNames, SERVICE};
use crate::unknown_labels::unknown;
use crate::visible_pools::pool_of;
use crate::{DetectionResult, EngineSeen, gateway, host, meant, names_behind};
use findings::scope::{Scope, fits};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use knowledge::signal::{Backends, Engine, EngineKind, Matcher};

/// Returns the namespaces in which the rows of [`detection`](crate::detection()) show an orchestrator.
pub fn orchestrated(library: &Library, rows: &[Labels]) -> BTreeSet<String> {
    let platforms = library.engines.values().filter(|e| e.kind == EngineKind::Platform);
    let labels: Vec<(&String, &String)> = platforms
        .filter_map(|engine| Some((&engine.detect, engine.scope.get("namespace")?)))
        .flat_map(|(detect, labels)| labels.iter().map(move |label| (detect, label)))
        .collect();
    let of = |row: &Labels| -> Vec<String> {
        let matching_labels = labels.iter().filter(|(detect, _)| row.get("__name__") == Some(detect));
        matching_labels.filter_map(|(_, label)| row.get(*label).cloned()).collect()
    };
    rows.iter().flat_map(of).collect()
}

/// Reads the rows of [`detection`](crate::detection()): the engines of the scope and their label names.
///
/// A dimension whose label no row carries is dropped with a note. A dimension whose label only has other values
/// stays: the pool is then not in this Prometheus, and "no data" is right. Engines that serve only other pools are
/// left out if another engine serves this pool; gateways that do not name the pool are always left out.
pub fn read_detection(library: &Library, scope: &Scope, rows: &[Labels]) -> DetectionResult {
    read_detection_of(library, scope, rows, None)
}

/// Does the work of [`read_detection`]; `incomplete` are the server's words about a part of the rows that is missing.
pub fn read_detection_of(
    library: &Library,
    scope: &Scope,
    rows: &[Labels],
    incomplete: Option<&str>,
) -> DetectionResult {
    let (engines_meant, pools_meant) = meant(library, scope, rows);
    let is_meant = |candidate: &EngineRows<'_>| {
        let serves_one = || candidate.rows().any(|row| pools_meant.contains(&pool_of(candidate.engine, row)));
        !candidate.serves()
            || engines_meant.is_empty()
            || engines_meant.contains(candidate.engine.engine.as_str())
            || serves_one()
    };
    let all: Vec<EngineRows<'_>> = library.engines.values().filter_map(|engine| EngineRows::of(engine, rows)).collect();
    let nobody = unmatched_dimensions(scope, &all);
    let is_of_another = lacks_a_label_of_the_pool(scope, &all);
    let mut bound: Vec<(&EngineRows<'_>, Vec<Matcher>, Vec<String>)> = Vec::new();
    let mut pool = PoolNames::of_scope(scope);
    pool.in_part = incomplete.is_some();
    for candidate in all.iter().filter(|candidate| candidate.engine.kind == EngineKind::Serving) {
        let (matchers, notes) = bind(candidate, scope, &nobody);
        let is_meant = is_meant(candidate) && !is_of_another.contains(candidate.engine.engine.as_str());
        candidate.rows().for_each(|row| pool.learn(candidate.engine, scope, is_meant && fits(&matchers, row), row));
        if is_meant {
            bound.push((candidate, matchers, notes));
        }
    }
    let mut detection = DetectionResult { incomplete: incomplete.map(str::to_owned), ..DetectionResult::default() };
    let mut before: Vec<gateway::GatewayRows<'_>> = Vec::new();
    // A job that only a gateway has says which gateway is meant.
    let has_job =
        |candidate: &EngineRows<'_>| scope.dimensions.get("job").is_some_and(|job| candidate.carries("job", job).1);
    let has_the_job =
        |kind: EngineKind| all.iter().any(|candidate| candidate.engine.kind == kind && has_job(candidate));
    let job_is_a_gateways = has_the_job(EngineKind::Gateway) && !has_the_job(EngineKind::Serving);
    for candidate in all.iter().filter(|candidate| candidate.engine.kind == EngineKind::Gateway) {
        if job_is_a_gateways && !has_job(candidate) {
            detection.apart.insert(candidate.engine.engine.clone(), unnamed_pool_note(candidate, scope));
            continue;
        }
        let own: Vec<&Labels> = candidate.rows().collect();
        match gateway::before(candidate.engine, scope, &pool, &own, &candidate.behind) {
            Some(matchers) => {
                let behind = candidate.behind.iter().copied().filter(|(_, row)| fits(&matchers, row)).collect();
                let own = own.into_iter().filter(|row| fits(&matchers, row)).collect();
                before.push((candidate.engine, own, behind));
                bound.push((candidate, matchers, Vec::new()));
            }
            None => _ = detection.apart.insert(candidate.engine.engine.clone(), unnamed_pool_note(candidate, scope)),
        }
    }
    detection.notes.extend(detection.apart.values().cloned());
    // An alert that matches only a gateway's labels is about the engines behind that gateway.
    let named = |serves: bool| {
        let holds = |(candidate, matchers, _): &(&EngineRows<'_>, Vec<Matcher>, _)| {
            candidate.serves() == serves && candidate.is_named(scope) && candidate.rows().any(|row| fits(matchers, row))
        };
        bound.iter().any(holds)
    };
    if named(false) && !named(true) {
        // Another kind of gateway that has none of the labels is not the one that is meant.
        let meant: BTreeSet<&str> =
            all.iter().filter(|one| one.is_named(scope)).map(|one| one.engine.engine.as_str()).collect();
        before.retain(|(engine, ..)| meant.contains(engine.engine.as_str()));
        bound.retain_mut(|(candidate, matchers, notes)| {
            let engine = candidate.engine;
            notes.clear();
            if !candidate.serves() {
                let is_meant = meant.contains(engine.engine.as_str());
                if !is_meant {
                    detection.apart.insert(engine.engine.clone(), unnamed_pool_note(candidate, scope));
                }
                return is_meant;
            }
            let own: Vec<&Labels> = candidate.rows().collect();
            let behind = gateway::behind(engine, &before, &own);
            if behind.is_none() {
                let why =
                    format!("nothing tells that the {} engines are behind the gateway of the alert", engine.engine);
                detection.apart.insert(engine.engine.clone(), why);
            }
            behind.map(|behind| *matchers = behind).is_some()
        });
    }
    for candidate in all.iter().filter(|candidate| !candidate.engine.kind.is_pool()) {
        let (matchers, notes) = bind(candidate, scope, &nobody);
        bound.push((candidate, matchers, notes));
    }
    bound.retain(|(candidate, ..)| !candidate.is_silent_on(scope, &nobody));
    let fitting: Vec<bool> =
        bound.iter().map(|(candidate, matchers, _)| candidate.rows().any(|row| fits(matchers, row))).collect();
    let served = bound.iter().zip(&fitting).any(|((candidate, ..), fits)| *fits && candidate.engine.kind.is_pool());
    let carried =
        |candidate: &EngineRows<'_>| scope.dimensions.iter().any(|(name, value)| candidate.carries(name, value).1);
    let narrowed = !scope.dimensions.is_empty() || !scope.replicas.is_empty();
    // The job of an exporter names no pool.
    let names_a_pool = |candidate: &EngineRows<'_>| {
        let carries = |(name, value): (&String, &String)| candidate.carries(name, value).1;
        scope.dimensions.iter().filter(|(name, _)| candidate.engine.kind.is_pool() || *name != "job").any(carries)
    };
    detection.no_label_fits = narrowed && !scope.is_of_a_cluster() && served && !all.iter().any(names_a_pool);
    detection.unknown = if served { None } else { unknown(library, &scope.dimensions, rows) };
    for ((candidate, matchers, notes), fits) in bound.into_iter().zip(fitting) {
        // Shared exporters say nothing about a pool that does not exist.
        if detection.unknown.is_some() && !candidate.engine.kind.is_pool() && !carried(candidate) {
            continue;
        }
        // Notes about engines of other pools are irrelevant.
        if candidate.engine.kind.is_pool() && served && !fits {
            continue;
        }
        detection.notes.extend(notes);
        detection.services.extend(candidate.services(&matchers));
        detection.backends.extend(candidate.backends(&matchers, &pool));
        detection.engines.push(candidate.engine_seen(matchers));
    }
    detection.engines.sort_by(|a, b| a.engine.cmp(&b.engine));
    detection.notes.sort();
    detection.notes.dedup();
    detection
}

/// An engine's rows of [`detection`](crate::detection()).
struct EngineRows<'a> {
    engine: &'a Engine,
    /// Rows of the series that show it, each with the prefix of its name.
    detection_rows: Vec<(Option<String>, &'a Labels)>,
    /// Rows of the series that name the engines behind it.
    behind: Vec<(&'a Backends, &'a Labels)>,
    /// Rows of the series that reveal its version, newest first.
    probes: Vec<(&'a str, Vec<&'a Labels>)>,
}

impl<'a> EngineRows<'a> {
    /// Collects an engine's rows; `None` if the engine is not there.
    fn of(engine: &'a Engine, rows: &'a [Labels]) -> Option<Self> {
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

    fn rows(&self) -> impl Iterator<Item = &'a Labels> {
        self.detection_rows.iter().map(|(_, row)| *row)
    }

    fn serves(&self) -> bool {
        self.engine.kind == EngineKind::Serving
    }

    /// Returns two flags: its rows carry the dimension at all; they carry it with this value.
    fn carries(&self, dimension: &str, value: &str) -> (bool, bool) {
        let labels = || self.engine.scope.get(dimension).into_iter().flatten();
        let values = || self.rows().flat_map(|row| labels().filter_map(|label| row.get(label)));
        (values().any(|text| !text.is_empty()), values().any(|text| text == value))
    }

    /// Returns true if a row has the scope's namespace, model or job.
    fn is_named(&self, scope: &Scope) -> bool {
        ["namespace", "model", "job"]
            .iter()
            .any(|dimension| scope.dimensions.get(*dimension).is_some_and(|value| self.carries(dimension, value).1))
    }

    /// Returns true if the engine lacks a dimension whose value no series has: the alert is then not about this engine.
    fn is_silent_on(&self, scope: &Scope, nobody: &BTreeSet<&str>) -> bool {
        scope.dimensions.iter().any(|(dimension, value)| {
            let relevant = nobody.contains(dimension.as_str()) && (self.engine.kind.is_pool() || dimension != "model");
            relevant && !self.carries(dimension, value).0
        })
    }

    /// Returns the Services of the engines that match.
    fn services(&self, matchers: &[Matcher]) -> BTreeSet<String> {
        let rows = self.rows().filter(|row| self.serves() && fits(matchers, row));
        rows.filter_map(|row| row.get(SERVICE).filter(|service| !service.is_empty()).cloned()).collect()
    }

    /// Returns the addresses of the pool's engines behind it. Unknown addresses are left out: no request may go
    /// there.
    fn backends(&self, matchers: &[Matcher], pool: &PoolNames) -> BTreeSet<String> {
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

    fn engine_seen(&self, matchers: Vec<Matcher>) -> EngineSeen {
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

/// Returns the dimensions that engines and gateways carry, but never with the scope's value.
fn unmatched_dimensions<'a>(scope: &'a Scope, all: &[EngineRows<'_>]) -> BTreeSet<&'a str> {
    let dimensions = scope.dimensions.iter().filter(|(dimension, value)| {
        let carriers = all
            .iter()
            .filter(|candidate| candidate.engine.kind.is_pool())
            .map(|candidate| candidate.carries(dimension, value));
        let (carried, exact) = carriers.fold((false, false), |all, one| (all.0 || one.0, all.1 || one.1));
        carried && !exact && *dimension != "job"
    });
    dimensions.map(|(dimension, _)| dimension.as_str()).collect()
}

/// Returns the serving engines whose rows lack a dimension of the scope, if a row of another one has all of them: what
/// tells that pool apart is not on them, so they are nobody's that is meant. A job is no pool.
fn lacks_a_label_of_the_pool<'a>(scope: &Scope, all: &[EngineRows<'a>]) -> BTreeSet<&'a str> {
    let asked: Vec<_> = scope.dimensions.iter().filter(|(dimension, _)| *dimension != "job").collect();
    let serving = || all.iter().filter(|candidate| candidate.serves());
    let has = |engine: &Engine, row: &Labels| {
        asked.iter().all(|(dimension, value)| engine.dimension_value(dimension, row) == Some(*value))
    };
    let is_there = !asked.is_empty() && serving().any(|one| one.rows().any(|row| has(one.engine, row)));
    let declares = |one: &EngineRows<'_>, dimension: &str| one.engine.scope.contains_key(dimension);
    let lacks = |one: &&EngineRows<'_>| {
        asked.iter().any(|(dimension, value)| declares(one, dimension) && !one.carries(dimension, value).0)
    };
    serving().filter(|_| is_there).filter(lacks).map(|one| one.engine.engine.as_str()).collect()
}

/// Returns the note that a gateway does not name the pool.
fn unnamed_pool_note(candidate: &EngineRows<'_>, scope: &Scope) -> String {
    let engine = &candidate.engine.engine;
    let label_and_value = |dimension: &str| -> Option<(String, String)> {
        let value = scope.dimensions.get(dimension)?;
        let labels = candidate.engine.scope.get(dimension)?;
        let label = labels.iter().find(|label| candidate.rows().any(|row| row.contains_key(*label)))?;
        Some((label.clone(), value.clone()))
    };
    match label_and_value("model").or_else(|| label_and_value("namespace")) {
        Some((label, value)) => {
            format!(
                "no {engine} series of the last hour has {label}=`{value}` or names the pool's engines: that gateway is not used as evidence"
            )
        }
        None => {
            format!(
                "no {engine} series of the last hour names the pool or its engines: that gateway is not used as evidence"
            )
        }
    }
}

/// Returns the scope as matchers on the labels of a serving engine or an exporter, with notes.
fn bind(candidate: &EngineRows<'_>, scope: &Scope, nobody: &BTreeSet<&str>) -> (Vec<Matcher>, Vec<String>) {
    let (engine, serving) = (candidate.engine, candidate.serves());
    let mut out: Vec<Matcher> = engine.own_series().collect();
    let mut notes = Vec::new();
    for (dimension, value) in &scope.dimensions {
        let Some(labels) = engine.scope.get(dimension) else { continue };
        let carried: Vec<&String> =
            labels.iter().filter(|label| candidate.rows().any(|row| row.contains_key(*label))).collect();
        let exact = carried.iter().find(|label| candidate.rows().any(|row| row.get(**label) == Some(value)));
        // A shared exporter's rows without the label may be the pool's, if there is a pool.
        let or_absent = !serving && (exact.is_some() || !nobody.contains(dimension.as_str()));
        match (exact, carried.first()) {
            (Some(label), _) => out.push(Matcher { or_absent, ..Matcher::one(label, value) }),
            // A job label of the rule that fired is often another exporter's.
            (None, _) if dimension == "job" => {}
            (None, None) if serving => notes.push(format!(
                "the {} series carry no label for the alert's {dimension} `{value}`: it was not used to narrow the pool",
                engine.engine
            )),
            (None, Some(label)) => {
                if serving {
                    notes.push(format!("no {} series of the last hour has {label}=`{value}`", engine.engine));
                }
                out.push(Matcher { or_absent, ..Matcher::one(label, value) });
            }
            (None, None) => {}
        }
    }
    (out, notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_with_another_job_than_the_alerts_gateway_is_left_apart() {
        let library = knowledge::playbook::load(None).unwrap();
        let row = |metric: &str, job: &str| -> Labels {
            [("__name__", metric), ("job", job)].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
        };
        let of = |engine: &str| library.engines[engine].detected_by().remove(0);
        let rows = [row(&of("litellm"), "litellm"), row(&of("sglang-router"), "router"), row(&of("vllm"), "vllm")];
        let beside = |job: &str| {
            let scope = Scope::of_labels(&[("job".to_owned(), job.to_owned())].into());
            read_detection(&library, &scope, &rows).apart.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(beside("litellm"), ["sglang-router", "vllm"]);
        assert_eq!(beside("router"), ["litellm", "vllm"]);
    }

    #[test]
    fn an_engine_without_the_label_that_tells_the_pool_apart_is_not_of_it() {
        let library = knowledge::playbook::load(None).unwrap();
        let row = |engine: &str, labels: &[(&str, &str)]| -> Labels {
            let name = library.engines[engine].detected_by().remove(0);
            let labels = labels.iter().copied().chain([("__name__", name.as_str())]);
            labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let rows = [row("llamacpp", &[("namespace", "serving")]), row("vllm", &[("model_name", "m")])];
        let scope = Scope::of_labels(&[("namespace".to_owned(), "serving".to_owned())].into());
        let seen = read_detection(&library, &scope, &rows).engines;
        assert_eq!(seen.iter().map(|seen| seen.engine.as_str()).collect::<Vec<_>>(), ["llamacpp"]);
    }

    #[test]
    fn what_is_not_behind_the_gateway_of_the_alert_is_left_apart_with_the_reason() {
        let library = knowledge::playbook::load(None).unwrap();
        let row = |engine: &str, model: (&str, &str), namespace: &str| -> Labels {
            let name = library.engines[engine].detected_by().remove(0);
            let labels = [("__name__", name.as_str()), ("namespace", namespace), model];
            labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
        };
        let rows = [row("litellm", ("requested_model", "chat"), "gate"), row("vllm", ("model_name", "other"), "llm")];
        let scope = Scope::of_labels(&[("namespace".to_owned(), "gate".to_owned())].into());
        let detection = read_detection(&library, &scope, &rows);
        assert_eq!(detection.engines.iter().map(|seen| seen.engine.as_str()).collect::<Vec<_>>(), ["litellm"]);
        let why = "nothing tells that the vllm engines are behind the gateway of the alert";
        assert_eq!(detection.apart.get("vllm").map(String::as_str), Some(why));
        assert!(detection.notes.is_empty(), "{:?}", detection.notes);
    }

    #[test]
    fn a_backend_is_known_where_its_address_is_one_of_the_pools_engines() {
        let library = knowledge::playbook::load(None).unwrap();
        let row = |metric: String, labels: &[(&str, &str)]| -> Labels {
            let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            labels.chain([("__name__".to_owned(), metric)]).collect()
        };
        let of = |engine: &str| library.engines[engine].detected_by().remove(0);
        let behind = |url| {
            let labels = [("requested_model", "m"), ("litellm_model_name", "openai/m"), ("api_base", url)];
            row("litellm_deployment_total_requests_total".to_owned(), &labels)
        };
        let rows = [
            row(of("vllm"), &[("model_name", "m"), ("instance", "10.0.0.1:8000"), ("service", "vllm")]),
            row(of("vllm"), &[("model_name", "other"), ("instance", "10.0.0.2:8000"), ("service", "other")]),
            row(of("litellm"), &[("requested_model", "m")]),
            behind("http://10.0.0.1:8000/v1"),
            behind("https://somebody.example/v1"),
        ];
        let scope = Scope::of_labels(&[("model_name".to_owned(), "m".to_owned())].into());
        let detection = read_detection(&library, &scope, &rows);
        let listed = |of: &BTreeSet<String>| of.iter().cloned().collect::<Vec<_>>();
        assert_eq!(listed(&detection.backends), ["http://10.0.0.1:8000/v1"], "{detection:?}");
        assert_eq!(listed(&detection.services), ["vllm"]);
    }
}
