//! Formatted lines, times, links and tables as HTML.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::diagnose::{Outcome, Verdict};
use crate::render::{Line, Phrases, TextSpan, Tone, facts};

/// Renders a formatted line.
pub(in crate::render) fn line(line: &Line) -> Markup {
    html! {
        @for span in &line.0 {
            @match span {
                TextSpan::Plain(text) => (text),
                TextSpan::Bold(text) => b { (text) },
                TextSpan::Code(text) => code { (text) },
                TextSpan::Link(label, url) => (link(label, url)),
                TextSpan::Time(at) => (clock(*at)),
                TextSpan::User(_) | TextSpan::Group(_) => (span.text()),
            }
        }
    }
}

/// Renders a link if the URL is HTTP, one of our pages or an anchor; otherwise only its label.
pub(in crate::render) fn link(label: &str, url: &str) -> Markup {
    let goes = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
    // Our own pages, but not `//other-host`.
    let ours = url.starts_with('/') && !url.starts_with("//");
    html! {
        @if goes { a href=(url) rel="noopener noreferrer" { (label) } }
        @else if ours || url.starts_with('#') { a href=(url) { (label) } }
        @else { (label) }
    }
}

/// Renders a time of day; the page says once that times are UTC.
pub(in crate::render) fn clock(at: Timestamp) -> Markup {
    html! { time datetime=(at) title=(at.strftime("%Y-%m-%d %H:%M:%S UTC")) { (at.strftime("%H:%M")) } }
}

/// Renders date and time.
pub(in crate::render) fn moment(at: Timestamp) -> Markup {
    html! { time datetime=(at) { (at.strftime("%Y-%m-%d %H:%M:%S UTC")) } }
}

/// Renders a collapsible element; `key` identifies it when the page is refreshed.
pub(in crate::render) fn fold(key: &str, title: &Markup, open: bool, inside: &Markup) -> Markup {
    html! { details data-key=(key) open[open] { summary { (title) } (inside) } }
}

/// Renders a table that scrolls by itself if it is too wide.
pub(in crate::render) fn table(name: &str, heads: &[String], rows: &[Vec<Markup>]) -> Markup {
    let slim = (heads.len() < 4).then_some("slim");
    html! {
        div.scroll role="region" tabindex="0" aria-label=(name) {
            table class=[slim] {
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            }
        }
    }
}

/// Renders a word in a coloured frame, with its sign.
pub(in crate::render) fn pill(look: StateStyle, word: &str) -> Markup {
    html! { span.pill.(look.class()) { span aria-hidden="true" { (look.sign()) } (word) } }
}

/// The style of a state: a colour, always with a sign and a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::render) enum StateStyle {
    Bad,
    Warn,
    Good,
    Mute,
}

impl StateStyle {
    pub(in crate::render) fn class(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Warn => "warn",
            Self::Good => "good",
            Self::Mute => "mute",
        }
    }

    pub(in crate::render) fn sign(self) -> &'static str {
        match self {
            Self::Bad => "●",
            Self::Warn => "▲",
            Self::Good => "✓",
            Self::Mute => "○",
        }
    }

    pub(in crate::render) fn of(tone: Tone) -> Self {
        match tone {
            Tone::Critical => Self::Bad,
            Tone::Warning => Self::Warn,
            Tone::Good => Self::Good,
            Tone::Firing | Tone::Unknown => Self::Mute,
        }
    }
}

/// Renders a verdict as a pill.
pub(in crate::render) fn sureness(verdict: Verdict, words: &Phrases) -> Markup {
    let look = match verdict {
        Verdict::Likely => StateStyle::Bad,
        Verdict::Possible => StateStyle::Warn,
        Verdict::Unlikely | Verdict::Undetermined | Verdict::RuledOut => StateStyle::Mute,
    };
    pill(look, &facts::verdict(verdict, words))
}

/// Renders the outcome of a check: a sign with its word.
pub(in crate::render) fn outcome(outcome: Option<Outcome>, words: &Phrases) -> Markup {
    let (class, sign, key) = match outcome {
        Some(Outcome::Met) => ("bad", "✓", "page-met"),
        Some(Outcome::NotMet) => ("good", "✗", "page-not-met"),
        Some(Outcome::NoData) => ("mute", "?", "page-no-data"),
        None => ("mute", "–", "page-not-kept"),
    };
    html! { span.mark.(class) { span aria-hidden="true" { (sign) " " } (words.text(key, &[])) } }
}
