//! The state or the result of a bundle ─▶ [`Message`], and the `README.txt` in it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use knowledge::signal::{Unit, format_value};
use message::{Block, Line, Message, TextSpan, Tone};
use render::{Phrases, clean};
use report::{self, Report, Stage};

/// The files of an archive, the most useful first, each with the phrase that describes it.
const FILES: [(&str, &str); 7] = [
    ("report.html", "readme-page"),
    ("report.md", "readme-text"),
    ("tickets/", "readme-tickets"),
    ("summary.json", "readme-summary"),
    ("series.om", "readme-series"),
    ("raw/queries.json", "readme-queries"),
    ("logs/ endpoints/ kubernetes/ raw/", "readme-raw"),
];

/// Stages in the order in which progress shows them.
const STAGES: [(Stage, &str); 5] = [
    (Stage::Done, "bundle-parts-done"),
    (Stage::Running, "bundle-parts-running"),
    (Stage::Partial, "bundle-parts-partial"),
    (Stage::Failed, "bundle-parts-failed"),
    (Stage::Skipped, "bundle-parts-skipped"),
];

/// The location of a finished bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleLocation {
    /// A file attached to the message.
    Here,
    /// A download link, and the time until which it is valid.
    Link(String, Timestamp),
    /// A path on the disk of the service, if no link can be given.
    Disk(String),
    /// A local file of the user who requested it.
    File(String),
}

/// Builds the progress message of a bundle.
pub fn bundle_progress(parts: &[report::ReportPart], words: &Phrases) -> Message {
    let over = parts.iter().filter(|part| part.stage.is_over()).count();
    let headline = match parts.is_empty() {
        true => words.text("bundle-waits", &[]),
        false => words.text("bundle-progress", &[("over", over.into()), ("all", parts.len().into())]),
    };
    let stages = STAGES.iter().filter_map(|(stage, key)| {
        let names = names(parts, *stage)?;
        Some(Block::Paragraph(words.line(key, &[("parts", names.into())])))
    });
    Message { tone: Tone::Unknown, headline, parts: stages.collect() }
}

fn names(parts: &[report::ReportPart], stage: Stage) -> Option<String> {
    let names: Vec<&str> = parts.iter().filter(|part| part.stage == stage).map(|part| part.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Builds the message of a finished bundle: complete or not, missing parts, redactions, and its location. `of` names
/// its subject, `beside` is an additional line about the location.
pub fn bundle_message(
    report: &Report,
    bytes: u64,
    of: &str,
    place: BundleLocation,
    beside: Option<Line>,
    words: &Phrases,
) -> Message {
    let pieces = [("of", of.into()), ("size", format_value(bytes as f64, Unit::Bytes).into())];
    let (tone, key) = match report.complete {
        true => (Tone::Good, "bundle-complete"),
        false => (Tone::Warning, "bundle-incomplete"),
    };
    let mut parts: Vec<Block> = beside.into_iter().map(Block::Paragraph).collect();
    parts.push(Block::Paragraph(match place {
        BundleLocation::Here => words.line("bundle-here", &[]),
        BundleLocation::Link(url, until) => {
            let link = TextSpan::Link(words.text("bundle-download", &[]), url);
            let until = until.strftime("%Y-%m-%d %H:%M UTC").to_string();
            words.line("bundle-link", &[("link", link.into()), ("until", until.into())])
        }
        BundleLocation::Disk(path) => words.line("bundle-disk", &[("path", TextSpan::Code(path).into())]),
        BundleLocation::File(path) => words.line("bundle-file", &[("path", TextSpan::Code(path).into())]),
    }));
    let missing = Some(troubles(report, words)).filter(|troubles| !troubles.is_empty());
    parts.extend(missing.map(|troubles| Block::Section(words.text("bundle-missing", &[]), troubles)));
    let skipped = names(&report.parts, Stage::Skipped);
    let skipped = skipped.map(|skipped| words.line("bundle-without", &[("parts", skipped.into())]));
    parts.extend(skipped.into_iter().chain([taken_out(report, words)]).map(Block::Note));
    Message { tone, headline: words.text(key, &pieces), parts }
}

/// Returns a line for each part that is missing or truncated, with the reason.
fn troubles(report: &Report, words: &Phrases) -> Vec<Line> {
    let trouble = |part: &report::ReportPart| {
        let why = if part.note.is_empty() { words.line("bundle-why-unknown", &[]) } else { Line::of(&part.note) };
        words.line("bundle-missing-part", &[("part", part.name.as_str().into()), ("why", why.into())])
    };
    report.parts.iter().filter(|part| part.stage.is_trouble()).map(trouble).collect()
}

/// Summarises the redactions: their number by rule, and the number of files.
fn taken_out(report: &Report, words: &Phrases) -> Line {
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
    let pieces = [("n", n.into()), ("files", files.len().into()), ("rules", rules.join(", ").into())];
    words.line("bundle-redacted", &pieces)
}

/// Renders `README.txt`, about twenty lines; `kept` is true if secrets were left in the bundle on purpose.
pub(super) fn readme(report: &Report, kept: bool, words: &Phrases) -> String {
    let at = |at: jiff::Timestamp| at.strftime("%Y-%m-%d %H:%M UTC").to_string();
    let about = [
        ("version", report.version.as_str().into()),
        ("made", at(report.made_at).into()),
        ("from", at(report.window.from).into()),
        ("to", at(report.window.to).into()),
    ];
    let mut lines = vec![report.headline.clone(), words.text("readme-about", &about), String::new()];
    let widest = FILES.iter().map(|(file, _)| file.len()).max().unwrap_or_default();
    lines.extend(FILES.iter().map(|(file, key)| format!("{file:<widest$}  {}", words.text(key, &[]))));
    lines.push(String::new());
    lines.push(words.text(if report.complete { "readme-complete" } else { "readme-incomplete" }, &[]));
    lines.extend(troubles(report, words).iter().map(|trouble| format!("- {}", trouble.text())));
    lines.push(if kept { words.text("readme-kept", &[]) } else { taken_out(report, words).text() });
    lines.iter().map(|line| clean(line) + "\n").collect()
}
