//! judge: observations ─▶ verdicts, pure and explainable in one line per cause.
//!
//! A required check that is not met rules the cause out; a required one without data leaves it undetermined.
//! Otherwise the score is met weight over the weight with data plus half of the optional weight without:
//! less data never makes a cause surer. Causes are ranked by score, then by the weight of what is met (a more
//! specific cause has more to show), then by what did not begin after its effect, then by the order in the file.

use std::cmp::Ordering;
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
            judged.is_some_and(|(a, b)| rank(a, b).is_eq())
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
    let (evidence, verdict, _) = weigh(library, evidence, seen);
    let symptom = match verdict {
        Verdict::Likely | Verdict::Possible => SymptomVerdict::Confirmed,
        Verdict::Unlikely | Verdict::RuledOut => SymptomVerdict::Absent,
        Verdict::Undetermined => SymptomVerdict::NoData,
    };
    (evidence, symptom)
}

fn judge_node(library: &Library, node: Node<'_>, seen: &Observations) -> Judgement {
    let (evidence, verdict, score) = weigh(library, node.evidence, seen);
    Judgement { id: node.id.to_owned(), title: node.title.to_owned(), verdict, score, explained: None, evidence }
}

/// Every check with its data, and what they come to. A log that nobody read counts neither for nor against and is not
/// mentioned; a cause that stands and falls with it does not exist without.
fn weigh(library: &Library, evidence: &[Evidence], seen: &Observations) -> (Vec<EvidenceResult>, Verdict, f64) {
    let mut results: Vec<EvidenceResult> = evidence.iter().map(|e| evaluate(library, e, seen)).collect();
    if results.iter().any(|e| e.required && is_silent(library, e)) {
        return (Vec::new(), Verdict::Undetermined, 0.0);
    }
    results.retain(|e| !is_silent(library, e));
    let (verdict, score) = score(&results);
    (results, verdict, score)
}

/// The scoring rule.
pub(super) fn score(evidence: &[EvidenceResult]) -> (Verdict, f64) {
    let weight = |outcome: Outcome| -> f64 { evidence.iter().filter(|e| e.outcome == outcome).map(|e| e.weight).sum() };
    let required = |outcome: Outcome| evidence.iter().any(|e| e.required && e.outcome == outcome);
    let (met, not_met, no_data) = (weight(Outcome::Met), weight(Outcome::NotMet), weight(Outcome::NoData));
    let total = met + not_met + no_data / 2.0;
    let score = if total > 0.0 { met / total } else { 0.0 };
    let verdict = if required(Outcome::NotMet) {
        return (Verdict::RuledOut, 0.0);
    } else if required(Outcome::NoData) || met + not_met == 0.0 {
        Verdict::Undetermined
    } else if score >= LIKELY {
        Verdict::Likely
    } else if score >= POSSIBLE {
        Verdict::Possible
    } else {
        Verdict::Unlikely
    };
    (verdict, score)
}

/// How much of a judgement's evidence is met, as weight.
fn met_weight(judgement: &Judgement) -> f64 {
    judgement.evidence.iter().filter(|e| e.outcome == Outcome::Met).map(|e| e.weight).sum()
}

/// When the first of the checks began to hold.
pub(super) fn onset(evidence: &[EvidenceResult]) -> Option<Timestamp> {
    evidence.iter().filter(|e| e.outcome == Outcome::Met).filter_map(|e| e.since).min()
}

/// Whether a cause clearly began after the effect it should explain.
fn began_after(judgement: &Judgement, effect: Option<Timestamp>) -> bool {
    onset(&judgement.evidence).zip(effect).is_some_and(|(cause, effect)| cause > clock::after(effect, NOTICED_LATE))
}

/// The better one first, as far as its evidence tells.
fn rank(a: &Judgement, b: &Judgement) -> Ordering {
    b.verdict
        .cmp(&a.verdict)
        .then_with(|| b.score.total_cmp(&a.score))
        .then_with(|| met_weight(b).total_cmp(&met_weight(a)))
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
    children.sort_by(|(_, a), (_, b)| rank(a, b).then_with(|| began_after(a, effect).cmp(&began_after(b, effect))));
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
