//! [`Report`] ─▶ `README.txt` of the archive: its content, how to open it, and the redactions.

use super::bundle::{taken_out, troubles};
use super::{Phrases, clean};
use report::Report;

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

/// Renders `README.txt`, about twenty lines; `kept` is true if secrets were left in the bundle on purpose.
pub fn readme(report: &Report, kept: bool, words: &Phrases) -> String {
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
