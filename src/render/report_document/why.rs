//! The causal chain of a report, and the steps.

use std::time::Duration;

use super::{group, list, paragraph, plain};
use crate::{Phrases, facts, full_diagnosis};
use findings::{CauseFound, Diagnosis, EvidenceResult, Judgement, Outcome};
use knowledge::clip::clip;
use message::{Block, ChainLink, DocumentBlock, Folding, Line};
use report::Report;

/// Builds the chain and the sentences about it; without a root cause, the reason why there is none.
pub(super) fn why(report: &Report, diagnosis: &Diagnosis, words: &Phrases) -> Vec<Block> {
    let mut parts: Vec<Block> = match diagnosis.root() {
        None => full_diagnosis::explain_no_root_cause(diagnosis, words).into_iter().map(paragraph).collect(),
        Some(root) => {
            let meaning = Line::of(root.meaning.trim());
            let about = full_diagnosis::about_chain(diagnosis, meaning, words);
            let hand = |whom: &String| words.line("report-escalate", &[("whom", whom.as_str().into())]);
            let about = about.into_iter().chain(root.escalate.as_ref().map(hand)).map(paragraph);
            [chain(diagnosis, root, words)].into_iter().chain(about).collect()
        }
    };
    parts.push(paragraph(logged(report, words)));
    parts
}

/// Builds the links, the root cause first; in order of time if the times contradict it.
fn chain(diagnosis: &Diagnosis, root: &CauseFound, words: &Phrases) -> Block {
    let link = |kind: &str, title: &str, id: &str, evidence: &[EvidenceResult]| ChainLink {
        kind: words.line(kind, &[]),
        title: title.to_owned(),
        facts: facts::facts(evidence, Outcome::Met, words),
        since: diagnosis.timeline.iter().find(|onset| onset.id == id).map(|onset| onset.at),
        root: false,
    };
    let mut first = link("report-root", &root.title, &root.id, &root.evidence);
    let verdict = facts::verdict_state(root.verdict, facts::verdict(root.verdict, words));
    first.root = true;
    first.kind = first.kind.plain(" ").then(Line(vec![verdict]));
    let mut links = vec![first];
    let symptom = &diagnosis.symptom;
    if root.id != symptom.playbook {
        let via = |via: &Judgement| link("report-mechanism", &via.title, &via.id, &via.evidence);
        links.extend(root.via.iter().rev().map(via));
        links.push(link("report-symptom", &symptom.title, &symptom.playbook, &symptom.evidence));
    }
    let leads = facts::misfit(diagnosis, Duration::ZERO, words).is_none();
    if !leads {
        links.sort_by_key(|link| (link.since.is_none(), link.since));
    }
    Block::Document(DocumentBlock::Chain { leads, links })
}

/// Names the first root error of the logs, if any: the fastest way to many causes.
fn logged(report: &Report, words: &Phrases) -> Option<Line> {
    let roots = report.logs.iter().filter_map(|log| {
        let root = log.report.first_root.as_ref()?;
        Some((log, log.report.findings.iter().find(|found| found.id == *root)?))
    });
    let (log, found) = roots.min_by_key(|(_, found)| (found.first.is_none(), found.first.clone()))?;
    let at =
        found.first.iter().fold(Line::default().code(clip(&log.name, 120)), |at, first| at.plain(" ").plain(first));
    Some(Line::default().link(words.text("report-log-first", &[]), "#logs").plain(" ").bold(&found.title).small(at))
}

/// Lists the steps.
pub(super) fn steps(diagnosis: &Diagnosis, words: &Phrases) -> Vec<Block> {
    let nothing = diagnosis.fix.now.is_empty() && !diagnosis.fix.lasting.is_empty();
    let nothing = paragraph(nothing.then(|| words.line("report-nothing-now", &[])));
    let folded = |part| match part {
        Block::Section(title, steps) => group("do/lasting", plain(title), Folding::Closed, vec![list(steps)]),
        part => part,
    };
    [nothing].into_iter().chain(full_diagnosis::fixes(diagnosis, words).into_iter().map(folded)).collect()
}
