//! The redaction rules for everything that holds a diagnosis, a health or a report.

use std::collections::BTreeSet;

use schemars::{Schema, schema_for};
use serde_json::Value;

use crate::Report;
use findings::health::Health;
use findings::{Diagnosis, Screening};
use knowledge::playbook::{Library, Redaction};

/// Returns the library's rules with more common terms: its ids, and the fields and constants of our own documents. A
/// namespace or a secret with such a name would otherwise make a document unreadable.
pub fn redaction(library: &Library) -> Redaction {
    redaction_of(library, &[])
}

/// As [`redaction`], for documents with these schemas too.
pub fn redaction_of(library: &Library, more: &[Schema]) -> Redaction {
    let mut words = BTreeSet::new();
    let schemas = [schema_for!(Report), schema_for!(Health), schema_for!(Diagnosis), schema_for!(Screening)];
    for schema in schemas.iter().chain(more) {
        own_words(schema.as_value(), &mut words);
    }
    let mut data = library.redaction.clone();
    data.common.extend(words);
    data.common.extend(library.ids().cloned());
    data
}

/// Adds the names of fields and the constants of a JSON schema, at any depth.
fn own_words(schema: &Value, words: &mut BTreeSet<String>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| own_words(item, words)),
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                match (keyword.as_str(), value) {
                    ("properties", Value::Object(fields)) => words.extend(fields.keys().cloned()),
                    ("const", Value::String(constant)) => words.extend([constant.clone()]),
                    ("enum", Value::Array(constants)) => {
                        words.extend(constants.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    _ => {}
                }
                own_words(value, words);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
