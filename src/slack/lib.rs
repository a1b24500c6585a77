//! Slack's Web API: posts and edits messages through slack-morphism, over our own HTTP client.
//!
//! slack-morphism's own connector has no timeouts and no proxy, and its rate control counts per team, not per channel;
//! so it runs over reqwest here, and `notify` applies the rate limits.

mod config;
mod connector;
mod error;
mod history;
mod inbound;
pub mod payload;
pub mod scopes;
mod signature;
pub mod socket;
mod weekly;
mod workspace;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slack_morphism::prelude::{SlackApiToken, SlackApiTokenValue, SlackClient};

pub use config::RemindConfig;
pub use config::{Config, LeastSeverity, Powers, Route, StormConfig, Transport, is_person};
use connector::ReqwestConnector;
pub use error::SlackError;
pub use history::{MarkedMessage, MessageMark, marked_name};
use http_client::unreachable_reason;
pub use inbound::{Ack, Choice, RequestPlace, SlackAction, SlackActor, SlackRequest};
use message::SlackMessage;
pub use payload::Payload;
pub use signature::{SignatureError, Signing};
pub use socket::{SocketState, SocketStatus};
pub use weekly::{DailyConfig, SummaryMoments, WeeklyConfig};
pub use workspace::{ChannelInfo, TokenInfo};

/// The timeout of a call.
const CALL: Duration = Duration::from_secs(10);
/// The timeout of a call that posts something new: a caller that gives up earlier does not know its result.
const POSTING: Duration = Duration::from_secs(20);
/// The largest answer that is read, in bytes: a page of 200 channels with long topics.
const ANSWER_BYTES: usize = 4 << 20;
/// The slowest accepted upload, in bytes per second.
const SLOWEST: u64 = 1 << 20;

/// A Slack workspace, through a bot token.
#[derive(Clone)]
pub struct Slack {
    client: std::sync::Arc<SlackClient<ReqwestConnector>>,
    token: SlackApiToken,
    api_url: String,
    /// The HTTP client for addresses that Slack returns, which must not get the token.
    http: reqwest::Client,
}

impl std::fmt::Debug for Slack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slack").finish_non_exhaustive()
    }
}

/// The place of a posted message.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Posted {
    /// The channel's id, even if the message was posted to a channel name.
    pub channel: String,
    /// The message's timestamp, which identifies it within the channel.
    pub ts: String,
}

/// The target of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination<'a> {
    /// A channel's id or `#name`, or a user's id for a direct message.
    pub channel: &'a str,
    /// The timestamp of the message whose thread gets it; `None` posts to the channel itself.
    pub thread: Option<&'a str>,
}

impl<'a> Destination<'a> {
    /// Targets the channel itself.
    pub fn channel(channel: &'a str) -> Self {
        Self { channel, thread: None }
    }
}

/// The owner of the token, as `auth.test` returns it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Identity {
    /// The workspace's id.
    pub team_id: String,
    /// The id of our own user.
    pub user_id: String,
    /// The workspace's address, https://….slack.com/; may be empty.
    #[serde(default)]
    pub url: String,
}

/// The facts about a user that authorisation needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct User {
    /// The user's workspace.
    pub team_id: Option<String>,
    /// True for a bot.
    pub is_bot: bool,
    /// True for a guest.
    pub is_restricted: bool,
    /// True for a guest of one channel.
    pub is_ultra_restricted: bool,
    /// True for a user of another organisation in a shared channel.
    pub is_stranger: bool,
    /// True for a deactivated account.
    pub deleted: bool,
}

/// Builds the arguments of a message. `parse` is `none`, so that addresses in labels stay text; only text between `<`
/// and `>` becomes a link.
fn arguments(to: Destination<'_>, message: &SlackMessage) -> Value {
    let SlackMessage { text, blocks, attachments } = message;
    let mut arguments = json!({ "channel": to.channel, "text": text, "attachments": attachments, "parse": "none" });
    if let Some(thread) = to.thread {
        arguments["thread_ts"] = thread.into();
    }
    if !blocks.is_empty() {
        arguments["blocks"] = blocks.clone().into();
    }
    arguments
}

/// Builds the arguments of a post.
fn posting(to: Destination<'_>, message: &SlackMessage, mark: &MessageMark) -> Value {
    let mut posting = arguments(to, message);
    posting["unfurl_links"] = false.into();
    posting["metadata"] = mark.metadata();
    posting
}

impl Slack {
    /// Creates a client; sends nothing.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(api_url: &str, token: &str) -> Result<Self, SlackError> {
        let connector = ReqwestConnector::new(api_url, POSTING)?;
        let http = connector.http.clone();
        let api_url = api_url.trim_end_matches('/').to_owned();
        Ok(Self { client: std::sync::Arc::new(SlackClient::new(connector)), token: api_token(token), api_url, http })
    }

    /// Calls `chat.postMessage`, with a mark by which [`Self::marked`] finds the message.
    ///
    /// # Errors
    /// The error of Slack or the network; also below.
    pub async fn post(
        &self,
        to: Destination<'_>,
        message: &SlackMessage,
        mark: &MessageMark,
    ) -> Result<Posted, SlackError> {
        self.call_within(POSTING, "chat.postMessage", &posting(to, message, mark)).await
    }

    /// Calls `chat.postMessage` for a reply in a thread that the channel shows as well.
    pub async fn broadcast(
        &self,
        to: Destination<'_>,
        message: &SlackMessage,
        mark: &MessageMark,
    ) -> Result<Posted, SlackError> {
        let mut arguments = posting(to, message, mark);
        arguments["reply_broadcast"] = true.into();
        self.call_within(POSTING, "chat.postMessage", &arguments).await
    }

    /// Calls `chat.postEphemeral`: only `user` sees the message.
    pub async fn post_ephemeral(
        &self,
        to: Destination<'_>,
        user: &str,
        message: &SlackMessage,
    ) -> Result<(), SlackError> {
        let mut arguments = arguments(to, message);
        arguments["user"] = user.into();
        self.call::<Value>("chat.postEphemeral", &arguments).await.map(drop)
    }

    /// Calls `chat.update`; text above 4,000 characters is refused as `msg_too_long`.
    pub async fn update(&self, at: &Posted, message: &SlackMessage) -> Result<Posted, SlackError> {
        let mut arguments = arguments(Destination::channel(&at.channel), message);
        arguments["ts"] = at.ts.as_str().into();
        self.call("chat.update", &arguments).await
    }

    /// Posts to a command's or button's `response_url`: at most 5 times within 30 minutes. `in_channel` shows the post to
    /// everybody.
    pub async fn respond(
        &self,
        response_url: &str,
        message: &SlackMessage,
        in_channel: bool,
    ) -> Result<(), SlackError> {
        let kind = if in_channel { "in_channel" } else { "ephemeral" };
        let body = json!({
            "response_type": kind, "replace_original": false, "text": message.text, "blocks": message.blocks,
            "attachments": message.attachments,
        });
        let response = self.http.post(response_url).timeout(CALL).json(&body).send().await;
        let response = response.map_err(|e| SlackError::Unreachable(unreachable_reason(&e)))?;
        let status = response.status();
        if status == reqwest::StatusCode::TOO_MANY_REQUESTS {
            return Err(SlackError::limited(connector::retry_after(&response)));
        }
        match (status.is_success(), status.is_server_error()) {
            (true, _) => Ok(()),
            (_, true) => Err(SlackError::Unreachable(format!("HTTP {}", status.as_u16()))),
            _ => Err(SlackError::Refused { code: format!("response_url_{}", status.as_u16()), detail: String::new() }),
        }
    }

    /// Uploads a file in three steps (announce, send, share), into a thread if `to` has one. Without `to` it is only
    /// stored, for an image block. `alt` is the alternative text of an image. Returns the file's id.
    ///
    /// Source: <https://docs.slack.dev/messaging/working-with-files/#upload>.
    pub async fn upload(
        &self,
        name: &str,
        [title, alt]: [&str; 2],
        bytes: Vec<u8>,
        to: Option<Destination<'_>>,
    ) -> Result<String, SlackError> {
        let length = bytes.len() as u64;
        self.send_file(name, [title, alt], (bytes.into(), length), to).await
    }

    /// Like [`Self::upload`], from the disk, with a timeout that grows with the file's size.
    ///
    /// # Errors
    /// See [`Self::post`]; `file_unreadable` if the file cannot be read.
    pub async fn upload_file(
        &self,
        name: &str,
        title: &str,
        path: &std::path::Path,
        to: Destination<'_>,
    ) -> Result<String, SlackError> {
        let unreadable = |error: std::io::Error| SlackError::Refused {
            code: "file_unreadable".into(),
            detail: format!(" ({error})"),
        };
        let file = tokio::fs::File::open(path).await.map_err(unreadable)?;
        let length = file.metadata().await.map_err(unreadable)?.len();
        self.send_file(name, [title, ""], (file.into(), length), Some(to)).await
    }

    async fn send_file(
        &self,
        name: &str,
        [title, alt]: [&str; 2],
        (body, length): (reqwest::Body, u64),
        to: Option<Destination<'_>>,
    ) -> Result<String, SlackError> {
        #[derive(Deserialize)]
        struct Announced {
            upload_url: String,
            file_id: String,
        }
        let length_text = length.to_string();
        let mut form = vec![("filename", name), ("length", &length_text)];
        if !alt.is_empty() {
            form.push(("alt_txt", alt));
        }
        let announced: Announced = self.form("files.getUploadURLExternal", &form).await?;
        // The address is signed; it must not get the token. A stream has no length of its own, and the host requires
        // one.
        let upload = self.http.post(&announced.upload_url).header(reqwest::header::CONTENT_LENGTH, length);
        let upload = upload.timeout(CALL + Duration::from_secs(length / SLOWEST)).body(body).send().await;
        let status = upload.map_err(|e| SlackError::Unreachable(unreachable_reason(&e)))?.status();
        if !status.is_success() {
            return Err(SlackError::Unreachable(format!("HTTP {} from the upload address", status.as_u16())));
        }
        let mut complete = json!({ "files": [{ "id": announced.file_id, "title": title }] });
        if let Some(to) = to {
            complete["channel_id"] = to.channel.into();
            complete["thread_ts"] = to.thread.into();
        }
        self.call_within::<Value>(POSTING, "files.completeUploadExternal", &complete).await?;
        Ok(announced.file_id)
    }

    /// Calls `auth.test`: the owner of the token.
    pub async fn identity(&self) -> Result<Identity, SlackError> {
        self.call("auth.test", &json!({})).await
    }

    /// Calls `users.info`.
    pub async fn user(&self, id: &str) -> Result<User, SlackError> {
        #[derive(Deserialize)]
        struct Answer {
            user: User,
        }
        self.form::<Answer>("users.info", &[("user", id)]).await.map(|answer| answer.user)
    }

    /// Calls `usergroups.users.list`: the members of a user group, by id.
    pub async fn group_members(&self, group: &str) -> Result<Vec<String>, SlackError> {
        #[derive(Deserialize)]
        struct Answer {
            users: Vec<String>,
        }
        self.form::<Answer>("usergroups.users.list", &[("usergroup", group)]).await.map(|answer| answer.users)
    }

    /// Calls `apps.connections.open` with the app-level token: the WebSocket address for Socket Mode.
    pub async fn open_socket(&self, app_token: &str) -> Result<String, SlackError> {
        #[derive(Deserialize)]
        struct Answer {
            url: String,
        }
        let token = api_token(app_token);
        let session = self.client.open_session(&token);
        let none: [(&str, Option<&str>); 0] = [];
        let call = session.http_session_api.http_post_multipart_form("apps.connections.open", None, &none, None);
        deadline(CALL, call).await.map(|answer: Answer| answer.url)
    }

    /// Calls any method that takes JSON.
    pub async fn call<R>(&self, method: &str, arguments: &(impl Serialize + Send + Sync)) -> Result<R, SlackError>
    where
        R: for<'de> Deserialize<'de> + Send,
    {
        self.call_within(CALL, method, arguments).await
    }

    async fn call_within<R>(
        &self,
        limit: Duration,
        method: &str,
        arguments: &(impl Serialize + Send + Sync),
    ) -> Result<R, SlackError>
    where
        R: for<'de> Deserialize<'de> + Send,
    {
        let session = self.client.open_session(&self.token);
        deadline(limit, session.http_session_api.http_post(method, arguments, None)).await
    }

    /// Calls any method that takes a form; some take nothing else.
    pub async fn form<R>(&self, method: &str, arguments: &[(&str, &str)]) -> Result<R, SlackError>
    where
        R: for<'de> Deserialize<'de> + Send,
    {
        let session = self.client.open_session(&self.token);
        let arguments: Vec<(&str, Option<&str>)> = arguments.iter().map(|(k, v)| (*k, Some(*v))).collect();
        deadline(CALL, session.http_session_api.http_post_multipart_form(method, None, &arguments, None)).await
    }

    /// Calls `views.open`, within 3 seconds of the press that gave the trigger.
    ///
    /// # Errors
    /// See [`Self::post`]; `expired_trigger_id` after these 3 seconds.
    pub async fn open_view(&self, trigger: &str, view: &Value) -> Result<(), SlackError> {
        self.call::<Value>("views.open", &json!({ "trigger_id": trigger, "view": view })).await.map(drop)
    }

    /// Calls `views.publish`: shows a view in a user's Home tab of the app.
    pub async fn publish_home(&self, user: &str, view: &Value) -> Result<(), SlackError> {
        self.call::<Value>("views.publish", &json!({ "user_id": user, "view": view })).await.map(drop)
    }
}

fn api_token(text: &str) -> SlackApiToken {
    SlackApiToken::new(SlackApiTokenValue(text.to_owned()))
}

async fn deadline<R>(
    limit: Duration,
    call: impl Future<Output = slack_morphism::ClientResult<R>>,
) -> Result<R, SlackError> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer.map_err(SlackError::from_client),
        Err(_) => Err(SlackError::Late),
    }
}
