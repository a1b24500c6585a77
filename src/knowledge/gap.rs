//! Gaps: what a source did not give, and why.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// Something that is missing, and why. JSON has a pair of texts: the thing and the reason.
///
/// The kind of the reason is not in JSON: what is read back is [`GapReason::Absent`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "(String, String)", from = "(String, String)")]
pub struct Gap {
    /// The thing, as a noun.
    pub what: String,
    /// The reason.
    pub reason: GapReason,
}

/// The reason of a gap. Its text is a sentence, or completes one that begins with the thing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GapReason {
    /// The source failed to answer; the same question may succeed later.
    Failed(String),
    /// The thing was there and no longer exists.
    Gone(String),
    /// The source does not have it, has more than is kept, or may not be asked for it.
    Absent(String),
}

impl Gap {
    /// Builds a gap.
    pub fn new(what: impl Into<String>, reason: impl Into<GapReason>) -> Self {
        Self { what: what.into(), reason: reason.into() }
    }

    /// Builds the gap of a source that failed.
    pub fn failed(what: impl Into<String>, error: impl fmt::Display) -> Self {
        Self::new(what, GapReason::failed(error))
    }

    /// Builds the gap of a source that does not have the thing, has more than is kept, or may not be asked for it.
    pub fn absent(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(what, GapReason::Absent(reason.into()))
    }
}

impl GapReason {
    /// Builds the reason of a source that failed.
    pub fn failed(error: impl fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }

    /// Returns the text of the reason.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Failed(text) | Self::Gone(text) | Self::Absent(text) => text,
        }
    }
}

impl From<Gap> for (String, String) {
    fn from(gap: Gap) -> Self {
        (gap.what, gap.reason.as_str().to_owned())
    }
}

impl From<(String, String)> for Gap {
    fn from((what, why): (String, String)) -> Self {
        Self::absent(what, why)
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

/// Returns the sentence about a missing part, as reasons and problems contain it.
pub fn missing_part(said: &str) -> String {
    format!("a part of the data is missing: {said}")
}

/// Returns the address of the store that a warning names: Thanos writes `Addr: 10.0.0.7:10901 LabelSets: …`.
pub fn store_named(said: &str) -> Option<&str> {
    let (_, after) = said.split_once("Addr: ")?;
    after.split_whitespace().next().map(|address| address.trim_end_matches([',', ':', ';'])).filter(|a| !a.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_a_pair_of_texts_in_json_and_loses_the_kind_of_its_reason() {
        let gaps = [Gap::failed("the rules", "no answer"), Gap::new("pod a", GapReason::Gone("it is gone".to_owned()))];
        let json = serde_json::to_string(&gaps).unwrap();
        assert_eq!(json, r#"[["the rules","no answer"],["pod a","it is gone"]]"#);
        let read: Vec<Gap> = serde_json::from_str(&json).unwrap();
        assert_eq!(read, [Gap::absent("the rules", "no answer"), Gap::absent("pod a", "it is gone")]);
        assert_ne!(read, gaps);
    }
}
