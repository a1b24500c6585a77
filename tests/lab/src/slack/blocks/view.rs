//! The rules for modals: <https://docs.slack.dev/reference/views/modal-views>.

use serde_json::{Value, json};

use super::schema::{VIEW, VIEW_BLOCK};
use super::shape::check;
use super::{Rule, Seen, Violation, block_list};

/// Every rule that a modal breaks.
pub fn validate_view(view: &Value) -> Vec<Violation> {
    let mut seen = Seen { blocks: &VIEW_BLOCK, most: 100, is_message: false, ..Seen::default() };
    let mut outside = view.clone();
    if view["blocks"].is_array() {
        // Checked one by one below.
        outside["blocks"] = json!([]);
    }
    check(&outside, &VIEW, "", &mut seen.out);
    let blocks = view["blocks"].as_array().map(Vec::as_slice).unwrap_or_default();
    if blocks.is_empty() {
        seen.out.push(Violation::new("/blocks", Rule::TooFew, "no less than 1 items allowed"));
    }
    if blocks.iter().any(|block| block["type"] == "input") && !view["submit"].is_object() {
        seen.out.push(Violation::new("/submit", Rule::MissingField, "a modal with inputs needs `submit`"));
    }
    block_list(&view["blocks"], "/blocks", &mut seen);
    seen.finish()
}
