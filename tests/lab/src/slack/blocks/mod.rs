//! Slack's rules for the content of a message, as a pure function.
//!
//! Lengths are counted in UTF-16 code units: never fewer than characters, so that what passes here passes either way
//! of counting. Not covered: scopes, unfurling, whether a file or a picture exists.
//!
//! ```
//! use llm_diagnose_lab::slack::blocks::{Rule, validate};
//! let message = serde_json::json!({ "text": "hi", "blocks": [{ "type": "header" }] });
//! assert_eq!(validate(&message)[0].rule, Rule::MissingField);
//! ```

pub(super) mod mrkdwn;
mod schema;
mod shape;
#[cfg(test)]
mod tests;
mod view;

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

use mrkdwn::Piece;
use schema::{BLOCK, Shape};
use shape::{check, child, units};
pub use view::validate_view;

/// Which rule was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A value has the wrong JSON type.
    WrongType,
    /// A block, element or text object of a type that may not stand there.
    UnknownType,
    /// A field that Slack does not know on this object.
    UnknownField,
    /// A required field is absent.
    MissingField,
    /// A value outside its allowed set or range.
    InvalidValue,
    /// An address that Slack would not accept.
    InvalidUrl,
    /// A text above its limit.
    TooLong,
    /// A text below its least length.
    TooShort,
    /// A list above its limit.
    TooMany,
    /// A list below its least length.
    TooFew,
    /// A `block_id` used twice in a message, or an `action_id` twice in a block.
    DuplicateId,
    /// More than one table in a message.
    OneTable,
    /// All block text together is above the undocumented total.
    BlocksTooLong,
    /// Nothing to show.
    NoText,
    /// `<`, `>` or `&` neither escaped nor part of an entity.
    Unescaped,
    /// A live mention.
    Mention,
    /// Neither text nor fallback: a notification would be empty.
    NoFallback,
    /// A text above 40,000 characters, which Slack cuts.
    Truncated,
    /// Not acknowledged in time.
    Late,
    /// Acknowledged in a way that Slack does not understand.
    Acknowledgement,
}

impl Rule {
    /// Whether Slack refuses the call for it; the rest is accepted and looks or behaves wrong.
    pub fn is_refused(self) -> bool {
        !matches!(
            self,
            Self::Unescaped | Self::Mention | Self::NoFallback | Self::Truncated | Self::Late | Self::Acknowledgement
        )
    }
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where, as a JSON pointer into the message: `/blocks/0/text`.
    pub pointer: String,
    /// Which rule.
    pub rule: Rule,
    /// What is wrong, in Slack's manner: `must be less than 3001 characters`.
    pub message: String,
}

impl Violation {
    fn new(pointer: impl Into<String>, rule: Rule, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), rule, message: message.into() }
    }
}

impl fmt::Display for Violation {
    /// As in Slack's `response_metadata.messages`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[ERROR] {} [json-pointer:{}]", self.message, self.pointer)
    }
}

/// Blocks in one list.
pub const MAX_BLOCKS: usize = 50;
/// Characters of all blocks together; observed, not documented: <https://github.com/slackapi/bolt-js/issues/2509>.
pub const MAX_BLOCK_TEXT: usize = 13_200;
/// Characters of a message's top-level text, above which Slack cuts.
pub const MAX_TEXT: usize = 40_000;
/// Characters of all markdown blocks together.
const MAX_MARKDOWN: usize = 12_000;
const MAX_ATTACHMENTS: usize = 100;
const MAX_CHARTS: usize = 2;
const MAX_CELL_TEXT: usize = 10_000;
/// The only fields that may stand beside `blocks` in an attachment.
const BESIDE_BLOCKS: [&str; 3] = ["blocks", "color", "fallback"];

/// Every rule that a message breaks; `message` is a message (`text`, `blocks`, `attachments`) or an array of blocks.
pub fn validate(message: &Value) -> Vec<Violation> {
    let mut seen = Seen::default();
    if message.is_array() {
        block_list(message, "/blocks", &mut seen);
        return seen.finish();
    }
    let text = message["text"].as_str().unwrap_or_default();
    scan(text, "/text", &mut seen.out);
    if units(text) > MAX_TEXT {
        seen.out.push(Violation::new(
            "/text",
            Rule::Truncated,
            format!("{} characters are cut to {MAX_TEXT}", units(text)),
        ));
    }
    if !message["blocks"].is_null() {
        block_list(&message["blocks"], "/blocks", &mut seen);
    }
    let attachments = message["attachments"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, attachment) in attachments.iter().enumerate() {
        self::attachment(attachment, &format!("/attachments/{index}"), &mut seen);
    }
    if attachments.len() > MAX_ATTACHMENTS {
        seen.out.push(Violation::new("/attachments", Rule::TooMany, "no more than 100 items allowed"));
    }
    let is_empty = |value: &Value| value.as_array().is_none_or(Vec::is_empty);
    if text.is_empty() && is_empty(&message["blocks"]) && attachments.is_empty() {
        seen.out.push(Violation::new("", Rule::NoText, "nothing to show: no text, blocks or attachments"));
    } else if text.is_empty() && attachments.iter().all(|a| a["fallback"].as_str().is_none_or(str::is_empty)) {
        seen.out.push(Violation::new("/text", Rule::NoFallback, "no text for notifications and screen readers"));
    }
    seen.finish()
}

/// What is counted over a whole message.
struct Seen {
    /// What may stand there.
    blocks: &'static Shape,
    /// How many.
    most: usize,
    is_message: bool,
    out: Vec<Violation>,
    block_ids: HashSet<String>,
    markdown: usize,
    tables: usize,
    charts: usize,
    characters: usize,
}

impl Default for Seen {
    /// Of a message.
    fn default() -> Self {
        Self {
            blocks: &BLOCK,
            most: MAX_BLOCKS,
            is_message: true,
            out: Vec::new(),
            block_ids: HashSet::new(),
            markdown: 0,
            tables: 0,
            charts: 0,
            characters: 0,
        }
    }
}

impl Seen {
    fn finish(mut self) -> Vec<Violation> {
        if self.is_message && self.characters > MAX_BLOCK_TEXT {
            let message =
                format!("{} characters in all blocks, no more than {MAX_BLOCK_TEXT} allowed", self.characters);
            self.out.push(Violation::new("/blocks", Rule::BlocksTooLong, message));
        }
        self.out
    }
}

fn attachment(attachment: &Value, pointer: &str, seen: &mut Seen) {
    let Some(fields) = attachment.as_object() else {
        seen.out.push(Violation::new(pointer, Rule::WrongType, "must be an object"));
        return;
    };
    if let Some(blocks) = fields.get("blocks") {
        for name in fields.keys().filter(|name| !BESIDE_BLOCKS.contains(&name.as_str())) {
            seen.out.push(Violation::new(child(pointer, name), Rule::UnknownField, "invalid_keys: not beside blocks"));
        }
        block_list(blocks, &child(pointer, "blocks"), seen);
    }
    for name in ["text", "pretext"] {
        scan(attachment[name].as_str().unwrap_or_default(), &child(pointer, name), &mut seen.out);
    }
    for (index, field) in attachment["fields"].as_array().into_iter().flatten().enumerate() {
        scan(field["value"].as_str().unwrap_or_default(), &format!("{pointer}/fields/{index}/value"), &mut seen.out);
    }
}

fn block_list(blocks: &Value, pointer: &str, seen: &mut Seen) {
    let Some(list) = blocks.as_array() else {
        seen.out.push(Violation::new(pointer, Rule::WrongType, "must be an array"));
        return;
    };
    if list.len() > seen.most {
        seen.out.push(Violation::new(pointer, Rule::TooMany, format!("no more than {} items allowed", seen.most)));
    }
    for (index, block) in list.iter().enumerate() {
        let pointer = child(pointer, &index.to_string());
        check(block, seen.blocks, &pointer, &mut seen.out);
        across(block, &pointer, seen);
        let mut action_ids = HashSet::new();
        within(block, &pointer, &mut action_ids, seen);
    }
}

/// The rules that concern a block as a whole, or its siblings.
fn across(block: &Value, pointer: &str, seen: &mut Seen) {
    if let Some(id) = block["block_id"].as_str()
        && !seen.block_ids.insert(id.to_owned())
    {
        let message = format!("block_id `{id}` already exists");
        seen.out.push(Violation::new(child(pointer, "block_id"), Rule::DuplicateId, message));
    }
    match block["type"].as_str().unwrap_or_default() {
        "section" if block.get("text").is_none() && block.get("fields").is_none() => {
            seen.out.push(Violation::new(pointer, Rule::MissingField, "a section needs `text` or `fields`"));
        }
        "markdown" => {
            let text = block["text"].as_str().unwrap_or_default();
            let before = seen.markdown;
            seen.markdown += units(text);
            if before <= MAX_MARKDOWN && seen.markdown > MAX_MARKDOWN && before > 0 {
                let message = format!("markdown blocks must be less than {} characters together", MAX_MARKDOWN + 1);
                seen.out.push(Violation::new(child(pointer, "text"), Rule::TooLong, message));
            }
            for piece in mrkdwn::pieces(text) {
                if let Piece::Mention(name) = piece {
                    seen.out.push(mention(&child(pointer, "text"), name));
                }
            }
        }
        "table" | "data_table" => table(block, pointer, seen),
        "data_visualization" => chart(block, pointer, seen),
        _ => {}
    }
}

fn table(block: &Value, pointer: &str, seen: &mut Seen) {
    seen.tables += 1;
    if seen.tables > 1 {
        seen.out.push(Violation::new(pointer, Rule::OneTable, "only_one_table_allowed"));
    }
    let pointer = child(pointer, "rows");
    let rows: Vec<_> = block["rows"].as_array().into_iter().flatten().filter_map(Value::as_array).collect();
    if rows.windows(2).any(|pair| pair[0].len() != pair[1].len()) {
        seen.out.push(Violation::new(pointer.as_str(), Rule::InvalidValue, "all rows must have the same length"));
    }
    if block_text(&block["rows"]) > MAX_CELL_TEXT {
        let message = format!("cells must be less than {} characters together", MAX_CELL_TEXT + 1);
        seen.out.push(Violation::new(pointer, Rule::TooLong, message));
    }
}

fn chart(block: &Value, pointer: &str, seen: &mut Seen) {
    seen.charts += 1;
    if seen.charts > MAX_CHARTS {
        seen.out.push(Violation::new(pointer, Rule::TooMany, format!("no more than {MAX_CHARTS} charts allowed")));
    }
    let categories = block["chart"]["axis_config"]["categories"].as_array();
    for (index, series) in block["chart"]["series"].as_array().into_iter().flatten().enumerate() {
        let labels = series["data"].as_array().into_iter().flatten().map(|point| &point["label"]);
        if let Some(categories) = categories
            && !labels.eq(categories)
        {
            let at = format!("{pointer}/chart/series/{index}/data");
            seen.out.push(Violation::new(at, Rule::InvalidValue, "labels must equal the axis' categories"));
        }
    }
}

/// The rules that may concern any object inside a block.
fn within(value: &Value, pointer: &str, action_ids: &mut HashSet<String>, seen: &mut Seen) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                within(item, &child(pointer, &index.to_string()), action_ids, seen);
            }
        }
        Value::Object(fields) => {
            one_object(value, pointer, action_ids, seen);
            for (name, field) in fields {
                within(field, &child(pointer, name), action_ids, seen);
            }
        }
        _ => {}
    }
}

fn one_object(object: &Value, pointer: &str, action_ids: &mut HashSet<String>, seen: &mut Seen) {
    if let Some(id) = object["action_id"].as_str()
        && !action_ids.insert(id.to_owned())
    {
        let message = format!("action_id `{id}` already exists in this block");
        seen.out.push(Violation::new(child(pointer, "action_id"), Rule::DuplicateId, message));
    }
    seen.characters +=
        ["text", "alt_text", "title"].iter().filter_map(|key| object[key].as_str()).map(units).sum::<usize>();
    let has = |name: &str| object.get(name).is_some();
    match object["type"].as_str().unwrap_or_default() {
        "mrkdwn" => scan(object["text"].as_str().unwrap_or_default(), &child(pointer, "text"), &mut seen.out),
        "image" if has("image_url") == has("slack_file") => {
            seen.out.push(Violation::new(pointer, Rule::MissingField, "an image needs `image_url` or `slack_file`"));
        }
        "static_select" | "multi_static_select" if has("options") == has("option_groups") => {
            seen.out.push(Violation::new(pointer, Rule::MissingField, "a select needs `options` or `option_groups`"));
        }
        kind @ ("user" | "usergroup" | "broadcast") => {
            let whom = ["user_id", "usergroup_id", "range"].iter().find_map(|key| object[key].as_str()).unwrap_or(kind);
            seen.out.push(mention(pointer, whom));
        }
        _ => {}
    }
}

fn block_text(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(block_text).sum(),
        Value::Object(fields) => {
            fields.get("text").and_then(Value::as_str).map_or(0, units) + fields.values().map(block_text).sum::<usize>()
        }
        _ => 0,
    }
}

/// Reports what a mrkdwn text leaves unescaped, and whom it notifies.
fn scan(text: &str, pointer: &str, out: &mut Vec<Violation>) {
    for piece in mrkdwn::pieces(text) {
        match piece {
            Piece::Stray(rest) => {
                out.push(Violation::new(pointer, Rule::Unescaped, format!("neither escaped nor an entity: `{rest}`")));
            }
            Piece::Mention(name) => out.push(mention(pointer, name)),
            Piece::Text(_) | Piece::Escaped(_) | Piece::Link { .. } | Piece::Reference(_) => {}
        }
    }
}

fn mention(pointer: &str, name: &str) -> Violation {
    Violation::new(pointer, Rule::Mention, format!("notifies people: `{name}`"))
}
