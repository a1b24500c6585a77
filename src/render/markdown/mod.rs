//! Report ─▶ Markdown: `report.md` of a bundle, and tickets for other teams and vendors.
//!
//! Untrusted text goes into code spans, fences and escaped cells: it can neither be markup nor mention anyone.

mod ticket;

use super::document::{ChainLink, Document, DocumentBlock, Folding, PartGroup};
use super::report::{ReportPageContext, document};
use super::{Line, MessagePart, Phrases, TextSpan, is_unseen, time_of_day};
use report::Report;
pub use ticket::{ticket, tickets_for};

/// Maximum number of rows of a table; summary.json has all.
const ROWS: usize = 60;
/// Maximum number of names with values; engines have hundreds of settings.
const PAIRS: usize = 100;

/// Characters that are markup anywhere. Round brackets are markup only after square ones.
const MARKUP: &str = "\\`*_[]|~$";
/// Characters that are markup at the beginning of a line.
const LEADING: &str = "#+->=";

/// Renders the whole report.
pub fn report_markdown(report: &Report, words: &Phrases) -> String {
    let document = written(report, words);
    let (summary, sections) = document.sections.split_at(document.sections.len().min(1));
    let mut out = format!("# {}\n\n{}", plain(&document.headline), paragraph(&document.above));
    out.extend(summary.iter().map(|section| blocks(&section.parts, 2, words)));
    out.extend(sections.iter().map(|section| titled(section, 2, words)));
    out.push_str("---\n\n");
    out.extend(document.foot.iter().map(paragraph));
    out
}

/// Builds the document of a report that is a text.
fn written(report: &Report, words: &Phrases) -> Document {
    document(report, &ReportPageContext::default(), words)
}

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
        .enumerate()
        .map(|(i, span)| match span {
            TextSpan::Plain(text) => plain(text),
            TextSpan::Bold(text) => format!("**{}**", plain(text.trim())),
            TextSpan::Code(text) => code(text),
            TextSpan::Link(label, url) if url.starts_with("https://") || url.starts_with("http://") => {
                format!("[{}]({})", plain(label), url.replace(['(', ')', '<', '>', ' ', '\n'], "%20"))
            }
            TextSpan::Link(label, _) => plain(label),
            TextSpan::Time(at) => time_of_day(*at),
            TextSpan::User(_) | TextSpan::Group(_) => code(&span.text()),
            TextSpan::Moment(_) => span.text(),
            TextSpan::State(_, word) if i > 0 => format!("({})", plain(word)),
            TextSpan::State(_, word) => plain(word),
            TextSpan::Small(text) => format!(" ({})", self::line(text)),
        })
        .collect()
}

/// Renders blocks, with headings from this depth on.
pub(super) fn blocks(parts: &[MessagePart], depth: usize, words: &Phrases) -> String {
    parts.iter().map(|part| block(part, depth, words)).collect()
}

fn block(part: &MessagePart, depth: usize, words: &Phrases) -> String {
    let listed = |mark: &str, title: &str, lines: &[Line]| {
        let items = lines.iter().map(|text| format!("{mark} {}", line(text).trim_start_matches("• ")));
        format!("{}{}", heading(title, depth), list(items))
    };
    match part {
        MessagePart::Paragraph(text) | MessagePart::Note(text) | MessagePart::Gap(text) => paragraph(text),
        MessagePart::Beside(text, _) => paragraph(text),
        MessagePart::Section(title, lines) => listed("-", title, lines),
        MessagePart::Steps(title, lines) => listed("1.", title, lines),
        MessagePart::Block(block) => wide(block, depth, words),
        MessagePart::Buttons(_) | MessagePart::Picture { .. } => String::new(),
    }
}

fn wide(block: &DocumentBlock, depth: usize, words: &Phrases) -> String {
    match block {
        DocumentBlock::Pairs(pairs) => {
            let shown = pairs.iter().take(PAIRS).map(|(name, value)| format!("- {}: {}", line(name), line(value)));
            format!("{}{}", list(shown), more(pairs.len(), PAIRS, words))
        }
        DocumentBlock::Table { heads, rows, .. } => table(heads, rows, words),
        DocumentBlock::Code(text) => format!("{}\n", fence(text)),
        DocumentBlock::Group(group) => titled(group, depth, words),
        DocumentBlock::Chain { leads, links } => list(links.iter().map(|link| chain_link(link, *leads, words))),
        // The text before a histogram says the same.
        DocumentBlock::Bars { .. } | DocumentBlock::Drawing { .. } => String::new(),
    }
}

fn paragraph(text: &Line) -> String {
    match line(text).trim() {
        "" => String::new(),
        text => format!("{text}\n\n"),
    }
}

fn heading(title: &str, depth: usize) -> String {
    if title.is_empty() { String::new() } else { format!("{} {}\n\n", "#".repeat(depth.min(6)), plain(title)) }
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: String = items.map(|item| format!("{}\n", item.trim_end())).collect();
    if items.is_empty() { items } else { format!("{items}\n") }
}

/// Renders a group under its title; empty if it has no text.
fn titled(group: &PartGroup, depth: usize, words: &Phrases) -> String {
    let body = if group.folding == Folding::Aside { String::new() } else { blocks(&group.parts, depth + 1, words) };
    if body.is_empty() { body } else { format!("{} {}\n\n{body}", "#".repeat(depth.min(6)), line(&group.title)) }
}

/// Renders a link of the chain; numbered, unless the times contradict the order.
fn chain_link(link: &ChainLink, leads: bool, words: &Phrases) -> String {
    let mark = if leads { "1." } else { "-" };
    let since =
        link.since.map(|at| format!(", {} {}", words.text("report-from", &[]), time_of_day(at))).unwrap_or_default();
    let facts: Vec<String> = link.facts.iter().map(|fact| plain(fact)).collect();
    format!("{mark} **{}** ({}{since}): {}", plain(&link.title), line(&link.kind), facts.join("; "))
}

/// Renders a table, with a note if rows are left out.
fn table(heads: &[String], rows: &[Vec<Line>], words: &Phrases) -> String {
    let cell = |text: &Line| line(text).replace('|', "\\|").replace("\\\\|", "\\|");
    let row = |cells: &Vec<Line>| format!("| {} |\n", cells.iter().map(cell).collect::<Vec<_>>().join(" | "));
    let rule = " --- |".repeat(heads.len());
    let body: String = rows.iter().take(ROWS).map(row).collect();
    format!("| {} |\n|{rule}\n{body}\n{}", heads.join(" | "), more(rows.len(), ROWS, words))
}

/// Says how many rows are left out; empty if none are.
fn more(all: usize, most: usize, words: &Phrases) -> String {
    match all.saturating_sub(most) {
        0 => String::new(),
        n => paragraph(&words.line("report-more-rows", &[("n", n.into())])),
    }
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
        let table = table(&["a".into()], &[vec![Line::default().plain("x|y")]], &Phrases::english());
        assert_eq!(table, "| a |\n| --- |\n| x\\|y |\n\n");
    }
}
