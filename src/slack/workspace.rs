//! Workspace checks of `doctor`: the token's owner and scopes, channels, user groups.

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ANSWER_BYTES, Identity, Slack, SlackError, User};
use http_client::{ResponseBodyError, read_body, unreachable_reason};

/// Channels per page of a list; Slack advises at most 200 and accepts 999.
const PAGE: &str = "200";
/// Maximum number of pages to read: Slack allows 20 a minute.
const PAGES: usize = 15;

/// The body and the relevant headers of `auth.test`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenInfo {
    /// The owner of the token.
    pub identity: Identity,
    /// The scopes of the token; `None` if Slack did not return them.
    pub scopes: Option<Vec<String>>,
    /// The time of Slack's clock, in whole seconds.
    pub clock: Option<Timestamp>,
}

/// The facts about a channel that decide if we can post there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ChannelInfo {
    /// The channel's id.
    pub id: String,
    /// The channel's name without `#`.
    pub name: String,
    /// True if we are a member.
    pub is_member: bool,
    /// True if it is archived, so that nobody can post.
    pub is_archived: bool,
}

impl Slack {
    /// Calls `auth.test` and reads its headers.
    pub async fn introduction(&self) -> Result<TokenInfo, SlackError> {
        let (body, headers) = self.with_headers("auth.test").await?;
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let scopes = header("x-oauth-scopes").map(|list| {
            list.split(',').map(|scope| scope.trim().to_owned()).filter(|scope| !scope.is_empty()).collect()
        });
        let clock = header("date").and_then(|date| rfc2822::DateTimeParser::new().parse_timestamp(date).ok());
        let malformed = |_| SlackError::Unreachable("the answer is not Slack's".to_owned());
        Ok(TokenInfo { identity: serde_json::from_value(body).map_err(malformed)?, scopes, clock })
    }

    /// Finds a channel by its id or `#name`; `None` if no such channel is visible to us.
    pub async fn channel(&self, channel: &str) -> Result<Option<ChannelInfo>, SlackError> {
        #[derive(Deserialize)]
        struct One {
            channel: ChannelInfo,
        }
        #[derive(Deserialize)]
        struct Many {
            channels: Vec<ChannelInfo>,
            #[serde(default)]
            response_metadata: Value,
        }
        let Some(name) = channel.strip_prefix('#') else {
            return match self.form::<One>("conversations.info", &[("channel", channel)]).await {
                Ok(answer) => Ok(Some(answer.channel)),
                Err(SlackError::Refused { code, .. }) if code == "channel_not_found" => Ok(None),
                Err(error) => Err(error),
            };
        };
        let mut cursor = String::new();
        for _ in 0..PAGES {
            let arguments = [("types", "public_channel,private_channel"), ("limit", PAGE), ("cursor", &cursor)];
            let page: Many = self.form("conversations.list", &arguments).await?;
            if let Some(channel) = page.channels.into_iter().find(|c| c.name == name) {
                return Ok(Some(channel));
            }
            cursor = page.response_metadata["next_cursor"].as_str().unwrap_or_default().to_owned();
            if cursor.is_empty() {
                return Ok(None);
            }
        }
        let detail = format!(" (more than {PAGES} pages of channels)");
        Err(SlackError::Refused { code: "too_many_channels".to_owned(), detail })
    }

    /// Calls `usergroups.list`: the ids of the workspace's enabled user groups.
    pub async fn groups(&self) -> Result<Vec<String>, SlackError> {
        let answer: Value = self.form("usergroups.list", &[("include_disabled", "false")]).await?;
        let groups = answer["usergroups"].as_array().into_iter().flatten();
        Ok(groups.filter_map(|group| group["id"].as_str()).map(str::to_owned).collect())
    }

    /// Finds an active user; `None` if there is none, or the account is deactivated.
    pub async fn member(&self, id: &str) -> Result<Option<User>, SlackError> {
        match self.user(id).await {
            Ok(user) => Ok(Some(user).filter(|user| !user.deleted)),
            Err(SlackError::Refused { code, .. }) if code == "user_not_found" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Calls a method without arguments and returns the headers too, which slack-morphism leaves out.
    async fn with_headers(&self, method: &str) -> Result<(Value, reqwest::header::HeaderMap), SlackError> {
        let unreachable = |error: reqwest::Error| SlackError::Unreachable(unreachable_reason(&error));
        let url = format!("{}/{method}", self.api_url);
        let request = self.http.post(url).timeout(super::CALL).bearer_auth(&self.token.token_value.0).json(&json!({}));
        let answer = request.send().await.map_err(unreachable)?;
        if !answer.status().is_success() {
            return Err(SlackError::Unreachable(format!("HTTP {}", answer.status().as_u16())));
        }
        let headers = answer.headers().clone();
        let body = read_body(answer, ANSWER_BYTES).await.map_err(|error| match error {
            ResponseBodyError::Broken(error) => unreachable(error),
            ResponseBodyError::TooLarge(_) => SlackError::Unreachable(error.to_string()),
        })?;
        let body: Value = serde_json::from_slice(&body).map_err(|e| SlackError::Unreachable(e.to_string()))?;
        match body["ok"].as_bool() {
            Some(true) => Ok((body, headers)),
            _ => {
                let code = body["error"].as_str().unwrap_or("unknown_error").to_owned();
                Err(SlackError::Refused { code, detail: String::new() })
            }
        }
    }
}
