//! The probability of a cause: its evidence, against its rivals, and against causes that no playbook knows.
//!
//! A logistic regression on a few features of the diagnosis. The coefficients are fitted on captures of real servers
//! (`cargo test --test captures -- --all --rows FILE`) and on the simulated fleets that rules are tuned on (`cargo test --test
//! scenarios -- --tuned --fit --rows FILE`), which count alike, and checked on others (docs/accuracy.md).

use std::collections::BTreeSet;

use crate::judge::{began_after, onset};
use findings::{CauseFound, Diagnosis, EvidenceResult, Outcome, SymptomVerdict, Verdict};

/// Minimum probability of a likely cause.
const LIKELY: f64 = 0.7;

/// Maximum probability of a cause if the symptom has no data: just below [`LIKELY`].
const MAX_WITHOUT_SYMPTOM_DATA: f64 = 0.69;

/// Factor for causes of another symptom: they need not explain the alert's own.
const OTHER_SYMPTOM: f64 = 0.3;

/// Maximum probability of a cause that rests on one fact: nothing else agrees with it.
const MAX_OF_ONE_FACT: f64 = 0.93;

/// Maximum probability of a cause of a latency that is mostly spent elsewhere: just below [`LIKELY`].
const MAX_WITH_TIME_ELSEWHERE: f64 = 0.69;

/// Factor for a cause that began after its effect.
const LATE: f64 = 0.85;

/// Number of features.
pub const FEATURES: usize = 5;

/// The coefficients of the [`features`] before any measurement. The fit keeps the signs: more evidence never makes a
/// cause less probable.
pub const PRIOR: [f64; FEATURES] = [5.0, 0.5, 1.0, 1.0, -1.0];

/// The contributions to the log-odds: a constant, then as in [`features`].
const COEFFICIENTS: [f64; FEATURES + 1] = [-3.60, 3.77, 0.71, 0.95, 2.37, -1.41];

/// Returns the features of the cause at `place`, each about 0..=1: the score of its weakest link; its lead over the
/// best rival's score (negative if behind); the share of its checks that have data; 1 if it is first; 1 if it is a last
/// resort.
pub fn features(diagnosis: &Diagnosis, place: usize) -> [f64; FEATURES] {
    let causes = &diagnosis.causes;
    let Some(cause) = causes.get(place) else { return [0.0; FEATURES] };
    let rivals = causes.iter().enumerate().filter(|(i, other)| *i != place && !cause.chain.contains(&other.id));
    let rival = rivals.map(|(_, other)| other.score).fold(0.0, f64::max);
    let checks = || cause.via.iter().flat_map(|link| &link.evidence).chain(&cause.evidence);
    let weight = |e: &EvidenceResult| e.weight;
    let all: f64 = checks().map(weight).sum();
    let weight_with_data: f64 = checks().filter(|e| e.outcome != Outcome::NoData).map(weight).sum();
    let one = |holds: bool| if holds { 1.0 } else { 0.0 };
    [
        cause.score,
        cause.score - rival,
        if all > 0.0 { weight_with_data / all } else { 0.0 },
        one(place == 0),
        one(cause.fallback),
    ]
}

/// Writes each cause's probability and verdict, and the probability that none of them is the right one.
pub(crate) fn weigh(diagnosis: &mut Diagnosis) {
    let probable: Vec<f64> =
        (0..diagnosis.causes.len()).map(|place| probability(&features(diagnosis, place))).collect();
    let other_symptom = if is_of_another_symptom(diagnosis) { OTHER_SYMPTOM } else { 1.0 };
    let most = if diagnosis.symptom.verdict == SymptomVerdict::NoData { MAX_WITHOUT_SYMPTOM_DATA } else { 1.0 };
    let elsewhere = diagnosis.parts.as_ref().and_then(|parts| parts.rest).is_some_and(|rest| rest.share > 0.5);
    let effect = onset(&diagnosis.symptom.evidence).map(|(at, _)| at);
    for (cause, probability) in diagnosis.causes.iter_mut().zip(&probable) {
        let late = if began_after(&cause.evidence, effect) { LATE } else { 1.0 };
        let unexplained = elsewhere && cause.explained.is_some_and(|share| share < 0.5);
        let most = most.min(if facts(cause) > 1 { 1.0 } else { MAX_OF_ONE_FACT }).min(if unexplained {
            MAX_WITH_TIME_ELSEWHERE
        } else {
            1.0
        });
        cause.probability = (probability * other_symptom * late).min(most);
        let verdict = if cause.probability >= LIKELY { Verdict::Likely } else { Verdict::Possible };
        cause.verdict = cause.verdict.min(verdict);
    }
    diagnosis.unknown = diagnosis.causes.iter().map(|cause| 1.0 - cause.probability).product();
}

/// Returns the number of signals whose checks are met along a cause's chain.
fn facts(cause: &CauseFound) -> usize {
    let checks = cause.via.iter().flat_map(|link| &link.evidence).chain(&cause.evidence);
    checks.filter(|e| e.outcome == Outcome::Met).map(|e| &e.signal).collect::<BTreeSet<_>>().len()
}

/// Returns true if the causes belong to another symptom while the alert's own symptom is confirmed.
fn is_of_another_symptom(diagnosis: &Diagnosis) -> bool {
    diagnosis.screening.as_ref().is_some_and(|screening| {
        let own = screening.asked_verdict == Some(SymptomVerdict::Confirmed);
        own && screening.asked.as_ref() != Some(&diagnosis.symptom.playbook)
    })
}

/// Returns the probability for these features.
fn probability(features: &[f64; FEATURES]) -> f64 {
    let [constant, weights @ ..] = COEFFICIENTS;
    let odds = constant + weights.iter().zip(features).map(|(a, b)| a * b).sum::<f64>();
    1.0 / (1.0 + (-odds).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_evidence_never_makes_a_cause_less_probable() {
        for (coefficient, prior) in COEFFICIENTS[1..].iter().zip(PRIOR) {
            assert!(coefficient * prior >= 0.0, "{COEFFICIENTS:?}");
        }
    }
}
