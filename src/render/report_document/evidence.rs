//! All checks of a diagnosis, link by link, the causes ruled out, and the checks without data.

use super::{code, group, list, paragraph, plain};
use crate::{Phrases, compared, evidence, facts, full_diagnosis};
use findings::{Diagnosis, EvidenceResult, Outcome, RuledOut, ValueSource, Verdict};
use knowledge::playbook::condition_text;
use knowledge::signal::format_value;
use message::{Block, DocumentBlock, Folding, Line, TextSpan};

/// Maximum number of ruled-out causes shown open.
const RULED_OUT: usize = 8;

/// Builds the checks of every link of the best chain, folded those of the other causes, and the queries.
pub(super) fn checked(diagnosis: &Diagnosis, words: &Phrases) -> Vec<Block> {
    let one = |id: &str, title: &str, sure: Option<TextSpan>, checks: &[EvidenceResult], folding| {
        let sure = sure.map(|sure| Line(vec![TextSpan::Plain(" ".to_owned()), sure]));
        let key = format!("e/{id}");
        let checks = vec![table(&key, title, checks, words)];
        group(key, plain(title).then(sure.unwrap_or_default()), folding, checks)
    };
    let symptom = &diagnosis.symptom;
    let mut parts = vec![one("symptom", &symptom.title, None, &symptom.evidence, Folding::Open)];
    for (i, cause) in diagnosis.causes.iter().enumerate() {
        // The other causes share most of the best chain's links.
        let (via, folding) = if i == 0 { (cause.via.as_slice(), Folding::Open) } else { (&[][..], Folding::Closed) };
        for link in via {
            let sure = facts::verdict_state(link.verdict, facts::verdict(link.verdict, words));
            parts.push(one(&link.id, &link.title, Some(sure), &link.evidence, folding));
        }
        if i > 0 || cause.id != symptom.playbook {
            let sure = facts::verdict_state(cause.verdict, facts::confidence(cause, words));
            parts.push(one(&cause.id, &cause.title, Some(sure), &cause.evidence, folding));
        }
    }
    // With a root cause, section `why` names the past period already.
    let in_why = diagnosis.root().and_then(|_| compared::of_chain(diagnosis, words));
    parts.push(paragraph(if in_why.is_none() { compared::of_all(diagnosis, words) } else { None }));
    let odd = full_diagnosis::diagnosis_notes(diagnosis, words);
    parts.push(Block::Section(words.text("while-looking", &[]), odd));
    parts.push(queries("e/queries", evidence::queries(diagnosis), Folding::Closed, words));
    parts
}

/// Builds the group of queries.
pub(super) fn queries(key: &str, queries: Vec<Line>, folding: Folding, words: &Phrases) -> Block {
    group(key, words.line("evidence-queries", &[]), folding, vec![list(queries)])
}

fn table(key: &str, name: &str, checks: &[EvidenceResult], words: &Phrases) -> Block {
    let heads = ["page-holds", "page-check", "page-now-value", "report-before", "page-asked", "report-since"];
    let value = |e: &EvidenceResult, v: Option<f64>| plain(v.map(|v| format_value(v, e.unit)).unwrap_or_default());
    let row = |e: &EvidenceResult| {
        let since = e.since.into_iter().fold(Line::default(), Line::time);
        let outcome = Line(vec![facts::outcome_state(e.outcome, words)]);
        vec![
            outcome,
            check(e, words),
            value(e, e.value),
            value(e, e.baseline),
            code(condition_text(&e.when, e.unit)),
            since,
        ]
    };
    let heads = heads.map(|head| words.text(head, &[])).to_vec();
    let rows = checks.iter().map(row).collect();
    let (key, name) = (key.to_owned(), name.to_owned());
    Block::Document(DocumentBlock::Table { key, name, folds: true, heads, rows })
}

/// Names a check, with its strength, its replicas, or the reason why it has no data.
fn check(e: &EvidenceResult, words: &Phrases) -> Line {
    let no_data = e.outcome == Outcome::NoData;
    let more = [
        e.required.then(|| words.line("page-required", &[])),
        (e.source == ValueSource::Exporter).then(|| words.line("report-direct", &[])),
        (!e.replicas.is_empty()).then(|| plain(facts::few_values(&e.replicas, e.unit, words))),
        (!no_data).then(|| plain(evidence::says(e, words))),
        e.why.as_deref().filter(|_| no_data).map(Line::of),
    ];
    let more = more.into_iter().flatten().reduce(|more, next| more.plain(" · ").then(next));
    plain(&e.title).small(more.unwrap_or_default())
}

/// Lists the causes ruled out, each with the check against it.
pub(super) fn ruled_out(diagnosis: &Diagnosis, words: &Phrases) -> Vec<Block> {
    let one = |cause: &RuledOut| match cause.verdict {
        Verdict::RuledOut => full_diagnosis::not_this(cause, words),
        verdict => full_diagnosis::not_this(cause, words).small(plain(facts::verdict(verdict, words))),
    };
    let mut lines: Vec<Line> = diagnosis.ruled_out.iter().map(one).collect();
    let rest = lines.split_off(lines.len().min(RULED_OUT));
    let title = words.line("and-others", &[("n", rest.len().into())]);
    vec![list(lines), group("not/rest", title, Folding::Closed, vec![list(rest)])]
}

/// Lists the signals that could not be checked, and the setting that enables them.
pub(super) fn unchecked(diagnosis: &Diagnosis, words: &Phrases) -> Vec<Block> {
    let lead = if diagnosis.unchecked.is_empty() { Line::default() } else { words.line("report-unchecked-lead", &[]) };
    vec![Block::Note(lead), list(full_diagnosis::unchecked(diagnosis, usize::MAX, usize::MAX, words))]
}
