//! How probable a cause is: its evidence, against its rivals, and against something that no playbook knows.
//!
//! A logistic regression on a few numbers of the answer. The coefficients are fitted on the simulated fleets that rules are
//! tuned on, and checked on fleets and captures that are not (`make calibrate`, docs/accuracy.md).

use super::{CauseFound, EvidenceResult, Outcome, Verdict};

/// From this probability on a cause is likely.
const LIKELY: f64 = 0.7;

/// How many numbers tell how probable a cause is.
pub const FEATURES: usize = 5;

/// What each number adds to the log-odds: a constant, then as in [`features`].
const COEFFICIENTS: [f64; FEATURES + 1] = [-3.0, 5.0, 2.0, 1.0, 0.5, -0.5];

/// What tells how probable the cause at `place` is, each about 0..=1: the score of its weakest link; by how much that is above
/// its best rival's (below: negative); the share of its checks that have data; whether it names more than the mechanism; whether
/// it is a last resort.
pub fn features(causes: &[CauseFound], place: usize) -> [f64; FEATURES] {
    let Some(cause) = causes.get(place) else { return [0.0; FEATURES] };
    let rivals = causes.iter().enumerate().filter(|(i, other)| *i != place && !cause.chain.contains(&other.id));
    let rival = rivals.map(|(_, other)| other.score).fold(0.0, f64::max);
    let checks = || cause.via.iter().flat_map(|link| &link.evidence).chain(&cause.evidence);
    let weight = |known: bool| -> f64 {
        let counts = |e: &&EvidenceResult| !known || e.outcome != Outcome::NoData;
        checks().filter(counts).map(|e| e.weight).sum()
    };
    let known = if weight(false) > 0.0 { weight(true) / weight(false) } else { 0.0 };
    let first = if place == 0 { 1.0 } else { 0.0 };
    [cause.score, cause.score - rival, known, first, if cause.fallback { 1.0 } else { 0.0 }]
}

/// Writes into each cause how probable it is, and what that is in a word.
pub(super) fn weigh(causes: &mut [CauseFound]) {
    let probable: Vec<f64> = (0..causes.len()).map(|place| probability(&features(causes, place))).collect();
    for (cause, probability) in causes.iter_mut().zip(probable) {
        cause.probability = probability;
        let verdict = if probability >= LIKELY { Verdict::Likely } else { Verdict::Possible };
        cause.verdict = cause.verdict.min(verdict);
    }
}

/// How probable it is that none of these causes is it.
pub(super) fn unknown(causes: &[CauseFound]) -> f64 {
    causes.iter().map(|cause| 1.0 - cause.probability).product()
}

/// The probability that these numbers stand for.
fn probability(features: &[f64; FEATURES]) -> f64 {
    let [constant, rest @ ..] = COEFFICIENTS;
    let odds = constant + rest.iter().zip(features).map(|(a, b)| a * b).sum::<f64>();
    1.0 / (1.0 + (-odds).exp())
}
