//! A bundle that is being made, or was ─▶ [`Message`].

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Line, Message, Part, Span, Tone, Words};
use crate::report::{self, Report, Stage};
use crate::signal::{Unit, format_value};

/// Stages as progress tells them, in this order.
const TOLD: [(Stage, &str); 5] = [
    (Stage::Done, "bundle-parts-done"),
    (Stage::Running, "bundle-parts-running"),
    (Stage::Partial, "bundle-parts-partial"),
    (Stage::Failed, "bundle-parts-failed"),
    (Stage::Skipped, "bundle-parts-skipped"),
];

/// Where a bundle can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Beside the message.
    Here,
    /// Behind an address that is good until then.
    Link(String, Timestamp),
    /// On the disk of the service, for want of an address.
    Disk(String),
    /// A file of whoever asked.
    File(String),
}

/// How far a bundle is.
pub fn bundle_progress(parts: &[report::Part], words: &Words) -> Message {
    let over = parts.iter().filter(|part| part.stage.is_over()).count();
    let headline = match parts.is_empty() {
        true => words.text("bundle-waits", &[]),
        false => words.text("bundle-progress", &[("over", over.into()), ("all", parts.len().into())]),
    };
    let told = TOLD.iter().filter_map(|(stage, key)| {
        let names = names(parts, *stage)?;
        Some(words.line(key, &[("parts", names.into())]))
    });
    let told = told.map(Part::Paragraph).collect();
    Message { tone: Tone::Unknown, headline, parts: told }
}

fn names(parts: &[report::Part], stage: Stage) -> Option<String> {
    let names: Vec<&str> = parts.iter().filter(|part| part.stage == stage).map(|part| part.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// A bundle that was made: complete or not, what is missing, what was taken out, and where it is. `of` says what it is
/// of, `beside` what else is to be said of its place.
pub fn bundle_message(
    report: &Report,
    bytes: u64,
    of: &str,
    place: Place,
    beside: Option<Line>,
    words: &Words,
) -> Message {
    let pieces = [("of", of.into()), ("size", format_value(bytes as f64, Unit::Bytes).into())];
    let (tone, key) = match report.complete {
        true => (Tone::Good, "bundle-complete"),
        false => (Tone::Warning, "bundle-incomplete"),
    };
    let mut parts: Vec<Part> = beside.into_iter().map(Part::Paragraph).collect();
    parts.push(Part::Paragraph(match place {
        Place::Here => words.line("bundle-here", &[]),
        Place::Link(url, until) => {
            let link = Span::Link(words.text("bundle-download", &[]), url);
            let until = until.strftime("%Y-%m-%d %H:%M UTC").to_string();
            words.line("bundle-link", &[("link", link.into()), ("until", until.into())])
        }
        Place::Disk(path) => words.line("bundle-disk", &[("path", Span::Code(path).into())]),
        Place::File(path) => words.line("bundle-file", &[("path", Span::Code(path).into())]),
    }));
    let missing = troubles(report, words);
    if !missing.is_empty() {
        parts.push(Part::Section(words.text("bundle-missing", &[]), missing));
    }
    if let Some(skipped) = names(&report.parts, Stage::Skipped) {
        parts.push(Part::Note(words.line("bundle-without", &[("parts", skipped.into())])));
    }
    parts.push(Part::Note(taken_out(report, words)));
    Message { tone, headline: words.text(key, &pieces), parts }
}

/// What is missing or cut short, and why.
pub(super) fn troubles(report: &Report, words: &Words) -> Vec<Line> {
    let trouble = |part: &report::Part| {
        let why = if part.note.is_empty() { words.line("bundle-why-unknown", &[]) } else { Line::of(&part.note) };
        words.line("bundle-missing-part", &[("part", part.name.as_str().into()), ("why", why.into())])
    };
    report.parts.iter().filter(|part| part.stage.is_trouble()).map(trouble).collect()
}

/// What was taken out: how much of what, in how many files.
pub(super) fn taken_out(report: &Report, words: &Words) -> Line {
    let files: BTreeSet<&str> = report.redacted.iter().map(|redacted| redacted.place.as_str()).collect();
    let mut rules: BTreeMap<&str, u64> = BTreeMap::new();
    for redacted in &report.redacted {
        *rules.entry(&redacted.rule).or_default() += redacted.count;
    }
    let n: u64 = rules.values().sum();
    if n == 0 {
        return words.line("bundle-redacted-nothing", &[]);
    }
    let rules: Vec<String> = rules.iter().map(|(rule, n)| format!("{rule} {n}")).collect();
    let pieces = [
        ("n", usize::try_from(n).unwrap_or(usize::MAX).into()),
        ("files", files.len().into()),
        ("rules", rules.join(", ").into()),
    ];
    words.line("bundle-redacted", &pieces)
}
