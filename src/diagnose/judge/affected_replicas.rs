//! The replicas behind evidence that is met.

use std::collections::BTreeSet;

use findings::scope::workload_of;
use findings::{EvidenceResult, Observations, Outcome};

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
