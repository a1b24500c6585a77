//! Report ─▶ Markdown: `report.md` of a bundle, and tickets for other teams and vendors.
//!
//! Untrusted text goes into code spans, fences and escaped cells: it can neither be markup nor mention anyone.

mod answers;
mod sections;
mod tables;
mod ticket;

use super::{Line, MessagePart, TextSpan, is_unseen, time_of_day};
pub use sections::report_markdown;
pub use ticket::{ticket, tickets_for};

/// Characters that are markup anywhere. Round brackets are markup only after square ones.
const MARKUP: &str = "\\`*_[]|~$";
/// Characters that are markup at the beginning of a line.
const LEADING: &str = "#+->=";

/// Escapes plain text, so that nothing in it is markup.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    if text.starts_with(|c| LEADING.contains(c)) {
        out.push('\\');
    }
    for c in text.chars() {
        match c {
            c if is_unseen(c) => out.push(' '),
            '<' => out.push_str("&lt;"),
            // A word joiner prevents a mention.
            '@' => out.push_str("@\u{2060}"),
            c if MARKUP.contains(c) => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// Renders a code span of any text.
pub(super) fn code(text: &str) -> String {
    let text: String = text.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect();
    let ticks = "`".repeat(longest(&text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// Renders a fenced code block.
pub(super) fn fence(text: &str) -> String {
    let kept = |c: char| if is_unseen(c) && c != '\n' && c != '\t' { ' ' } else { c };
    let text: String = text.chars().map(kept).collect();
    let ticks = "`".repeat((longest(&text) + 1).max(3));
    format!("{ticks}text\n{}\n{ticks}\n", text.trim_end_matches('\n'))
}

/// Returns the length of the longest run of back-ticks.
fn longest(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// Renders a formatted line.
pub(super) fn line(line: &Line) -> String {
    line.clone()
        .joined()
        .0
        .iter()
        .map(|span| match span {
            TextSpan::Plain(text) => plain(text),
            TextSpan::Bold(text) => format!("**{}**", plain(text.trim())),
            TextSpan::Code(text) => code(text),
            TextSpan::Link(label, url) if url.starts_with("https://") || url.starts_with("http://") => {
                format!("[{}]({})", plain(label), url.replace(['(', ')', '<', '>', ' ', '\n'], "%20"))
            }
            TextSpan::Link(label, _) => plain(label),
            TextSpan::Time(at) => time_of_day(*at),
            TextSpan::User(_) | TextSpan::Group(_) => code(&span.text()),
        })
        .collect()
}

/// Renders the parts of a message, with headings of this depth.
pub(super) fn parts(parts: &[MessagePart], depth: usize) -> String {
    let heading = "#".repeat(depth);
    let mut out = String::new();
    for part in parts {
        match part {
            MessagePart::Paragraph(text) | MessagePart::Note(text) | MessagePart::Beside(text, _) => {
                out.push_str(&format!("{}\n\n", line(text)))
            }
            MessagePart::Section(title, lines) => {
                out.push_str(&format!("{heading} {}\n\n", plain(title)));
                lines.iter().for_each(|text| out.push_str(&format!("- {}\n", line(text).trim_start_matches("• "))));
                out.push('\n');
            }
            MessagePart::Steps(title, lines) => {
                out.push_str(&format!("{heading} {}\n\n", plain(title)));
                lines.iter().for_each(|text| out.push_str(&format!("1. {}\n", line(text))));
                out.push('\n');
            }
            MessagePart::Buttons(_) | MessagePart::Picture { .. } => {}
        }
    }
    out
}

/// Renders a table, whose cells are Markdown already; empty if there are no rows.
pub(super) fn table(head: &[String], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let cell = |text: &String| text.replace('\n', " ").replace('|', "\\|").replace("\\\\|", "\\|");
    let row = |cells: &[String]| format!("| {} |\n", cells.iter().map(cell).collect::<Vec<_>>().join(" | "));
    let rule = format!("|{}\n", " --- |".repeat(head.len()));
    let body: String = rows.iter().map(|cells| row(cells)).collect();
    format!("{}{rule}{body}\n", row(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cannot_bring_markup_links_images_or_mentions() {
        let evil = "[x](http://e) ![p](http://e) <img src=x> @everyone `a` **b** | c\nd";
        let text = plain(evil);
        assert!(
            !text.replace("\\]", "").contains("](")
                && !text.contains('<')
                && !text.contains("@everyone")
                && !text.contains('\n')
        );
        assert_eq!(code("a``b"), "```a``b```");
        assert!(fence("a\n```\nb").starts_with("````text\n"));
        assert_eq!(table(&["a".into()], &[vec!["x|y".into()]]), "| a |\n| --- |\n| x\\|y |\n\n");
    }
}
