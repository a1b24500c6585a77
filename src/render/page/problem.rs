//! The error page.

use maud::html;

use super::{Kept, Page};
use crate::render::{Line, Words};

/// Renders the error page: the problem and its remedy.
pub fn problem_page(title: &str, what: &Line, words: &Words) -> String {
    let body = html! { div.card { h1 { (title) } p.lead { (super::html::line(what)) } } };
    Page { title, place: "", kept: Kept::Still, body }.html(words)
}
