//! How to reach Slack, and which channel hears what.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::alert::Labels;

/// The key `slack:`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The Web API's address; another one for GovSlack, a proxy, or tests.
    pub api_url: String,
    /// A file with the bot token (`xoxb-…`); without it the environment's SLACK_BOT_TOKEN.
    pub bot_token_file: Option<PathBuf>,
    /// Where messages go that no route takes: a channel id or `#name`.
    pub channel: String,
    /// The first route whose labels all match takes the message.
    pub routes: Vec<Route>,
    /// Messages per second and channel; Slack allows about one.
    pub posts_per_second: u32,
    /// New messages at once before that rate holds.
    pub posts_burst: u32,
    /// Edits per minute in the whole workspace; Slack allows 50.
    pub updates_per_minute: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            api_url: "https://slack.com/api".to_owned(),
            bot_token_file: None,
            channel: String::new(),
            routes: Vec::new(),
            posts_per_second: 1,
            posts_burst: 4,
            updates_per_minute: 45,
        }
    }
}

/// One routing rule.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Labels on which all firing alerts agree: severity, team, namespace, …
    pub labels: BTreeMap<String, String>,
    /// A channel id or `#name`.
    pub channel: String,
}

impl Config {
    /// The channel for alerts with these common labels.
    pub fn channel_for(&self, labels: &Labels) -> &str {
        self.routes
            .iter()
            .find(|route| route.labels.iter().all(|(name, value)| labels.get(name) == Some(value)))
            .map_or(&self.channel, |route| &route.channel)
    }
}
