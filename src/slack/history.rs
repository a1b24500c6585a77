//! Messages with our mark in a channel or thread, to find a message whose `chat.postMessage` result was lost.
//!
//! Sources: <https://docs.slack.dev/messaging/message-metadata>,
//! <https://docs.slack.dev/reference/methods/conversations.history>.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Slack, SlackError};

/// The `event_type` of our marks.
const MARK: &str = "llm_diagnose";
/// Messages per page; Slack advises at most 200.
const PAGE: &str = "200";
/// Maximum number of pages to read.
const PAGES: usize = 5;

/// The invisible metadata by which a message is found again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageMark {
    /// The id of the incident, digest or post.
    pub id: String,
    /// True if the message mentions users or groups.
    #[serde(default)]
    pub mention: bool,
    /// The users and groups mentioned for the incident, by this message or before, separated by spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
    /// The state of the incident that the message shows, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
}

impl MessageMark {
    /// Creates the mark of a message without mentions.
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    /// Returns the `metadata` argument of `chat.postMessage`.
    pub(super) fn metadata(&self) -> Value {
        json!({ "event_type": MARK, "event_payload": self })
    }
}

/// A marked message that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedMessage {
    /// The message's timestamp.
    pub ts: String,
    /// The message's mark.
    pub mark: MessageMark,
    /// The id of the file that it shares.
    pub file: Option<String>,
}

/// Returns the name of a file that carries a mark, because files have no metadata.
pub fn marked_name(incident: &str, mark: &str) -> String {
    format!("{incident}-{mark}.png")
}

impl Slack {
    /// Returns the marked messages of user `me` since a time, oldest first: in a channel, or in the thread of a
    /// message. Needs `channels:history`, in private channels `groups:history`.
    ///
    /// # Errors
    /// See [`Slack::post`]; `missing_scope` without the scope.
    pub async fn marked(
        &self,
        channel: &str,
        thread: Option<&str>,
        since: Timestamp,
        me: &str,
    ) -> Result<Vec<MarkedMessage>, SlackError> {
        #[derive(Deserialize)]
        struct Page {
            messages: Vec<Value>,
            #[serde(default)]
            response_metadata: Value,
        }
        let oldest = format!("{}.000000", since.as_second());
        let mut messages = Vec::new();
        let mut cursor = String::new();
        for _ in 0..PAGES {
            let mut arguments = vec![
                ("channel", channel),
                ("oldest", &oldest),
                ("limit", PAGE),
                ("include_all_metadata", "true"),
                ("cursor", &cursor),
            ];
            let method = match thread {
                Some(ts) => {
                    arguments.push(("ts", ts));
                    "conversations.replies"
                }
                None => "conversations.history",
            };
            let page: Page = self.form(method, &arguments).await?;
            messages.extend(page.messages.iter().filter(|message| message["user"] == me).filter_map(read));
            cursor = page.response_metadata["next_cursor"].as_str().unwrap_or_default().to_owned();
            if cursor.is_empty() {
                break;
            }
        }
        messages.sort_by(|a, b| a.ts.cmp(&b.ts));
        Ok(messages)
    }

    /// Deletes one of our messages, or the file that it shares, which also deletes the message. Succeeds if it is
    /// already gone.
    pub async fn remove(&self, channel: &str, message: &MarkedMessage) -> Result<(), SlackError> {
        let result = match &message.file {
            Some(file) => self.form::<Value>("files.delete", &[("file", file)]).await,
            None => self.call::<Value>("chat.delete", &json!({ "channel": channel, "ts": message.ts })).await,
        };
        match result {
            Err(SlackError::Refused { code, .. })
                if ["message_not_found", "file_not_found", "file_deleted"].contains(&code.as_str()) =>
            {
                Ok(())
            }
            other => other.map(drop),
        }
    }
}

/// Reads a message; `None` if it has no mark.
fn read(message: &Value) -> Option<MarkedMessage> {
    let ts = message["ts"].as_str()?.to_owned();
    if message["metadata"]["event_type"] == MARK {
        let mark = MessageMark::deserialize(&message["metadata"]["event_payload"]).ok()?;
        return Some(MarkedMessage { ts, mark, file: None });
    }
    let file = message["files"].get(0)?;
    let (_, mark) = file["name"].as_str()?.strip_suffix(".png")?.rsplit_once('-')?;
    Some(MarkedMessage { ts, mark: MessageMark::new(mark), file: file["id"].as_str().map(str::to_owned) })
}
