//! The answer of a tool: a text for the model, and the data.

use rmcp::model::Resource;
use serde::Serialize;
use serde_json::{Value, json};

/// The answer of a tool.
pub(super) struct ToolAnswer {
    /// For the model.
    pub(super) text: String,
    /// The complete data.
    pub(super) data: Value,
    /// More to read.
    pub(super) resource: Option<Resource>,
}

impl ToolAnswer {
    /// Creates an answer; a text that is too long is cut.
    pub(super) fn new(text: &str, data: &impl Serialize) -> Self {
        let text = anstream::adapter::strip_str(text).to_string();
        let text = match text.char_indices().nth(CHARS) {
            Some((end, _)) => {
                format!("{}\n… (cut: the structured content has all of it)", text.get(..end).unwrap_or_default())
            }
            None => text,
        };
        Self { text, data: json!(data), resource: None }
    }
}

/// Maximum number of characters of a text.
const CHARS: usize = 6_000;
