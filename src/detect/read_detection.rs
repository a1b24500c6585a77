//! Reads the detection: which engines serve a scope, and how their series name it.
//!
//! An alert's labels need not be the series' labels: `cluster` is often an external label that the local
//! Prometheus never sees, `model` may be `model_name`. One detection query shows which names and values are there.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine_rows::EngineRows;
use crate::gateway::GatewayRows;
use crate::names::PoolNames;
use crate::unknown_labels::unknown;
use crate::visible_pools::pool_of;
use crate::{DetectionResult, gateway, meant};
use findings::scope::{Scope, fits};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use knowledge::signal::{Engine, EngineKind, Matcher};

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
    let all: Vec<EngineRows<'_>> = library.engines.values().filter_map(|engine| EngineRows::of(engine, rows)).collect();
    let nobody = unmatched_dimensions(scope, &all);
    let mut pool = PoolNames::of_scope(scope);
    pool.in_part = incomplete.is_some();
    let mut detection = DetectionResult { incomplete: incomplete.map(str::to_owned), ..DetectionResult::default() };
    let mut bound = serving(library, scope, rows, &all, &nobody, &mut pool);
    let mut gateways = gateways(scope, &all, &pool, &mut detection.apart);
    detection.notes.extend(detection.apart.values().cloned());
    // An alert that matches only a gateway's labels is about the engines behind that gateway.
    let is_named = |one: &BoundEngine<'_, '_>| one.rows.is_named(scope) && one.fits();
    if gateways.iter().any(|(one, _)| is_named(one)) && !bound.iter().any(is_named) {
        // Another kind of gateway that has none of the labels is not the one that is meant.
        gateways.retain(|(one, _)| {
            let is_meant = one.rows.is_named(scope);
            if !is_meant {
                detection.apart.insert(one.rows.name().to_owned(), unnamed_pool_note(one.rows, scope));
            }
            is_meant
        });
        let before: Vec<&GatewayRows<'_>> = gateways.iter().map(|(_, before)| before).collect();
        bound.retain_mut(|one| {
            one.notes.clear();
            let own: Vec<&Labels> = one.rows.rows().collect();
            let behind = gateway::behind(one.rows.engine, &before, &own);
            if behind.is_none() {
                let why =
                    format!("nothing tells that the {} engines are behind the gateway of the alert", one.rows.name());
                detection.apart.insert(one.rows.name().to_owned(), why);
            }
            behind.map(|behind| one.matchers = behind).is_some()
        });
    }
    bound.extend(gateways.into_iter().map(|(one, _)| one));
    bound.extend(all.iter().filter(|one| !one.engine.kind.is_pool()).map(|one| bind(one, scope, &nobody)));
    bound.retain(|one| !one.rows.is_silent_on(scope, &nobody));
    let served = bound.iter().any(|one| one.rows.engine.kind.is_pool() && one.fits());
    let carries = |one: &EngineRows<'_>, (name, value): (&String, &String)| one.carries(name, value).1;
    let narrowed = !scope.dimensions.is_empty() || !scope.replicas.is_empty();
    // The job of an exporter names no pool.
    let names_a_pool = |one: &EngineRows<'_>| {
        let dimensions = scope.dimensions.iter().filter(|(name, _)| one.engine.kind.is_pool() || *name != "job");
        dimensions.into_iter().any(|dimension| carries(one, dimension))
    };
    detection.no_label_fits = narrowed && !scope.is_of_a_cluster() && served && !all.iter().any(names_a_pool);
    detection.unknown = if served { None } else { unknown(library, &scope.dimensions, rows) };
    for one in bound {
        let is_of_pool = one.rows.engine.kind.is_pool();
        // Shared exporters say nothing about a pool that does not exist.
        let is_carried = || scope.dimensions.iter().any(|dimension| carries(one.rows, dimension));
        if detection.unknown.is_some() && !is_of_pool && !is_carried() {
            continue;
        }
        // Notes about engines of other pools are irrelevant.
        if is_of_pool && served && !one.fits() {
            continue;
        }
        detection.services.extend(one.rows.services(&one.matchers));
        detection.backends.extend(one.rows.backends(&one.matchers, &pool));
        detection.engines.push(one.rows.engine_seen(one.matchers));
        detection.notes.extend(one.notes);
    }
    detection.engines.sort_by(|a, b| a.engine.cmp(&b.engine));
    detection.notes.sort();
    detection.notes.dedup();
    detection
}

/// An engine with the matchers of its series in the scope, and notes on labels that these lack.
struct BoundEngine<'a, 'r> {
    rows: &'a EngineRows<'r>,
    matchers: Vec<Matcher>,
    notes: Vec<String>,
}

impl BoundEngine<'_, '_> {
    fn fits(&self) -> bool {
        self.rows.rows().any(|row| fits(&self.matchers, row))
    }
}

/// Returns the serving engines that the scope may mean; `pool` learns the names of those that fit.
fn serving<'a, 'r>(
    library: &Library,
    scope: &Scope,
    rows: &[Labels],
    all: &'a [EngineRows<'r>],
    nobody: &BTreeSet<&str>,
    pool: &mut PoolNames,
) -> Vec<BoundEngine<'a, 'r>> {
    let (engines_meant, pools_meant) = meant(library, scope, rows);
    let is_of_another = lacks_a_label_of_the_pool(scope, all);
    let mut bound = Vec::new();
    for candidate in all.iter().filter(|candidate| candidate.serves()) {
        let one = bind(candidate, scope, nobody);
        let serves_one = || candidate.rows().any(|row| pools_meant.contains(&pool_of(candidate.engine, row)));
        let is_meant = (engines_meant.is_empty() || engines_meant.contains(candidate.name()) || serves_one())
            && !is_of_another.contains(candidate.name());
        candidate.rows().for_each(|row| pool.learn(candidate.engine, scope, is_meant && fits(&one.matchers, row), row));
        bound.extend(is_meant.then_some(one));
    }
    bound
}

/// Returns the gateways in front of the pool; `apart` gets the others with the reason.
fn gateways<'a, 'r>(
    scope: &Scope,
    all: &'a [EngineRows<'r>],
    pool: &PoolNames,
    apart: &mut BTreeMap<String, String>,
) -> Vec<(BoundEngine<'a, 'r>, GatewayRows<'r>)> {
    // A job that only a gateway has says which gateway is meant.
    let has_job = |one: &EngineRows<'_>| scope.dimensions.get("job").is_some_and(|job| one.carries("job", job).1);
    let has_the_job = |kind: EngineKind| all.iter().any(|one| one.engine.kind == kind && has_job(one));
    let job_is_a_gateways = has_the_job(EngineKind::Gateway) && !has_the_job(EngineKind::Serving);
    let mut found = Vec::new();
    for candidate in all.iter().filter(|one| one.engine.kind == EngineKind::Gateway) {
        let own: Vec<&Labels> = candidate.rows().collect();
        let matchers = match job_is_a_gateways && !has_job(candidate) {
            true => None,
            false => gateway::before(candidate.engine, scope, pool, &own, &candidate.behind),
        };
        let Some(matchers) = matchers else {
            apart.insert(candidate.name().to_owned(), unnamed_pool_note(candidate, scope));
            continue;
        };
        let behind = candidate.behind.iter().copied().filter(|(_, row)| fits(&matchers, row)).collect();
        let own = own.into_iter().filter(|row| fits(&matchers, row)).collect();
        found.push((BoundEngine { rows: candidate, matchers, notes: Vec::new() }, (candidate.engine, own, behind)));
    }
    found
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

/// Returns a serving engine or an exporter with the scope as matchers on its labels.
fn bind<'a, 'r>(candidate: &'a EngineRows<'r>, scope: &Scope, nobody: &BTreeSet<&str>) -> BoundEngine<'a, 'r> {
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
    BoundEngine { rows: candidate, matchers: out, notes }
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
