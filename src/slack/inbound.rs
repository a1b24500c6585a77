//! Requests of Slack users, independent of the transport: commands, presses, forms, mentions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The user of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlackActor {
    /// The user's id.
    pub user: String,
    /// The user's workspace.
    pub team: String,
    /// True if Slack itself marks the user as a bot.
    pub is_bot: bool,
}

/// The place of a request and its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestPlace {
    /// The channel's id; that of a direct message begins with `D`. Empty for modals.
    pub channel: String,
    /// The timestamp of the thread's first message.
    pub thread: Option<String>,
    /// The timestamp of the pressed or written message.
    pub message: Option<String>,
    /// The address for up to 5 answers within 30 minutes.
    pub response_url: Option<String>,
    /// The trigger that opens a modal within 3 seconds.
    pub trigger: Option<String>,
}

/// The kind of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlackAction {
    /// `/llm-diagnose TEXT`.
    Command {
        /// The text after the command's name.
        text: String,
    },
    /// `@llm-diagnose TEXT`, or a direct message to us.
    Mention {
        /// The text without the mention itself.
        text: String,
    },
    /// The use of a button or menu.
    Press {
        /// The button's `action_id`.
        action: String,
        /// The value of the button or of the selected option.
        value: String,
    },
    /// The submission of a modal.
    Submit {
        /// The view's `callback_id`.
        form: String,
        /// The view's `private_metadata`.
        about: String,
        /// The fields' values by `action_id`.
        values: BTreeMap<String, String>,
    },
    /// An invitation of the app to a channel.
    Joined,
    /// The opening of the app's Home tab.
    Home,
    /// A menu's request for options while the user types.
    Suggest {
        /// The menu's `action_id`.
        action: String,
        /// The typed text.
        typed: String,
    },
}

/// A request of a Slack user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackRequest {
    /// The id of the envelope, event or trigger; the same for Slack's retries.
    pub id: String,
    /// The user.
    pub who: SlackActor,
    /// The place.
    pub place: RequestPlace,
    /// The kind and content.
    pub what: SlackAction,
}

/// An option of a menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The visible text, at most 75 characters.
    pub label: String,
    /// The value that Slack sends back, at most 150 characters.
    pub value: String,
}

/// The immediate acknowledgement of a request; everything else follows as a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ack {
    /// No content.
    #[default]
    Received,
    /// A sentence that only the user sees; only commands show it.
    Say(String),
    /// The options of a menu, at most 100.
    Options(Vec<Choice>),
    /// The validation errors of a modal's fields, by `block_id`.
    Errors(BTreeMap<String, String>),
    /// Another modal that replaces the submitted one.
    View(Value),
}

impl Ack {
    /// Returns the body of the response; `None` if it is empty.
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
