//! Patterns that are compiled at their first use.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

/// Maximum bytes of a compiled set of patterns.
const COMPILED: usize = 32 << 20;
/// Maximum bytes of the cache of a set's lazy DFA, of which each thread that searches has one; a small cache is cleared
/// and rebuilt all the time. Measured on 1.4 MB of varied text: the caches of all sets and patterns take 45 MiB a thread;
/// with an eighth of this limit 25 MiB, and two to four times as long.
const STATES: usize = 32 << 20;
/// Maximum bytes of the cache of a single pattern.
const PATTERN_STATES: usize = 8 << 20;

/// Patterns that are searched for in one pass, compiled at the first search: a service that has no alert saves 5 MB.
#[derive(Debug, Default)]
pub(super) struct PatternSet {
    pub(super) patterns: Vec<String>,
    /// `None` if they cannot be compiled.
    set: OnceLock<Option<RegexSet>>,
}

impl PatternSet {
    pub(super) fn of(patterns: Vec<String>) -> Self {
        Self { patterns, set: OnceLock::new() }
    }

    fn compile(&self) -> Result<RegexSet, regex::Error> {
        RegexSetBuilder::new(&self.patterns).dfa_size_limit(STATES).size_limit(COMPILED).build()
    }

    /// Compiles the patterns before the first search, to find wrong ones.
    pub(super) fn try_compile(&self) -> Result<(), regex::Error> {
        let set = self.compile()?;
        self.set.get_or_init(|| Some(set));
        Ok(())
    }

    /// Returns the indices of the patterns that match. If they cannot be compiled together, each is tried alone, and one
    /// that cannot be compiled at all counts as a match.
    pub(super) fn matches(&self, text: &str) -> Vec<usize> {
        let matches_alone = |pattern: &String| compile(pattern).map_or(true, |regex| regex.is_match(text));
        match self.set.get_or_init(|| self.compile().ok()) {
            Some(set) => set.matches(text).into_iter().collect(),
            None => (0..self.patterns.len()).filter(|i| matches_alone(&self.patterns[*i])).collect(),
        }
    }
}

/// A pattern, compiled at its first use: few patterns find anything, and all of them together take 6 MB.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) text: String,
    regex: OnceLock<Option<Regex>>,
}

impl Pattern {
    pub(super) fn of(text: String) -> Self {
        Self { text, regex: OnceLock::new() }
    }

    /// Returns the compiled pattern; `None` if it cannot be compiled.
    pub(super) fn regex(&self) -> Option<&Regex> {
        self.regex.get_or_init(|| compile(&self.text).ok()).as_ref()
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex().is_some_and(|regex| regex.is_match(text))
    }
}

/// Compiles a pattern; what a set can compile, it can compile alone.
pub(super) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).dfa_size_limit(PATTERN_STATES).size_limit(COMPILED).build()
}
