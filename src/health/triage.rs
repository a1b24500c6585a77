//! triage: what is wrong with a pool that nobody raised an alert for, told by the playbooks of its sick checks.

use std::time::Instant;

use futures::future::join_all;
use jiff::Timestamp;

use super::{Health, Look, Source, State, look};
use crate::alert::Labels;
use crate::diagnose::{Beside, Diagnosis, Place, Request, SymptomVerdict, diagnose_with, fleet, places as places_of};
use crate::playbook::{Kind, Library};
use crate::prom::{PromError, Prometheus};

/// Playbooks that are entered at most; their questions overlap, so that three cost little more than one.
const MOST: usize = 3;

/// What a triage found.
#[derive(Debug, Clone, PartialEq)]
pub enum Triage {
    /// Nothing that an alert would fire for, or nobody can tell; the numbers.
    Quiet(Box<Health>),
    /// The clearest story, and the titles of what else is wrong.
    Found(Box<Diagnosis>, Vec<String>),
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

/// Looks at the pool of `request`, and diagnoses what looks wrong; the request's own playbook is not entered.
pub async fn triage(library: &Library, source: Source<'_>, request: &Request, beside: Beside<'_>) -> Triage {
    let mut scope = request.scope.dimensions.clone();
    // What no series of the pool carries cannot narrow a look.
    scope.retain(|dimension, _| super::DIMENSIONS.contains(&dimension.as_str()));
    let what = Look { scope, at: request.at, window: request.window, deadline: request.deadline };
    let mut health = Box::pin(look(library, &[source], &what)).await;
    health
        .pools
        .retain(|pool| request.scope.dimensions.iter().all(|(d, v)| pool.labels.get(d).is_none_or(|own| own == v)));
    let suspects = suspects(library, &health);
    let entered = suspects.iter().take(MOST).map(|playbook| async {
        let request = Request { playbook: (*playbook).to_owned(), ..request.clone() };
        Box::pin(diagnose_with(library, source.0, &request, beside)).await
    });
    let mut told = join_all(entered).await;
    // Of equally clear ones the first stands: its check is the worst.
    let best = (0..told.len()).rev().max_by(|a, b| clarity(&told[*a]).total_cmp(&clarity(&told[*b])));
    let Some(best) = best else { return Triage::Quiet(Box::new(health)) };
    let best = told.swap_remove(best);
    let beside = suspects.into_iter().filter(|id| *id != best.symptom.playbook);
    let beside = beside.filter(|id| best.root().is_none_or(|root| !root.chain.iter().any(|link| link == id)));
    let titles = beside.filter_map(|id| Some(library.playbooks.get(id)?.title.clone())).collect();
    Triage::Found(Box::new(best), titles)
}

/// The playbooks of the checks that are not well: critical before warning, symptoms before mechanisms, in the order of
/// the headings.
fn suspects<'a>(library: &'a Library, health: &Health) -> Vec<&'a str> {
    let mut found: Vec<(bool, bool, &str)> = Vec::new();
    for check in health.pools.iter().flat_map(|pool| &pool.checks) {
        let Some(playbook) = check.playbook.as_ref().and_then(|id| library.playbooks.get(id)) else { continue };
        let mild = match check.state {
            Some(State::Critical) => false,
            Some(State::Warning) => true,
            Some(State::Healthy | State::Unknown) | None => continue,
        };
        found.push((mild, playbook.kind != Kind::Symptom, &playbook.playbook));
    }
    found.sort_by_key(|(mild, mechanism, _)| (*mild, *mechanism));
    let mut out: Vec<&str> = Vec::new();
    for (_, _, id) in found {
        if !out.contains(&id) {
            out.push(id);
        }
    }
    out
}

/// How much a diagnosis explains: a confirmed symptom with a sure root above all.
fn clarity(diagnosis: &Diagnosis) -> f64 {
    let confirmed = if diagnosis.symptom.verdict == SymptomVerdict::Confirmed { 10.0 } else { 0.0 };
    let root = diagnosis.root().map_or(0.0, |root| {
        let sure = f64::from(root.verdict as u8);
        if root.fallback { sure * 0.1 } else { sure + root.score * 0.5 }
    });
    confirmed + root
}
