//! Evaluation of one piece of evidence on the observations.

use crate::judge::degree::{degree, holds as holds_at};
use crate::judge::part_seen::{MoreSeries, all_of, outcome_of_part};
use findings::observation::median_of_others;
use findings::{EvidenceResult, NO_PAST, Observation, Observations, Outcome, ReplicaValue};
use knowledge::gap::missing_part;
use knowledge::playbook::{Comparison, Condition, Evidence, Library, Op, Reference};
use knowledge::signal::{PoolAggregation, Unit, WorseDirection};

/// Evaluates one entry of an evidence list; of alternatives, returns the one that decided.
pub fn evaluate(library: &Library, evidence: &Evidence, observations: &Observations) -> EvidenceResult {
    let mut decided = match (&evidence.signal, &evidence.when) {
        (Some(signal), Some(when)) => check(library, signal, when, observations),
        _ => {
            let mut used: Vec<(&Evidence, EvidenceResult)> =
                evidence.any.iter().map(|e| (e, evaluate(library, e, observations))).collect();
            let lacks_past = |o: &Observation| o.past_incomplete.is_some() && o.incomplete.is_none();
            let no_past = used.iter().any(|(_, r)| {
                let is_unread = || r.incomplete && observations.signals.get(&r.signal).is_some_and(lacks_past);
                r.lacks_past() || is_unread()
            });
            used.retain(|(e, _)| no_past || !e.without_past);
            let any_has_data = used.iter().any(|(_, r)| r.outcome != Outcome::NoData);
            // What may be in a missing part stays open: without it the others would rule out.
            let is_left_out = |e: &Evidence, r: &EvidenceResult| {
                (e.optional || r.unsupported) && r.outcome == Outcome::NoData && !r.incomplete
            };
            used.retain(|(e, r)| !(any_has_data && is_left_out(e, r)));
            let mut results: Vec<EvidenceResult> = used.into_iter().map(|(_, r)| r).collect();
            // Alternatives without any data leave the others as they are.
            if results.iter().any(|r| !is_silent(library, r)) {
                results.retain(|r| !is_silent(library, r));
            }
            // If one value is known to be fine, a comparison that only lacks its past leaves nothing undetermined.
            let fine = results.iter().any(|r| r.outcome == Outcome::NotMet);
            results.retain(|r| !(fine && r.outcome == Outcome::NoData && r.lacks_past()));
            // Of several, the one with most support; of equal ones the first.
            let pick = |outcome: Outcome| {
                let some = results.iter().rev().filter(|r| r.outcome == outcome);
                some.max_by(|a, b| a.support.total_cmp(&b.support)).cloned()
            };
            // One that holds suffices; "not met" requires that all are known.
            pick(Outcome::Met)
                .or_else(|| pick(Outcome::NoData))
                .or_else(|| pick(Outcome::NotMet))
                .unwrap_or_else(|| nothing(library, "", "", None))
        }
    };
    decided.required = evidence.required;
    decided.weight = evidence.weight;
    if decided.outcome == Outcome::Met {
        let since = observations.signals.get(&decided.signal).and_then(|o| o.since);
        let key = Observations::held_key(&decided.signal, &decided.when);
        decided.since = observations.held_since.get(&key).copied().or(since);
        decided.as_before = observations.as_before.contains(&key);
    }
    decided
}

/// Returns true if the signal is one that most pools lack, and this one has no data for it: a log that was not read,
/// or too few hours before the incident. Such evidence is left out.
pub(crate) fn is_silent(library: &Library, e: &EvidenceResult) -> bool {
    e.outcome == Outcome::NoData && library.signals.get(&e.signal).is_some_and(|signal| signal.is_extra())
}

/// Returns true if a check points in the harmful direction. `< 1.3x baseline` of a prompt length is a guard: it holds
/// on every normal day and begins whenever something else ends.
pub(crate) fn tells_of_change(library: &Library, e: &EvidenceResult) -> bool {
    e.when.parse().is_ok_and(|when| is_harmful(library, &e.signal, &when))
}

fn is_harmful(library: &Library, signal: &str, when: &Condition) -> bool {
    let falls = library.signals.get(signal).is_some_and(|signal| signal.bad == WorseDirection::Low);
    when.comparisons().first().is_some_and(|c| match c.op {
        Op::Above | Op::AtLeast => !falls,
        Op::Below | Op::AtMost => falls,
    })
}

fn nothing(library: &Library, signal: &str, when: &str, observation: Option<&Observation>) -> EvidenceResult {
    let definition = library.signals.get(signal);
    EvidenceResult {
        signal: signal.to_owned(),
        title: definition.map_or_else(|| signal.to_owned(), |s| s.title.clone()),
        value: observation.and_then(|o| o.value),
        unit: definition.map_or(Unit::Count, |s| s.unit),
        baseline: None,
        varies: None,
        when: when.to_owned(),
        outcome: Outcome::NoData,
        support: 0.0,
        since: None,
        as_before: false,
        required: false,
        weight: 1.0,
        incomplete: false,
        unsupported: observation.is_some_and(|o| o.unsupported),
        replicas: Vec::new(),
        why: Some(observation.and_then(|o| o.why.clone()).unwrap_or_else(|| "it was not asked".to_owned())),
        query: observation.and_then(|o| o.query.clone()),
        source: observation.map(|o| o.source).unwrap_or_default(),
    }
}

/// Evaluates a condition on a signal.
pub fn holds(library: &Library, signal: &str, when: &Condition, observations: &Observations) -> Outcome {
    check(library, signal, when, observations).outcome
}

pub(crate) fn check(library: &Library, signal: &str, when: &Condition, observations: &Observations) -> EvidenceResult {
    let observation = observations.signals.get(signal);
    let mut result = nothing(library, signal, &when.to_string(), observation);
    // Only a guard may be missing: what a cause is known by has to be seen.
    result.unsupported &= !is_harmful(library, signal, when);
    let unasked = Observation::default();
    let o = match observation {
        Some(o) => o,
        None if *when == Condition::NoData => &unasked,
        None => return result,
    };
    let decide = |result: &mut EvidenceResult, met: bool, support: f64| {
        result.outcome = if met { Outcome::Met } else { Outcome::NotMet };
        result.support = support;
        result.why = None;
    };
    let sign = |met: bool| if met { 1.0 } else { -1.0 };
    let has_value = o.value.is_some() || !o.replicas.is_empty();
    result.incomplete = o.incomplete.is_some();
    match (when, &o.incomplete) {
        // What is not seen may be there, and nothing stands for all that is missing.
        (_, Some(said)) if !has_value => {
            result.why = Some(missing_part(said));
            return result;
        }
        (Condition::All(_), _) if when.needs_baseline() => {
            if let Some(said) = &o.past_incomplete {
                leave_open(&mut result, said);
                return result;
            }
        }
        _ => {}
    }
    match when {
        Condition::Absent if o.answered => decide(&mut result, !has_value, sign(!has_value)),
        Condition::Present if o.answered => decide(&mut result, has_value, sign(has_value)),
        // A query that was sent and failed says nothing.
        Condition::NoData if has_value || o.answered || (o.query.is_none() && !o.away) => {
            decide(&mut result, !has_value, sign(!has_value))
        }
        Condition::Absent | Condition::Present | Condition::NoData => {}
        Condition::All(comparisons) if when.needs_peers() => {
            compare_peers(&mut result, comparisons, o);
            if let (Some(said), false) = (&o.incomplete, result.outcome == Outcome::Met) {
                leave_open(&mut result, said);
            }
        }
        Condition::All(comparisons) => {
            let Some(value) = o.value else { return result };
            if when.needs_baseline() && o.baseline.is_none() {
                result.why = Some(NO_PAST.to_owned());
                return result;
            }
            result.baseline = o.baseline.filter(|_| when.needs_baseline());
            let holds = |c: &Comparison| holds_at(*c, value, limit(*c, o.baseline, None));
            let met = comparisons.iter().all(holds);
            result.varies = o.varies().filter(|_| when.needs_baseline());
            let degree_of = |c: &Comparison| degree(*c, value, limit(*c, o.baseline, None), result.unit, result.varies);
            let support = comparisons.iter().map(degree_of).fold(1.0, f64::min);
            decide(&mut result, met, support);
            let fleet = library.signals.get(signal).map(|s| s.fleet);
            if met {
                result.replicas = holding(comparisons, o, fleet);
            }
            if let Some(said) = &o.incomplete {
                let more = MoreSeries::of(library.signals.get(signal));
                if all_of(comparisons.iter().map(|c| outcome_of_part(holds(c), *c, more))) == Outcome::NoData {
                    leave_open(&mut result, said);
                }
            }
        }
    }
    result
}

/// Leaves a check undecided, because the server could not read a part of its data.
fn leave_open(result: &mut EvidenceResult, said: &str) {
    (result.outcome, result.support, result.incomplete) = (Outcome::NoData, 0.0, true);
    result.replicas.clear();
    result.why = Some(missing_part(said));
}

fn limit(comparison: Comparison, baseline: Option<f64>, peers: Option<f64>) -> f64 {
    match comparison.to {
        Reference::Number(n) => n,
        Reference::Baseline(times) => times * baseline.unwrap_or(f64::NAN),
        Reference::Peers(times) => times * peers.unwrap_or(f64::NAN),
    }
}

/// Compares each replica with the median of the others; met if any deviates.
fn compare_peers(result: &mut EvidenceResult, comparisons: &[Comparison], o: &Observation) {
    if o.replicas.len() < 2 {
        result.why = Some(match o.replicas.len() {
            0 => o.why.clone().unwrap_or_else(|| "no replica has a value".to_owned()),
            _ => "one replica alone has no peers to compare with".to_owned(),
        });
        return;
    }
    let mut deviants = Vec::new();
    let mut nearest: Option<(f64, f64)> = None;
    let mut support = -1.0_f64;
    let mut sorted: Vec<f64> = o.replicas.iter().map(|r| r.value).collect();
    sorted.sort_by(f64::total_cmp);
    for replica in &o.replicas {
        let peers = median_of_others(&sorted, replica.value).unwrap_or(f64::NAN);
        let off = (replica.value - peers).abs();
        if nearest.is_none_or(|(value, peers): (f64, f64)| off > (value - peers).abs()) {
            nearest = Some((replica.value, peers));
        }
        let limit = |c: &Comparison| limit(*c, o.baseline, Some(peers));
        let degree_of = |c: &Comparison| degree(*c, replica.value, limit(c), result.unit, None);
        support = support.max(comparisons.iter().map(degree_of).fold(1.0, f64::min));
        if comparisons.iter().all(|c| holds_at(*c, replica.value, limit(c))) {
            deviants.push((off, peers, replica.clone()));
        }
    }
    deviants.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.2.name.cmp(&b.2.name)));
    result.why = None;
    result.outcome = if deviants.is_empty() { Outcome::NotMet } else { Outcome::Met };
    result.support = support;
    let shown_values = deviants.first().map(|(_, peers, replica)| (replica.value, *peers)).or(nearest);
    result.value = shown_values.map(|(value, _)| value);
    result.baseline = shown_values.map(|(_, peers)| peers);
    result.replicas = deviants.into_iter().map(|(_, _, replica)| replica).collect();
}

/// Returns true if a condition on the pool may also apply to single replicas. A sum over the pool or a past of the
/// pool says nothing about one replica.
pub(crate) fn names_replicas(comparisons: &[Comparison], fleet: Option<PoolAggregation>) -> bool {
    let per_replica = match fleet {
        Some(PoolAggregation::Max | PoolAggregation::Min | PoolAggregation::Mean | PoolAggregation::Query) => true,
        // For a count that must be above zero, each contributor counts.
        Some(PoolAggregation::Sum) => comparisons.iter().all(|c| c.to == Reference::Number(0.0)),
        None => false,
    };
    per_replica && comparisons.iter().all(|c| matches!(c.to, Reference::Number(_)))
}

/// Returns the replicas for which the condition holds as well, worst first.
fn holding(comparisons: &[Comparison], o: &Observation, fleet: Option<PoolAggregation>) -> Vec<ReplicaValue> {
    if !names_replicas(comparisons, fleet) {
        return Vec::new();
    }
    let mut holding: Vec<ReplicaValue> = o
        .replicas
        .iter()
        .filter(|r| comparisons.iter().all(|c| c.op.holds(r.value, limit(*c, None, None))))
        .cloned()
        .collect();
    let worst_is_high = matches!(
        comparisons.first().map(|c| c.op),
        Some(knowledge::playbook::Op::Above | knowledge::playbook::Op::AtLeast)
    );
    holding.sort_by(|a, b| {
        let order = if worst_is_high { b.value.total_cmp(&a.value) } else { a.value.total_cmp(&b.value) };
        order.then_with(|| a.name.cmp(&b.name))
    });
    holding
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_part_of_the_data_shows_is_judged_and_what_it_lacks_is_left_open() {
        let library = knowledge::playbook::load(None).unwrap();
        let part =
            || Observation { answered: true, incomplete: Some("a store is away".to_owned()), ..Observation::default() };
        let whole_now = || Observation { answered: true, past_incomplete: part().incomplete, ..Observation::default() };
        let check = |o: Observation, signal: &str, when: &str| {
            let signals = [(signal.to_owned(), o)].into();
            super::check(&library, signal, &when.parse().unwrap(), &Observations { signals, ..Observations::default() })
        };
        let valued = |o: Observation, value: f64| Observation { value: Some(value), baseline: Some(10.0), ..o };
        use Outcome::{Met, NoData, NotMet};
        for (o, signal, when, expected) in [
            (valued(part(), 20.0), "requests_running", "> 1.5x baseline", Met),
            (valued(part(), 4.0), "requests_running", "< 0.5x baseline", NoData),
            (valued(part(), 4.0), "requests_running", "> 5", NoData),
            (valued(part(), 9.0), "requests_running", "< 5", NotMet),
            (valued(part(), 0.99), "kv_cache_peak", "> 0.95", Met),
            (valued(part(), 0.3), "kv_cache_peak", "> 0.95", NoData),
            (valued(part(), 5.0), "ttft_p99", "> 2", Met),
            (valued(part(), 0.1), "ttft_p99", "> 2", NoData),
            (valued(part(), 20.0), "prompt_tokens_mean", "> 1.3x baseline", NoData),
            (valued(part(), 4.0), "kv_cache_capacity_tokens", "< 0.9x baseline", NoData),
            (valued(part(), 0.4), "gateway_error_ratio", "> 0.01", Met),
            (valued(part(), 1.0), "gpus_gone", "> 0", NoData),
            (valued(whole_now(), 20.0), "requests_running", "> 1.5x baseline", NoData),
            (valued(whole_now(), 4.0), "requests_running", "> 5", NotMet),
            (part(), "requests_running", "absent", NoData),
            (part(), "requests_running", "present", NoData),
            (part(), "requests_running", "no data", NoData),
            (valued(part(), 1.0), "requests_running", "present", Met),
            (valued(part(), 1.0), "requests_running", "absent", NotMet),
        ] {
            let result = check(o, signal, when);
            assert_eq!(result.outcome, expected, "{signal} {when}");
            let why = (expected == NoData).then(|| "a part of the data is missing: a store is away".to_owned());
            assert_eq!(result.why, why, "{signal} {when}");
        }
        let replicas = |values: &[f64]| {
            let named = values
                .iter()
                .enumerate()
                .map(|(i, value)| findings::ReplicaValue { name: format!("r{i}"), value: *value });
            Observation { replicas: named.collect(), ..part() }
        };
        let peers = |values: &[f64]| check(replicas(values), "itl_p50", "> 1.5x peers").outcome;
        assert_eq!([peers(&[1.0, 1.0, 4.0]), peers(&[1.0, 1.0, 1.0]), peers(&[1.0])], [Met, NoData, NoData]);
    }

    #[test]
    fn an_optional_alternative_in_the_missing_part_is_not_dropped_so_that_the_others_rule_out() {
        let library = knowledge::playbook::load(None).unwrap();
        let evidence: Evidence = serde_json::from_value(serde_json::json!({ "any": [
            { "signal": "requests_running", "when": "< 5" },
            { "signal": "gateway_overhead_mean", "when": "> 0.5", "optional": true },
        ] }))
        .unwrap();
        let outcome = |incomplete: Option<&str>| {
            let running = Observation { answered: true, value: Some(9.0), ..Observation::default() };
            let gateway =
                Observation { answered: true, incomplete: incomplete.map(str::to_owned), ..Observation::default() };
            let signals =
                [("requests_running".to_owned(), running), ("gateway_overhead_mean".to_owned(), gateway)].into();
            evaluate(&library, &evidence, &Observations { signals, ..Observations::default() }).outcome
        };
        assert_eq!([outcome(None), outcome(Some("a store is away"))], [Outcome::NotMet, Outcome::NoData]);
    }

    #[test]
    fn nobody_tells_where_nothing_was_asked_or_nothing_is_there_and_a_failed_question_leaves_it_open() {
        let library = knowledge::playbook::load(None).unwrap();
        let outcome = |o: Option<Observation>| {
            let signals = o.map(|o| ("replicas_unready".to_owned(), o)).into_iter().collect();
            let observations = Observations { signals, ..Observations::default() };
            holds(&library, "replicas_unready", &Condition::NoData, &observations)
        };
        let queried = Observation { query: Some("up".to_owned()), ..Observation::default() };
        assert_eq!(outcome(None), Outcome::Met);
        assert_eq!(outcome(Some(Observation::default())), Outcome::Met);
        assert_eq!(outcome(Some(Observation { answered: true, ..queried.clone() })), Outcome::Met);
        assert_eq!(outcome(Some(queried.clone())), Outcome::NoData);
        assert_eq!(outcome(Some(Observation { away: true, ..Observation::default() })), Outcome::NoData);
        assert_eq!(outcome(Some(Observation { answered: true, value: Some(0.0), ..queried })), Outcome::NotMet);
    }
}
