//! judge: observations ─▶ verdicts, explainable in one line per cause. The function `judge` is pure; what queries is async.
//!
//! The support of a check is -1 to 1, by its distance from the threshold ([`degree`]). The score is the
//! weighted mean of the supports, on a scale of 0..1; a check without data counts half of its weight as doubt: less
//! data never makes a cause more certain. A required check that is not met multiplies the score by 1 plus its
//! negative support; if it is clearly not met, the cause is ruled out. A cause that explains little of the latency
//! has a lower score too ([`mod@parts`]). A required check without data leaves the cause undetermined. A cause whose
//! evidence is as it was before the symptom began is at most possible.

pub(crate) mod affected_replicas;
pub(crate) mod assemble;
pub(crate) mod degree;
pub(crate) mod evidence;
pub(crate) mod excluded;
pub(crate) mod part_seen;
pub(crate) mod parts;
pub(crate) mod placeholders;
pub(crate) mod probability;
mod restart_cost;
pub(crate) mod steps;

use std::cmp::Ordering::Equal;
use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::judge::evidence::{evaluate, is_silent, tells_of_change};
use crate::judge::parts::{explained, parts};
use findings::{
    EvidenceResult, Judged, Judgement, NOTICED_LATE, Observations, Outcome, SymptomVerdict, Verdict, first_sign,
};
use knowledge::clock;
use knowledge::playbook::{Evidence, Library, Node, NodeKind};

/// Minimum score of a likely cause.
pub(crate) const LIKELY: f64 = 0.75;
/// Minimum score of a possible cause.
pub(crate) const POSSIBLE: f64 = 0.5;
/// Scores that differ by less are equal; other criteria decide.
const TIE: f64 = 0.08;
/// The share of a latency from which a cause explains it: the rest is the usual cost of a request.
const EXPLAINING_SHARE: f64 = 0.5;
/// Minimum difference at which one cause explains less than another; shares above [`EXPLAINING_SHARE`] count as that.
const STEP: f64 = 0.2;
/// Maximum weight of a check that only sets a sibling apart.
const LIGHT: f64 = 0.1;
/// Support at which a required check is clearly not met.
const CLEARLY_NOT_MET: f64 = -0.99;

/// Returns true if another chain than the first might be the best one, and only onsets can decide.
pub(crate) fn is_tied(judged: &Judged) -> bool {
    let Some((best, others)) = judged.chains.split_first() else { return false };
    others.iter().any(|other| {
        let fork = best.iter().zip(other).position(|(a, b)| a != b);
        let judged = fork.and_then(|at| Some((at, judged.causes.get(&best[at])?, judged.causes.get(&other[at])?)));
        judged.is_some_and(|(at, a, b)| {
            let first = at == 1;
            ties(a, b, first) && explains_less(b, a, first) == explains_less(a, b, first) && strength(a) == strength(b)
        })
    })
}

/// Judges a playbook on observations; `None` if there is no such playbook.
///
/// An absent symptom has no chains: a healthy pool gets no causes. Without data on the symptom no cause is better
/// than possible.
pub fn judge(library: &Library, playbook: &str, observations: &Observations) -> Option<Judged> {
    let entry = library.playbook_node(playbook)?;
    let (evidence, symptom) = symptom(library, entry.evidence, observations);
    let mut causes = BTreeMap::new();
    let mut chains = Vec::new();
    if symptom != SymptomVerdict::Absent {
        let latency = parts(library, playbook, observations);
        for node in library.reachable(playbook).into_iter().skip(1) {
            let mut judgement = judge_node(library, node, observations);
            if symptom == SymptomVerdict::NoData && judgement.verdict == Verdict::Likely {
                judgement.verdict = Verdict::Possible;
            }
            let edge = entry.causes.iter().find(|edge| edge.target() == node.id);
            judgement.explained = latency.as_ref().zip(edge).and_then(|(latency, edge)| explained(latency, edge));
            causes.insert(node.id.to_owned(), judgement);
        }
        let effect = onset(&evidence).map(|(at, _)| at);
        descend(library, entry, &causes, effect, &mut vec![playbook.to_owned()], &mut chains);
        put_new_first(library, &causes, &mut chains);
        // An alert may name the mechanism itself; then at least the mechanism is known.
        if chains.is_empty() && entry.kind == NodeKind::Mechanism && symptom == SymptomVerdict::Confirmed {
            causes.insert(playbook.to_owned(), judge_node(library, entry, observations));
            chains.push(vec![playbook.to_owned()]);
        }
    }
    Some(Judged { symptom, evidence, causes, chains })
}

/// Evaluates a symptom's checks and returns its verdict as well.
pub(crate) fn symptom(
    library: &Library,
    evidence: &[Evidence],
    observations: &Observations,
) -> (Vec<EvidenceResult>, SymptomVerdict) {
    let evidence = results(library, evidence, observations).unwrap_or_default();
    let weight = |outcome: Outcome| -> f64 { evidence.iter().filter(|e| e.outcome == outcome).map(|e| e.weight).sum() };
    let required = |outcome: Outcome| evidence.iter().any(|e| e.required && e.outcome == outcome);
    let (met, not_met, open) = (weight(Outcome::Met), weight(Outcome::NotMet), weight(Outcome::NoData) / 2.0);
    // A symptom is decided by its thresholds, as in the alert's rule; only causes are graded.
    let symptom = if required(Outcome::NotMet) {
        SymptomVerdict::Absent
    } else if is_blind(&evidence) || met + not_met == 0.0 {
        SymptomVerdict::NoData
    } else if met >= (met + not_met + open) / 2.0 {
        SymptomVerdict::Confirmed
    } else {
        SymptomVerdict::Absent
    };
    // The symptom may be in the part of the data that is missing.
    let is_open = symptom == SymptomVerdict::Absent && evidence.iter().any(|e| e.incomplete);
    (evidence, if is_open { SymptomVerdict::NoData } else { symptom })
}

fn judge_node(library: &Library, node: Node<'_>, observations: &Observations) -> Judgement {
    let results = results(library, node.evidence, observations);
    let (mut verdict, mut score) = results.as_deref().map_or((Verdict::Undetermined, 0.0), score);
    let (id, title, evidence) = (node.id.to_owned(), node.title.to_owned(), results.unwrap_or_default());
    if is_as_before(library, &evidence) && verdict == Verdict::Likely {
        (verdict, score) = (Verdict::Possible, score.min(LIKELY - TIE));
    }
    Judgement { id, title, verdict, score, explained: None, evidence }
}

/// Returns true if all that a cause is known by was there, and as large, before the symptom began: then something else
/// began it. It is known by what it requires, else by all that speaks for it.
fn is_as_before(library: &Library, evidence: &[EvidenceResult]) -> bool {
    let is_telling = |e: &&EvidenceResult| e.outcome == Outcome::Met && e.weight > LIGHT && tells_of_change(library, e);
    // Some causes require that the value is as before, by `<= 1.03x baseline`; they need not begin with the symptom.
    let is_required_as_before = |e: &&EvidenceResult| {
        let of_signal = evidence.iter().filter(|other| other.signal == e.signal && other.baseline.is_some());
        of_signal.into_iter().any(|other| other.outcome == Outcome::Met && !tells_of_change(library, other))
    };
    let telling = evidence.iter().filter(is_telling).filter(|e| !is_required_as_before(e));
    let telling: Vec<&EvidenceResult> = telling.collect();
    let required: Vec<&EvidenceResult> = telling.iter().copied().filter(|e| e.required).collect();
    let known_by = if required.is_empty() { telling } else { required };
    !known_by.is_empty() && known_by.iter().all(|e| e.as_before)
}

/// Puts the first likely chain of which a link has a known onset before one of which a link was there before.
fn put_new_first(library: &Library, causes: &BTreeMap<String, Judgement>, chains: &mut [Vec<String>]) {
    let links = |chain: &[String]| chain.iter().filter_map(|id| causes.get(id)).collect::<Vec<_>>();
    let is_old = |chain: &[String]| links(chain).iter().any(|link| is_as_before(library, &link.evidence));
    if !chains.first().is_some_and(|first| is_old(first)) {
        return;
    }
    let is_new = |chain: &Vec<String>| {
        let links = links(chain);
        let is_likely = links.iter().enumerate().all(|(i, link)| as_link(link, i == 0).0 == Verdict::Likely);
        is_likely && links.iter().any(|link| onset(&link.evidence).is_some()) && !is_old(chain)
    };
    if let Some(new) = chains.iter().position(is_new) {
        chains[..=new].rotate_right(1);
    }
}

/// Evaluates all checks. Checks on logs that were not read, or on too few hours before the incident, count neither
/// for nor against and are left out; `None` if a required check is among them.
fn results(library: &Library, evidence: &[Evidence], observations: &Observations) -> Option<Vec<EvidenceResult>> {
    let mut results: Vec<EvidenceResult> = evidence.iter().map(|e| evaluate(library, e, observations)).collect();
    let unread = results.iter().any(|e| e.required && is_silent(library, e));
    results.retain(|e| !is_silent(library, e));
    (!unread).then_some(results)
}

/// Computes verdict and score by the rule in the module's documentation.
pub(crate) fn score(evidence: &[EvidenceResult]) -> (Verdict, f64) {
    let required = |outcome: Outcome| evidence.iter().filter(move |e| e.required && e.outcome == outcome);
    let weight_with_data: f64 = evidence.iter().filter(|e| e.outcome != Outcome::NoData).map(|e| e.weight).sum();
    let open: f64 = evidence.iter().filter(|e| e.outcome == Outcome::NoData).map(|e| e.weight / 2.0).sum();
    let support: f64 =
        evidence.iter().filter(|e| e.outcome != Outcome::NoData).map(|e| e.weight * (1.0 + e.support) / 2.0).sum();
    let balance = if weight_with_data > 0.0 { support / (weight_with_data + open) } else { 0.0 };
    let missed: f64 = required(Outcome::NotMet).map(|e| 1.0 + e.support).product();
    let score = balance * missed;
    let verdict = if required(Outcome::NotMet).any(|e| e.support <= CLEARLY_NOT_MET) {
        return (Verdict::RuledOut, 0.0);
    } else if is_blind(evidence) || weight_with_data == 0.0 {
        Verdict::Undetermined
    } else {
        graded(score)
    };
    (verdict, score)
}

/// Returns true if a required check that could be known is not, or if nothing that is required is known. What the engine
/// does not have closes no road, nor does a light guard that only the missing part of the data could break: then the other
/// required checks decide.
fn is_blind(evidence: &[EvidenceResult]) -> bool {
    let mut open = evidence.iter().filter(|e| e.required && e.outcome == Outcome::NoData).peekable();
    let decided = evidence.iter().any(|e| e.required && e.outcome == Outcome::Met);
    let is_light = |e: &EvidenceResult| e.incomplete && e.weight <= LIGHT;
    open.peek().is_some() && (!decided || open.any(|e| !e.unsupported && !is_light(e)))
}

/// Returns the verdict for a score.
fn graded(score: f64) -> Verdict {
    match score {
        score if score >= LIKELY => Verdict::Likely,
        score if score >= POSSIBLE => Verdict::Possible,
        _ => Verdict::Unlikely,
    }
}

/// Returns verdict and score of a judgement as a link of a chain. The first link has to explain the symptom itself: it has its
/// full score from [`EXPLAINING_SHARE`] of a latency on, and half of it if it explains nothing. A later link only
/// explains the link before it.
pub(crate) fn as_link(judgement: &Judgement, first: bool) -> (Verdict, f64) {
    match judgement.explained.filter(|_| first && judgement.verdict != Verdict::RuledOut) {
        Some(share) => {
            let score = judgement.score * (0.5 + 0.5 * (share / EXPLAINING_SHARE).min(1.0));
            (judgement.verdict.min(graded(score)), score)
        }
        None => (judgement.verdict, judgement.score),
    }
}

/// Returns the weight of the evidence for a cause: a more specific cause has more.
fn strength(judgement: &Judgement) -> f64 {
    judgement.evidence.iter().map(|e| e.weight * e.support.max(0.0)).sum()
}

/// Returns the check that completed a node, with its onset: a node holds from the moment on at which all that it requires
/// holds. Of checks that are not required the earliest counts, and only if no required one has an onset.
pub(crate) fn onset(evidence: &[EvidenceResult]) -> Option<(Timestamp, &EvidenceResult)> {
    let begun = || evidence.iter().filter(|e| e.outcome == Outcome::Met).filter_map(|e| Some((e.since?, e)));
    let required = begun().filter(|(_, e)| e.required).max_by_key(|(at, _)| *at);
    required.or_else(|| begun().min_by_key(|(at, _)| *at))
}

/// Returns true if a cause clearly began after its effect.
pub(crate) fn began_after(evidence: &[EvidenceResult], effect: Option<Timestamp>) -> bool {
    first_sign(evidence).zip(effect).is_some_and(|(cause, effect)| cause > clock::after(effect, NOTICED_LATE))
}

/// Sorts best first. Among those whose score is close to the best, the order is: more of the latency explained, more
/// evidence, not begun after the effect, position in the file.
fn rank(children: &mut [(Node<'_>, &Judgement)], effect: Option<Timestamp>, first: bool) {
    children.sort_by(|(_, a), (_, b)| {
        let ((verdict_a, score_a), (verdict_b, score_b)) = (as_link(a, first), as_link(b, first));
        verdict_b.cmp(&verdict_a).then_with(|| score_b.total_cmp(&score_a))
    });
    let Some(best) = children.first().map(|(_, best)| *best) else { return };
    let tied = children.iter().take_while(|(_, other)| ties(best, other, first)).count();
    let tied = &mut children[..tied];
    let most =
        tied.iter().map(|(_, child)| *child).max_by(|a, b| a.explained.partial_cmp(&b.explained).unwrap_or(Equal));
    tied.sort_by(|(_, a), (_, b)| {
        let less = |child: &Judgement| most.is_some_and(|most| explains_less(child, most, first));
        let explained = less(a).cmp(&less(b));
        let by_strength = explained.then_with(|| strength(b).total_cmp(&strength(a)));
        by_strength.then_with(|| began_after(&a.evidence, effect).cmp(&began_after(&b.evidence, effect)))
    });
}

/// Returns true if the scores of two causes are too close to decide.
fn ties(a: &Judgement, b: &Judgement, first: bool) -> bool {
    let ((verdict_a, score_a), (verdict_b, score_b)) = (as_link(a, first), as_link(b, first));
    verdict_a == verdict_b && (score_a - score_b).abs() < TIE
}

/// Returns true if a first link explains clearly less of a latency than another; false if one of the shares is
/// unknown.
fn explains_less(one: &Judgement, other: &Judgement, first: bool) -> bool {
    let shares = one.explained.zip(other.explained).filter(|_| first);
    shares.is_some_and(|(one, other)| other.min(EXPLAINING_SHARE) - one.min(EXPLAINING_SHARE) > STEP)
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
            .filter(|(child, j)| {
                as_link(j, path.len() == 1).0 >= Verdict::Possible && !path.iter().any(|id| id == child.id)
            })
            .collect()
    };
    let mut children = among(false);
    if children.is_empty() {
        children = among(true);
    }
    rank(&mut children, effect, path.len() == 1);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn judgement(verdict: Verdict, score: f64, explained: Option<f64>) -> Judgement {
        Judgement { id: "a".into(), title: "a".into(), verdict, score, explained, evidence: Vec::new() }
    }

    #[test]
    fn a_first_link_that_explains_little_of_a_latency_counts_less_and_a_later_one_need_not() {
        let of = |explained, first| as_link(&judgement(Verdict::Likely, 0.9, explained), first);
        assert_eq!(of(Some(0.0), true), (Verdict::Unlikely, 0.45));
        assert_eq!(of(Some(0.25), true), (Verdict::Possible, 0.675));
        assert_eq!(of(Some(0.5), true), (Verdict::Likely, 0.9));
        assert_eq!((of(Some(0.0), false), of(None, true)), ((Verdict::Likely, 0.9), (Verdict::Likely, 0.9)));
        let open = as_link(&judgement(Verdict::Undetermined, 0.9, Some(0.0)), true);
        assert_eq!(open.0, Verdict::Undetermined, "what nobody could check stays open");
        assert_eq!(as_link(&judgement(Verdict::RuledOut, 0.0, Some(0.9)), true), (Verdict::RuledOut, 0.0));
    }

    #[test]
    fn of_equal_causes_the_one_that_explains_clearly_more_is_better() {
        let of = |share| judgement(Verdict::Likely, 0.9, Some(share));
        assert!(explains_less(&of(0.1), &of(0.5), true) && !explains_less(&of(0.5), &of(0.1), true));
        assert!(!explains_less(&of(0.45), &of(0.5), true), "nearly the same");
        assert!(!explains_less(&of(0.6), &of(0.99), true), "each explains most of it");
        assert!(!explains_less(&of(0.1), &of(0.5), false));
    }
}
