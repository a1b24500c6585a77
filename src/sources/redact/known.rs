//! Known secrets: values of fields and labels named as secrets, which are redacted in every other text too.

use super::rules::{MatchSpan, marks, merged};

/// Minimum length in bytes; shorter values occur everywhere.
const SHORTEST: usize = 8;
/// Maximum length in bytes; longer values are whole texts.
const LONGEST: usize = 4 << 10;
/// Maximum number of values, the first ones seen; each is searched for in every text.
const MOST: usize = 256;

/// The known values, each with the index of the rule that redacted it.
#[derive(Default)]
pub(super) struct KnownSecrets {
    values: Vec<(String, usize)>,
}

impl KnownSecrets {
    /// Stores a value while there are fewer than [`MOST`]. Ignores values that are too short, too long, or on several
    /// lines.
    pub(super) fn learn(&mut self, rule: usize, value: &str) {
        let value = value.trim();
        let fits = (SHORTEST..=LONGEST).contains(&value.len()) && !value.contains('\n') && marks(value).is_empty();
        if fits && self.values.len() < MOST && !self.values.iter().any(|(known, _)| known == value) {
            self.values.push((value.to_owned(), rule));
        }
    }

    /// Adds the spans of known values that occur in a text as whole words.
    pub(super) fn add(&self, text: &str, spans: &mut Vec<MatchSpan>) {
        let (before, word) = (spans.len(), |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        for (value, rule) in &self.values {
            for (start, _) in text.match_indices(value.as_str()) {
                let end = start + value.len();
                if !text[..start].ends_with(word) && !text[end..].starts_with(word) {
                    spans.push(MatchSpan { at: start..end, rule: *rule });
                }
            }
        }
        if spans.len() > before {
            *spans = merged(std::mem::take(spans));
        }
    }
}
