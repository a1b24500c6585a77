//! The error page.

use maud::html;

use super::html::link;
use super::{Page, UpdateMode};
use crate::Phrases;
use message::Line;

/// Renders the error page: the problem, its remedy, and links that lead on (label and address).
pub fn problem_page(title: &str, what: &Line, back: &[(String, String)], words: &Phrases) -> String {
    let body = html! { div.card { h1 { (title) } p.lead { (super::html::line(what)) }
        @if !back.is_empty() { p.send { @for (label, to) in back { (link(label, to)) " " } } }
    } };
    Page { title, place: "", kept: UpdateMode::Still, body }.html(words)
}
