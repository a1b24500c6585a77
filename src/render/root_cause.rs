//! The root cause in a message: its chain with times, the evidence for it, and what speaks against it.

use super::facts::{confidence, facts, join_limited, misfit};
use super::full_diagnosis::{other_causes, unknown};
use super::{Phrases, compared, latency};
use findings::{CauseFound, Diagnosis, EvidenceResult, NOTICED_LATE, Outcome};
use message::{Line, TextSpan};

/// Renders the chain with its times, and the evidence for it.
pub(super) fn chain(diagnosis: &Diagnosis, root: &CauseFound, words: &Phrases) -> Vec<Line> {
    let since = |id: &str| diagnosis.timeline.iter().find(|onset| onset.id == id).map(|onset| TextSpan::Time(onset.at));
    let mut lines: Vec<Line> = root
        .via
        .iter()
        .map(|link| {
            let title = ("title", link.title.as_str().into());
            match since(&link.id) {
                Some(at) => words.line("chain-short-since", &[title, ("at", at.into())]),
                None => words.line("chain-short", &[title]),
            }
        })
        .collect();
    let pieces = [("title", root.title.as_str().into()), ("verdict", confidence(root, words).into())];
    lines.push(match since(&root.id) {
        Some(at) => {
            let [title, verdict] = pieces;
            words.line("chain-root-since", &[title, verdict, ("at", at.into())])
        }
        None => words.line("chain-root", &pieces),
    });
    if let Some(first) = lines.first_mut() {
        *first = latency::explained(std::mem::take(first), root, words);
    }
    lines.push(evidence_for(root, words));
    lines
}

/// Returns the checks of a cause and of its chain.
fn checks(root: &CauseFound) -> impl Iterator<Item = &EvidenceResult> + Clone {
    root.evidence.iter().chain(root.via.iter().rev().flat_map(|link| &link.evidence))
}

/// Renders the most telling fact for a cause, and the number of checks that agree.
fn evidence_for(root: &CauseFound, words: &Phrases) -> Line {
    let agree = checks(root).filter(|e| e.outcome == Outcome::Met).count();
    let known = checks(root).filter(|e| e.outcome != Outcome::NoData).count();
    let met = facts(checks(root), Outcome::Met, words).into_iter().next().unwrap_or_default();
    words.line("evidence-for", &[("facts", met.into()), ("agree", agree.into()), ("known", known.into())])
}

/// Renders what speaks against a cause or was not seen, what it was compared with, and the causes beside it.
pub(super) fn reservations(diagnosis: &Diagnosis, root: &CauseFound, words: &Phrases) -> Vec<Line> {
    let of = |outcome| facts(checks(root), outcome, words);
    // Two checks of one number may differ: one fact is not for and against at the same time.
    let met = of(Outcome::Met);
    let against: Vec<String> = of(Outcome::NotMet).into_iter().filter(|fact| !met.contains(fact)).collect();
    let mut lines = Vec::new();
    if !against.is_empty() {
        lines.push(words.line("evidence-against", &[("facts", join_limited(&against, 2, ", ", words).into())]));
    }
    if let Some(titles) = unknown(checks(root), words) {
        lines.push(words.line("evidence-unknown", &[("titles", titles.into())]));
    }
    // Signals that count finished requests show an onset later; only larger contradictions are reported.
    lines.extend(misfit(diagnosis, NOTICED_LATE, words));
    lines.extend(compared::of_chain(diagnosis, words));
    let not: Vec<String> = diagnosis.ruled_out.iter().map(|cause| cause.title.clone()).collect();
    if !not.is_empty() {
        lines.push(words.line("not-those", &[("titles", join_limited(&not, 2, "; ", words).into())]));
    }
    lines.extend(other_causes(diagnosis, words));
    lines
}
