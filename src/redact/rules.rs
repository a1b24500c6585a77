//! The compiled rules of `redaction.yaml`.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use regex::Regex;

use super::pattern::{Pattern, PatternSet, compile};
use super::value_check::passes;
use knowledge::playbook::{Redaction, RedactionRule, ValueCheck};

/// The prefix of every placeholder. A placeholder alone is not redacted again.
pub(super) const MARK: &str = "[redacted: ";
/// Maximum bytes of the patterns of a group, after their words are expanded; a longer pattern is a group of its own.
const GROUP: usize = 4_000;
/// Maximum bytes of a match with an excepted name behind which the search goes on at the name's end. A longer one would
/// make the search quadratic.
const NEIGHBOURS: usize = 512;
/// Maximum bytes on each side of a match that count as its line. All of a long line would make the search quadratic.
const LINE: usize = 4 << 10;
/// Maximum nesting depth of words in words.
const WORDS_DEEP: usize = 8;
/// Maximum bytes of a pattern after its words are expanded.
const LONGEST: usize = 256 << 10;
/// Maximum number of names of fields without a secret that are remembered, and their maximum bytes.
const CLEAN_NAMES: (usize, usize) = (4_096, 64);

/// An invalid redaction rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("redaction rule `{rule}`: {why}")]
pub struct RedactionRuleError {
    /// The id of the rule.
    pub rule: String,
    /// The reason why it is invalid.
    pub why: String,
}

/// A part of a text that must be redacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MatchSpan {
    pub(super) at: Range<usize>,
    pub(super) rule: usize,
}

/// All rules, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct RedactionRules {
    rules: Vec<Rule>,
    groups: Vec<PatternGroup>,
    keys: KeyPatterns,
    variables: KeyPatterns,
    /// Common terms in small letters, which are no secrets in texts, whichever field they come from.
    common: HashSet<String>,
    /// Names of fields in which no pattern found anything: the same ones come in each document.
    clean_names: RwLock<HashSet<String>>,
}

/// Patterns in free text that are searched for in one pass. All in one group would have more states than a cache holds,
/// and then a search takes a hundred times as long.
#[derive(Debug)]
struct PatternGroup {
    any: PatternSet,
    /// The patterns, each with the index of its rule.
    patterns: Vec<(usize, Pattern)>,
}

/// Patterns of names, each with the index of its rule.
#[derive(Debug, Default)]
struct KeyPatterns {
    any: PatternSet,
    rules: Vec<usize>,
}

#[derive(Debug)]
struct Rule {
    id: String,
    beside: Vec<String>,
    unless_beside: Vec<String>,
    texts_only: bool,
    environment: bool,
    numbered: bool,
    valid: Option<ValueCheck>,
    unless_name: Option<Arc<Pattern>>,
    unless_value: Option<Arc<Pattern>>,
}

impl Rule {
    fn excepts_name(&self, name: &str) -> bool {
        self.unless_name.as_ref().is_some_and(|unless| unless.is_match(name))
    }

    /// Returns true if what was found at this place stays because of its line: because of a field beside it, not in it.
    fn excepts_line(&self, text: &str, at: Range<usize>) -> bool {
        if self.unless_beside.is_empty() {
            return false;
        }
        let (before, behind) = around(text, at);
        self.unless_beside.iter().any(|name| {
            fields(before, name).any(|field| is_level(&before[field.end..]))
                || fields(behind, name).any(|field| is_level(&behind[..field.start]))
        })
    }

    /// Returns true if a value needs no redaction although its place or its form is that of a secret.
    fn excepts(&self, value: &str) -> bool {
        self.unless_value.as_ref().is_some_and(|unless| unless.is_match(value))
            || self.valid.is_some_and(|check| !passes(check, value))
    }
}

impl RedactionRules {
    pub(super) fn new(data: &Redaction) -> Result<Self, RedactionRuleError> {
        let mut texts: Vec<(usize, Pattern)> = Vec::new();
        // Rules share their exceptions.
        let mut shared: BTreeMap<String, Arc<Pattern>> = BTreeMap::new();
        let mut rules =
            Self { common: data.common.iter().map(|word| word.to_lowercase()).collect(), ..Self::default() };
        for (index, rule) in data.rules.iter().enumerate() {
            let mut optional = |pattern: &Option<String>| -> Result<Option<Arc<Pattern>>, RedactionRuleError> {
                let Some(pattern) = pattern else { return Ok(None) };
                let text = filled(data, rule, pattern)?;
                Ok(Some(Arc::clone(shared.entry(text.clone()).or_insert_with(|| Arc::new(Pattern::of(text))))))
            };
            rules.rules.push(Rule {
                id: rule.id.clone(),
                beside: rule.beside.clone(),
                unless_beside: rule.unless_beside.clone(),
                texts_only: rule.texts_only,
                environment: rule.environment,
                numbered: rule.numbered,
                valid: rule.valid,
                unless_name: optional(&rule.unless_name)?,
                unless_value: optional(&rule.unless_value)?,
            });
            for text in &rule.text {
                texts.push((index, Pattern::of(filled(data, rule, text)?)));
            }
            for key in &rule.keys {
                let key = format!("^(?:{})$", filled(data, rule, key)?);
                let of = if rule.environment { &mut rules.variables } else { &mut rules.keys };
                of.rules.push(index);
                of.any.patterns.push(key);
            }
        }
        texts.sort_by_key(|(_, pattern)| pattern.text.len());
        while !texts.is_empty() {
            let mut bytes = 0;
            let fits = texts.iter().take_while(|(_, pattern)| {
                bytes += pattern.text.len();
                bytes <= GROUP
            });
            let rest = texts.split_off(fits.count().max(1));
            let any = PatternSet::of(texts.iter().map(|(_, pattern)| pattern.text.clone()).collect());
            rules.groups.push(PatternGroup { any, patterns: texts });
            texts = rest;
        }
        // The shipped patterns are compiled by the tests.
        if data.has_own {
            rules.try_compile()?;
        }
        Ok(rules)
    }

    /// Compiles all patterns, to find wrong ones.
    fn try_compile(&self) -> Result<(), RedactionRuleError> {
        let try_set = |set: &PatternSet, of: &[usize]| {
            let Err(error) = set.try_compile() else { return Ok(()) };
            // Each pattern alone takes too long to compile at every start.
            let wrong = set.patterns.iter().zip(of).find_map(|(text, rule)| Some((*rule, compile(text).err()?)));
            Err(match wrong {
                Some((rule, error)) => RedactionRuleError { rule: self.id(rule).to_owned(), why: error.to_string() },
                None => RedactionRuleError { rule: "all together".to_owned(), why: error.to_string() },
            })
        };
        for group in &self.groups {
            try_set(&group.any, &group.patterns.iter().map(|(rule, _)| *rule).collect::<Vec<_>>())?;
        }
        for rule in &self.rules {
            for pattern in rule.unless_name.iter().chain(&rule.unless_value) {
                let wrong = |error: regex::Error| RedactionRuleError { rule: rule.id.clone(), why: error.to_string() };
                compile(&pattern.text).map_err(wrong)?;
            }
        }
        [&self.keys, &self.variables].into_iter().try_for_each(|names| try_set(&names.any, &names.rules))
    }

    /// Returns true if there are no rules.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(super) fn id(&self, rule: usize) -> &str {
        self.rules.get(rule).map_or("", |rule| &rule.id)
    }

    /// Returns what the patterns find in a text, for [`merged`].
    pub(super) fn spans(&self, text: &str) -> Vec<MatchSpan> {
        let mut spans = Vec::new();
        for group in &self.groups {
            for (rule, pattern) in group.any.matches(text).into_iter().filter_map(|matched| group.patterns.get(matched))
            {
                match pattern.regex() {
                    Some(regex) => self.add(text, *rule, regex, &mut spans),
                    // Its place is not known, so nothing stays.
                    None => spans.push(MatchSpan { at: 0..text.len(), rule: *rule }),
                }
            }
        }
        spans
    }

    /// Returns true if nothing was found in this name of a field before.
    pub(super) fn is_clean_name(&self, name: &str) -> bool {
        self.clean_names.read().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    /// Stores the name of a field in which nothing was found.
    pub(super) fn remember_clean(&self, name: &str) {
        if name.len() <= CLEAN_NAMES.1 && !self.is_clean_name(name) {
            let mut clean = self.clean_names.write().unwrap_or_else(PoisonError::into_inner);
            if clean.len() < CLEAN_NAMES.0 {
                clean.insert(name.to_owned());
            }
        }
    }

    fn add(&self, text: &str, rule: usize, pattern: &Regex, spans: &mut Vec<MatchSpan>) {
        let Some(of) = self.rules.get(rule) else { return };
        let secrets: Vec<&str> = pattern.capture_names().flatten().filter(|name| name.starts_with("secret")).collect();
        let mut at = 0;
        while let Some(found) = pattern.captures_at(text, at) {
            let (whole, before) = (found.get_match(), at);
            at = whole.end();
            if let Some(name) = found.name("name").filter(|name| of.excepts_name(name.as_str())) {
                // A secret may stand where its value would: next_token=5,api_key=…
                if whole.len() <= NEIGHBOURS && name.end() > before {
                    at = name.end();
                }
                continue;
            }
            if whole.is_empty() {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
            }
            let whole = secrets.is_empty().then_some(whole);
            for secret in secrets.iter().filter_map(|name| found.name(name)).chain(whole) {
                if !secret.is_empty() && !of.excepts(secret.as_str()) && !of.excepts_line(text, secret.range()) {
                    spans.push(MatchSpan { at: secret.range(), rule });
                }
            }
        }
    }

    /// Returns the rule that redacts the value of a field with this name. The last part of a compound name counts too:
    /// `vllm:cache_config_info.api_key`, `example.com/token`.
    pub(super) fn key(&self, name: &str, has: impl Fn(&str) -> bool) -> Option<usize> {
        let own = name.rsplit([':', '/', '.']).next().filter(|own| *own != name);
        self.named(&self.keys, name, &has).or_else(|| self.named(&self.keys, own?, &has))
    }

    /// Returns the rule that redacts the value of an environment variable with this name.
    pub(super) fn variable(&self, name: &str) -> Option<usize> {
        self.named(&self.variables, name, &|_| false)
    }

    fn named(&self, patterns: &KeyPatterns, name: &str, has: &impl Fn(&str) -> bool) -> Option<usize> {
        let matched = patterns.any.matches(name);
        matched.into_iter().filter_map(|index| patterns.rules.get(index).copied()).find(|rule| {
            self.rules.get(*rule).is_some_and(|rule| {
                let beside = rule.beside.is_empty() || rule.beside.iter().any(|other| has(other));
                beside && !rule.excepts_name(name) && !rule.unless_beside.iter().any(|other| has(other))
            })
        })
    }

    /// Returns true if distinct values of this rule get distinct numbers.
    pub(super) fn numbered(&self, rule: usize) -> bool {
        self.rules.get(rule).is_some_and(|rule| rule.numbered)
    }

    /// Returns true if a value that this rule redacts in a field is redacted in other texts too.
    pub(super) fn spreads(&self, rule: usize, value: &str) -> bool {
        // A user's text, or a word like `production`, is no secret by which other texts could be recognised.
        self.rules.get(rule).is_some_and(|rule| !rule.texts_only && !rule.environment && !rule.numbered)
            && !self.common.contains(&value.trim().to_lowercase())
    }

    /// Returns true if single numbers may stay under this rule's keys.
    pub(super) fn texts_only(&self, rule: usize) -> bool {
        self.rules.get(rule).is_some_and(|rule| rule.texts_only)
    }

    /// Returns true if this value needs no redaction although its field is named as a secret.
    pub(super) fn harmless(&self, rule: usize, value: &str) -> bool {
        value.is_empty() || is_mark(value) || self.rules.get(rule).is_some_and(|rule| rule.excepts(value))
    }
}

/// Expands the words in a pattern.
fn filled(data: &Redaction, rule: &RedactionRule, pattern: &str) -> Result<String, RedactionRuleError> {
    let mut filled = pattern.to_owned();
    for _ in 0..WORDS_DEEP {
        let mut again = false;
        for (word, stands_for) in &data.words {
            let hole = format!("{{{word}}}");
            if filled.contains(&hole) {
                filled = filled.replace(&hole, stands_for);
                again = true;
            }
        }
        if !again {
            return Ok(filled);
        }
        if filled.len() > LONGEST {
            break;
        }
    }
    let why = "its word lists contain each other without an end".to_owned();
    Err(RedactionRuleError { rule: rule.id.clone(), why })
}

/// Returns the rest of the line before and behind a place in a text, at most [`LINE`] bytes each.
fn around(text: &str, at: Range<usize>) -> (&str, &str) {
    let begin = text.ceil_char_boundary(at.start.saturating_sub(LINE));
    let end = text.floor_char_boundary(at.end.saturating_add(LINE).min(text.len()));
    let (before, behind) = (&text[begin..at.start], &text[at.end..end]);
    (before.rsplit('\n').next().unwrap_or_default(), behind.split('\n').next().unwrap_or_default())
}

/// Returns where a part of a line of JSON, or of one inside of a string of JSON, has fields of this name.
fn fields(line: &str, name: &str) -> impl Iterator<Item = Range<usize>> {
    line.match_indices(name).map(|(at, found)| at..at + found.len()).filter(|field| {
        let behind = line[field.end..].trim_start_matches('\\');
        line[..field.start].ends_with('"')
            && behind.strip_prefix('"').is_some_and(|rest| rest.trim_start().starts_with(':'))
    })
}

/// Returns true if what precedes this part of a line of JSON and what follows it are in the same object.
fn is_level(between: &str) -> bool {
    let depth = between.chars().try_fold(0_usize, |depth, c| match c {
        '{' => Some(depth + 1),
        '}' => depth.checked_sub(1),
        _ => Some(depth),
    });
    depth == Some(0)
}

/// Returns true if a text is exactly one placeholder.
pub(super) fn is_mark(text: &str) -> bool {
    matches!(marks(text).as_slice(), [one] if *one == (0..text.len()))
}

/// Returns true if a text contains a placeholder: a part of it was redacted.
pub fn is_redacted(text: &str) -> bool {
    !marks(text).is_empty()
}

/// Returns the ranges of the placeholders in a text.
pub(super) fn marks(text: &str) -> Vec<Range<usize>> {
    let id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let one = |at: usize| {
        let rest = text.get(at + MARK.len()..)?;
        let end = rest.find(|c| !id(c))?;
        (end > 0 && rest[end..].starts_with(']')).then(|| at..at + MARK.len() + end + 1)
    };
    text.match_indices(MARK).filter_map(|(at, _)| one(at)).collect()
}

/// Merges overlapping spans of a text, in order; the rule that comes first in the file wins. A span inside a placeholder is
/// left out; one that contains a part of a placeholder gets the whole, so that placeholders are never torn.
pub(super) fn merged(text: &str, mut spans: Vec<MatchSpan>) -> Vec<MatchSpan> {
    if spans.is_empty() {
        return spans;
    }
    let marks = marks(text);
    spans.retain_mut(|span| {
        let first = marks.partition_point(|mark| mark.end <= span.at.start);
        let end = marks.partition_point(|mark| mark.start < span.at.end);
        let Some([begin, ..]) = marks.get(first..end) else { return true };
        if begin.start <= span.at.start && span.at.end <= begin.end {
            return false;
        }
        span.at.start = span.at.start.min(begin.start);
        span.at.end = marks[first..end].iter().map(|mark| mark.end).fold(span.at.end, usize::max);
        true
    });
    spans.sort_by_key(|span| (span.at.start, span.at.end));
    let mut out: Vec<MatchSpan> = Vec::with_capacity(spans.len());
    for span in spans {
        match out.last_mut() {
            Some(last) if span.at.start < last.at.end => {
                last.at.end = last.at.end.max(span.at.end);
                last.rule = last.rule.min(span.rule);
            }
            _ => out.push(span),
        }
    }
    out
}
