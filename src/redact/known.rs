//! Known secrets: values of fields and labels named as secrets, which are redacted in every other text too.

use aho_corasick::AhoCorasick;

use super::rules::{MatchSpan, marks};

/// Minimum length in bytes; shorter values occur everywhere.
const SHORTEST: usize = 8;
/// Maximum length in bytes; longer values are whole texts.
const LONGEST: usize = 4 << 10;
/// Maximum number of values, the first ones seen; each is searched for in every text.
const MOST: usize = 256;
/// Maximum number of automata. With another value after each text a single one would be built anew for each text.
const FINDERS: usize = 8;

/// Schemes of an Authorization header; the secret follows them.
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
    /// The automata of the first values, each with those that were learned before the text that it was built for.
    finders: Vec<AhoCorasick>,
}

impl KnownSecrets {
    /// Stores a value while there are fewer than [`MOST`]. Ignores values that are too short, too long, or on several
    /// lines.
    pub(super) fn learn(&mut self, rule: usize, value: &str) {
        let value = without_scheme(value.trim());
        let fits = (SHORTEST..=LONGEST).contains(&value.len()) && !value.contains('\n') && marks(value).is_empty();
        if fits && self.values.len() < MOST && !self.values.iter().any(|(known, _)| known == value) {
            self.values.push((value.to_owned(), rule));
        }
    }

    /// Adds the spans of known values that occur in a text as whole words.
    pub(super) fn add(&mut self, text: &str, spans: &mut Vec<MatchSpan>) {
        let Some((_, first_rule)) = self.values.first() else { return };
        let rule = *first_rule;
        if self.build().is_none() {
            // Too many states, which the limits above exclude: nothing passes unsearched.
            spans.push(MatchSpan { at: 0..text.len(), rule });
            return;
        }
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let mut first = 0;
        for finder in &self.finders {
            for found in finder.find_overlapping_iter(text) {
                let (range, value) = (found.range(), self.values.get(first + found.pattern().as_usize()));
                let (Some(head), Some(tail), Some((_, rule))) = (text.get(..range.start), text.get(range.end..), value)
                else {
                    continue;
                };
                if !head.ends_with(word) && !tail.starts_with(word) {
                    spans.push(MatchSpan { at: range, rule: *rule });
                }
            }
            first += finder.patterns_len();
        }
    }

    /// Builds an automaton of the values that none finds yet; `None` if it has too many states.
    fn build(&mut self) -> Option<()> {
        let mut found: usize = self.finders.iter().map(AhoCorasick::patterns_len).sum();
        if found < self.values.len() {
            if self.finders.len() >= FINDERS {
                self.finders.clear();
                found = 0;
            }
            self.finders.push(AhoCorasick::new(self.values.iter().skip(found).map(|(value, _)| value)).ok()?);
        }
        Some(())
    }
}
