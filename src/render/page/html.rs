//! Formatted lines, times, links and folds as HTML.

use jiff::Timestamp;
use maud::{Markup, html};

use message::{Line, StateStyle, TextSpan};

/// Renders a formatted line.
pub(super) fn line(line: &Line) -> Markup {
    html! { @for one in &line.0 { (span(one)) } }
}

/// Renders a formatted piece of text.
pub(super) fn span(span: &TextSpan) -> Markup {
    html! {
        @match span {
            TextSpan::Plain(text) => (text),
            TextSpan::Bold(text) => b { (text) },
            TextSpan::Code(text) => code { (text) },
            TextSpan::Link(label, url) => (link(label, url)),
            TextSpan::Time(at) => (clock(*at)),
            TextSpan::User(_) | TextSpan::Group(_) => (span.text()),
            TextSpan::Moment(at) => (moment(*at)),
            TextSpan::State(style, word) => (pill(*style, word)),
            TextSpan::Small(text) => { " " small { (line(text)) } },
        }
    }
}

/// Renders a link if the URL is HTTP, one of our pages or an anchor; otherwise only its label.
pub(super) fn link(label: &str, url: &str) -> Markup {
    let goes = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
    // Our own pages, but not `//other-host`.
    let ours = url.starts_with('/') && !url.starts_with("//");
    // Each link opens in place, and `Referrer-Policy` of the answers keeps our addresses from others: no `rel` is needed.
    html! {
        @if goes || ours || url.starts_with('#') { a href=(url) { (label) } }
        @else { (label) }
    }
}

/// Renders a time of day; the page says once that times are UTC.
pub(super) fn clock(at: Timestamp) -> Markup {
    html! { time datetime=(at) title=(at.strftime("%Y-%m-%d %H:%M:%S UTC")) { (at.strftime("%H:%M")) } }
}

/// Renders date and time.
pub(super) fn moment(at: Timestamp) -> Markup {
    html! { time datetime=(at) { (at.strftime("%Y-%m-%d %H:%M:%S UTC")) } }
}

/// Renders a collapsible element; `key` identifies it when the page is refreshed.
pub(super) fn fold(key: &str, title: &Markup, open: bool, inside: &Markup) -> Markup {
    html! { details data-key=(key) open[open] { summary { (title) } (inside) } }
}

/// Renders a word in a coloured frame, with its sign; the outcome of a check without the frame.
pub(super) fn pill(style: StateStyle, word: &str) -> Markup {
    let (frame, class, sign) = match style {
        StateStyle::Bad => ("pill", "bad", "●"),
        StateStyle::Warn => ("pill", "warn", "▲"),
        StateStyle::Good => ("pill", "good", "✓"),
        StateStyle::Mute => ("pill", "mute", "○"),
        // A check that holds may speak of trouble or of its absence: the word tells, no colour does.
        StateStyle::Met => ("mark", "met", "●"),
        StateStyle::NotMet => ("mark", "mute", "○"),
        StateStyle::NoData => ("mark", "mute", "?"),
    };
    html! { span.(frame).(class) { i aria-hidden="true" { (sign) " " } (word) } }
}
