//! Redaction at the trust boundary: removes secrets from everything that a bundle contains, and replaces names if
//! anonymization is requested. The redactions are counted by file and rule; the removed text is not stored.
//!
//! The rules are data, `playbooks/redaction.yaml`. All rules search the same text and their matches are merged, so that no
//! rule can hide a part of a secret from another; then the result is searched, until nothing is found: to redact a redacted
//! text again changes nothing. A text is searched as a whole, because a private key or an argument's value may be on several
//! lines.
//!
//! No library does this part: those of 2026 (`redact-core`, `leakguard`, `rtb-redact`) are young, know few names of fields
//! and remove commits and digests, which a diagnosis needs.

mod decoded;
mod json;
mod json_lines;
mod known;
mod names;
mod pattern;
mod rules;
#[cfg(test)]
mod tests;
mod value_check;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use json_lines::fitted;
pub use knowledge::playbook::NameKind as Kind;
use knowledge::playbook::Redaction;
use known::KnownSecrets;
use names::Names;
pub use names::is_secret;
use rules::{MARK, MatchSpan, RedactionRules, merged};
pub use rules::{RedactionRuleError, is_redacted};

/// Maximum number of values with a number of their own; the others share 0.
const NUMBERS: usize = 10_000;
/// Maximum number of times that a text is searched, so that a text that was redacted is not changed by a second redaction;
/// two are usual.
const PASSES: usize = 16;
/// The rule id under which replaced names are counted.
const ANONYMIZED: &str = "anonymized";

/// The number of redactions of one rule in one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RedactionCount {
    /// The path of the file in the bundle.
    pub place: String,
    /// The id of the rule: `hf-token`.
    pub rule: String,
    /// The number of redactions.
    pub count: u64,
}

/// Redacts secrets and names; cheap to clone, and clones share their counts and learned names.
#[derive(Clone, Default)]
pub struct Redactor {
    rules: Arc<RedactionRules>,
    names: Option<Arc<Mutex<Names>>>,
    known: Arc<Mutex<KnownSecrets>>,
    numbers: Arc<Mutex<HashMap<(usize, String), usize>>>,
    found: Arc<Mutex<BTreeMap<(String, String), u64>>>,
    /// True if values of every rule get numbers, not only those of rules that say so.
    all_numbered: bool,
}

/// Shows no names: the mapping of names to pseudonyms must not reach a log.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("anonymize", &self.names.is_some()).finish_non_exhaustive()
    }
}

impl Redactor {
    /// Reads the rules; the first text compiles them, which is slow: do it once, then call [`Self::another`] for each bundle.
    ///
    /// # Errors
    /// If a rule's pattern is invalid; nothing may be written then, because it could contain secrets.
    pub fn new(data: &Redaction, anonymize: bool) -> Result<Self, RedactionRuleError> {
        let rules = Arc::new(RedactionRules::new(data)?);
        // A site's patterns without `anonymize` too: a bundle that asks for it must not find an invalid one.
        let names = (anonymize || data.has_own).then(|| Names::new(data)).transpose()?.filter(|_| anonymize);
        Ok(Self { rules, names: names.map(|names| Arc::new(Mutex::new(names))), ..Self::default() })
    }

    /// Returns a redactor with the same rules for another bundle, with no counts and no known names.
    #[must_use]
    pub fn another(&self, data: &Redaction, anonymize: bool) -> Self {
        // The shipped patterns are tested, and `new` has compiled those of a site.
        let names = anonymize.then(|| Arc::new(Mutex::new(Names::new(data).unwrap_or_default())));
        Self { rules: Arc::clone(&self.rules), names, ..Self::default() }
    }

    /// Returns a redactor for another part of the same output: a value has the same number in both, but it knows no
    /// secrets of this one.
    #[must_use]
    pub fn with_same_numbers(&self) -> Self {
        Self { known: Arc::default(), ..self.clone() }
    }

    /// Returns a redactor that lets everything pass; only for use after the user confirmed it.
    pub fn off() -> Self {
        Self::default()
    }

    /// Learns a name before it occurs in free text, so that anonymization finds it there. Call it for all pods, nodes
    /// and namespaces before the first file is written.
    pub fn learn(&self, kind: Kind, name: &str) {
        if let Some(mut names) = self.names() {
            names.learn(kind, name);
        }
    }

    /// Learns the names and secrets of a value: names from fields that hold names, secrets from fields and labels named
    /// as secrets. These secrets are then redacted in every other text too, for example in an alert's annotation.
    /// Stores the first 256 secrets of 8 to 4,096 bytes on one line; of an object or a list, all its strings count.
    pub fn learn_from(&self, value: &impl Serialize) {
        if self.rules.is_empty() {
            return;
        }
        let Ok(mut value) = serde_json::to_value(value) else { return };
        if let Some(mut names) = self.names() {
            json::learn(&mut names, &value, 0);
        }
        // Only the learned values matter; nothing of this value is written.
        let reader = Self { names: None, found: Arc::default(), ..self.clone() };
        json::redact(&reader, "", &mut value, 0);
    }

    /// Redacts a text. `place` is the path of the file in the bundle.
    pub fn text<'a>(&self, place: &str, text: &'a str) -> Cow<'a, str> {
        let clean = self.secrets(place, text);
        self.renamed(place, clean)
    }

    /// Redacts every string of a JSON value; the values of keys named as secrets are replaced as a whole.
    pub fn json(&self, place: &str, value: &mut Value) {
        if let Some(mut names) = self.names() {
            json::learn(&mut names, value, 0);
        }
        json::redact(self, place, value, 0);
    }

    /// Returns the same redactor, which also numbers values of rules that do not say so: series stay apart that differ
    /// only in what is redacted.
    #[must_use]
    pub fn numbering_all(&self) -> Self {
        Self { all_numbered: true, ..self.clone() }
    }

    /// Redacts the value of the label `name`.
    pub fn label<'a>(&self, place: &str, name: &str, value: &'a str) -> Cow<'a, str> {
        if let Some(rule) = self.rules.key(name, |_| false)
            && !self.rules.harmless(rule, value)
        {
            self.know(rule, value);
            return Cow::Owned(self.mark(place, rule, value));
        }
        self.field(place, name, value)
    }

    /// Learns the value of a label named as a secret, which is then redacted in every other text too.
    pub fn learn_label(&self, name: &str, value: &str) {
        if let Some(rule) = self.rules.key(name, |_| false)
            && !self.rules.harmless(rule, value)
        {
            self.know(rule, value);
        }
    }

    /// Redacts a value and returns it as the same type.
    ///
    /// # Errors
    /// If the redacted value does not deserialize to that type; it must not be shown then.
    pub fn cleaned<T: Serialize + DeserializeOwned>(&self, place: &str, value: &T) -> serde_json::Result<T> {
        let mut json = serde_json::to_value(value)?;
        self.json(place, &mut json);
        serde_json::from_value(json)
    }

    /// Redacts the path of an archive entry; these redactions count under that entry.
    pub fn path(&self, path: &str) -> String {
        let clean = self.text(path, path).into_owned();
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        // The counts must not show the original path.
        let here: Vec<_> = found.keys().filter(|(place, _)| place == path && *place != clean).cloned().collect();
        for key in here {
            if let Some(count) = found.remove(&key) {
                *found.entry((clean.clone(), key.1)).or_default() += count;
            }
        }
        clean
    }

    /// Returns the redactions so far, by file and rule.
    pub fn redactions(&self) -> Vec<RedactionCount> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |((place, rule), count): (&(String, String), &u64)| RedactionCount {
            place: place.clone(),
            rule: rule.clone(),
            count: *count,
        };
        found.iter().map(one).collect()
    }

    /// Redacts the value of a field that is not named as a secret.
    fn field<'a>(&self, place: &str, name: &str, value: &'a str) -> Cow<'a, str> {
        let clean = self.secrets(place, value);
        let Some(mut names) = self.names() else { return clean };
        match names.field(name, &clean) {
            None => {
                drop(names);
                self.renamed(place, clean)
            }
            Some(renamed) if renamed == *clean => clean,
            Some(renamed) => {
                drop(names);
                self.count(place, ANONYMIZED, 1);
                Cow::Owned(renamed)
            }
        }
    }

    fn secrets<'a>(&self, place: &str, text: &'a str) -> Cow<'a, str> {
        self.replaced(place, text, self.spans(text))
    }

    /// Returns what the rules and the known secrets find in a text, also where it is encoded.
    fn spans(&self, text: &str) -> Vec<MatchSpan> {
        decoded::spans(text, &|text| {
            let mut spans = self.rules.spans(text);
            self.known().add(text, &mut spans);
            spans
        })
    }

    /// Redacts the name of a field.
    fn field_name<'a>(&self, place: &str, name: &'a str) -> Cow<'a, str> {
        let found = if self.rules.is_clean_name(name) {
            decoded::spans(name, &|name| {
                let mut spans = Vec::new();
                self.known().add(name, &mut spans);
                spans
            })
        } else {
            self.spans(name)
        };
        if found.is_empty() {
            self.rules.remember_clean(name);
        }
        self.renamed(place, self.replaced(place, name, found))
    }

    /// Replaces `found` in a text, and then what can be found only now: a match ends behind a character with which the next
    /// one would begin, and a placeholder closes a quote or a line that was open.
    fn replaced<'a>(&self, place: &str, text: &'a str, mut found: Vec<MatchSpan>) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for _ in 0..PASSES {
            let parts = fitted(&clean, merged(&clean, found));
            if parts.is_empty() {
                return clean;
            }
            let (mut out, mut rest) = (String::with_capacity(clean.len()), 0);
            for part in parts {
                let quote = if part.quoted { "\"" } else { "" };
                let mark = self.mark(place, part.rule, &clean[part.at.clone()]);
                out.extend([&clean[rest..part.at.start], quote, &mark, quote]);
                rest = part.at.end;
            }
            out.push_str(&clean[rest..]);
            found = self.spans(&out);
            clean = Cow::Owned(out);
        }
        match fitted(&clean, merged(&clean, found)).first() {
            // It never settles: nothing of it leaves.
            Some(part) => Cow::Owned(self.mark(place, part.rule, text)),
            None => clean,
        }
    }

    fn renamed<'a>(&self, place: &str, text: Cow<'a, str>) -> Cow<'a, str> {
        let Some(mut names) = self.names() else { return text };
        let Some((renamed, count)) = names.renamed(&text) else { return text };
        drop(names);
        self.count(place, ANONYMIZED, count);
        Cow::Owned(renamed)
    }

    /// Returns the placeholder for a secret, and counts it.
    fn mark(&self, place: &str, rule: usize, value: &str) -> String {
        let id = self.rules.id(rule);
        self.count(place, id, 1);
        if !self.all_numbered && !self.rules.numbered(rule) {
            return format!("{MARK}{id}]");
        }
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let next = numbers.len() + 1;
        let number = match numbers.get(&(rule, value.to_owned())) {
            Some(number) => *number,
            None if next > NUMBERS => 0,
            None => *numbers.entry((rule, value.to_owned())).or_insert(next),
        };
        format!("{MARK}{id}-{number}]")
    }

    fn count(&self, place: &str, rule: &str, count: u64) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        *found.entry((place.to_owned(), rule.to_owned())).or_default() += count;
    }

    /// Stores the value of a field named as a secret.
    fn know(&self, rule: usize, value: &str) {
        if self.rules.spreads(rule, value) {
            self.known().learn(rule, value);
        }
    }

    fn known(&self) -> MutexGuard<'_, KnownSecrets> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> Option<MutexGuard<'_, Names>> {
        self.names.as_ref().map(|names| names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
