//! Triage: diagnosis of a pool without an alert.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{DIMENSIONS, HealthQuery, HealthSource, evaluate_fleet};
use crate::{ExtraSources, diagnose_with};
use detect::{FleetPool, fleet, places as places_of};
use findings::health::{Health, HealthState, PoolHealth};
use findings::{Diagnosis, Request, Scope};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use prom::{PromError, Prometheus};

/// The result of a triage.
#[derive(Debug, Clone, PartialEq)]
pub enum Triage {
    /// No symptom that would fire an alert, or not enough data; with the pool's health.
    Quiet(Box<Health>),
    /// The diagnosis, or the reason why there is none.
    Found(Box<Diagnosis>),
}

/// Returns the pools and pods that a Prometheus has, and the server's words about a part of the data in which more may be.
///
/// # Errors
/// As [`Prometheus::query`].
pub async fn places(
    library: &Library,
    prometheus: &Prometheus,
    at: Timestamp,
    deadline: Instant,
) -> Result<(Vec<FleetPool>, Option<String>), std::sync::Arc<PromError>> {
    let answer = prometheus.query(&fleet(library), at, deadline).await?;
    let rows: Vec<Labels> = answer.iter().map(|row| row.labels.clone()).collect();
    Ok((places_of(library, &rows), answer.incomplete().map(str::to_owned)))
}

/// Returns the pools that a scope selects, by the labels of their series.
///
/// # Errors
/// As [`Prometheus::query`]; also if it selects none, and they may be in a part of the data that is missing.
pub async fn selected_places(
    library: &Library,
    prometheus: &Prometheus,
    scope: &Scope,
    at: Timestamp,
    deadline: Instant,
) -> Result<Vec<FleetPool>, std::sync::Arc<PromError>> {
    let (places, incomplete) = places(library, prometheus, at, deadline).await?;
    let selected: Vec<FleetPool> = places.into_iter().filter(|place| place.is_in(scope)).collect();
    match incomplete {
        Some(said) if selected.is_empty() => Err(PromError::Partial(said).into()),
        _ => Ok(selected),
    }
}

/// Returns the health of the pools that a scope selects. A job or a replica selects the pools whose series have it; beside
/// other labels, one that no pool has is left out, and a note says so.
pub async fn pool_health(
    library: &Library,
    source: HealthSource<'_>,
    scope: &Scope,
    at: Timestamp,
    window: Duration,
    deadline: Duration,
) -> Health {
    let mut filter = scope.dimensions.clone();
    // Only these are labels of a pool's health.
    filter.retain(|dimension, _| DIMENSIONS.contains(&dimension.as_str()));
    let by_series = !scope.replicas.is_empty() || scope.dimensions.contains_key("job");
    let selected = match by_series {
        true => Some(selected_places(library, source.0, scope, at, Instant::now() + deadline).await),
        false => None,
    };
    // One pool is evaluated alone, also in a fleet of more pools than are evaluated.
    if let Some(Ok(places)) = &selected
        && let [place] = places.as_slice()
    {
        let own = place.dimensions.iter().filter(|(dimension, _)| DIMENSIONS.contains(&dimension.as_str()));
        filter.extend(own.map(|(dimension, value)| (dimension.clone(), value.clone())));
    }
    let is_narrow = !filter.is_empty();
    let mut health =
        Box::pin(evaluate_fleet(library, &[source], &HealthQuery { scope: filter, at, window, deadline })).await;
    // A dimension without a label in the pool's series cannot be used as a filter.
    let carried =
        |pool: &PoolHealth| scope.dimensions.iter().all(|(d, v)| pool.labels.get(d).is_none_or(|own| own == v));
    health.pools.retain(carried);
    match selected {
        Some(Ok(places)) if places.is_empty() && is_narrow => {
            let replicas: Vec<&str> = scope.replicas.iter().map(String::as_str).collect();
            let names = scope.dimensions.get("job").map(String::as_str).into_iter().chain(replicas);
            let names = names.collect::<Vec<_>>().join(", ");
            health.notes.push(format!("no pool here has `{names}`: it selects nothing"));
        }
        Some(Ok(places)) => health.pools.retain(|pool| places.iter().any(|place| place.dimensions == pool.labels)),
        Some(Err(error)) => {
            health.problems.push(format!("{}: {error}", source.0.url));
            if !is_narrow {
                health.pools.clear();
            }
        }
        None => {}
    }
    health.state = HealthState::worst(health.pools.iter().map(|pool| pool.state)).unwrap_or(HealthState::Unknown);
    health
}

/// Answers a request: by [`triage`] if it names no playbook and is about no alert, else with its diagnosis.
pub async fn answer(
    library: &Library,
    source: HealthSource<'_>,
    request: &Request,
    beside: ExtraSources<'_>,
) -> Triage {
    let is_of_alerts = !(request.conditions.is_empty() && request.rules.is_empty());
    match request.playbook.is_empty() && !is_of_alerts {
        true => Box::pin(triage(library, source, request, beside)).await,
        false => {
            let diagnosis = diagnose_with(library, source.0, request, beside);
            Triage::Found(Box::new(Box::pin(diagnosis).await))
        }
    }
}

/// Screens the pool of `request`, whatever its playbook is, and diagnoses the clearest symptom; returns the pool's
/// health if there is none.
pub async fn triage(
    library: &Library,
    source: HealthSource<'_>,
    request: &Request,
    beside: ExtraSources<'_>,
) -> Triage {
    let screening_request = Request { playbook: String::new(), screen: true, ..request.clone() };
    let diagnosis = Box::pin(diagnose_with(library, source.0, &screening_request, beside)).await;
    // Without a screening, the diagnosis has the reason. Health of other pools, or of another time, would be
    // misleading.
    let nowhere = diagnosis.scope.unknown.is_some() || diagnosis.scope.data.is_some();
    if !diagnosis.symptom.playbook.is_empty() || diagnosis.screening.is_none() || nowhere {
        return Triage::Found(Box::new(diagnosis));
    }
    let Request { scope, at, window, deadline, .. } = request;
    Triage::Quiet(Box::new(pool_health(library, source, scope, *at, *window, *deadline).await))
}
