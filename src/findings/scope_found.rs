//! The pool that was diagnosed, or the reason why none was found.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Scope;
use knowledge::alert::Labels;
use knowledge::clip::clip;
use knowledge::playbook::nearest;

/// Maximum number of known values in a suggestion.
const MAX_SUGGESTED: usize = 5;
/// Maximum length of a value in a message, in characters.
const VALUE_CHARS: usize = 120;

/// The pool as Prometheus knows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScopeFound {
    /// The alert's labels that identify the pool: cluster, namespace, model.
    pub labels: Labels,
    /// The same as matchers on the serving engine's labels.
    pub matchers: String,
    /// The replicas that the alerts name.
    pub named: Vec<String>,
    /// Sentences about alert labels that could not be used.
    pub notes: Vec<String>,
    /// The label value that no pool has, with the most similar values of the pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<UnknownLabelValue>,
    /// The time span in which the pool has data, if it has none at the time of the evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataSpan>,
}

impl ScopeFound {
    /// Returns the scope of a request for the same pool.
    pub fn again(&self) -> Scope {
        let replicas = self.named.iter().cloned().collect();
        Scope { dimensions: self.labels.clone(), replicas, ..Scope::default() }
    }
}

/// The time span in which a pool has data: within minutes for the last 30 days, within half an hour before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DataSpan {
    /// The time of the first sample, or the earliest time that was queried.
    pub from: Timestamp,
    /// The time of the last sample.
    pub to: Timestamp,
}

/// A value of a scope that no pool has, with the values that pools have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownLabelValue {
    /// `cluster`, `namespace`, `model`, `job`; `pool` if the values exist, but not in one pool.
    pub dimension: String,
    /// The value that no series has.
    pub value: String,
    /// Values that series have, the most similar first; at most five.
    pub nearest: Vec<String>,
    /// The number of further values.
    pub more: usize,
}

impl UnknownLabelValue {
    /// Builds it with the most similar of `values`.
    pub fn new<'a>(dimension: &str, value: &str, values: impl IntoIterator<Item = &'a str>) -> Self {
        let values: Vec<&str> = nearest(value, values);
        Self {
            dimension: dimension.to_owned(),
            value: clip(value, VALUE_CHARS),
            more: values.len().saturating_sub(MAX_SUGGESTED),
            nearest: values.into_iter().take(MAX_SUGGESTED).map(|value| clip(value, VALUE_CHARS)).collect(),
        }
    }
}

impl std::error::Error for UnknownLabelValue {}

impl fmt::Display for UnknownLabelValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |value: &str| format!("`{}`", value.replace('`', "'"));
        let near = self.nearest.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(", ");
        write!(f, "no {} {}; there is {near}", self.dimension, quoted(&self.value))?;
        if self.more > 0 { write!(f, " and {} more", self.more) } else { Ok(()) }
    }
}
