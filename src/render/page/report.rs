//! The page of a document: of an incident, live or as a file, or of a backtest.

use maud::{Markup, html};

use super::document::blocks;
use super::html::{fold, line};
use super::{Page, PageActs, UpdateMode};
use crate::Phrases;
use crate::document::{Document, SectionKey};
use crate::report_document::{Medium, ReportPageContext, document};
use message::{BlockGroup, Folding};
use report::Report;

/// Seconds between two polls while the incident is open.
const OPEN: u32 = 5;
/// Seconds between two polls after that; it may fire again.
const OVER: u32 = 30;
/// The sections before the contents.
const FIRST: [SectionKey; 2] = [SectionKey::Why, SectionKey::Do];

/// Renders the whole page.
pub fn report_page(report: &Report, around: &ReportPageContext<'_>, words: &Phrases) -> String {
    let document = document(report, around, Medium::Page, words);
    let kept = match (around.live, report.incident.as_ref().is_some_and(|incident| incident.open)) {
        (false, _) => UpdateMode::File,
        (true, open) => UpdateMode::Live { every: if open { OPEN } else { OVER }, alone: open },
    };
    page(&document, kept, around.acts, words)
}

/// Renders a document as a page that is a file.
pub fn document_page(document: &Document, words: &Phrases) -> String {
    page(document, UpdateMode::File, None, words)
}

fn page(document: &Document, kept: UpdateMode, acts: Option<&PageActs<'_>>, words: &Phrases) -> String {
    let say = |key: &str| words.text(key, &[]);
    let (head, sections) = document.sections.split_at(document.sections.len().min(1));
    let (first, rest): (Vec<&BlockGroup>, Vec<&BlockGroup>) =
        sections.iter().partition(|section| FIRST.iter().any(|key| section.key == key.as_str()));
    let body = html! {
        article.report {
            header.card #head data-part {
                p.above { @for one in &document.above { (line(one)) " " } }
                h1 { (document.title) }
                @for section in head { (blocks(&section.parts, words)) }
                @if let Some(acts) = acts { (acts.bar(words)) }
            }
            @for part in first { (section(part, words)) }
            nav.toc #toc data-part aria-label=(say("report-contents")) {
                h2 { (say("report-contents")) }
                ul { @for part in &rest { li { a href={ "#" (part.key) } { (line(&part.title)) } } } }
            }
            @for part in rest { (section(part, words)) }
            footer.foot #foot data-part { @for note in &document.foot { p { (line(note)) } } }
        }
    };
    Page { title: &document.headline, place: "/incidents", kept, body }.html(words)
}

/// Renders a section as a card.
fn section(part: &BlockGroup, words: &Phrases) -> Markup {
    html! {
        section.card id=(part.key) data-part aria-labelledby={ "h-" (part.key) } {
            @let heading = html! { h2 id={ "h-" (part.key) } { (line(&part.title)) } };
            @let inside = blocks(&part.parts, words);
            @if part.folding == Folding::Closed {
                (fold(&format!("section/{}", part.key), &heading, false, &inside))
            } @else { (heading) (inside) }
        }
    }
}
