//! What is made from the same data as the diagnosis: Prometheus rules, and the schema for editors.

mod rules;
mod yaml;

pub use rules::{RuleError, RuleOptions, rules};

use crate::playbook::{Cause, Playbook};
use crate::signal::{Catalog, Engine};

/// The JSON schemas of the data files, for editors: one document with a definition for each kind of file.
pub fn schema() -> serde_json::Value {
    serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "llm-diagnose data files",
        "anyOf": [
            schemars::schema_for!(Playbook),
            schemars::schema_for!(Cause),
            schemars::schema_for!(Engine),
            schemars::schema_for!(Catalog),
        ],
    })
}
