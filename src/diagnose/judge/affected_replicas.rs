//! The replicas behind evidence that is met, queried for such evidence only.
//!
//! A pool's largest, smallest or summed value decides if a check is met; its replicas matter only then.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::judge::evidence::names_replicas;
use crate::observe::gather::gather;
use crate::observe::observe_result::ObserveResult;
use crate::observe::plan::{Needs, SignalNeed, plan_for};
use crate::observe::planned_query::QueryPurpose;
use crate::scope::workload_of;
use crate::{EvidenceResult, Judged, Observation, Observations, Outcome, Request, ValueSource};
use knowledge::playbook::{Condition, Library};
use knowledge::signal::PoolAggregation;
use sources::prom::Prometheus;

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
    let mut by_replica = Observations::default();
    observed.degraded |= gather(library, &observed.members, &asks, &answers, &mut by_replica);
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

/// Returns the replicas that the checks of a node name, worst first; empty if they are about the pool as a whole.
pub(crate) fn affected_replicas(evidence: &[EvidenceResult], observations: &Observations) -> Vec<String> {
    let workloads: BTreeSet<&str> = observations.pool.iter().map(|replica| workload_of(replica)).collect();
    // Evidence may also name Deployments and nodes, which are no replicas; a pod that never served is one.
    let is_replica = |name: &str| {
        observations.pool.is_empty()
            || observations.pool.iter().any(|replica| replica == name)
            || (workloads.contains(workload_of(name)) && !workloads.contains(name))
    };
    let met = evidence.iter().filter(|e| e.outcome == Outcome::Met);
    let named = met.map(|e| e.replicas.iter().map(|r| r.name.clone()).filter(|name| is_replica(name)).collect());
    // The check with the fewest replicas is the most specific one.
    named.filter(|names: &Vec<String>| !names.is_empty()).min_by_key(Vec::len).unwrap_or_default()
}
