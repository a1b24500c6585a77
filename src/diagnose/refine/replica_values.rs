//! The replicas behind evidence that is met, queried for such evidence only.
//!
//! A pool's largest, smallest or summed value decides if a check is met; its replicas matter only then.

use std::time::Instant;

use crate::judge::evidence::names_replicas;
use crate::observe::gather::gather;
use crate::observe::observe_result::ObserveResult;
use crate::observe::plan::{Needs, SignalNeed, plan_for};
use detect::QueryPurpose;
use findings::{EvidenceResult, Judged, Observation, Observations, Outcome, Request, ValueSource};
use knowledge::playbook::{Condition, Library};
use knowledge::signal::PoolAggregation;
use prom::Prometheus;

/// Queries the replicas' values for met evidence along the chains that was queried for the pool alone; returns false
/// if there is nothing to query.
pub(crate) async fn query_replicas(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    observed: &mut ObserveResult,
    judged: &Judged,
    deadline: Instant,
) -> bool {
    let links = judged.chains.iter().flatten().filter_map(|id| judged.causes.get(id));
    let evidence = judged.evidence.iter().chain(links.flat_map(|link| &link.evidence));
    let open = evidence.filter(|e| is_open(library, e, &observed.observations));
    let needs: Needs<'_> =
        open.map(|e| (e.signal.as_str(), SignalNeed { replicas: true, ..SignalNeed::default() })).collect();
    let mut asks = plan_for(library, request, &observed.detection, &needs).queries;
    asks.retain(|ask| !ask.signal.is_empty() && ask.purpose == QueryPurpose::Replicas);
    if asks.is_empty() {
        return false;
    }
    let before = observed.cache.queries;
    let answers = observed.cache.query(prometheus, &asks, deadline).await;
    observed.queries += observed.cache.queries - before;
    let by_replica = gather(library, &observed.members, &asks, &answers);
    observed.degraded |= by_replica.degraded;
    for (signal, o) in by_replica.signals {
        if let Some(observation) = observed.observations.signals.get_mut(&signal) {
            observation.replicas = o.replicas;
            observation.incomplete = observation.incomplete.take().or(o.incomplete);
        }
    }
    true
}

/// Returns true if evidence is met for the pool, and might name replicas that were not queried.
fn is_open(library: &Library, e: &EvidenceResult, observations: &Observations) -> bool {
    let fleet = library.signals.get(&e.signal).map(|signal| signal.fleet);
    let when = e.when.parse::<Condition>().ok();
    let names = when.is_some_and(|when| !when.comparisons().is_empty() && names_replicas(when.comparisons(), fleet));
    let unasked = |o: &Observation| o.replicas.is_empty() && o.source == ValueSource::Prometheus;
    // Replicas of a mean are queried at once, those of a quantile only for comparisons.
    let by_pool = matches!(fleet, Some(PoolAggregation::Max | PoolAggregation::Min | PoolAggregation::Sum));
    e.outcome == Outcome::Met && by_pool && names && observations.signals.get(&e.signal).is_some_and(unasked)
}
