//! The error page.

use maud::html;

use super::{Page, UpdateMode};
use crate::Phrases;
use message::Line;

/// Renders the error page: the problem and its remedy.
pub fn problem_page(title: &str, what: &Line, words: &Phrases) -> String {
    let body = html! { div.card { h1 { (title) } p.lead { (super::html::line(what)) } } };
    Page { title, place: "", kept: UpdateMode::Still, body }.html(words)
}
