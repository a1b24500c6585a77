//! What must not leave: secrets are taken out, and names replaced when asked, at the one border that everything of a
//! bundle crosses. What was taken out of which file is counted, never kept.
//!
//! The rules are data, `playbooks/redaction.yaml`. All are searched in the text as it came and what they find is
//! united, so that no rule can hide from another what is left of a secret. A text may be as long as it likes; one that
//! comes in pieces goes through [`Lines`], because a private key or an argument's value stands on lines of its own.

mod address;
mod json;
mod known;
mod lines;
mod names;
mod rules;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::playbook::NameKind as Kind;
use crate::playbook::Redaction;
pub use address::{address, innermost, unreached};
use known::Known;
pub use lines::Lines;
use names::Names;
pub use rules::RuleError;
use rules::{MARK, Rules};

/// The rule under which replaced names are counted.
const ANONYMIZED: &str = "anonymized";

/// What was taken out of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Redacted {
    /// The file in the bundle.
    pub place: String,
    /// The rule's id: `hf-token`.
    pub rule: String,
    /// How often.
    pub count: u64,
}

/// Takes out what must not leave; cheap to clone, clones count and learn together.
#[derive(Clone, Default)]
pub struct Redactor {
    rules: Arc<Rules>,
    names: Option<Arc<Mutex<Names>>>,
    known: Arc<Mutex<Known>>,
    found: Arc<Mutex<BTreeMap<(String, String), u64>>>,
}

/// Tells no names: which pseudonym stands for whom must not reach a log.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("anonymize", &self.names.is_some()).finish_non_exhaustive()
    }
}

impl Redactor {
    /// Makes the rules ready, which takes a moment: do it once, then [`Self::another`] for each bundle.
    ///
    /// # Errors
    /// When a rule's pattern is none; nothing may be written then, because secrets would be in it.
    pub fn new(data: &Redaction, anonymize: bool) -> Result<Self, RuleError> {
        let names = anonymize.then(|| Arc::new(Mutex::new(Names::new(data))));
        Ok(Self { rules: Arc::new(Rules::new(data)?), names, known: Arc::default(), found: Arc::default() })
    }

    /// With the same rules, for another bundle: nothing counted, no name known.
    #[must_use]
    pub fn another(&self, data: &Redaction, anonymize: bool) -> Self {
        let names = anonymize.then(|| Arc::new(Mutex::new(Names::new(data))));
        Self { rules: Arc::clone(&self.rules), names, known: Arc::default(), found: Arc::default() }
    }

    /// Lets everything pass: only after somebody confirmed it.
    pub fn off() -> Self {
        Self::default()
    }

    /// Makes a name known before it is met in free text, so that `anonymize` finds it there: call it for all pods, nodes
    /// and namespaces before the first file is written.
    pub fn learn(&self, kind: Kind, name: &str) {
        if let Some(mut names) = self.names() {
            names.learn(kind, name);
        }
    }

    /// The same for the names that stand in the fields of a value which hold names, and for what stands in its fields and
    /// labels that name secrets: that goes wherever else it stands, a sentence of an alert's annotation for example. The
    /// first 256 such texts are kept, of 8 to 4,096 bytes on one line; a value that is an object or a list tells all of
    /// its texts.
    pub fn learn_from(&self, value: &impl Serialize) {
        if self.rules.is_empty() {
            return;
        }
        let Ok(mut value) = serde_json::to_value(value) else { return };
        if let Some(mut names) = self.names() {
            json::learn(&mut names, &value, 0);
        }
        // Only what is learnt on the way counts; nothing of this value is written.
        let reader = Self { names: None, found: Arc::default(), ..self.clone() };
        json::redact(&reader, "", &mut value, 0);
    }

    /// Whether names are replaced at all.
    pub fn anonymizes(&self) -> bool {
        self.names.is_some()
    }

    /// The text without what must not leave. `place` is the file in the bundle.
    pub fn text<'a>(&self, place: &str, text: &'a str) -> Cow<'a, str> {
        let clean = self.secrets(place, text);
        self.renamed(place, clean)
    }

    /// The same for every string of a value; the values of keys that name secrets go whole.
    pub fn json(&self, place: &str, value: &mut Value) {
        if let Some(mut names) = self.names() {
            json::learn(&mut names, value, 0);
        }
        json::redact(self, place, value, 0);
    }

    /// The value of a label that has a name.
    pub fn label<'a>(&self, place: &str, name: &str, value: &'a str) -> Cow<'a, str> {
        if let Some(rule) = self.rules.key(name, |_| false)
            && !self.rules.harmless(rule, value)
        {
            self.know(rule, value);
            return Cow::Owned(self.mark(place, rule));
        }
        self.field(place, name, value)
    }

    /// Learns the value of a label whose name tells that it is a secret: it goes wherever else it stands.
    pub fn learn_label(&self, name: &str, value: &str) {
        if let Some(rule) = self.rules.key(name, |_| false)
            && !self.rules.harmless(rule, value)
        {
            self.know(rule, value);
        }
    }

    /// A value without what must not leave, of the same type.
    ///
    /// # Errors
    /// When what is left does not have that type any more: it must not be shown then.
    pub fn cleaned<T: Serialize + DeserializeOwned>(&self, place: &str, value: &T) -> serde_json::Result<T> {
        let mut json = serde_json::to_value(value)?;
        self.json(place, &mut json);
        serde_json::from_value(json)
    }

    /// The name of an entry of the archive, safe to show; what is taken out of it counts as taken out of that entry.
    pub fn path(&self, path: &str) -> String {
        let clean = self.text(path, path).into_owned();
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        // The name under which it was counted must not be the one that was replaced.
        let here: Vec<_> = found.keys().filter(|(place, _)| place == path && *place != clean).cloned().collect();
        for key in here {
            if let Some(count) = found.remove(&key) {
                *found.entry((clean.clone(), key.1)).or_default() += count;
            }
        }
        clean
    }

    /// What was taken out so far, by file and rule.
    pub fn found(&self) -> Vec<Redacted> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |((place, rule), count): (&(String, String), &u64)| Redacted {
            place: place.clone(),
            rule: rule.clone(),
            count: *count,
        };
        found.iter().map(one).collect()
    }

    /// A field's value whose name tells no secret.
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
        let mut spans = self.rules.spans(text);
        self.known().add(text, &mut spans);
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut out, mut rest) = (String::with_capacity(text.len()), 0);
        for span in spans {
            out.push_str(&text[rest..span.at.start]);
            out.push_str(&self.mark(place, span.rule));
            rest = span.at.end;
        }
        out.push_str(&text[rest..]);
        Cow::Owned(out)
    }

    fn renamed<'a>(&self, place: &str, text: Cow<'a, str>) -> Cow<'a, str> {
        let Some(mut names) = self.names() else { return text };
        let Some((renamed, count)) = names.renamed(&text) else { return text };
        drop(names);
        self.count(place, ANONYMIZED, count);
        Cow::Owned(renamed)
    }

    /// What stands in place of a secret, counted.
    fn mark(&self, place: &str, rule: usize) -> String {
        let id = self.rules.id(rule);
        self.count(place, id, 1);
        format!("{MARK}{id}]")
    }

    fn count(&self, place: &str, rule: &str, count: u64) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        *found.entry((place.to_owned(), rule.to_owned())).or_default() += count;
    }

    /// Remembers what a field held whose name tells that it is a secret.
    fn know(&self, rule: usize, value: &str) {
        // Users' texts are no secrets by which other texts could be recognized.
        if !self.rules.texts_only(rule) {
            self.known().learn(rule, value);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> Option<MutexGuard<'_, Names>> {
        self.names.as_ref().map(|names| names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
