//! The blocks of a document as HTML, within what a screen shows well: long tables and lists of steps are folded.

use maud::{Markup, PreEscaped, html};

use super::html::{clock, fold, line};
use crate::Phrases;
use message::{Block, BlockGroup, ChainLink, DocumentBlock, Folding, Line, TextSpan};

/// Maximum number of steps shown open.
const STEPS: usize = 3;
/// Maximum number of rows shown open; of more, the middle is folded.
const ROWS: usize = 20;
/// Maximum number of rows in that fold.
const FOLDED: usize = 400;
/// Maximum number of values in a box of the chain.
const NUMBERS: usize = 2;
/// Maximum characters of a cell that stays on one line.
const SHORT: usize = 16;
/// Maximum number of columns that a phone shows beside each other.
const COLUMNS: usize = 3;
/// The size of a histogram.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 84.0;
/// The height below its bars, for the bounds.
const FOOT: f64 = 16.0;
/// Maximum number of labelled bounds of a histogram.
const BOUNDS: usize = 6;

/// Renders blocks.
pub(super) fn blocks(parts: &[Block], words: &Phrases) -> Markup {
    html! { @for part in parts { (block(part, words)) } }
}

fn block(part: &Block, words: &Phrases) -> Markup {
    html! {
        @match part {
            Block::Paragraph(text) | Block::Beside(text, _) => p { (line(text)) },
            Block::Note(text) => p.dim { (line(text)) },
            Block::Gap(text) => p.none { (line(text)) },
            Block::Section(title, lines) => {
                (heading(title))
                ul { @for text in lines { li { (line(&item(text))) } } }
            },
            Block::Steps(title, lines) => (steps(title, lines, words)),
            Block::Document(of) => (document_block(of, words)),
            // A page has no buttons of messages.
            Block::Buttons(_) => {},
        }
    }
}

fn document_block(block: &DocumentBlock, words: &Phrases) -> Markup {
    html! {
        @match block {
            DocumentBlock::Pairs(pairs) => dl.kv {
                @for (name, value) in pairs { div { dt { (line(name)) } dd { (line(value)) } } }
            },
            DocumentBlock::Table { name, heads, rows, folds: false, .. } => (table(Some(name.as_str()), heads, rows, words)),
            DocumentBlock::Table { key, name, heads, rows, folds: true } => {
                (long_table(key, name, heads, rows, words))
            },
            DocumentBlock::Code(text) => pre tabindex="0" { code { (text) } },
            DocumentBlock::Group(of) => (group(of, words)),
            DocumentBlock::Chain { leads, links } => (chain(*leads, links, words)),
            DocumentBlock::Histogram { alt, bars } => (histogram(alt, bars)),
            // The chart's renderer wrote and escaped it.
            DocumentBlock::Chart { alt, svg } => figure aria-label=(alt) { (PreEscaped(svg)) },
        }
    }
}

fn heading(title: &str) -> Markup {
    html! { @if !title.is_empty() { h3 { (title) } } }
}

/// Returns the line of a list without the bullet that chats need.
fn item(text: &Line) -> Line {
    match text.0.split_first() {
        Some((TextSpan::Plain(mark), rest)) if mark == "• " => Line(rest.to_vec()),
        _ => text.clone(),
    }
}

fn steps(title: &str, lines: &[Line], words: &Phrases) -> Markup {
    let (first, rest) = lines.split_at(lines.len().min(STEPS));
    let more = words.line("report-more-steps", &[("n", rest.len().into())]);
    html! {
        (heading(title))
        ol.steps { @for text in first { li { (line(text)) } } }
        @if !rest.is_empty() {
            (fold("do/more", &line(&more), false, &html! {
                ol start=(STEPS + 1) { @for text in rest { li { (line(text)) } } }
            }))
        }
    }
}

/// Renders a table, the middle of a long one in a fold. Only the first part has the name: a name leads to one place.
fn long_table(key: &str, name: &str, heads: &[String], rows: &[Vec<Line>], words: &Phrases) -> Markup {
    let open = if rows.len() > ROWS { ROWS / 2 } else { rows.len() };
    let (first, rest) = rows.split_at(open);
    let (middle, last) = rest.split_at(rest.len().saturating_sub(open));
    html! {
        (table(Some(name), heads, first, words))
        @if !middle.is_empty() {
            @let title = words.line("report-between", &[("n", middle.len().into())]);
            @let shown = middle.get(..middle.len().min(FOLDED)).unwrap_or_default();
            @let left_out = middle.len() - shown.len();
            (fold(&format!("{key}/middle"), &line(&title), false, &html! {
                (table(None, heads, shown, words))
                @if left_out > 0 { p.dim { (line(&words.line("and-others", &[("n", left_out.into())]))) } }
            }))
        }
        @if !last.is_empty() { (table(None, heads, last, words)) }
    }
}

/// Renders a table that scrolls by itself if it is too wide. A short cell, such as a number with its unit, is never
/// broken.
fn table(name: Option<&str>, heads: &[String], rows: &[Vec<Line>], words: &Phrases) -> Markup {
    let is_short = |text: &Line| text.text().chars().count() <= SHORT;
    html! {
        @if heads.len() > COLUMNS { p.swipe { (words.text("page-swipe", &[("n", heads.len().into())])) } }
        div.scroll role=[name.map(|_| "group")] tabindex="0" aria-label=[name] {
            table {
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody { @for row in rows { tr { @for cell in row { td.num[is_short(cell)] { (line(cell)) } } } } }
            }
        }
    }
}

fn group(of: &BlockGroup, words: &Phrases) -> Markup {
    let inside = blocks(&of.parts, words);
    match of.folding {
        Folding::Never => html! { div.qa { h3 { (line(&of.title)) } (inside) } },
        Folding::Open => fold(&of.key, &line(&of.title), true, &inside),
        Folding::Closed | Folding::Aside => fold(&of.key, &line(&of.title), false, &inside),
    }
}

/// Renders the chain as boxes; without arrows if the times contradict it.
fn chain(leads: bool, links: &[ChainLink], words: &Phrases) -> Markup {
    html! {
        ol.chain.apart[!leads] { @for link in links {
            li { div.box.(if link.root { "root" } else { "step" }).bad[link.root] {
                p.kind { (line(&link.kind)) }
                p.name { (link.title) }
                ul { @for number in link.facts.iter().take(NUMBERS) { li { (number) } } }
                @if let Some(at) = link.since { p.since { (words.text("report-from", &[])) " " (clock(at)) } }
            } }
        } }
    }
}

fn histogram(alt: &str, bars: &[(String, u16)]) -> Markup {
    let wide = WIDTH / bars.len() as f64;
    let every = bars.len().div_ceil(BOUNDS);
    let number = |value: f64| format!("{value:.1}");
    html! {
        svg.bars viewBox={ "0 0 " (WIDTH) " " (HEIGHT + FOOT) } role="img" aria-label=(alt) {
            @for (i, (_, height)) in bars.iter().enumerate() {
                @let high = f64::from(*height) / 1_000.0 * (HEIGHT - 4.0);
                rect x=(number(i as f64 * wide + 1.0)) y=(number(HEIGHT - high)) width=(number((wide - 2.0).max(1.0))) height=(number(high)) rx="1.5" {}
            }
            line x1="0" x2=(WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
            @for (i, (bound, _)) in bars.iter().enumerate().filter(|(i, _)| (i + 1) % every == 0) {
                text x=(number((i + 1) as f64 * wide - 2.0)) y=(number(HEIGHT + FOOT - 3.0)) text-anchor="end" { (bound) }
            }
        }
    }
}
