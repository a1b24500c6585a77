//! The answer of a tool: short for a model's context, or complete.

use anstream::adapter::strip_str;
use rmcp::model::Resource;
use serde::Serialize;
use serde_json::{Value, json};

use knowledge::clip::clip;
use message::{Block, Line, Message};

/// The argument of every tool that asks for the complete answer.
pub(super) const FULL: &str = "full";
/// Maximum number of characters of the text of a complete answer.
const CHARS: usize = 6_000;
/// Maximum size of the text of a short answer, and of its data as JSON, in bytes.
const SHORT_BYTES: usize = 2_000;
/// Maximum number of characters of its first line, and of one next step.
const LINE_CHARS: usize = 150;
/// Maximum number of next steps.
const STEPS: usize = 3;
/// The longest step, in bytes: a command that is cut would be another one.
const STEP_BYTES: usize = 300;
/// The end of a reason that is cut.
const CUT: &str = "\n… (cut)";

/// The answer of a tool.
pub(super) struct ToolAnswer {
    /// All of it for the model; the first line is the result, the most important lines follow.
    text: String,
    /// The next steps: to do, or to ask.
    next: Vec<String>,
    /// The complete data.
    data: Value,
    /// More to read.
    pub(super) resource: Option<Resource>,
}

impl ToolAnswer {
    /// Creates an answer.
    pub(super) fn new(text: &str, next: Vec<String>, data: &impl Serialize) -> Self {
        Self { text: strip_str(text).to_string(), next, data: json!(data), resource: None }
    }

    /// Returns the text, at most 6,000 characters, and the complete data.
    pub(super) fn complete(self) -> (String, Value) {
        let text = match self.text.char_indices().nth(CHARS) {
            Some((end, _)) => {
                format!("{}\n… (cut: the structured content has all of it)", self.text.get(..end).unwrap_or_default())
            }
            None => self.text,
        };
        (text, self.data)
    }

    /// Returns the result, its reason, the next steps that are short enough to be whole and where the rest is, as text and as data; each at most 2,000 bytes.
    pub(super) fn short(self, tool: &str) -> (String, Value) {
        let (what, rest) = self.text.trim().split_once('\n').unwrap_or((self.text.trim(), ""));
        let what = clip(what.trim_start_matches(['▌', '#', ' ']), LINE_CHARS);
        let next: Vec<String> = self.next.iter().filter(|step| step.len() <= STEP_BYTES).take(STEPS).cloned().collect();
        let more = format!("{tool} with `{FULL}: true`");
        let mut why: Vec<&str> = rest.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let mut end = "";
        // What cannot fit at all is left out at once.
        let mut bytes = 0;
        let fitting = why.iter().take_while(|line| {
            bytes += line.len() + 1;
            bytes <= SHORT_BYTES
        });
        let fitting = fitting.count();
        if fitting < why.len() {
            why.truncate(fitting);
            end = CUT;
        }
        loop {
            let reason = why.join("\n") + end;
            let steps: String = next.iter().map(|step| format!("next: {step}\n")).collect();
            let text = format!("{what}\n{reason}\n{steps}more: {more}");
            let data = json!({ "what": what, "why": reason, "next": next, "more": more });
            if text.len().max(data.to_string().len()) <= SHORT_BYTES || why.pop().is_none() {
                return (text, data);
            }
            end = CUT;
        }
    }
}

/// Returns a message as text, and its first steps, followed by `other`.
pub(super) fn told(message: &Message, other: Option<String>) -> (String, Vec<String>) {
    let message = render::short(message);
    let steps = message.parts.iter().flat_map(|part| match part {
        Block::Steps(_, lines) => lines.iter().map(Line::text).collect(),
        _ => Vec::new(),
    });
    let next: Vec<String> = steps.take(2).chain(other).collect();
    (render::terminal(&message), next)
}
