//! triage: what is wrong with a pool that nobody raised an alert for.

use std::time::Instant;

use jiff::Timestamp;

use super::{Health, Look, Source, look};
use crate::alert::Labels;
use crate::diagnose::{Beside, Diagnosis, Place, Request, diagnose_with, fleet, places as places_of};
use crate::playbook::Library;
use crate::prom::{PromError, Prometheus};

/// What a triage found.
#[derive(Debug, Clone, PartialEq)]
pub enum Triage {
    /// Nothing that an alert would fire for, or nobody can tell; the numbers.
    Quiet(Box<Health>),
    /// The clearest story, or why there is nothing to look at.
    Found(Box<Diagnosis>),
}

/// The pools and pods that a Prometheus has.
///
/// # Errors
/// As [`Prometheus::query`].
pub async fn places(
    library: &Library,
    prometheus: &Prometheus,
    at: Timestamp,
    deadline: Instant,
) -> Result<Vec<Place>, std::sync::Arc<PromError>> {
    let rows = prometheus.query(&fleet(library), at, deadline).await?;
    let rows: Vec<Labels> = rows.iter().map(|row| row.labels.clone()).collect();
    Ok(places_of(library, &rows))
}

/// Screens the pool of `request`, whatever its playbook is, and diagnoses the clearest symptom; where nothing is
/// abnormal, looks at its numbers.
pub async fn triage(library: &Library, source: Source<'_>, request: &Request, beside: Beside<'_>) -> Triage {
    let asked = Request { playbook: String::new(), screen: true, ..request.clone() };
    let diagnosis = Box::pin(diagnose_with(library, source.0, &asked, beside)).await;
    // Without a screening it says why nothing was diagnosed. Numbers of other pools, or of another time, are no answer.
    let nowhere = diagnosis.scope.unknown.is_some() || diagnosis.scope.data.is_some();
    if !diagnosis.symptom.playbook.is_empty() || diagnosis.screening.is_none() || nowhere {
        return Triage::Found(Box::new(diagnosis));
    }
    let mut scope = request.scope.dimensions.clone();
    // What no series of the pool carries cannot narrow a look.
    scope.retain(|dimension, _| super::DIMENSIONS.contains(&dimension.as_str()));
    let what = Look { scope, at: request.at, window: request.window, deadline: request.deadline };
    let mut health = Box::pin(look(library, &[source], &what)).await;
    health
        .pools
        .retain(|pool| request.scope.dimensions.iter().all(|(d, v)| pool.labels.get(d).is_none_or(|own| own == v)));
    Triage::Quiet(Box::new(health))
}
