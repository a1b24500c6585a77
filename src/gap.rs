//! Gaps: what a source did not give, and why.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// Something that is missing, and why. In JSON a pair of texts: the thing, and the reason as a sentence; read back, every
/// reason is [`GapReason::Absent`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "(String, String)", from = "(String, String)")]
pub struct Gap {
    /// The thing, as a noun.
    pub what: String,
    /// The reason.
    pub reason: GapReason,
}

/// The reason of a gap. Its text is a sentence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GapReason {
    /// The source failed to answer; the same question may succeed later.
    Failed(String),
    /// The thing was there and no longer exists.
    Gone(String),
    /// The source answered and does not have it, or has more than is kept.
    Absent(String),
}

impl Gap {
    /// Builds a gap; a plain text as the reason means [`GapReason::Absent`].
    pub fn new(what: impl Into<String>, reason: impl Into<GapReason>) -> Self {
        Self { what: what.into(), reason: reason.into() }
    }

    /// Builds the gap of a source that failed.
    pub fn failed(what: impl Into<String>, error: impl fmt::Display) -> Self {
        Self::new(what, GapReason::Failed(error.to_string()))
    }
}

impl GapReason {
    /// Returns the reason as a sentence.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Failed(text) | Self::Gone(text) | Self::Absent(text) => text,
        }
    }
}

impl From<String> for GapReason {
    fn from(text: String) -> Self {
        Self::Absent(text)
    }
}

impl From<&str> for GapReason {
    fn from(text: &str) -> Self {
        Self::Absent(text.to_owned())
    }
}

impl From<Gap> for (String, String) {
    fn from(gap: Gap) -> Self {
        (gap.what, gap.reason.as_str().to_owned())
    }
}

impl From<(String, String)> for Gap {
    fn from((what, why): (String, String)) -> Self {
        Self::new(what, why)
    }
}

impl JsonSchema for Gap {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Gap".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <(String, String)>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_a_pair_of_texts_in_json_and_whether_it_failed_is_known_here_only() {
        let gaps = [Gap::failed("the rules", "no answer"), Gap::new("pod a", GapReason::Gone("it is gone".to_owned()))];
        let json = serde_json::to_string(&gaps).unwrap();
        assert_eq!(json, r#"[["the rules","no answer"],["pod a","it is gone"]]"#);
        let read: Vec<Gap> = serde_json::from_str(&json).unwrap();
        assert_eq!(read, [Gap::new("the rules", "no answer"), Gap::new("pod a", "it is gone")]);
        assert_ne!(read, gaps);
    }
}
