//! Report ─▶ Markdown: `report.md` of a bundle, and tickets for other teams and vendors.
//!
//! Untrusted text goes into code spans, fences and escaped cells: it can neither be markup nor mention anyone.

mod ticket;

use super::document::Document;
use super::report_document::{Medium, ReportPageContext, document};
use super::text::clean;
use super::{Phrases, is_unseen};
use message::{Block, BlockGroup, ChainLink, DocumentBlock, Folding, Line, Message, TextSpan, time_of_day};
use report::Report;
pub use ticket::{ticket, tickets_for};

/// Maximum number of rows of a table; summary.json has all.
const ROWS: usize = 60;
/// Maximum number of names with values; engines have hundreds of settings.
const PAIRS: usize = 100;

/// Depth of the headings of a message.
const MESSAGE_DEPTH: usize = 3;

/// Characters that are markup anywhere. Round brackets are markup only after square ones.
const MARKUP: &str = "\\`*_[]|~$";
/// Characters that are markup at the beginning of a line.
const LEADING: &str = "#+->=";

/// The phrases of a text, and the one that counts what is left out.
struct Wording<'a> {
    words: &'a Phrases,
    left_out: &'static str,
}

/// Renders the whole report.
pub fn report_markdown(report: &Report, words: &Phrases) -> String {
    let document = text_document(report, Medium::Text, words);
    let words = &Wording { words, left_out: "report-more-rows" };
    let above: Vec<String> = document.above.iter().map(line).collect();
    let (summary, sections) = document.sections.split_at(document.sections.len().min(1));
    let mut out = format!("# {}\n\n{}\n\n", plain(&document.headline), above.join(" · "));
    out.extend(summary.iter().map(|section| blocks(&section.parts, 2, words)));
    out.extend(sections.iter().map(|section| titled(section, 2, words)));
    out.push_str("---\n\n");
    out.extend(document.foot.iter().map(paragraph));
    out
}

/// Renders a message below its headline.
pub fn message_markdown(message: &Message, words: &Phrases) -> String {
    blocks(&message.parts, MESSAGE_DEPTH, &Wording { words, left_out: "report-more-rows" })
}

/// Builds the document without what only a page has: charts, links, tickets.
fn text_document(report: &Report, medium: Medium, words: &Phrases) -> Document {
    document(report, &ReportPageContext::default(), medium, words)
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

/// Encodes the characters that would end the address of a link, mention anyone, or are no part of an address.
fn address(url: &str) -> String {
    let encoded = |c: char| match c {
        '(' | ')' | '<' | '>' | '\\' | '`' | '|' | '"' | '\'' | '@' => format!("%{:02X}", u32::from(c)),
        c if is_unseen(c) || c.is_whitespace() => "%20".to_owned(),
        c => c.to_string(),
    };
    url.chars().map(encoded).collect()
}

/// Renders a code span of any text.
pub(super) fn code(text: &str) -> String {
    let text = clean(text);
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
                format!("[{}]({})", plain(label), address(url))
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
fn blocks(parts: &[Block], depth: usize, words: &Wording<'_>) -> String {
    parts.iter().map(|part| block(part, depth, words)).collect()
}

fn block(part: &Block, depth: usize, words: &Wording<'_>) -> String {
    let listed = |mark: &str, title: &str, lines: &[Line]| {
        let items = lines.iter().map(|text| format!("{mark} {}", line(text).trim_start_matches("• ")));
        format!("{}{}", heading(title, depth), list(items))
    };
    match part {
        Block::Paragraph(text) | Block::Note(text) | Block::Gap(text) => paragraph(text),
        Block::Beside(text, _) => paragraph(text),
        Block::Section(title, lines) => listed("-", title, lines),
        Block::Steps(title, lines) => listed("1.", title, lines),
        Block::Document(block) => document_block(block, depth, words),
        Block::Buttons(_) => String::new(),
    }
}

fn document_block(block: &DocumentBlock, depth: usize, words: &Wording<'_>) -> String {
    match block {
        DocumentBlock::Pairs(pairs) => {
            let shown = pairs.iter().take(PAIRS).map(|(name, value)| format!("- {}: {}", line(name), line(value)));
            format!("{}{}", list(shown), more(pairs.len(), PAIRS, words))
        }
        DocumentBlock::Table { heads, rows, .. } => table(heads, rows, words),
        DocumentBlock::Code(text) => format!("{}\n", fence(text)),
        DocumentBlock::Group(group) => titled(group, depth, words),
        DocumentBlock::Chain { leads, links } => list(links.iter().map(|link| chain_link(link, *leads, words.words))),
        // The sentence before it says the same.
        DocumentBlock::Histogram { .. } => String::new(),
        DocumentBlock::Chart { .. } => String::new(),
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
fn titled(group: &BlockGroup, depth: usize, words: &Wording<'_>) -> String {
    let body = if group.folding == Folding::Aside { String::new() } else { blocks(&group.parts, depth + 1, words) };
    if body.is_empty() { body } else { format!("{} {}\n\n{body}", "#".repeat(depth.min(6)), line(&group.title)) }
}

/// Renders a link of the chain; numbered, unless the times contradict the order.
fn chain_link(link: &ChainLink, leads: bool, words: &Phrases) -> String {
    let mark = if leads { "1." } else { "-" };
    let since =
        link.since.map(|at| format!(", {} {}", words.text("report-from", &[]), time_of_day(at))).unwrap_or_default();
    let facts: Vec<String> = link.facts.iter().map(|fact| plain(fact)).collect();
    let facts = if facts.is_empty() { String::new() } else { format!(": {}", facts.join("; ")) };
    format!("{mark} **{}** ({}{since}){facts}", plain(&link.title), line(&link.kind))
}

/// Renders a table, with a note if rows are left out.
fn table(heads: &[String], rows: &[Vec<Line>], words: &Wording<'_>) -> String {
    let cell = |text: &Line| line(text).replace('|', "\\|").replace("\\\\|", "\\|");
    let row = |cells: &Vec<Line>| format!("| {} |\n", cells.iter().map(cell).collect::<Vec<_>>().join(" | "));
    let rule = " --- |".repeat(heads.len());
    let body: String = rows.iter().take(ROWS).map(row).collect();
    format!("| {} |\n|{rule}\n{body}\n{}", heads.join(" | "), more(rows.len(), ROWS, words))
}

/// Says how many rows are left out; empty if none are.
fn more(all: usize, most: usize, words: &Wording<'_>) -> String {
    match all.saturating_sub(most) {
        0 => String::new(),
        n => paragraph(&words.words.line(words.left_out, &[("n", n.into())])),
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
        let words = &Phrases::english();
        let words = &Wording { words, left_out: "and-others" };
        let table = table(&["a".into()], &[vec![Line::default().plain("x|y")]], words);
        assert_eq!(table, "| a |\n| --- |\n| x\\|y |\n\n");
    }

    #[test]
    fn an_address_ends_where_its_link_ends() {
        let link = |url: &str| line(&Line::default().link("x", url));
        assert_eq!(link("https://wiki/x_(y)"), "[x](https://wiki/x_%28y%29)");
        assert_eq!(link("https://x\t@org/team\r\r~~~"), "[x](https://x%20%40org/team%20%20~~~)");
        assert_eq!(link("javascript:alert(1)"), "x");
    }

    #[test]
    fn pairs_that_are_left_out_are_counted() {
        let pair = |i: usize| (Line::default().plain(format!("n{i}")), Line::default().plain("x"));
        let words = &Phrases::english();
        let words = &Wording { words, left_out: "and-others" };
        let text = document_block(&DocumentBlock::Pairs((0..PAIRS + 5).map(pair).collect()), 2, words);
        assert!(text.contains("- n99: x\n") && !text.contains("n100") && text.contains("and 5 more"), "{text}");
    }

    #[test]
    fn a_detail_for_media_that_fold_is_left_out_of_a_text() {
        let words = &Phrases::english();
        let words = &Wording { words, left_out: "and-others" };
        let group = |folding| BlockGroup {
            key: "k".to_owned(),
            title: Line::default().plain("Title"),
            folding,
            parts: vec![Block::Paragraph(Line::default().plain("Detail"))],
        };
        assert_eq!(titled(&group(Folding::Aside), 2, words), "");
        assert_eq!(titled(&group(Folding::Closed), 2, words), "## Title\n\nDetail\n\n");
    }
}
