//! Histograms of prompt and answer lengths, as bars and as text for screen readers.

use maud::{Markup, html};

use crate::render::Phrases;
use crate::render::facts::length;
use crate::render::page::html::fold;
use crate::report::Distribution;
use crate::signal::{Unit, format_value};

/// The size of the drawing.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 84.0;
/// The height below the bars, for the bounds.
const FOOT: f64 = 16.0;
/// Maximum number of labelled bounds.
const BOUNDS: usize = 6;

/// Renders a distribution with its name.
pub(super) fn drawn(title: &str, d: &Distribution, words: &Phrases) -> Markup {
    let say = |key: &str| words.text(key, &[]);
    let tokens = |value: f64| format_value(value, Unit::Tokens);
    let name = say(title);
    let said = words.text(
        "report-spread",
        &[
            ("count", format_value(d.count, Unit::Requests).into()),
            ("mean", tokens(d.mean).into()),
            ("half", length(d, d.p50, words).into()),
            ("most", length(d, d.p90, words).into()),
            ("nearly", length(d, d.p99, words).into()),
        ],
    );
    let bound = |bound: &Option<f64>| bound.map_or("∞".to_owned(), |b| format_value(b, Unit::Requests));
    html! {
        p { b { (name) } " " (said) }
        @if let Some((mean, half)) = d.earlier {
            p.dim { (words.text("report-spread-earlier", &[("mean", tokens(mean).into()), ("half", length(d, half, words).into())])) }
        }
        (bars(&name, &said, d))
        (fold(&format!("{title}/buckets"), &html! { (say("report-buckets")) }, false, &html! {
            ul { @for (to, share) in &d.buckets { li { "≤ " (bound(to)) ": " (format_value(*share, Unit::Ratio)) } } }
            p.dim { code { (d.metric) } }
        }))
    }
}

fn bars(name: &str, said: &str, d: &Distribution) -> Markup {
    // Empty buckets at both ends are left out.
    let first = d.buckets.iter().position(|(_, share)| *share > 0.0).unwrap_or(0);
    let last = d.buckets.iter().rposition(|(_, share)| *share > 0.0).map_or(0, |at| at + 1);
    let shown = d.buckets.get(first..last).unwrap_or_default();
    let top = shown.iter().map(|(_, share)| *share).filter(|share| share.is_finite()).fold(0.0, f64::max);
    if shown.is_empty() || top <= 0.0 {
        return html! {};
    }
    let wide = WIDTH / shown.len() as f64;
    let every = shown.len().div_ceil(BOUNDS);
    let number = |value: f64| format!("{:.1}", value);
    html! {
        svg.bars viewBox={ "0 0 " (WIDTH) " " (HEIGHT + FOOT) } role="img" aria-label={ (name) ": " (said) } {
            @for (i, (_, share)) in shown.iter().enumerate() {
                @let high = (share / top).clamp(0.0, 1.0) * (HEIGHT - 4.0);
                rect x=(number(i as f64 * wide + 1.0)) y=(number(HEIGHT - high)) width=(number((wide - 2.0).max(1.0))) height=(number(high)) rx="1.5" {}
            }
            line x1="0" x2=(WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
            @for (i, (bound, _)) in shown.iter().enumerate().filter(|(i, _)| (i + 1) % every == 0) {
                @if let Some(bound) = bound {
                    text x=(number((i + 1) as f64 * wide - 2.0)) y=(number(HEIGHT + FOOT - 3.0)) text-anchor="end" { (format_value(*bound, Unit::Requests)) }
                }
            }
        }
    }
}
