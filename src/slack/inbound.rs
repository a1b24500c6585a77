//! What people do in Slack, whichever way it arrives: commands, presses, forms, mentions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Who did it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Who {
    /// The user's id.
    pub user: String,
    /// Their workspace.
    pub team: String,
    /// Slack says itself that it is a program.
    pub is_bot: bool,
}

/// Where it was done, and where an answer belongs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The channel's id; a direct message's begins with `D`. Empty in modals.
    pub channel: String,
    /// The thread's first message.
    pub thread: Option<String>,
    /// The message that was pressed or written.
    pub message: Option<String>,
    /// Takes up to 5 answers within 30 minutes.
    pub response_url: Option<String>,
    /// Opens a modal within 3 seconds.
    pub trigger: Option<String>,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// `/llm-diagnose TEXT`.
    Command {
        /// What stands after the command's name.
        text: String,
    },
    /// `@llm-diagnose TEXT`, or a direct message to us.
    Mention {
        /// Without the mention itself.
        text: String,
    },
    /// A button or menu was used.
    Press {
        /// The button's `action_id`.
        action: String,
        /// Its value, or the chosen option's.
        value: String,
    },
    /// A modal was sent.
    Submit {
        /// The view's `callback_id`.
        form: String,
        /// The view's `private_metadata`.
        about: String,
        /// The fields' values by `action_id`.
        values: BTreeMap<String, String>,
    },
    /// We were invited into a channel.
    Joined,
    /// A menu asks for its options while somebody types.
    Suggest {
        /// The menu's `action_id`.
        action: String,
        /// What was typed.
        typed: String,
    },
}

/// One thing that somebody did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbound {
    /// The same for repetitions of the same thing: an envelope's, event's or trigger's id.
    pub id: String,
    /// Who.
    pub who: Who,
    /// Where.
    pub place: Place,
    /// What.
    pub what: What,
}

/// An option of a menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What is shown, at most 75 characters.
    pub label: String,
    /// What is told back, at most 150 characters.
    pub value: String,
}

/// What Slack is answered at once; everything else comes later as a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ack {
    /// Received.
    #[default]
    Received,
    /// A sentence for the person alone; only commands show it.
    Say(String),
    /// The options of a menu, at most 100.
    Options(Vec<Choice>),
    /// What is wrong with a modal's fields, by `block_id`.
    Errors(BTreeMap<String, String>),
    /// Another modal in place of the one that was sent.
    View(Value),
}

impl Ack {
    /// As Slack reads it; none is an empty answer.
    pub fn body(&self) -> Option<Value> {
        match self {
            Self::Received => None,
            Self::Say(text) => Some(json!({ "response_type": "ephemeral", "text": text })),
            Self::Options(choices) => {
                let options: Vec<Value> = choices
                    .iter()
                    .take(100)
                    .map(|c| json!({ "text": { "type": "plain_text", "text": c.label, "emoji": false }, "value": c.value }))
                    .collect();
                Some(json!({ "options": options }))
            }
            Self::Errors(errors) => Some(json!({ "response_action": "errors", "errors": errors })),
            Self::View(view) => Some(json!({ "response_action": "update", "view": view })),
        }
    }
}
