//! Texts in questions: short, because an unknown name is compared with every name of the fleet.

use std::borrow::Cow;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A text of at most `CHARS` characters.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShortText<const CHARS: usize = 200>(String);

impl<const CHARS: usize> Deref for ShortText<CHARS> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de, const CHARS: usize> Deserialize<'de> for ShortText<CHARS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.chars().nth(CHARS) {
            None => Ok(Self(text)),
            Some(_) => Err(D::Error::custom(format!("expected at most {CHARS} characters"))),
        }
    }
}

impl<const CHARS: usize> JsonSchema for ShortText<CHARS> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ShortText".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": CHARS })
    }
}

/// Returns a text without the spaces around it; `None` if it is empty.
pub(super) fn given(text: Option<&ShortText>) -> Option<&str> {
    text.map(|text| text.trim()).filter(|text| !text.is_empty())
}
