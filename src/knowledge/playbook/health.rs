//! `health.yaml`: the signals of the `health` command, by heading.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Evidence;

/// The shape of `health.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuickLook {
    /// The format's version: 1.
    pub schema: u32,
    /// Evidence that a pool is idle: all of it holds while there are no requests.
    #[serde(default)]
    pub idle: Vec<Evidence>,
    /// The headings, in the order in which they are shown.
    pub headings: Vec<HealthHeading>,
}

/// A group of signals that belong together.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthHeading {
    /// The heading: one or two words.
    pub heading: String,
    /// The signals, in the order in which they are shown.
    pub checks: Vec<QuickCheck>,
}

/// One signal of the `health` command.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuickCheck {
    /// A name from the catalog; its thresholds are those of the alert rules that begin with it.
    pub signal: String,
    /// If no alert rule begins with it: the playbook whose symptom compares this signal with a number.
    pub playbook: Option<String>,
}
