//! Slack's Web API: posts and edits messages through slack-morphism, over our own HTTP client.
//!
//! slack-morphism's own connector has no timeouts and no proxy, and its rate control counts per team, not per channel;
//! so it runs over reqwest here and the rates are kept by [`crate::notify`].

mod config;
mod connector;
mod error;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use slack_morphism::prelude::{SlackApiToken, SlackApiTokenValue, SlackClient};

use crate::render::SlackMessage;
pub use config::{Config, Route};
use connector::ReqwestConnector;
pub use error::SlackError;

/// Of one call, how long Slack may take.
const CALL: Duration = Duration::from_secs(10);

/// A Slack workspace, through a bot token.
#[derive(Clone)]
pub struct Slack {
    client: std::sync::Arc<SlackClient<ReqwestConnector>>,
    token: SlackApiToken,
}

impl std::fmt::Debug for Slack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slack").finish_non_exhaustive()
    }
}

/// Where a message stands.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Posted {
    /// The channel's id; a name that was posted to becomes an id here.
    pub channel: String,
    /// The message's timestamp, its identity in the channel.
    pub ts: String,
}

#[derive(Serialize)]
struct Arguments<'a> {
    channel: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<&'a str>,
    text: &'a str,
    attachments: &'a serde_json::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    unfurl_links: Option<bool>,
}

impl Slack {
    /// Prepares a client; nothing is sent.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(api_url: &str, token: &str) -> Result<Self, SlackError> {
        let connector = ReqwestConnector::new(api_url, CALL)?;
        Ok(Self {
            client: std::sync::Arc::new(SlackClient::new(connector)),
            token: SlackApiToken::new(SlackApiTokenValue(token.to_owned())),
        })
    }

    /// `chat.postMessage`.
    ///
    /// # Errors
    /// What Slack or the network said.
    pub async fn post(&self, channel: &str, message: &SlackMessage) -> Result<Posted, SlackError> {
        let arguments = Arguments {
            channel,
            ts: None,
            text: &message.text,
            attachments: &message.attachments,
            unfurl_links: Some(false),
        };
        self.call("chat.postMessage", &arguments).await
    }

    /// `chat.update`.
    ///
    /// # Errors
    /// What Slack or the network said; see [`SlackError::is_gone`].
    pub async fn update(&self, at: &Posted, message: &SlackMessage) -> Result<Posted, SlackError> {
        let arguments = Arguments {
            channel: &at.channel,
            ts: Some(&at.ts),
            text: &message.text,
            attachments: &message.attachments,
            unfurl_links: None,
        };
        self.call("chat.update", &arguments).await
    }

    /// `auth.test`: whether the token is good.
    ///
    /// # Errors
    /// What Slack or the network said.
    pub async fn ping(&self) -> Result<(), SlackError> {
        self.call::<serde_json::Value>("auth.test", &serde_json::json!({})).await.map(|_| ())
    }

    async fn call<R>(&self, method: &str, arguments: &(impl Serialize + Send + Sync)) -> Result<R, SlackError>
    where
        R: for<'de> Deserialize<'de> + Send,
    {
        let session = self.client.open_session(&self.token);
        let call = session.http_session_api.http_post(method, arguments, None);
        match tokio::time::timeout(CALL, call).await {
            Ok(answer) => answer.map_err(SlackError::from_client),
            Err(_) => Err(SlackError::Late),
        }
    }
}
