//! Lines of JSON in a text: each placeholder stays inside one string, so that readers of the JSON can still read it.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use serde::de::IgnoredAny;

use super::rules::{MatchSpan, is_mark};

/// One token of a text that is JSON.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#""(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+"#).expect("a fixed pattern can be compiled")
});

/// A part of a text that is replaced.
pub(super) struct Replaced {
    pub(super) at: Range<usize>,
    pub(super) rule: usize,
    /// True if its placeholder needs quotes: it replaces a number, or whole values.
    pub(super) quoted: bool,
    in_json: bool,
}

/// A line, and its tokens if it is JSON.
struct JsonLine {
    at: Range<usize>,
    tokens: Vec<Range<usize>>,
}

impl JsonLine {
    /// Reads the line in which this place is.
    fn new(text: &str, place: usize) -> Self {
        let start = text[..place].rfind('\n').map_or(0, |at| at + 1);
        let end = text[place..].find('\n').map_or(text.len(), |at| place + at + 1);
        let line = &text[start..end];
        let json = line.trim_start().starts_with(['{', '[', '"']) && serde_json::from_str::<IgnoredAny>(line).is_ok();
        let tokens = TOKEN.find_iter(if json { line } else { "" });
        Self { at: start..end, tokens: tokens.map(|token| start + token.start()..start + token.end()).collect() }
    }
}

/// Cuts sorted spans of a text where a line of JSON would be none after them. Leaves out what is a placeholder already.
pub(super) fn fitted(text: &str, spans: Vec<MatchSpan>) -> Vec<Replaced> {
    let mut out: Vec<Replaced> = Vec::with_capacity(spans.len());
    let mut line = JsonLine { at: 0..0, tokens: Vec::new() };
    for MatchSpan { at: span, rule } in spans {
        let mut from = span.start;
        while from < span.end {
            if !line.at.contains(&from) {
                line = JsonLine::new(text, from);
            }
            let to = line.at.end.min(span.end);
            let parts = if line.tokens.is_empty() {
                // The end of a line stays where the next one is JSON.
                let end = if to < span.end { to - 1 } else { to };
                match out.last_mut() {
                    // One placeholder for neighbours that are not JSON.
                    Some(last) if !last.in_json && from > span.start && last.at.end + 1 == from => {
                        last.at.end = end;
                        Vec::new()
                    }
                    _ => vec![(from..end, false)],
                }
            } else {
                parts(text, &line, from..to)
            };
            let in_json = !line.tokens.is_empty();
            out.extend(parts.into_iter().map(|(at, quoted)| Replaced { at, rule, quoted, in_json }));
            from = to;
        }
    }
    out.retain(|part| part.quoted || !part.at.is_empty() && !is_mark(&text[part.at.clone()]));
    out
}

/// Returns what of a range of a line of JSON is replaced, each with whether it needs quotes.
fn parts(text: &str, line: &JsonLine, at: Range<usize>) -> Vec<(Range<usize>, bool)> {
    let kind = |token: &Range<usize>| text.as_bytes()[token.start];
    let first = line.tokens.partition_point(|token| token.end <= at.start);
    let mut end = line.tokens.partition_point(|token| token.start < at.end).max(first);
    // What reads to the end of the line is meant for the string in which it begins.
    let inside = line.tokens.get(first).is_some_and(|token| token.start < at.start && kind(token) == b'"');
    if inside && text[at.end..line.at.end].trim().is_empty() {
        end = end.min(first + 1);
    }
    let mut all = &line.tokens[first..end];
    if let [first, rest @ ..] = all
        && kind(first) == b','
    {
        all = rest;
    }
    if let [rest @ .., last] = all
        && kind(last) == b','
    {
        all = rest;
    }
    // Whole values next to each other: one placeholder for all of them, and a list stays a list.
    let values = |tokens: &[Range<usize>]| {
        let depth = tokens.iter().map(kind).try_fold(0_usize, |depth, kind| match kind {
            b'[' | b'{' => Some(depth + 1),
            b']' | b'}' => depth.checked_sub(1),
            b':' if depth == 0 => None,
            _ => Some(depth),
        });
        depth == Some(0)
    };
    if let [begin, .., last] = all
        && at.start <= begin.start
        && last.end <= at.end
        && values(all)
        && line.tokens.get(end).is_none_or(|next| kind(next) != b':')
    {
        let items = all.get(1..all.len() - 1).filter(|items| kind(begin) == b'[' && values(items));
        if let [begin, .., last] = items.unwrap_or(all) {
            return vec![(begin.start..last.end, true)];
        }
    }
    let scalars = all.iter().filter(|token| !b"[]{}:,".contains(&kind(token)));
    let parts = scalars.map(|token| match kind(token) {
        b'"' => (at.start.max(token.start + 1)..at.end.min(token.end - 1), false),
        _ => (token.clone(), true),
    });
    parts.filter(|(part, _)| part.start < part.end).collect()
}
