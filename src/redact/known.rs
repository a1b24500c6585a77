//! Secrets that are known because a field or a label named them: taken out wherever else they stand.

use super::rules::{Span, marks, merged};

/// Shorter values are met everywhere.
const SHORTEST: usize = 8;
/// Longer values are texts.
const LONGEST: usize = 4 << 10;
/// Values at most, the first ones; each is searched for in every text.
const MOST: usize = 256;

/// The values, with the rule by which each one went.
#[derive(Default)]
pub(super) struct Known {
    values: Vec<(String, usize)>,
}

impl Known {
    /// Remembers a value while there are fewer than [`MOST`]; what may be a word of any sentence, or stands on several
    /// lines, is passed over.
    pub(super) fn learn(&mut self, rule: usize, value: &str) {
        let value = value.trim();
        let fits = (SHORTEST..=LONGEST).contains(&value.len()) && !value.contains('\n') && marks(value).is_empty();
        if fits && self.values.len() < MOST && !self.values.iter().any(|(known, _)| known == value) {
            self.values.push((value.to_owned(), rule));
        }
    }

    /// Adds where values stand in a text as words of their own.
    pub(super) fn add(&self, text: &str, spans: &mut Vec<Span>) {
        let (before, word) = (spans.len(), |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        for (value, rule) in &self.values {
            for (start, _) in text.match_indices(value.as_str()) {
                let end = start + value.len();
                if !text[..start].ends_with(word) && !text[end..].starts_with(word) {
                    spans.push(Span { at: start..end, rule: *rule });
                }
            }
        }
        if spans.len() > before {
            *spans = merged(std::mem::take(spans));
        }
    }
}
