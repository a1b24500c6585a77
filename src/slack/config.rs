//! Configuration: the access to Slack, and the channels of alerts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::weekly::{DailyConfig, WeeklyConfig};
use knowledge::alert::{Alert, Labels};
use knowledge::clock::duration;

/// The key `slack:`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The address of the Web API; another one for GovSlack, a proxy, or tests.
    pub api_url: String,
    /// A file with the bot token (`xoxb-…`); without it the environment's SLACK_BOT_TOKEN.
    pub bot_token_file: Option<PathBuf>,
    /// The transport of Slack's requests to us: Socket Mode, HTTP, or none; by default the one whose secret is set.
    pub transport: Option<Transport>,
    /// A file with the app-level token (`xapp-…`) of Socket Mode; without it the environment's SLACK_APP_TOKEN.
    pub app_token_file: Option<PathBuf>,
    /// A file with the signing secret of HTTP; without it the environment's SLACK_SIGNING_SECRET.
    pub signing_secret_file: Option<PathBuf>,
    /// Concurrent connections of Socket Mode, 1 to 10.
    pub connections: u32,
    /// The channel of alerts that match no route: a channel id or `#name`.
    pub channel: String,
    /// The user group or user, by id, to mention for critical alerts that match no route, once each time an incident
    /// becomes critical.
    pub mention: Option<String>,
    /// Each firing alert takes the first route whose labels are all among its own, as in Alertmanager.
    pub routes: Vec<Route>,
    /// Messages per second and channel; Slack allows about one.
    pub posts_per_second: u32,
    /// New messages in a burst before that rate applies.
    pub posts_burst: u32,
    /// Edits per minute in the whole workspace; Slack allows 50.
    pub updates_per_minute: u32,
    /// New messages that may wait in a channel; further ones go into a digest.
    pub queue: u32,
    /// The thresholds above which incidents are collected in a digest.
    pub storm: StormConfig,
    /// A summary of the week in each channel; not posted if not set.
    pub weekly: Option<WeeklyConfig>,
    /// Channels in which alerts below a severity get no message, by name.
    pub least_severity: BTreeMap<String, LeastSeverity>,
    /// A summary of each day in those channels, of what got no message; not posted if not set.
    pub daily: Option<DailyConfig>,
    /// A reminder of critical incidents that nobody has acknowledged; none if not set.
    pub remind: Option<RemindConfig>,
    /// The users who may do more than look.
    pub act: Powers,
    /// The target of "Escalate": a user group's or user's id, or the name of one of `pagers`.
    pub escalate: Option<String>,
    /// The longest silence that people may create, here and at the command line: 1m to 30d; defaults to 24h.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub silence_max: Duration,
    /// Commands and presses per minute: of a user, in a channel, in the workspace.
    pub commands_per_minute: [u32; 3],
}

/// The key `slack.storm:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StormConfig {
    /// The number of new incidents of a channel within `within` from which further ones go into a digest; 0
    /// disables this.
    pub incidents: u32,
    /// The period in which they are counted; defaults to 5m.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub within: Duration,
}

impl Default for StormConfig {
    fn default() -> Self {
        Self { incidents: 20, within: Duration::from_secs(300) }
    }
}

/// A severity below which alerts get no message in a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LeastSeverity {
    /// Alerts with the severity `info` or `none` get no message.
    Warning,
    /// Only alerts with the severity `critical` or `page` get one.
    Critical,
}

impl LeastSeverity {
    fn admits(self, alert: &Alert) -> bool {
        match self {
            Self::Critical => alert.is_critical(),
            Self::Warning => !matches!(alert.labels.get("severity").map(String::as_str), Some("info" | "none")),
        }
    }
}

/// The key `slack.remind:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RemindConfig {
    /// The time after the call for a critical incident, and after each reminder; defaults to 15m, at least 1m.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub after: Duration,
    /// The number of reminders each time that an incident becomes critical; defaults to 3.
    pub times: u32,
}

impl Default for RemindConfig {
    fn default() -> Self {
        Self { after: Duration::from_secs(15 * 60), times: 3 }
    }
}

/// The key `slack.act:`: everybody may read; acting requires one of these.
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

/// The transport of Slack's requests to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// WebSockets that we open: no public endpoint.
    Socket,
    /// Requests to `/slack/*`, signed.
    Http,
    /// No requests: messages only.
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
            storm: StormConfig::default(),
            weekly: None,
            least_severity: BTreeMap::new(),
            daily: None,
            remind: None,
            act: Powers::default(),
            escalate: None,
            silence_max: Duration::from_secs(24 * 3_600),
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
    /// The user group or user, by id, to mention for critical alerts of this route, once each time an incident becomes
    /// critical; without it nobody is mentioned.
    #[serde(default)]
    pub mention: Option<String>,
}

/// Returns true if the text has the form of a user group's or user's id.
pub fn is_person(id: &str) -> bool {
    id.starts_with(['S', 'U', 'W']) && id.len() >= 6 && id.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}

impl Config {
    /// Returns every configured channel.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        let routes = self.routes.iter().map(|route| route.channel.as_str());
        routes.chain([self.channel.as_str()]).filter(|channel| !channel.is_empty())
    }

    /// Returns the channels that get a weekly summary, by name.
    pub fn weekly_channels(&self) -> BTreeSet<&str> {
        let Some(weekly) = &self.weekly else { return BTreeSet::new() };
        let wanted = |channel: &&str| weekly.channels.is_empty() || weekly.channels.iter().any(|name| name == channel);
        self.channels().filter(wanted).collect()
    }

    /// Returns the channels that get a daily summary, by name.
    pub fn daily_channels(&self) -> BTreeSet<&str> {
        let is_wanted = |channel: &&str| self.daily.is_some() && self.least_severity.contains_key(*channel);
        self.channels().filter(is_wanted).collect()
    }

    /// Returns true if an alert of this severity gets a message in the channel of its route.
    pub fn shows(&self, alert: &Alert) -> bool {
        self.least_severity.get(self.channel_for(&alert.labels)).is_none_or(|least| least.admits(alert))
    }

    /// Returns the channels of these alerts without duplicates, those of critical ones first.
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

    /// Returns the channel of an alert with these labels; empty if it has none.
    pub fn channel_for(&self, labels: &Labels) -> &str {
        self.route(labels).map_or(&self.channel, |route| &route.channel)
    }

    /// Returns the id of the user or user group to mention when an alert with these labels is critical.
    pub fn mention_for(&self, labels: &Labels) -> Option<&str> {
        self.route(labels).map_or(&self.mention, |route| &route.mention).as_deref()
    }

    fn route(&self, labels: &Labels) -> Option<&Route> {
        self.routes.iter().find(|route| route.labels.iter().all(|(name, value)| labels.get(name) == Some(value)))
    }
}
