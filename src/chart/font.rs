//! The embedded font: text widths, glyphs, truncation and wrapping.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, GlyphId, PxScale, ScaleFont};

/// Replaces characters that the font does not have; the font has this one.
const UNKNOWN: char = '▯';
/// Maximum number of characters that are measured.
const LONGEST: usize = 400;
/// The mark at a truncation.
const CUT: char = '…';

static REGULAR: LazyLock<FontRef<'static>> = LazyLock::new(|| load(dejavu::sans::regular()));
static BOLD: LazyLock<FontRef<'static>> = LazyLock::new(|| load(dejavu::sans::bold()));

fn load(bytes: &'static [u8]) -> FontRef<'static> {
    #[expect(clippy::expect_used, reason = "the font is part of the program and drawn in every test")]
    FontRef::try_from_slice(bytes).expect("the embedded font can be read")
}

pub(super) fn face(bold: bool) -> &'static FontRef<'static> {
    if bold { &BOLD } else { &REGULAR }
}

/// Converts a size in CSS pixels, which is the em; `ab_glyph` counts the line height.
pub(super) fn scale(font: &FontRef<'_>, size: f32) -> PxScale {
    PxScale::from(size * font.height_unscaled() / font.units_per_em().unwrap_or(2_048.0))
}

/// Returns the glyph of a character, or the glyph of [`UNKNOWN`].
pub(super) fn glyph(font: &FontRef<'_>, c: char) -> GlyphId {
    match font.glyph_id(c) {
        GlyphId(0) => font.glyph_id(UNKNOWN),
        known => known,
    }
}

/// Returns the width of a text, in logical pixels.
pub(super) fn width(text: &str, size: f32, bold: bool) -> f32 {
    let font = face(bold);
    let scaled = font.as_scaled(scale(font, size));
    text.chars().map(|c| scaled.h_advance(glyph(font, c))).sum()
}

/// Replaces line breaks and control characters by spaces, and removes characters that change the text direction.
pub(super) fn clean(text: &str) -> String {
    let turns =
        |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let shown = text.chars().filter(|c| !turns(*c));
    let one_line: String = shown
        .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}') { ' ' } else { c })
        .collect();
    one_line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Truncates a text in the middle if it is wider than `most`, because names differ at their ends.
pub(super) fn fit(text: &str, size: f32, bold: bool, most: f32) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    if chars.len() <= LONGEST && width(text, size, bold) <= most {
        return text.to_owned();
    }
    if chars.len() > LONGEST {
        chars.drain(LONGEST / 2..chars.len() - LONGEST / 2);
    }
    let cut = |keep: usize| -> String {
        let head = keep.div_ceil(2);
        chars[..head].iter().chain([&CUT]).chain(&chars[chars.len() - (keep - head)..]).collect()
    };
    let (mut fits, mut wide) = (0, chars.len());
    while fits + 1 < wide {
        let middle = usize::midpoint(fits, wide);
        if width(&cut(middle), size, bold) <= most { fits = middle } else { wide = middle }
    }
    cut(fits)
}

/// Wraps a text into at most `lines` lines of width `most`; truncates the last line.
pub(super) fn wrap(text: &str, size: f32, bold: bool, most: f32, lines: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut words = text.split(' ').filter(|word| !word.is_empty()).take(LONGEST).peekable();
    while let Some(word) = words.next() {
        let joined = out.last().map(|line| format!("{line} {word}")).filter(|line| width(line, size, bold) <= most);
        let full = out.len() == lines;
        match (joined, out.last_mut()) {
            (Some(line), Some(last)) => *last = line,
            (None, Some(last)) if full => {
                let rest: Vec<&str> = std::iter::once(word).chain(words).collect();
                *last = fit(&format!("{last} {}", rest.join(" ")), size, bold, most);
                break;
            }
            _ => out.push(fit(word, size, bold, most)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_in_the_middle_and_fits() {
        let name = "vllm-meta-llama-3-1-70b-instruct-awq-7f9c6d5b8-x2x4z";
        let cut = fit(name, 10.0, false, 120.0);
        assert!(cut.starts_with("vllm-") && cut.ends_with("2x4z") && cut.contains(CUT), "{cut}");
        assert!(width(&cut, 10.0, false) <= 120.0);
        assert_eq!(fit("short", 10.0, false, 120.0), "short");
        assert!(width(&fit(&"W".repeat(100_000), 10.0, true, 120.0), 10.0, true) <= 120.0);
        assert_eq!(fit("no room at all", 10.0, false, 0.0), "…");
    }

    #[test]
    fn what_the_font_lacks_is_shown_as_unknown() {
        let font = face(false);
        for c in ['模', '\u{10ffff}', '🦀'] {
            assert_eq!(glyph(font, c), font.glyph_id(UNKNOWN));
            assert_ne!(glyph(font, c), GlyphId(0));
        }
        for c in ['←', '…', '·', 'ä', '–', '°'] {
            assert_ne!(font.glyph_id(c), GlyphId(0), "{c}");
        }
    }

    #[test]
    fn control_and_direction_characters_are_taken_out() {
        assert_eq!(clean("a\u{202e}b\u{0}\n\tc \u{feff}d"), "ab c d");
    }

    #[test]
    fn words_wrap_and_the_last_line_is_cut() {
        let text = "first tokens come late ← KV cache is exhausted ← prompts became longer";
        let lines = wrap(text, 15.0, true, 300.0, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| width(line, 15.0, true) <= 300.0), "{lines:?}");
        assert!(wrap("", 15.0, true, 300.0, 2).is_empty());
        assert_eq!(wrap(text, 15.0, true, 9_000.0, 2), [text]);
    }
}
