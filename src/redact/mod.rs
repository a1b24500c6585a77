//! What must not leave: secrets are taken out, and names replaced when asked, at the one border that everything of a
//! bundle crosses. What was taken out of which file is counted, never kept.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a name names, for pseudonyms: `pod-1`, `node-2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A pod, container instance or replica.
    Pod,
    /// A machine.
    Node,
    /// A namespace.
    Namespace,
    /// A host or address of the network.
    Host,
}

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

/// Takes out what must not leave; cheap to clone, clones count together.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    found: Arc<Mutex<BTreeMap<(String, String), u64>>>,
}

impl Redactor {
    /// Lets everything pass: only after somebody confirmed it.
    pub fn off() -> Self {
        Self::default()
    }

    /// Makes a name known before it is met in free text, so that `anonymize` finds it there.
    pub fn learn(&self, _kind: Kind, _name: &str) {}

    /// The text without what must not leave. `place` is the file in the bundle.
    pub fn text<'a>(&self, _place: &str, text: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(text)
    }

    /// The same for every string of a value; the values of keys that name secrets go whole.
    pub fn json(&self, _place: &str, _value: &mut Value) {}

    /// The value of a label that has a name.
    pub fn label<'a>(&self, _place: &str, _name: &str, value: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(value)
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
}
