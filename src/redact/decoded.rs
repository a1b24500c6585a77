//! Encoded text: a search in the text, and in its decoded form, so that the last letter of an
//! escape is no part of the word behind it (`\nsk-…`, `%22sk-…`, `\u001b[31msk-…`), and an encoded character none of a gap.
//! Findings there are mapped back to the encoded text, to whole escapes.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::rules::MatchSpan;

/// Maximum number of times that a text is decoded: JSON in JSON in a log in JSON.
const DEEPEST: usize = 4;

/// The sequences that a terminal reads, whichever way their first character is written, then one escape each of JSON and
/// programs' strings, of addresses and of HTML. Sources: ECMA-48 5.4, RFC 8259 7, RFC 3986 2.1, HTML 13.5.
static ESCAPE: LazyLock<Regex> = LazyLock::new(|| {
    // Bounded, or a long run would be read again for each of its escapes.
    let terminal = r"(?:\x1b|\\{1,8}(?:u001[bB]|u\{1[bB]\}|x1[bB]|0?33|e)|%1[bB]|&#(?:27|x1[bB]);|#033|\^\[)\[[0-?]{0,32}[ -/]{0,4}[@-~]|\x1b\][^\x00-\x1f]{0,2000}(?:\x07|\x1b\\)|\[[0-9]{1,3}(?:;[0-9]{1,3})*m";
    let strings = r#"\\(?:u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|x[0-9A-Fa-f]{2}|[0-3][0-7]{2}|["'`/\\bfnrt])"#;
    let others = "%[0-9A-Fa-f]{2}|&(?:#[0-9]{1,6}|#[xX][0-9A-Fa-f]{1,5}|quot|apos|amp|lt|gt|nbsp);";
    Regex::new(&format!("{terminal}|{strings}|{others}")).expect("a fixed pattern can be compiled")
});

/// An escape in a text.
struct Escape {
    raw: Range<usize>,
    /// The character that it stands for; `None` for nothing that is read.
    decoded: Option<char>,
}

/// Returns what `search` finds in a text, and in those lines of it that have escapes, as they were before.
pub(super) fn spans(text: &str, search: &dyn Fn(&str) -> Vec<MatchSpan>) -> Vec<MatchSpan> {
    at_depth(text, search, DEEPEST)
}

fn at_depth(text: &str, search: &dyn Fn(&str) -> Vec<MatchSpan>, depth: usize) -> Vec<MatchSpan> {
    let mut spans = search(text);
    let escapes = if depth == 0 { Vec::new() } else { escapes(text) };
    if escapes.is_empty() {
        return spans;
    }
    for span in &mut spans {
        span.at = whole_escapes(&escapes, &span.at);
    }
    spans.retain(|span| !span.at.is_empty());
    // With the lines before and behind them, lines of neighbours would overlap.
    let neighbours = |one: &Escape, next: &Escape| text[one.raw.end..next.raw.start].matches('\n').nth(3).is_none();
    for escapes in escapes.chunk_by(neighbours) {
        let decoded = Decoded::new(text, escapes);
        let found = at_depth(&decoded.text, search, depth - 1);
        spans.extend(found.into_iter().map(|span| MatchSpan { at: decoded.raw(&span.at), rule: span.rule }));
    }
    spans
}

fn escapes(text: &str) -> Vec<Escape> {
    // `[5m]` is a range of PromQL, no colour.
    let found =
        ESCAPE.find_iter(text).filter(|one| !(one.as_str().starts_with('[') && text[one.end()..].starts_with(']')));
    found.map(|one| Escape { raw: one.range(), decoded: stands_for(one.as_str()) }).collect()
}

/// Returns the character that an escape stands for; `None` for a terminal's sequence.
fn stands_for(escape: &str) -> Option<char> {
    if escape.contains(['[', '\u{1b}']) {
        return None;
    }
    let number = |digits: &str, radix: u32| {
        let digits = digits.trim_matches(['{', '}', ';']);
        // Half of a pair, which is no character, is no letter either.
        u32::from_str_radix(digits, radix).ok().and_then(char::from_u32).or(Some(char::REPLACEMENT_CHARACTER))
    };
    let (kind, rest) = escape.split_at(1);
    match (kind, rest.as_bytes()) {
        ("%", _) => number(rest, 16),
        ("&", [b'#', b'x' | b'X', ..]) => number(&rest[2..], 16),
        ("&", [b'#', ..]) => number(&rest[1..], 10),
        ("&", [b'q', ..]) => Some('"'),
        ("&", [b'l', ..]) => Some('<'),
        ("&", [b'g', ..]) => Some('>'),
        ("&", [b'n', ..]) => Some(' '),
        ("&", [_, b'm', ..]) => Some('&'),
        ("&", _) => Some('\''),
        (_, [b'u' | b'x', ..]) => number(&rest[1..], 16),
        (_, [b'0'..=b'3', ..]) => number(rest, 8),
        (_, [b'n', ..]) => Some('\n'),
        (_, [b'r', ..]) => Some('\r'),
        (_, [b't', ..]) => Some('\t'),
        (_, [b'b' | b'f', ..]) => Some(' '),
        _ => rest.chars().next(),
    }
}

/// Returns a range without the escapes that it has a part of: its border is another one in the decoded text.
fn whole_escapes(escapes: &[Escape], at: &Range<usize>) -> Range<usize> {
    let around = |place: usize| {
        let escape = escapes.get(escapes.partition_point(|escape| escape.raw.end <= place))?;
        (escape.raw.start < place).then_some(&escape.raw)
    };
    let start = around(at.start).map_or(at.start, |escape| escape.end);
    start..around(at.end).map_or(at.end, |escape| escape.start).max(start)
}

/// Lines of a text, decoded.
struct Decoded {
    text: String,
    /// The decoded escapes, each with its place in the encoded text; the first one is the beginning.
    places: Vec<(Range<usize>, Range<usize>)>,
}

impl Decoded {
    /// Decodes the lines with these escapes, with the line before them and the line behind them: the name of a
    /// variable is before its value.
    fn new(text: &str, escapes: &[Escape]) -> Self {
        let (first, last) = (escapes.first().map_or(0, |e| e.raw.start), escapes.last().map_or(0, |e| e.raw.end));
        let start = text[..first].rmatch_indices('\n').nth(1).map_or(0, |(at, _)| at + 1);
        let end = text[last..].match_indices('\n').nth(1).map_or(text.len(), |(at, _)| last + at + 1);
        let (mut out, mut done) = (String::with_capacity(end - start), start);
        let mut places = vec![(0..0, start..start)];
        for escape in escapes {
            out.push_str(&text[done..escape.raw.start]);
            let at = out.len();
            out.extend(escape.decoded);
            places.push((at..out.len(), escape.raw.clone()));
            done = escape.raw.end;
        }
        out.push_str(&text[done..end]);
        Self { text: out, places }
    }

    /// Returns the place of a decoded range, which is not empty, in the encoded text.
    fn raw(&self, at: &Range<usize>) -> Range<usize> {
        let last = at.end.saturating_sub(1);
        let (decoded, raw) = self.before(at.start);
        let start = if at.start < decoded.end { raw.start } else { raw.end + at.start - decoded.end };
        let (decoded, raw) = self.before(last);
        start..if last < decoded.end { raw.end } else { raw.end + at.end - decoded.end }
    }

    /// Returns the last escape that begins at this place or before it.
    fn before(&self, at: usize) -> &(Range<usize>, Range<usize>) {
        &self.places[self.places.partition_point(|(decoded, _)| decoded.start <= at) - 1]
    }
}
