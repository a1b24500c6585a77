//! The table of the captures, and its bars.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use findings::{SymptomVerdict, Verdict};
use llm_diagnose_lab::calibration;
use llm_diagnose_lab::page::put_part;

use crate::run::{Answer, Way, by_engine};

/// The least share of right answers, by way; in company it is what it is alone.
const BARS: [(Way, f64); 6] = [
    (Way::OwnName, 0.95),
    (Way::UnknownName, 0.90),
    (Way::NoPast, 0.80),
    (Way::Young, 0.85),
    (Way::SlowScrapes, 0.85),
    (Way::NoAlert, 0.90),
];

/// One answer in words.
pub(crate) fn line(answer: &Answer) -> String {
    let mark = if answer.is_right() { "ok   " } else { "WRONG" };
    let expected = if answer.case.is_healthy() { "healthy".to_owned() } else { answer.case.right.join("/") };
    format!("{mark} {} ({:?}): expected {expected}, found {}", answer.case.id, answer.way, found(answer))
}

fn found(answer: &Answer) -> String {
    let Some(diagnosis) = &answer.diagnosis else { return "nothing abnormal".to_owned() };
    let symptom = match diagnosis.symptom.verdict {
        SymptomVerdict::Confirmed => String::new(),
        SymptomVerdict::Absent => format!("{} absent; ", diagnosis.symptom.playbook),
        SymptomVerdict::NoData => format!("{} without data; ", diagnosis.symptom.playbook),
    };
    let Some(root) = diagnosis.root() else { return format!("{symptom}no cause from {}", diagnosis.symptom.playbook) };
    let verdict = match root.verdict {
        Verdict::Likely => "likely",
        Verdict::Possible => "possible",
        _ => "–",
    };
    format!("{symptom}{} ({verdict} {:.2})", root.chain.join(" ← "), root.probability)
}

/// A row for each way.
pub(crate) fn table(answers: &[Answer]) -> String {
    let mut out = String::from(
        "| | right | vLLM | SGLang | LiteLLM | Dynamo | llama.cpp | Ray Serve | confident and wrong | healthy and quiet |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for way in Way::ALL {
        let mine: Vec<&Answer> = answers.iter().filter(|answer| answer.way == way).collect();
        let engines = by_engine(&mine);
        let cell =
            |engine: &str| engines.get(engine).map_or("–".to_owned(), |(right, all)| format!("{right} of {all}"));
        let right: usize = engines.values().map(|(right, _)| right).sum();
        let all: usize = engines.values().map(|(_, all)| all).sum();
        let wrong = mine.iter().filter(|answer| answer.is_confidently_wrong()).count();
        let healthy: Vec<_> = mine.iter().filter(|answer| answer.case.is_healthy()).collect();
        let quiet = healthy.iter().filter(|answer| answer.is_quiet()).count();
        writeln!(
            out,
            "| {} | {right} of {all} | {} | {} | {} | {} | {} | {} | {wrong} | {quiet} of {} |",
            way.title(),
            cell("vllm"),
            cell("sglang"),
            cell("litellm"),
            cell("dynamo"),
            cell("llamacpp"),
            cell("ray"),
            healthy.len()
        )
        .unwrap();
    }
    out
}

/// How sure the answers were, and how often right: over all, then by engine.
pub(crate) fn calibrated(answers: &[Answer]) -> String {
    let mut out = calibration::table(&said(answers.iter()));
    out.push_str("\n| engine | diagnoses | mean prediction | right | calibration error |\n|---|---|---|---|---|\n");
    let engines: BTreeSet<&str> = answers.iter().map(|answer| answer.case.engine()).collect();
    for engine in engines {
        let said = said(answers.iter().filter(|answer| answer.case.engine() == engine));
        let n = said.len().max(1) as f64;
        let mean = said.iter().map(|(p, _)| p).sum::<f64>() / n;
        let right = said.iter().filter(|(_, right)| *right).count() as f64 / n;
        let error = calibration::error(&said);
        writeln!(out, "| {engine} | {} | {:.0} % | {:.0} % | {error:.3} |", said.len(), 100.0 * mean, 100.0 * right)
            .unwrap();
    }
    out
}

/// What was said of the first cause, and whether it was right.
pub(crate) fn said<'a>(answers: impl Iterator<Item = &'a Answer>) -> Vec<(f64, bool)> {
    let named = answers.filter(|answer| !answer.case.is_healthy());
    named.filter_map(|answer| Some((answer.diagnosis.as_ref()?.root()?.probability, answer.is_right()))).collect()
}

/// The bars that are not reached, in words. They are about what metrics can tell; a known gap that has become right is one
/// no longer.
pub(crate) fn missed(answers: &[Answer]) -> Vec<String> {
    let mut out = Vec::new();
    for (way, bar) in BARS {
        let is_told = |a: &&Answer| a.way == way && !a.case.is_healthy() && a.case.gap.is_none();
        let mine: Vec<&Answer> = answers.iter().filter(is_told).collect();
        let right = mine.iter().filter(|a| a.is_right()).count();
        if (right as f64) < bar * mine.len() as f64 {
            out.push(format!("{}: {right} of {} right, the bar is {bar}", way.title(), mine.len()));
        }
    }
    let closed = |a: &&Answer| a.way == Way::OwnName && a.case.gap.is_some() && a.is_right();
    out.extend(answers.iter().filter(closed).map(|a| format!("no gap any more, take the mark away: {}", line(a))));
    for answer in answers {
        if answer.is_confidently_wrong() {
            out.push(format!("confident and wrong: {}", line(answer)));
        }
        // What no metric tells may be found or missed by luck.
        let alone =
            answers.iter().find(|a| a.way == Way::OwnName && a.case.id == answer.case.id && a.case.gap.is_none());
        if let Some(alone) = alone.filter(|alone| answer.way.is_in_company() && alone.root() != answer.root()) {
            out.push(format!("another answer in company: {} alone, {} there", line(alone), line(answer)));
        }
    }
    out
}

/// Puts the tables into their part of the page.
pub(crate) fn write(path: &Path, answers: &[Answer]) -> anyhow::Result<()> {
    let cases = answers.iter().filter(|answer| answer.way == Way::OwnName).count();
    let mut part = format!(
        "## Captures of real servers\n\n\
         {cases} captures of vLLM, SGLang, LiteLLM, Dynamo, llama.cpp and Ray Serve, before and during faults that were made on purpose\n\
         ([tests/captures](../tests/captures/README.md)). Each is stretched to 55 minutes with a yesterday and diagnosed ten minutes after\n\
         the fault began, in nine ways. Made by `make captures`. An answer is right when the best chain names\n\
         a right cause; confident and wrong when its root is likely, and no link is right; healthy and quiet when neither a symptom nor\n\
         a cause is named. Rules were changed for what these captures show.\n\
         Where a row counts fewer captures than the first, only those were diagnosed so.\n\n{}\n",
        table(answers)
    );
    write!(
        part,
        "How often the first cause is right, by how probable it was said to be (all ways; calibration error {:.3}):\n\n{}\n",
        calibration::error(&said(answers.iter())),
        calibrated(answers)
    )?;
    part.push_str("### Every capture\n\n| capture | what was done | right |");
    part.push_str(&Way::ALL.map(|way| format!(" {} |", way.title())).concat());
    part.push_str("\n|---|---|---|");
    part.push_str(&"---|".repeat(Way::ALL.len()));
    for own in answers.iter().filter(|answer| answer.way == Way::OwnName) {
        let expected = if own.case.is_healthy() { "nothing".to_owned() } else { own.case.right.join(", ") };
        let gap = own.case.gap.as_ref().map(|gap| format!(" (known gap: {gap})")).unwrap_or_default();
        write!(part, "\n| {} | {}{gap} | {expected} |", own.case.id, own.case.what.replace('|', "\\|"))?;
        for way in Way::ALL {
            let answer = answers.iter().find(|answer| answer.way == way && answer.case.id == own.case.id);
            let mark = |answer: &Answer| if answer.is_right() { "✓" } else { "✗" };
            let cell = answer.map_or("–".to_owned(), |answer| format!("{} {}", mark(answer), brief(answer)));
            write!(part, " {cell} |")?;
        }
    }
    put_part(path, "captures", &part)
}

/// The root, or why there is none.
fn brief(answer: &Answer) -> String {
    let Some(diagnosis) = &answer.diagnosis else { return "nothing abnormal".to_owned() };
    match (diagnosis.root(), diagnosis.symptom.verdict) {
        (Some(root), _) if root.fallback => root.chain.iter().rev().nth(1).cloned().unwrap_or_default(),
        (Some(root), _) => root.id.clone(),
        (None, SymptomVerdict::Confirmed) => format!("{}, no cause", diagnosis.symptom.playbook),
        (None, _) => "nothing abnormal".to_owned(),
    }
}
