//! The cost of a step that restarts replicas, from the values of the diagnosis.

use crate::judge::placeholders::FixContext;
use findings::{Observation, RestartCost};
use knowledge::playbook::{Step, StepChange};
use knowledge::signal::EngineKind;

/// The signals for the running requests, for the hits of the prefix cache and for the load that the other replicas carry.
const RUNNING: &str = StepChange::RESTART_SIGNALS[0];
const HITS: &str = StepChange::RESTART_SIGNALS[1];
const KV: &str = StepChange::RESTART_SIGNALS[2];
/// The signal whose rows are nodes that take no pods.
const CLOSED: &str = "nodes_closed";

/// Returns the cost of a step with its placeholders filled; `None` if it restarts no replica of the pool, or if nothing is
/// known. `replica` is the one that the step names. A value of a part of the data is none: the missing part may be the busy one.
pub(super) fn restart_cost(
    library: &knowledge::playbook::Library,
    step: &Step,
    action: &str,
    replica: Option<&str>,
    about: &FixContext<'_>,
) -> Option<RestartCost> {
    let observations = about.observations;
    let each = matches!(step.changes, Some(StepChange::Flags | StepChange::Revision));
    let named = replica.filter(|_| Step::commands(action).any(Step::restarts)).filter(|name| action.contains(*name));
    let only_gateways = about.detection.pool(library).any(|(engine, _)| engine.kind == EngineKind::Gateway);
    let of = observations.pool.len();
    if of == 0 || only_gateways || !(each || named.is_some()) {
        return None;
    }
    let observed = |signal: &str| observations.signals.get(signal).filter(|o| o.incomplete.is_none());
    let of_named = |o: &Observation| {
        let name = named?;
        o.replicas.iter().find(|replica| replica.name == name).map(|replica| replica.value)
    };
    // A replica that is named is no average one: it may serve nothing any more.
    let running = observed(RUNNING).and_then(|o| match named {
        Some(_) => of_named(o),
        // One that is dead has no row and no requests.
        None => Some(o.value? / if o.replicas.is_empty() { of } else { o.replicas.len() } as f64),
    });
    let hits = observed(HITS).and_then(|o| o.value).filter(|hits| *hits > 0.0);
    let left = of - 1;
    // The others get what this one holds.
    let others_kv = observed(KV).filter(|_| left > 0).and_then(|o| {
        // The value of the pool is that of its fullest replica.
        let held: f64 = o.replicas.iter().map(|replica| replica.value).sum();
        (o.replicas.len() == of).then_some(held / left as f64)
    });
    let node = named.and_then(|name| about.nodes.get(name));
    let closed_node = node.filter(|node| {
        observed(CLOSED).is_some_and(|o| o.replicas.iter().any(|row| row.name == **node && row.value > 0.0))
    });
    let cost = RestartCost {
        replica: named.map(str::to_owned),
        of,
        running: running.map(|n| n.max(0.0).round() as u64),
        hits,
        others_kv,
        closed_node: closed_node.cloned(),
    };
    (cost.running.is_some() || cost.others_kv.is_some() || cost.hits.is_some()).then_some(cost)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::judge::steps::tests::{about, bad_replica, request};
    use detect::DetectionResult;
    use findings::{Observations, ReplicaValue};

    const DELETE: &str = "Restart it: `kubectl -n llm delete pod vllm-1`";

    fn observed(value: f64, replicas: &[f64]) -> Observation {
        let replicas = replicas.iter().enumerate();
        let replicas = replicas.map(|(i, value)| ReplicaValue { name: format!("vllm-{i}"), value: *value }).collect();
        Observation { value: Some(value), replicas, answered: true, ..Observation::default() }
    }

    fn of(step: &Step, action: &str, replica: Option<&str>, observations: &Observations) -> Option<RestartCost> {
        let library = knowledge::playbook::load(None).unwrap();
        let (diagnosis, detection, request) = (bad_replica(), DetectionResult::default(), request(&[]));
        let nodes = BTreeMap::from([("vllm-1".to_owned(), "gpu-7".to_owned())]);
        restart_cost(&library, step, action, replica, &about(&diagnosis, &request, observations, &detection, &nodes))
    }

    fn pool(signals: &[(&str, Observation)]) -> Observations {
        let signals = signals.iter().map(|(name, o)| ((*name).to_owned(), o.clone())).collect();
        let pool = (0..4).map(|i| format!("vllm-{i}")).collect();
        Observations { signals, pool, ..Observations::default() }
    }

    fn step(changes: Option<StepChange>) -> Step {
        let playbook = knowledge::playbook::load(None).unwrap().playbooks.remove("slot-limit").unwrap();
        Step { changes, ..playbook.now.into_iter().next().unwrap() }
    }

    #[test]
    fn the_replica_that_a_command_restarts_has_its_own_values_and_the_others_carry_its_load() {
        let running = observed(100.0, &[30.0, 37.0, 20.0, 13.0]);
        let closed =
            Observation { replicas: vec![ReplicaValue { name: "gpu-7".to_owned(), value: 1.0 }], ..observed(1.0, &[]) };
        let kv = observed(0.9, &[0.9, 0.6, 0.4, 0.2]);
        let seen = pool(&[(RUNNING, running), (HITS, observed(0.62, &[])), (KV, kv), (CLOSED, closed)]);
        let cost = of(&step(None), DELETE, Some("vllm-1"), &seen).unwrap();
        assert_eq!(
            (cost.replica.as_deref(), cost.of, cost.running, cost.hits),
            (Some("vllm-1"), 4, Some(37), Some(0.62))
        );
        assert!((cost.others_kv.unwrap() - 0.7).abs() < 1e-9, "{cost:?}");
        assert_eq!(cost.closed_node.as_deref(), Some("gpu-7"));
        let each = of(&step(Some(StepChange::Flags)), "Lower `--max-num-seqs`", None, &seen).unwrap();
        assert_eq!((each.replica, each.running, each.closed_node), (None, Some(25), None));
    }

    #[test]
    fn a_step_that_restarts_nothing_and_values_that_are_not_known_tell_nothing() {
        let seen = pool(&[(RUNNING, observed(100.0, &[]))]);
        assert_eq!(of(&step(None), "Look: `kubectl -n llm logs vllm-1`", Some("vllm-1"), &seen), None);
        assert_eq!(of(&step(Some(StepChange::Replicas)), "Scale out", None, &seen), None);
        assert_eq!(of(&step(None), DELETE, Some("vllm-1"), &seen), None, "the mean is not this replica's number");
        assert_eq!(of(&step(Some(StepChange::Flags)), "x", None, &pool(&[])), None);
        let part = Observation { incomplete: Some("a store is away".to_owned()), ..observed(100.0, &[]) };
        assert_eq!(of(&step(Some(StepChange::Flags)), "x", None, &pool(&[(RUNNING, part)])), None);
        let none = Observations { pool: Vec::new(), ..seen };
        assert_eq!(of(&step(Some(StepChange::Flags)), "x", None, &none), None);
    }
}
