//! `health.yaml`: which signals the quick look at a fleet shows, under which headings.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Evidence;

/// The shape of `health.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuickLook {
    /// The format's version: 1.
    pub schema: u32,
    /// All of these hold while nothing is asked of a pool.
    #[serde(default)]
    pub idle: Vec<Evidence>,
    /// In the order in which they are shown.
    pub headings: Vec<Heading>,
}

/// A group of signals that are looked at together.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Heading {
    /// One or two words.
    pub heading: String,
    /// In the order in which they are shown.
    pub checks: Vec<QuickCheck>,
}

/// One signal of the quick look.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuickCheck {
    /// A name from the catalog; alert rules that begin with it say what is too much.
    pub signal: String,
    /// Where no alert rule does: the playbook whose symptom compares this signal with a number.
    pub playbook: Option<String>,
}
