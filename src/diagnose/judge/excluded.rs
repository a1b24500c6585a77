//! Causes that are ruled out, that are nearest, that could not be checked, or that were not reached before the
//! deadline.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::as_link;
use crate::judge::evidence::evaluate;
use findings::{
    EvidenceResult, Judged, Judgement, Observations, Outcome, Request, RuledOut, SymptomVerdict, Unchecked,
    UnevaluatedCause, Verdict,
};
use knowledge::playbook::{Evidence, Library, Node};

/// Number of causes that are named as nearest if none is likely.
const NEAREST_CAUSES: usize = 2;

/// Returns the causes that are ruled out or unlikely, in the order of the playbook's tree: direct causes come first.
pub(crate) fn ruled_out(library: &Library, request: &Request, judged: &Judged) -> Vec<RuledOut> {
    let mut nearest: Vec<&str> = library
        .playbooks
        .get(&request.playbook)
        .map(|entry| entry.causes.iter().map(knowledge::playbook::CauseEntry::target).collect())
        .unwrap_or_default();
    nearest.extend(library.reachable(&request.playbook).iter().map(|node| node.id));
    let mut ids = BTreeSet::new();
    nearest
        .into_iter()
        .filter(|id| ids.insert(*id))
        .filter_map(|id| judged.causes.get(id))
        .map(|j| against(j, judged))
        .filter(|cause| matches!(cause.verdict, Verdict::RuledOut | Verdict::Unlikely))
        .collect()
}

/// Returns the strongest check against a cause. A cause in no chain is judged as a first link, which it may be.
fn against(judgement: &Judgement, judged: &Judged) -> RuledOut {
    let in_a_chain = judged.chains.iter().any(|chain| chain.contains(&judgement.id));
    let (verdict, _) = as_link(judgement, !in_a_chain);
    let missed = judgement.evidence.iter().filter(|e| e.outcome == Outcome::NotMet);
    let weight_of = |e: &EvidenceResult| if e.required { 1e3 + e.support.abs() } else { e.weight * e.support.abs() };
    RuledOut {
        id: judgement.id.clone(),
        title: judgement.title.clone(),
        verdict,
        explained: judgement.explained.filter(|_| verdict < judgement.verdict),
        because: missed.rev().max_by(|a, b| weight_of(a).total_cmp(&weight_of(b))).cloned(),
    }
}

/// Returns the unlikely causes with the highest scores; without those behind a link that is ruled out.
pub(crate) fn nearest(library: &Library, entry: &str, judged: &Judged) -> Vec<RuledOut> {
    let open = |id: &str| judged.causes.get(id).is_none_or(|j| j.verdict != Verdict::RuledOut);
    let reached: BTreeSet<&str> = library.reachable_by(entry, open).into_iter().map(|node| node.id).collect();
    let entries = || library.playbooks.values().flat_map(|playbook| &playbook.causes);
    let last_resort = |id: &str| entries().any(|entry| entry.fallback && entry.target() == id);
    let may_be = |j: &&Judgement| reached.contains(j.id.as_str()) && !last_resort(&j.id);
    let causes = judged.causes.values().filter(may_be).map(|j| (as_link(j, true).1, against(j, judged)));
    let mut near: Vec<(f64, RuledOut)> = causes.filter(|(_, cause)| cause.verdict == Verdict::Unlikely).collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.into_iter().take(NEAREST_CAUSES).map(|(_, cause)| cause).collect()
}

/// Returns the causes that are undetermined because of queries that timed out.
pub(crate) fn not_looked_at(
    library: &Library,
    nodes: &BTreeMap<&str, Node<'_>>,
    judged: &Judged,
    observations: &Observations,
) -> Vec<UnevaluatedCause> {
    let late = |evidence: &&Evidence| evidence.checks().iter().any(|(signal, _)| is_late(observations, signal));
    let cut = |judgement: &&Judgement| {
        let evidence = nodes.get(judgement.id.as_str()).map(|node| node.evidence).unwrap_or_default();
        let open = || evidence.iter().filter(|e| evaluate(library, e, observations).outcome == Outcome::NoData);
        let required = open().any(|e| e.required);
        judgement.verdict == Verdict::Undetermined && open().filter(|e| e.required || !required).any(|e| late(&e))
    };
    let causes = judged.causes.values().filter(cut);
    causes.map(|j| UnevaluatedCause { id: j.id.clone(), title: j.title.clone() }).collect()
}

fn is_late(observations: &Observations, signal: &str) -> bool {
    observations.signals.get(signal).is_some_and(|o| o.late)
}

/// Returns the signals without data that leave a cause or the symptom undetermined; timeouts are no lack of data.
pub(crate) fn unchecked(library: &Library, judged: &Judged, observations: &Observations) -> Vec<Unchecked> {
    let mut causes: BTreeMap<&str, (BTreeSet<String>, Option<String>)> = BTreeMap::new();
    let open = judged.causes.values().filter(|j| j.verdict == Verdict::Undetermined);
    for judgement in open {
        let open = judgement.evidence.iter().filter(|e| e.outcome == Outcome::NoData);
        for e in open.filter(|e| !is_late(observations, &e.signal)) {
            let entry = causes.entry(&e.signal).or_default();
            entry.0.insert(judgement.id.clone());
            entry.1 = e.why.clone();
        }
    }
    if judged.symptom == SymptomVerdict::NoData {
        for e in judged.evidence.iter().filter(|e| e.outcome == Outcome::NoData) {
            causes.entry(&e.signal).or_default().1 = e.why.clone();
        }
    }
    causes
        .into_iter()
        .map(|(signal, (causes, why))| Unchecked {
            signal: signal.to_owned(),
            title: library.signals.get(signal).map_or_else(|| signal.to_owned(), |s| s.title.clone()),
            why: why.unwrap_or_else(|| "no data".to_owned()),
            // Where a store is away, no setting helps.
            enable: observations.signals.get(signal).filter(|o| o.incomplete.is_none()).and_then(|o| o.enable.clone()),
            causes: causes.into_iter().collect(),
        })
        .collect()
}
