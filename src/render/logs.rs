//! What an engine's log says ─▶ [`Message`].

use super::facts::few;
use super::{Line, Message, Part, Tone, Words};
use crate::diagnose::LogsRead;
use crate::logs::{Found, Numbers, Report};
use crate::playbook::LogRank;
use crate::signal::format_value;

/// How many findings are shown.
const FINDINGS: usize = 20;
/// How many logs are told beside a diagnosis.
const LOGS: usize = 4;

/// The message of a log's report; `known` are the engines whose logs can be read.
pub fn logs(report: &Report, known: &[&str], words: &Words) -> Message {
    let root = report.first_root.as_ref().and_then(|id| report.findings.iter().find(|f| f.id == *id));
    let secondary = report.findings.iter().any(|f| f.rank == LogRank::Secondary);
    let engine = || report.engine.clone().unwrap_or_default().into();
    let (tone, headline) = match (&report.engine, root, secondary) {
        (None, _, _) => (Tone::Unknown, words.text("logs-unknown", &[])),
        (_, Some(root), _) => {
            let pieces = [("engine", engine()), ("root", root.title.as_str().into())];
            (Tone::Critical, words.text("logs-root", &pieces))
        }
        (_, None, true) => (Tone::Warning, words.text("logs-secondary-only", &[("engine", engine())])),
        (_, None, false) => (Tone::Good, words.text("logs-clean", &[("engine", engine())])),
    };
    let lines = usize::try_from(report.lines).unwrap_or(usize::MAX);
    let span = match (&report.from, &report.to) {
        (Some(from), Some(to)) => {
            let pieces = [("lines", lines.into()), ("from", from.as_str().into()), ("to", to.as_str().into())];
            words.line("logs-span", &pieces)
        }
        _ => words.line("logs-span-untimed", &[("lines", lines.into())]),
    };
    let mut parts = vec![Part::Paragraph(span)];
    if report.engine.is_none() {
        parts.push(Part::Note(words.line("logs-learn", &[("engines", known.join(", ").into())])));
    }
    if let Some(root) = root {
        let meaning = Line::default().plain(root.meaning.clone());
        parts.push(Part::Section(words.text("logs-first-root", &[]), vec![place(root, words), meaning]));
        if let Some(action) = &root.action {
            parts.push(Part::Steps(words.text("logs-do", &[]), vec![Line::of(action)]));
        }
    }
    if !report.findings.is_empty() {
        let shown = report.findings.iter().take(FINDINGS).map(|found| finding(found, words)).collect();
        parts.push(Part::Section(words.text("logs-findings", &[]), shown));
    }
    for (title, numbers) in [("logs-startup", &report.startup), ("logs-statistics", &report.statistics)] {
        if !numbers.is_empty() {
            parts.push(Part::Section(words.text(title, &[]), numbers.iter().map(|n| number(n, words)).collect()));
        }
    }
    Message { tone, headline, parts }
}

/// What logs tell of the incident: how each began to go wrong, and what could not be read.
pub(super) fn read(read: &LogsRead, words: &Words) -> Vec<Line> {
    let named = read.logs.iter().filter_map(|log| Some((log, log.root.as_ref()?)));
    let mut lines: Vec<Line> = named
        .take(LOGS)
        .map(|(log, root)| {
            let when = root.when.clone().unwrap_or_default();
            let pieces = [
                ("name", log.name.as_str().into()),
                ("root", root.title.as_str().into()),
                ("timed", usize::from(root.when.is_some()).into()),
                ("when", when.into()),
            ];
            words.line("logs-began", &pieces)
        })
        .collect();
    if lines.is_empty() && !read.logs.is_empty() {
        let names: Vec<String> = read.logs.iter().map(|log| log.name.clone()).collect();
        lines.push(words.line("logs-say-nothing", &[("names", few(&names, words).into())]));
    }
    if let Some((what, why)) = read.missing.first() {
        let pieces = [
            ("what", what.as_str().into()),
            ("why", words.said(why).into()),
            ("more", (read.missing.len() - 1).into()),
        ];
        lines.push(words.line("logs-missing", &pieces));
    }
    lines
}

fn place(found: &Found, words: &Words) -> Line {
    let line = found.line.to_string();
    let text = super::Span::Code(found.text.clone());
    match &found.first {
        Some(when) => {
            words.line("logs-line", &[("line", line.into()), ("when", when.as_str().into()), ("text", text.into())])
        }
        None => words.line("logs-line-untimed", &[("line", line.into()), ("text", text.into())]),
    }
}

fn finding(found: &Found, words: &Words) -> Line {
    let rank = match found.rank {
        LogRank::Root => "logs-rank-root",
        LogRank::Sign => "logs-rank-sign",
        LogRank::Secondary => "logs-rank-secondary",
        LogRank::Benign => "logs-rank-benign",
    };
    let count = usize::try_from(found.count).unwrap_or(usize::MAX);
    let pieces = [
        ("title", found.title.as_str().into()),
        ("rank", words.text(rank, &[]).into()),
        ("count", count.into()),
        ("line", found.line.to_string().into()),
    ];
    words.line("logs-finding", &pieces)
}

fn number(numbers: &Numbers, words: &Words) -> Line {
    let shown = |value: f64| format_value(value, numbers.unit);
    if numbers.count == 1 || (numbers.max - numbers.min).abs() < f64::EPSILON {
        let pieces = [("title", numbers.title.as_str().into()), ("last", shown(numbers.last).into())];
        return words.line("logs-number", &pieces);
    }
    let pieces = [
        ("title", numbers.title.as_str().into()),
        ("min", shown(numbers.min).into()),
        ("median", shown(numbers.median).into()),
        ("max", shown(numbers.max).into()),
        ("count", usize::try_from(numbers.count).unwrap_or(usize::MAX).into()),
        ("last", shown(numbers.last).into()),
    ];
    words.line("logs-range", &pieces)
}
