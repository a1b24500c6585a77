//! judge: observations ─▶ verdicts, pure and explainable in one line per cause.
//!
//! A check says from -1 to 1, by its distance from the threshold ([`super::degree`]). The score is the mean of what the checks
//! say, by weight, on a scale of 0..1; a check without data counts half of its weight as doubt: less data never makes a cause
//! surer. A required check that is missed multiplies the score by what is left of it; clearly missed, it rules the cause out.
//! A latency of which the cause explains little lowers it too ([`super::parts`]).
//! A required one without data leaves the cause undetermined.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::evidence::{evaluate, is_silent};
use super::parts::parts;
use super::{EvidenceResult, Judgement, Observations, Outcome, SymptomVerdict, Verdict};
use crate::clock;
use crate::playbook::{Evidence, Library, Node, NodeKind};

/// From this score on a cause is likely.
pub(super) const LIKELY: f64 = 0.75;
/// From this score on a cause is possible.
pub(super) const POSSIBLE: f64 = 0.5;
/// Scores that differ by less are as good as each other: what else is known decides.
const TIE: f64 = 0.08;
/// Who explains so much of a latency explains it: the rest is what every request costs.
const MOST: f64 = 0.5;
/// Shares of a latency in steps of so much: a smaller difference is none.
const STEP: f64 = 0.25;
/// A required check that says so little is clearly not met.
const BROKEN: f64 = -0.99;

/// A cause may be noticed so much later than its effect: prompts and answers are counted when requests end.
pub const NOTICED_LATE: Duration = Duration::from_secs(180);

/// The verdicts on everything that can be reached from the entry playbook.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Is the symptom there?
    pub symptom: SymptomVerdict,
    /// The symptom's checks.
    pub evidence: Vec<EvidenceResult>,
    /// Every reachable cause by id.
    pub causes: BTreeMap<String, Judgement>,
    /// Chains of ids from the entry to a root, best first; only likely and possible ones.
    pub chains: Vec<Vec<String>>,
}

impl Judged {
    /// Whether another chain might be the best one, and nothing but onsets can tell.
    pub(super) fn is_tied(&self) -> bool {
        let Some((best, others)) = self.chains.split_first() else { return false };
        others.iter().any(|other| {
            let fork = best.iter().zip(other).find(|(a, b)| a != b);
            let judged = fork.and_then(|(a, b)| self.causes.get(a).zip(self.causes.get(b)));
            judged.is_some_and(|(a, b)| ties(a, b) && strength(a) == strength(b))
        })
    }
}

/// Judges a playbook on observations.
///
/// An absent symptom has no chains: a healthy pool gets no story. Without data on the symptom no cause is
/// better than possible.
pub fn judge(library: &Library, playbook: &str, seen: &Observations) -> Option<Judged> {
    let entry = library.playbook_node(playbook)?;
    let (evidence, symptom) = symptom(library, entry.evidence, seen);
    let mut causes = BTreeMap::new();
    let mut chains = Vec::new();
    if symptom != SymptomVerdict::Absent {
        let latency = parts(library, playbook, seen);
        for node in library.reachable(playbook).into_iter().skip(1) {
            let mut judgement = judge_node(library, node, seen);
            if symptom == SymptomVerdict::NoData && judgement.verdict == Verdict::Likely {
                judgement.verdict = Verdict::Possible;
            }
            let edge = entry.causes.iter().find(|edge| edge.target() == node.id);
            judgement.explained = latency.as_ref().zip(edge).and_then(|(latency, edge)| latency.explained(edge));
            if let (Some(share), false) = (judgement.explained, judgement.verdict == Verdict::RuledOut) {
                judgement.score *= left_of(share);
                judgement.verdict = judgement.verdict.min(graded(judgement.score));
            }
            causes.insert(node.id.to_owned(), judgement);
        }
        let effect = onset(&evidence);
        descend(library, entry, &causes, effect, &mut vec![playbook.to_owned()], &mut chains);
        // An alert may name the mechanism itself; then that is at least what is known.
        if chains.is_empty() && entry.kind == NodeKind::Mechanism && symptom == SymptomVerdict::Confirmed {
            causes.insert(playbook.to_owned(), judge_node(library, entry, seen));
            chains.push(vec![playbook.to_owned()]);
        }
    }
    Some(Judged { symptom, evidence, causes, chains })
}

/// Whether a symptom is there, with its checks.
pub(super) fn symptom(
    library: &Library,
    evidence: &[Evidence],
    seen: &Observations,
) -> (Vec<EvidenceResult>, SymptomVerdict) {
    let evidence = results(library, evidence, seen).unwrap_or_default();
    let weight = |outcome: Outcome| -> f64 { evidence.iter().filter(|e| e.outcome == outcome).map(|e| e.weight).sum() };
    let required = |outcome: Outcome| evidence.iter().any(|e| e.required && e.outcome == outcome);
    let (met, not_met, open) = (weight(Outcome::Met), weight(Outcome::NotMet), weight(Outcome::NoData) / 2.0);
    // A symptom is what its thresholds say, as in the alert's rule; only what explains it is graded.
    let symptom = if required(Outcome::NotMet) {
        SymptomVerdict::Absent
    } else if required(Outcome::NoData) || met + not_met == 0.0 {
        SymptomVerdict::NoData
    } else if met >= (met + not_met + open) / 2.0 {
        SymptomVerdict::Confirmed
    } else {
        SymptomVerdict::Absent
    };
    (evidence, symptom)
}

fn judge_node(library: &Library, node: Node<'_>, seen: &Observations) -> Judgement {
    let (evidence, verdict, score) = weigh(library, node.evidence, seen);
    Judgement { id: node.id.to_owned(), title: node.title.to_owned(), verdict, score, explained: None, evidence }
}

/// Every check with its data, and what they come to.
fn weigh(library: &Library, evidence: &[Evidence], seen: &Observations) -> (Vec<EvidenceResult>, Verdict, f64) {
    let Some(results) = results(library, evidence, seen) else { return (Vec::new(), Verdict::Undetermined, 0.0) };
    let (verdict, score) = score(&results);
    (results, verdict, score)
}

/// Every check with its data. A log that nobody read, or hours before that are too few, count neither for nor against and
/// are not mentioned; none where the whole stands and falls with them.
fn results(library: &Library, evidence: &[Evidence], seen: &Observations) -> Option<Vec<EvidenceResult>> {
    let mut results: Vec<EvidenceResult> = evidence.iter().map(|e| evaluate(library, e, seen)).collect();
    let unread = results.iter().any(|e| e.required && is_silent(library, e));
    results.retain(|e| !is_silent(library, e));
    (!unread).then_some(results)
}

/// The scoring rule.
pub(super) fn score(evidence: &[EvidenceResult]) -> (Verdict, f64) {
    let required = |outcome: Outcome| evidence.iter().filter(move |e| e.required && e.outcome == outcome);
    let known: f64 = evidence.iter().filter(|e| e.outcome != Outcome::NoData).map(|e| e.weight).sum();
    let open: f64 = evidence.iter().filter(|e| e.outcome == Outcome::NoData).map(|e| e.weight / 2.0).sum();
    let support: f64 =
        evidence.iter().filter(|e| e.outcome != Outcome::NoData).map(|e| e.weight * (1.0 + e.support) / 2.0).sum();
    let balance = if known > 0.0 { support / (known + open) } else { 0.0 };
    let missed: f64 = required(Outcome::NotMet).map(|e| 1.0 + e.support).product();
    let score = balance * missed;
    let verdict = if required(Outcome::NotMet).any(|e| e.support <= BROKEN) {
        return (Verdict::RuledOut, 0.0);
    } else if required(Outcome::NoData).next().is_some() || known == 0.0 {
        Verdict::Undetermined
    } else {
        graded(score)
    };
    (verdict, score)
}

/// What a score is in a word.
fn graded(score: f64) -> Verdict {
    match score {
        score if score >= LIKELY => Verdict::Likely,
        score if score >= POSSIBLE => Verdict::Possible,
        _ => Verdict::Unlikely,
    }
}

/// What is left of the score of a cause that explains this share of a latency: all of it from [`MOST`] on, and half where it
/// explains nothing.
fn left_of(share: f64) -> f64 {
    0.5 + 0.5 * (share / MOST).min(1.0)
}

/// How much evidence speaks for a cause, as weight: a more specific cause has more to show.
fn strength(judgement: &Judgement) -> f64 {
    judgement.evidence.iter().map(|e| e.weight * e.support.max(0.0)).sum()
}

/// When the first of the checks began to hold.
pub(super) fn onset(evidence: &[EvidenceResult]) -> Option<Timestamp> {
    evidence.iter().filter(|e| e.outcome == Outcome::Met).filter_map(|e| e.since).min()
}

/// Whether a cause clearly began after the effect it should explain.
fn began_after(judgement: &Judgement, effect: Option<Timestamp>) -> bool {
    onset(&judgement.evidence).zip(effect).is_some_and(|(cause, effect)| cause > clock::after(effect, NOTICED_LATE))
}

/// Best first; as good as the best are those whose scores hardly differ from its own, and of those the one that explains more
/// of the latency comes first, then the one with more to show, then the one that did not begin after its effect, then the one
/// that stands first in the file.
fn rank(children: &mut [(Node<'_>, &Judgement)], effect: Option<Timestamp>) {
    children.sort_by(|(_, a), (_, b)| b.verdict.cmp(&a.verdict).then_with(|| b.score.total_cmp(&a.score)));
    let Some(best) = children.first().map(|(_, best)| *best) else { return };
    let tied = children.iter().take_while(|(_, other)| ties(best, other)).count();
    // Comparable only where each tells its share.
    let told = children[..tied].iter().all(|(_, child)| child.explained.is_some());
    let explained = |child: &Judgement| if told { child.explained.map(|share| (share / STEP) as u8) } else { None };
    children[..tied].sort_by(|(_, a), (_, b)| {
        let shown = explained(b).cmp(&explained(a)).then_with(|| strength(b).total_cmp(&strength(a)));
        shown.then_with(|| began_after(a, effect).cmp(&began_after(b, effect)))
    });
}

/// Whether the scores of two causes do not tell which is better.
fn ties(a: &Judgement, b: &Judgement) -> bool {
    a.verdict == b.verdict && (a.score - b.score).abs() < TIE
}

/// Walks down along likely and possible causes, best first, and writes a chain for every end it reaches.
fn descend(
    library: &Library,
    node: Node<'_>,
    causes: &BTreeMap<String, Judgement>,
    effect: Option<Timestamp>,
    path: &mut Vec<String>,
    chains: &mut Vec<Vec<String>>,
) {
    let among = |fallback: bool| -> Vec<(Node<'_>, &Judgement)> {
        node.causes
            .iter()
            .filter(|entry| entry.fallback == fallback)
            .filter_map(|entry| library.node(entry))
            .filter_map(|child| Some((child, causes.get(child.id)?)))
            .filter(|(child, j)| j.verdict >= Verdict::Possible && !path.iter().any(|id| id == child.id))
            .collect()
    };
    let mut children = among(false);
    if children.is_empty() {
        children = among(true);
    }
    rank(&mut children, effect);
    for (child, _) in children {
        path.push(child.id.to_owned());
        let before = chains.len();
        if child.kind != NodeKind::Leaf {
            descend(library, child, causes, effect, path, chains);
        }
        if chains.len() == before {
            chains.push(path.clone());
        }
        path.pop();
    }
}
