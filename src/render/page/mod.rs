//! The common parts of all pages: layout, style, and the script that refreshes the page. Server-rendered; no external
//! resources are loaded.
//!
//! Markup is escaped where it is written; [`Page::html`] replaces invisible characters and those that change the text
//! direction by spaces.

mod acts;
mod document;
mod health;
pub(super) mod html;
mod incidents;
mod playbook;
mod report;

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Phrases, is_unseen};
pub use acts::{FormSeal, PAGE_ACTS, PageActs, SilenceFields, note_page, silence_page};
pub use health::health_page;
pub use incidents::{IncidentFilter, IncidentList, IncidentRow, incidents_page};
use message::Line;
pub use playbook::{playbook_page, playbooks_page};
pub use report::{document_page, report_page};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("live.js");
/// The entries of the navigation bar, with their phrases.
const PLACES: [(&str, &str); 3] =
    [("/incidents", "page-incidents"), ("/playbooks", "page-playbooks"), ("/health", "page-health")];

/// Returns the content security policy of the service's pages: their own style and script, requests only to this
/// service.
pub fn policy() -> &'static str {
    static POLICY: LazyLock<String> = LazyLock::new(|| {
        format!(
            "default-src 'none'; style-src '{}'; script-src '{}'; connect-src 'self'; img-src data:; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
            hash(STYLE),
            hash(SCRIPT)
        )
    });
    &POLICY
}

/// Returns the content security policy of a page that is a file: its own style only.
fn policy_of_file() -> String {
    format!("default-src 'none'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'", hash(STYLE))
}

fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes())))
}

/// The update mode of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdateMode {
    /// A file: never updated, and without links to the service.
    File,
    /// Updated only when the user reloads it.
    Still,
    /// Polls for updates. Without scripts the page reloads only if `alone` is true.
    Live {
        /// Seconds between two polls.
        every: u32,
        /// True if the page reloads by itself where scripts do not run.
        alone: bool,
    },
}

/// A page before rendering.
pub(super) struct Page<'a> {
    /// The title of the window; announced to screen readers when it changes.
    pub(super) title: &'a str,
    /// The path of its entry in the navigation bar.
    pub(super) place: &'a str,
    /// The update mode.
    pub(super) kept: UpdateMode,
    /// The content.
    pub(super) body: Markup,
}

impl Page<'_> {
    /// Renders the whole HTML document.
    pub(super) fn html(self, words: &Phrases) -> String {
        let say = |key: &str| words.text(key, &[]);
        let (every, alone) = match self.kept {
            UpdateMode::Live { every, alone } => (Some(every), alone),
            UpdateMode::File | UpdateMode::Still => (None, false),
        };
        let file = self.kept == UpdateMode::File;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width,initial-scale=1";
                    // Our own forms need the header Origin, which no-referrer takes away.
                    meta name="referrer" content=(if file { "no-referrer" } else { "same-origin" });
                    meta name="color-scheme" content="light dark";
                    // A file has no server that could send the header.
                    @if file { meta http-equiv="Content-Security-Policy" content=(policy_of_file()); }
                    @if let (Some(every), true) = (every, alone) {
                        noscript { meta http-equiv="refresh" content=(every.max(15)); }
                    }
                    title { (self.title) }
                    link rel="icon" href="data:,";
                    style { (PreEscaped(STYLE)) }
                }
                body data-every=[every] data-tag=[every.map(|_| TAG)]
                    data-live=[every.map(|_| say("page-live"))] data-updated=[every.map(|_| say("page-updated"))]
                    data-away=[every.map(|_| say("page-away"))] {
                    a.skip href="#main" { (say("page-skip")) }
                    @if !file {
                        header.bar { div.wrap {
                            a.brand href="/incidents" { "llm-diagnose" }
                            nav aria-label=(say("page-places")) { ul {
                                @for (to, name) in PLACES {
                                    li { a href=(to) aria-current=[(to == self.place).then_some("page")] { (say(name)) } }
                                }
                            } }
                            @if every.is_some() { p.live #live {} }
                        } }
                    }
                    main.wrap #main tabindex="-1" { (self.body) }
                    @if every.is_some() {
                        p.hide #aloud role="status" aria-live="polite" {}
                        script data-live { (PreEscaped(SCRIPT)) }
                    }
                }
            }
        };
        let text = page.into_string();
        text.chars().map(|c| if c != '\n' && is_unseen(c) { ' ' } else { c }).collect()
    }
}

/// The placeholder of the page's ETag, which is computed from the page; see [`tagged`].
const TAG: &str = "W/tag-of-this-page";

/// Returns the page with its ETag in it, and the ETag: pages with equal tags have equal content.
pub fn tagged(page: String) -> (String, String) {
    let digest = ring::digest::digest(&ring::digest::SHA256, page.as_bytes());
    let tag = format!("\"{}\"", STANDARD.encode(digest.as_ref().get(..15).unwrap_or_default()));
    let shown = tag.replace('"', "&quot;");
    (page.replacen(TAG, &shown, 1), tag)
}

/// Renders the error page: the problem, its remedy, and links that lead on (label and address).
pub fn problem_page(title: &str, what: &Line, back: &[(String, String)], words: &Phrases) -> String {
    let body = html! { div.card { h1 { (title) } p.lead { (html::line(what)) }
        @if !back.is_empty() { p.send { @for (label, to) in back { (html::link(label, to)) " " } } }
    } };
    Page { title, place: "", kept: UpdateMode::Still, body }.html(words)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn nothing_from_outside_brings_markup_or_turns_the_direction_of_writing() {
        let body = html! { p { ("<script>\u{202e}\u{1b}[31m") } };
        let page = Page { title: "</title>", place: "", kept: UpdateMode::Still, body }.html(&Phrases::english());
        assert!(page.contains("&lt;/title&gt;") && page.contains("&lt;script&gt;"), "{page}");
        assert!(!page.contains("<script") && !page.contains(['\u{202e}', '\u{1b}']), "{page}");
    }

    #[test]
    fn a_page_that_says_something_else_has_another_tag() {
        let page = |text: &str| {
            let body = html! { p { (text) } };
            tagged(
                Page { title: "x", place: "", kept: UpdateMode::Live { every: 5, alone: true }, body }
                    .html(&Phrases::english()),
            )
        };
        let ((first, tag), (_, same), (_, other)) = (page("a"), page("a"), page("b"));
        assert!(tag == same && tag != other);
        assert!(first.contains(&format!("data-tag=\"{}\"", tag.replace('"', "&quot;"))), "{first}");
    }

    /// Returns the contrast ratio of two colours, 1 to 21. Source: <https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio>
    fn contrast(one: &str, other: &str) -> f64 {
        let luminance = |colour: &str| {
            let digits = colour.trim_start_matches('#');
            let long: String = match digits.len() {
                3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
                _ => digits.to_owned(),
            };
            let parts = [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&long[at..at + 2], 16).unwrap()) / 255.0);
            let [r, g, b] = parts.map(|c| if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) });
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_text_stands_out_from_what_it_stands_on_by_day_and_by_night() {
        let schemes: Vec<BTreeMap<&str, &str>> = STYLE
            .split(":root{")
            .skip(1)
            .take(2)
            .map(|block| block.split('}').next().unwrap_or_default())
            .map(|block| block.split(';').filter_map(|rule| rule.trim().strip_prefix("--")?.split_once(':')).collect())
            .collect();
        assert_eq!(schemes.len(), 2, "light and dark");
        for (scheme, colours) in ["light", "dark"].iter().zip(&schemes) {
            let holds = |text: &str, ground: &str, least: f64| {
                let found = contrast(colours[text], colours[ground]);
                assert!(found >= least, "{scheme}: {text} on {ground} has {found:.2}, {least} is needed");
            };
            for text in ["fg", "dim", "link"] {
                ["bg", "card", "sunk", "bad-bg"].iter().for_each(|ground| holds(text, ground, 4.5));
            }
            for tone in ["bad", "warn", "good", "mute"] {
                [format!("{tone}-bg"), "card".into(), "sunk".into()].iter().for_each(|ground| holds(tone, ground, 4.5));
            }
            holds("card", "fg", 4.5);
            // Graphics need less contrast than text.
            for drawn in colours.keys().filter(|name| name.starts_with("chart-")) {
                holds(drawn, "card", 3.0);
            }
        }
    }
}
