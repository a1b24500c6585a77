//! All checks of a diagnosis, shown by "Show evidence".

use super::document::drop_empty;
use super::facts::{bullet, confidence, fact, verdict};
use super::full_diagnosis::{diagnosis_notes, fixes, foot, not_this, unchecked};
use super::{Phrases, compared};
use findings::{Diagnosis, EvidenceResult, Outcome, checked_queries};
use knowledge::playbook::condition_text;
use message::{Block, Line};

/// Minimum support of a clear check.
const CLEAR: f64 = 0.9;
/// Support below which a check says little.
const WEAK: f64 = 0.25;
/// Minimum factor by which a past must vary to be mentioned.
const VARIES: f64 = 1.25;

/// Renders every check with its value, everything that was ruled out or could not be checked, all steps, and the
/// queries.
pub fn evidence_parts(diagnosis: &Diagnosis, words: &Phrases) -> Vec<Block> {
    let checks = |title: &str, sure, evidence: &[EvidenceResult]| checks(title, sure, evidence, words);
    let mut parts = vec![checks(&diagnosis.symptom.title, None, &diagnosis.symptom.evidence)];
    for (i, cause) in diagnosis.causes.iter().enumerate() {
        // The other causes share most of the best chain's links.
        let via = if i == 0 { cause.via.as_slice() } else { &[] };
        parts.extend(via.iter().map(|link| checks(&link.title, Some(verdict(link.verdict, words)), &link.evidence)));
        let mut part = checks(&cause.title, Some(confidence(cause, words)), &cause.evidence);
        if let (0, Block::Section(_, lines), false) = (i, &mut part, cause.meaning.trim().is_empty()) {
            lines.push(Line::default().plain(cause.meaning.trim().replace('\n', " ")));
        }
        parts.push(part);
    }
    let ruled_out = diagnosis.ruled_out.iter().map(|cause| bullet(not_this(cause, words))).collect();
    let mut rest = vec![
        Block::Paragraph(compared::of_all(diagnosis, words).unwrap_or_default()),
        Block::Section(words.text("ruled-out", &[]), ruled_out),
        Block::Section(words.text("unchecked", &[]), unchecked(diagnosis, usize::MAX, usize::MAX, words)),
    ];
    rest.extend(fixes(diagnosis, words));
    rest.push(Block::Section(words.text("while-looking", &[]), diagnosis_notes(diagnosis, words)));
    rest.push(Block::Section(words.text("evidence-queries", &[]), queries(diagnosis)));
    rest.push(Block::Note(Line::default().plain(foot(diagnosis, words))));
    drop_empty(&mut rest);
    parts.extend(rest);
    parts
}

fn checks(title: &str, sure: Option<String>, evidence: &[EvidenceResult], words: &Phrases) -> Block {
    let title = match sure {
        None => title.to_owned(),
        Some(sure) => words.text("other-cause", &[("title", title.into()), ("verdict", sure.into())]),
    };
    Block::Section(title, evidence.iter().map(|e| check(e, words)).collect())
}

/// Renders a check with a mark, so that it is readable without colour: `✓ KV cache peak 99 % (condition: > 95 %):
/// supports it clearly`.
fn check(e: &EvidenceResult, words: &Phrases) -> Line {
    let key = match e.outcome {
        Outcome::Met => "evidence-met",
        Outcome::NotMet => "evidence-not-met",
        Outcome::NoData => "evidence-no-data",
    };
    let why = e.why.as_deref().unwrap_or_default();
    let (fact, when) = (fact(e, words).into(), condition_text(&e.when, e.unit).into());
    match (e.outcome, why) {
        (Outcome::NoData, why) if !why.is_empty() => {
            words.line("evidence-no-data-why", &[("fact", fact), ("why", Line::of(why).into())])
        }
        (Outcome::NoData, _) => words.line(key, &[("fact", fact), ("when", when)]),
        _ => words.line(key, &[("fact", fact), ("when", when), ("says", says(e, words).into())]),
    }
}

/// Returns the strength of a check in words, and how much its past varies.
pub(super) fn says(e: &EvidenceResult, words: &Phrases) -> String {
    let says = words.text(strength(e.support), &[]);
    match e.varies.filter(|times| *times >= VARIES) {
        Some(times) => words.text("says-varies", &[("says", says.into()), ("times", format!("{times:.1}").into())]),
        None => says,
    }
}

/// Returns the phrase for the support of a check.
fn strength(support: f64) -> &'static str {
    match support {
        s if s >= CLEAR => "says-clearly-for",
        s if s >= WEAK => "says-for",
        s if s > -WEAK => "says-little",
        s if s > -CLEAR => "says-against",
        _ => "says-clearly-against",
    }
}

/// Returns the queries, each once.
pub(super) fn queries(diagnosis: &Diagnosis) -> Vec<Line> {
    let one = |(title, query): (&str, &str)| {
        bullet(Line::default().plain(format!("{title}: ")).code(query.replace('\n', " ")))
    };
    checked_queries(diagnosis).map(one).collect()
}
