//! All checks of a diagnosis, link by link, the causes ruled out, and the checks without data.

use std::collections::BTreeSet;

use maud::{Markup, html};

use crate::diagnose::{Diagnosis, EvidenceResult, Outcome, ValueSource, Verdict};
use crate::render::page::html::{clock, fold, line, outcome, sureness, table};
use crate::render::{Line, Phrases, compared, facts, full_diagnosis};
use crate::signal::format_value;

/// Renders the checks of every link of the best chain, and folded those of the other causes.
pub(super) fn checked(diagnosis: &Diagnosis, words: &Phrases) -> Markup {
    let root = diagnosis.root();
    let said = |title: &str, sure: Option<Verdict>| {
        html! { (title) @if let Some(sure) = sure { (sureness(sure, words)) } }
    };
    let one = |key: &str, title: &str, sure: Option<Verdict>, evidence: &[EvidenceResult], open: bool| {
        fold(key, &said(title, sure), open, &checks(key, title, evidence, words))
    };
    let odd = full_diagnosis::diagnosis_notes(diagnosis, words);
    let symptom = &diagnosis.symptom;
    html! {
        (one("e/symptom", &symptom.title, None, &symptom.evidence, true))
        @if let Some(root) = root {
            @for link in &root.via { (one(&format!("e/{}", link.id), &link.title, Some(link.verdict), &link.evidence, true)) }
            @if root.id != symptom.playbook {
                (one(&format!("e/{}", root.id), &root.title, Some(root.verdict), &root.evidence, true))
            }
        }
        @for cause in diagnosis.causes.iter().skip(1) {
            (one(&format!("e/{}", cause.id), &cause.title, Some(cause.verdict), &cause.evidence, false))
        }
        @if let Some(with) = compared::of_chain(diagnosis, words) { p.dim { (line(&with)) } }
        @if !odd.is_empty() {
            (fold("e/odd", &html! { (words.text("while-looking", &[])) }, true, &html! { ul { @for said in &odd { li { (line(said)) } } } }))
        }
    }
}

fn checks(key: &str, title: &str, evidence: &[EvidenceResult], words: &Phrases) -> Markup {
    let say = |key: &str| words.text(key, &[]);
    let heads = ["page-holds", "page-check", "page-now-value", "page-before", "page-asked", "page-since"].map(say);
    let rows: Vec<Vec<Markup>> = evidence.iter().map(|e| row(e, words)).collect();
    let mut seen = BTreeSet::new();
    let queries = evidence.iter().filter_map(|e| Some((e.title.as_str(), e.query.as_deref()?)));
    let queries: Vec<(&str, &str)> = queries.filter(|(_, query)| seen.insert(*query)).collect();
    html! {
        (table(title, &heads, &rows))
        @if !queries.is_empty() {
            (fold(&format!("{key}/queries"), &html! { (say("evidence-queries")) }, false, &html! {
                @for (title, query) in queries { p { (title) } pre tabindex="0" { code { (query) } } }
            }))
        }
    }
}

fn row(e: &EvidenceResult, words: &Phrases) -> Vec<Markup> {
    let value = |v: Option<f64>| v.map(|v| format_value(v, e.unit)).unwrap_or_default();
    vec![
        outcome(Some(e.outcome), words),
        html! {
            (e.title)
            @if e.required { " " small { (words.text("page-required", &[])) } }
            @if e.source == ValueSource::Exporter { small { (words.text("report-direct", &[])) } }
            @if !e.replicas.is_empty() { small { (facts::few_values(&e.replicas, e.unit, words)) } }
            @if let (Outcome::NoData, Some(why)) = (e.outcome, &e.why) { small { (line(&Line::of(why))) } }
        },
        html! { span.num { (value(e.value)) } },
        html! { span.num { (value(e.baseline)) } },
        html! { code.when { (e.when) } },
        html! { @if let Some(at) = e.since { (clock(at)) } },
    ]
}

/// Renders the causes ruled out, each with the check against it.
pub(super) fn ruled_out(diagnosis: &Diagnosis, words: &Phrases) -> Option<Markup> {
    let say = |key: &str| words.text(key, &[]);
    let heads = ["report-cause", "report-because", "report-needed"].map(say);
    let rows: Vec<Vec<Markup>> = diagnosis
        .ruled_out
        .iter()
        .map(|cause| {
            let because = cause.because.as_ref();
            vec![
                html! {
                    (cause.title)
                    @if cause.verdict != Verdict::RuledOut { small { (facts::verdict(cause.verdict, words)) } }
                },
                html! { @if let Some(e) = because { (facts::fact(e, words)) } },
                html! { @if let Some(e) = because { code.when { (e.when) } } },
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| {
        let most = 8;
        let shown = rows.get(..most.min(rows.len())).unwrap_or_default();
        let rest = rows.get(most..).unwrap_or_default();
        html! {
            (table(&say("report-not"), &heads, shown))
            @if !rest.is_empty() {
                (fold("not/rest", &html! { (words.text("and-others", &[("n", rest.len().into())])) }, false, &table(&say("report-not"), &heads, rest)))
            }
        }
    })
}

/// Renders the signals that could not be checked, and the setting that enables them.
pub(super) fn unchecked(diagnosis: &Diagnosis, words: &Phrases) -> Option<Markup> {
    let reasons = full_diagnosis::reasons(diagnosis);
    (!reasons.is_empty()).then(|| {
        html! {
            p.dim { (words.text("report-unchecked-lead", &[])) }
            dl.kv {
                @for reason in &reasons {
                    dt { (reason.titles.join(", ")) }
                    dd {
                        (line(&Line::of(reason.why)))
                        @if let Some(enable) = reason.enable {
                            p.dim { b { (words.text("report-enable", &[])) " " } (line(&Line::of(enable))) }
                        }
                    }
                }
            }
        }
    })
}
