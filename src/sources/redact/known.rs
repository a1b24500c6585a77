//! Known secrets: values of fields and labels named as secrets, which are redacted in every other text too.

use aho_corasick::AhoCorasick;

use super::rules::{MatchSpan, marks, merged};

/// Minimum length in bytes; shorter values occur everywhere.
const SHORTEST: usize = 8;
/// Maximum length in bytes; longer values are whole texts.
const LONGEST: usize = 4 << 10;
/// Maximum number of values, the first ones seen; each is searched for in every text.
const MOST: usize = 256;

/// Schemes of an Authorization header, behind which the secret stands.
const SCHEMES: [&str; 4] = ["bearer", "basic", "token", "apikey"];

/// Returns the secret of an Authorization header without its scheme; any other text as it is.
fn without_scheme(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, secret)) if SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)) => secret.trim(),
        _ => value,
    }
}

/// The known values, each with the index of the rule that redacted it.
#[derive(Default)]
pub(super) struct KnownSecrets {
    values: Vec<(String, usize)>,
    /// Finds all values in one pass; `None` until the first text after a value was learned.
    finder: Option<AhoCorasick>,
}

impl KnownSecrets {
    /// Stores a value while there are fewer than [`MOST`]. Ignores values that are too short, too long, or on several
    /// lines.
    pub(super) fn learn(&mut self, rule: usize, value: &str) {
        let value = without_scheme(value.trim());
        let fits = (SHORTEST..=LONGEST).contains(&value.len()) && !value.contains('\n') && marks(value).is_empty();
        if fits && self.values.len() < MOST && !self.values.iter().any(|(known, _)| known == value) {
            self.values.push((value.to_owned(), rule));
            self.finder = None;
        }
    }

    /// Adds the spans of known values that occur in a text as whole words.
    pub(super) fn add(&mut self, text: &str, spans: &mut Vec<MatchSpan>) {
        let Some((_, first_rule)) = self.values.first() else { return };
        if self.finder.is_none() {
            self.finder = AhoCorasick::new(self.values.iter().map(|(value, _)| value)).ok();
        }
        let Some(finder) = &self.finder else {
            // Too many states, which the limits above exclude: nothing passes unsearched.
            spans.push(MatchSpan { at: 0..text.len(), rule: *first_rule });
            return;
        };
        let (before, word) = (spans.len(), |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        for found in finder.find_overlapping_iter(text) {
            let (range, rule) = (found.range(), self.values.get(found.pattern().as_usize()).map(|(_, rule)| *rule));
            let (Some(head), Some(tail), Some(rule)) = (text.get(..range.start), text.get(range.end..), rule) else {
                continue;
            };
            if !head.ends_with(word) && !tail.starts_with(word) {
                spans.push(MatchSpan { at: range, rule });
            }
        }
        if spans.len() > before {
            *spans = merged(std::mem::take(spans));
        }
    }
}
