//! How to reach Slack, and which channel hears what.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::alert::{Alert, Labels};
use crate::clock::duration;

/// The key `slack:`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The Web API's address; another one for GovSlack, a proxy, or tests.
    pub api_url: String,
    /// A file with the bot token (`xoxb-…`); without it the environment's SLACK_BOT_TOKEN.
    pub bot_token_file: Option<PathBuf>,
    /// How Slack reaches us: by Socket Mode, by HTTP, or not at all; by default by whichever has its secret.
    pub transport: Option<Transport>,
    /// A file with the app-level token (`xapp-…`) of Socket Mode; without it the environment's SLACK_APP_TOKEN.
    pub app_token_file: Option<PathBuf>,
    /// A file with the signing secret of HTTP; without it the environment's SLACK_SIGNING_SECRET.
    pub signing_secret_file: Option<PathBuf>,
    /// Socket Mode's connections at once, 1 to 10.
    pub connections: u32,
    /// Where messages go that no route takes: a channel id or `#name`.
    pub channel: String,
    /// Who is mentioned for critical alerts that no route takes, once each time an incident becomes critical: a user
    /// group's or user's id.
    pub mention: Option<String>,
    /// Each firing alert takes the first route whose labels are all among its own, as in Alertmanager.
    pub routes: Vec<Route>,
    /// Messages per second and channel; Slack allows about one.
    pub posts_per_second: u32,
    /// New messages at once before that rate holds.
    pub posts_burst: u32,
    /// Edits per minute in the whole workspace; Slack allows 50.
    pub updates_per_minute: u32,
    /// New messages that may wait in a channel; what comes then goes into a digest.
    pub queue: u32,
    /// When many incidents become one digest.
    pub storm: Storm,
    /// Who may do more than look.
    pub act: Powers,
    /// Whom "Escalate" calls: a user group's or user's id, or the name of one of `pagers`.
    pub escalate: Option<String>,
    /// Commands and presses per minute: of a user, in a channel, in the workspace.
    pub commands_per_minute: [u32; 3],
}

/// The key `slack.storm:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Storm {
    /// From so many new incidents of a channel within `within` on, the next go into a digest; 0 never collapses.
    pub incidents: u32,
    /// The time that is counted; defaults to 5m.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub within: Duration,
}

impl Default for Storm {
    fn default() -> Self {
        Self { incidents: 20, within: Duration::from_secs(300) }
    }
}

/// The key `slack.act:`: everybody may look; acting needs to be in one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Powers {
    /// User groups, by id.
    pub groups: Vec<String>,
    /// Users, by id.
    pub users: Vec<String>,
    /// Channels in which everybody may act, by id.
    pub channels: Vec<String>,
}

/// How Slack reaches us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// WebSockets that we open: no public endpoint.
    Socket,
    /// Requests to `/slack/*`, signed.
    Http,
    /// Messages only.
    Off,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            api_url: "https://slack.com/api".to_owned(),
            bot_token_file: None,
            transport: None,
            app_token_file: None,
            signing_secret_file: None,
            connections: 2,
            channel: String::new(),
            mention: None,
            routes: Vec::new(),
            posts_per_second: 1,
            posts_burst: 4,
            updates_per_minute: 45,
            queue: 200,
            storm: Storm::default(),
            act: Powers::default(),
            escalate: None,
            commands_per_minute: [12, 60, 240],
        }
    }
}

/// One routing rule.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Labels of an alert: severity, team, namespace, …
    pub labels: BTreeMap<String, String>,
    /// A channel id or `#name`.
    pub channel: String,
    /// Who is mentioned for critical alerts of this route, once each time an incident becomes critical; none is nobody.
    #[serde(default)]
    pub mention: Option<String>,
}

/// Whether it is written like the id of a user group or a user.
pub fn is_person(id: &str) -> bool {
    id.starts_with(['S', 'U', 'W']) && id.len() >= 6 && id.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}

impl Config {
    /// The channels of these alerts, each once, those of critical ones first.
    pub fn channels_for(&self, alerts: &[&Alert]) -> Vec<&str> {
        let (critical, others): (Vec<&Alert>, Vec<&Alert>) = alerts.iter().partition(|alert| alert.is_critical());
        let mut channels: Vec<&str> = Vec::new();
        for alert in critical.into_iter().chain(others) {
            let channel = self.channel_for(&alert.labels);
            if !channel.is_empty() && !channels.contains(&channel) {
                channels.push(channel);
            }
        }
        channels
    }

    /// The channel of an alert with these labels; empty when it has none.
    pub fn channel_for(&self, labels: &Labels) -> &str {
        self.route(labels).map_or(&self.channel, |route| &route.channel)
    }

    /// Who is mentioned when an alert with these labels is critical: a user's or user group's id.
    pub fn mention_for(&self, labels: &Labels) -> Option<&str> {
        self.route(labels).map_or(&self.mention, |route| &route.mention).as_deref()
    }

    fn route(&self, labels: &Labels) -> Option<&Route> {
        self.routes.iter().find(|route| route.labels.iter().all(|(name, value)| labels.get(name) == Some(value)))
    }
}
