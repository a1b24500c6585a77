//! Collection of all facts concurrently; the entry point of this module.

use std::collections::BTreeSet;
use std::time::Instant;

use super::context::{FactQueryContext, sentence, why};
use super::tenants::tenants;
use super::{changes, end_and_length, info, lengths, measured, rules, targets};
use diagnose::Pool;
use findings::facts::{PrometheusFacts, Version, Windows};
use findings::{Diagnosis, Request};
use knowledge::gap::{Gap, missing_part};
use knowledge::playbook::Library;
use knowledge::signal::EngineKind;
use prom::Prometheus;

/// Collects facts about a pool beyond its diagnosis; includes the answers that arrive by `deadline`.
///
/// Uses the request's scope; times and rate windows come from `windows`. The diagnosis only adds replicas that
/// Prometheus may no longer have. The number of queries depends on the data files, never on the fleet.
pub async fn collect_facts(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    diagnosis: Option<&Diagnosis>,
    windows: &Windows,
    deadline: Instant,
) -> PrometheusFacts {
    let (at, window) = end_and_length(windows.during);
    let request = Request { at, window, ..request.clone() };
    let context = FactQueryContext { library, prometheus, request: &request, windows, deadline };
    // Boxed, because the futures are large.
    let (numbers, server, rules, targets, (pool, pool_facts)) = tokio::join!(
        Box::pin(measured::measured(context)),
        prometheus.build_info(deadline),
        prometheus.alerting_rules(deadline),
        prometheus.targets(deadline),
        Box::pin(of_pool(context, diagnosis)),
    );
    let mut facts = pool_facts;
    (facts.measured, facts.load) = (numbers.metrics, numbers.load);
    facts.missing.extend(numbers.missing);
    match server {
        Ok(server) => facts.versions.push(Version {
            what: server.application.unwrap_or_else(|| "Prometheus".to_owned()),
            version: server.version,
            source: "/api/v1/status/buildinfo".to_owned(),
        }),
        Err(error) => facts.missing.push(Gap::new("the version of Prometheus", why(&error))),
    }
    match rules {
        Ok(all) => rules::of_pool(library, &request, pool.as_ref(), all, &mut facts),
        Err(error) => facts.missing.push(Gap::new("the alerting rules", why(&error))),
    }
    match (targets, &pool) {
        (Ok(all), Some(pool)) => targets::of_pool(pool, all, &mut facts),
        (Ok(_), None) => {}
        (Err(error), _) => facts.missing.push(Gap::new("the scrape targets", why(&error))),
    }
    facts.versions.sort();
    facts.versions.dedup();
    facts
}

/// Collects the facts whose queries need the detected pool.
async fn of_pool<'a>(
    context: FactQueryContext<'a>,
    diagnosis: Option<&Diagnosis>,
) -> (Option<Pool<'a>>, PrometheusFacts) {
    let mut facts = PrometheusFacts::default();
    let pool = match Pool::find(context.library, context.prometheus, context.request, context.deadline).await {
        Ok(pool) => pool,
        Err(error) => {
            let what = "hardware, versions, replicas, prompt lengths and what changed";
            facts.missing.push(Gap::new(what, why(&error)));
            return (None, facts);
        }
    };
    if pool.serving().next().is_none() {
        let in_part = pool.incomplete().is_some();
        let (why, enable) = diagnose::no_engine_reason(context.library, EngineKind::Serving, in_part);
        facts.missing.push(Gap::absent("the engine", sentence(&why, enable.as_deref())));
    }
    if let Some(said) = pool.incomplete() {
        facts.missing.push(Gap::failed("replicas, versions and numbers of the whole pool", missing_part(said)));
    }
    let affected = diagnosis.map(|d| d.replicas.affected.clone()).unwrap_or_default();
    let pool = pool.with_pods(affected.into_iter());
    let (followed, lengths) = tokio::join!(changes::follow(context, &pool), lengths::lengths(context, &pool));
    let (tenants, no_tenants) = tenants(context, &pool).await;
    // Pods that no longer exist also belong to the pool.
    let pods_seen: BTreeSet<String> = followed.pods().collect();
    let pool = pool.with_pods(pods_seen.into_iter());
    let info = info::query_info(context, &pool).await;
    changes::read(context, &pool, followed, &info, &mut facts);
    info::read(info, &mut facts);
    (facts.input, facts.output) = (lengths.input, lengths.output);
    facts.missing.extend(lengths.missing);
    facts.tenants = tenants;
    facts.missing.extend(no_tenants);
    facts.versions.extend(pool.engines().filter_map(|(engine, engine_seen)| {
        let version = engine_seen.version.as_ref()?;
        let source = "the series that it has".to_owned();
        Some(Version { what: engine.engine.clone(), version: format!("{version} or newer"), source })
    }));
    (Some(pool), facts)
}
