//! The symptoms of a pool beside the diagnosed one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SymptomVerdict;

/// The symptoms that were screened, and those that were found beside the diagnosed one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Screening {
    /// The playbook that the alert's label, name, expression or objective selects; `None` if nothing selects one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_title: Option<String>,
    /// The verdict on its symptom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_verdict: Option<SymptomVerdict>,
    /// The titles of the symptoms that were evaluated.
    pub looked_at: Vec<String>,
    /// The titles of other confirmed symptoms: not the alert's own, and no link of the best chain.
    pub also: Vec<String>,
    /// The titles of symptoms that hold, but not clearly: values slightly beyond a threshold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slight: Vec<String>,
    /// The symptoms of users that could not be measured, where only pages were read: nothing is said of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmeasured: Vec<Unmeasured>,
}

/// A symptom that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unmeasured {
    /// Its title.
    pub title: String,
    /// The reason.
    pub why: String,
}
