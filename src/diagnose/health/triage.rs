//! Triage: diagnosis of a pool without an alert.

use std::time::Instant;

use jiff::Timestamp;

use super::{Health, HealthQuery, HealthSource, evaluate_fleet};
use crate::{Diagnosis, ExtraSources, FleetPool, Request, diagnose_with, fleet, places as places_of};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use sources::prom::{PromError, Prometheus};

/// The result of a triage.
#[derive(Debug, Clone, PartialEq)]
pub enum Triage {
    /// No symptom that would fire an alert, or not enough data; with the pool's health.
    Quiet(Box<Health>),
    /// The diagnosis, or the reason why there is none.
    Found(Box<Diagnosis>),
}

/// Returns the pools and pods that a Prometheus has.
///
/// # Errors
/// As [`Prometheus::query`].
pub async fn places(
    library: &Library,
    prometheus: &Prometheus,
    at: Timestamp,
    deadline: Instant,
) -> Result<Vec<FleetPool>, std::sync::Arc<PromError>> {
    let rows = prometheus.query(&fleet(library), at, deadline).await?;
    let rows: Vec<Labels> = rows.iter().map(|row| row.labels.clone()).collect();
    Ok(places_of(library, &rows))
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
    let mut scope = request.scope.dimensions.clone();
    // A dimension without a label in the pool's series cannot be used as a filter.
    scope.retain(|dimension, _| super::DIMENSIONS.contains(&dimension.as_str()));
    let query = HealthQuery { scope, at: request.at, window: request.window, deadline: request.deadline };
    let mut health = Box::pin(evaluate_fleet(library, &[source], &query)).await;
    health
        .pools
        .retain(|pool| request.scope.dimensions.iter().all(|(d, v)| pool.labels.get(d).is_none_or(|own| own == v)));
    Triage::Quiet(Box::new(health))
}
