//! Messages as data: blocks of lines. `render` builds and prints them; stores and chats only carry them.

mod block;
mod line;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use block::{Block, BlockGroup, ChainLink, DocumentBlock, Folding};
pub use line::{Line, StateStyle, TextSpan, time_of_day};

/// A message, independent of the medium.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The severity.
    pub tone: Tone,
    /// One line for the notification: symptom, affected pool, cause.
    pub headline: String,
    /// The other parts.
    pub parts: Vec<Block>,
}

impl Message {
    /// Returns the message with every text changed; addresses of links and buttons stay.
    #[must_use]
    pub fn map_text(self, change: &impl Fn(String) -> String) -> Self {
        let parts = self.parts.into_iter().map(|part| part.map_text(change)).collect();
        Self { tone: self.tone, headline: change(self.headline), parts }
    }
}

/// The severity of a message, shown as a colour and a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// Users are affected.
    Critical,
    /// A warning that needs attention.
    Warning,
    /// Firing, with no alert that states a severity.
    Firing,
    /// Resolved, or checked without finding a problem.
    Good,
    /// No verdict, or an alert whose symptom is absent.
    Unknown,
}

impl Tone {
    /// Returns the colour for attachments and pages; distinguishable with red-green blindness too.
    pub fn hex(self) -> &'static str {
        match self {
            Self::Critical => "#c4314b",
            Self::Warning => "#e8a13a",
            Self::Good => "#2f9e6e",
            Self::Firing | Self::Unknown => "#6b7a90",
        }
    }
}

/// A button.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// The act, unique within a message and returned on a click. See `chat`.
    pub action: String,
    /// The label.
    pub label: String,
    /// The value returned on a click: the incident's id, a step's hash.
    pub value: String,
    /// The style.
    pub style: ButtonStyle,
    /// The question of the confirmation dialog, if any.
    pub confirm: Option<String>,
}

/// The style of a button.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ButtonStyle {
    /// One of several equal buttons.
    #[default]
    Plain,
    /// The button that most users need.
    Primary,
    /// An act that needs care, such as an escalation.
    Danger,
    /// Rarely used: in the menu behind the other buttons.
    InMenu,
}

/// The arguments of `chat.postMessage` and `chat.update`, without channel and timestamp.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlackMessage {
    /// The text of notifications, and of messages without blocks; escaped.
    pub text: String,
    /// The top-level blocks, the headline first.
    pub blocks: Vec<Value>,
    /// The small print at the end, in the message's colour.
    pub attachments: Vec<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_of_a_message_is_changed_and_addresses_stay() {
        let line = || Line::default().plain("x").bold("x").code("x").link("x", "u").small(Line::of("x"));
        let line = || line().state(StateStyle::Good, "x");
        let button = Button {
            action: "a".to_owned(),
            label: "l".to_owned(),
            value: "v".to_owned(),
            style: ButtonStyle::Plain,
            confirm: None,
        };
        let parts = vec![
            Block::Paragraph(line()),
            Block::Section("x".to_owned(), vec![line()]),
            Block::Steps("x".to_owned(), vec![line()]),
            Block::Note(line()),
            Block::Beside(line(), button.clone()),
            Block::Gap(line()),
            Block::Buttons(vec![button]),
        ];
        let message = Message { tone: Tone::Good, headline: "x".to_owned(), parts };
        let before = serde_json::to_string(&message).unwrap();
        let after = message.map_text(&|text| text.replace('x', "yy"));
        assert_eq!(serde_json::to_string(&after).unwrap(), before.replace("\"x\"", "\"yy\""));
    }
}
