//! What a test may choose about the fake.

use std::time::Duration;

use super::limits::Rate;

/// A channel that exists from the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// `C…`
    pub id: String,
    /// The name without `#`.
    pub name: String,
    /// Whether it refuses messages with `is_archived`.
    pub is_archived: bool,
    /// Whether the bot was invited; else it refuses messages with `not_in_channel`.
    pub is_member: bool,
}

impl Channel {
    /// A channel that takes the bot's messages.
    pub fn new(id: &str, name: &str) -> Self {
        Self { id: id.into(), name: name.into(), is_archived: false, is_member: true }
    }
}

/// How the fake behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The only token that is accepted.
    pub token: String,
    /// The channels that exist.
    pub channels: Vec<Channel>,
    /// Limit of chat.postMessage per channel; none switches it off.
    pub post_rate: Option<Rate>,
    /// Limit of chat.update over the whole workspace; none switches it off.
    pub update_rate: Option<Rate>,
    /// How long every call takes before it has its effect.
    pub latency: Duration,
    /// Mentions that are wanted, as between their brackets (`!here`, `@U012AB3CD`); all others are violations.
    pub allowed_mentions: Vec<String>,
    /// What auth.test reports in `x-oauth-scopes`.
    pub scopes: Vec<String>,
}

impl Default for Options {
    /// Slack's documented rates, no latency, and one channel `#llm-alerts` (`C0LLMALERTS`).
    fn default() -> Self {
        Self {
            token: "xoxb-lab".into(),
            channels: vec![Channel::new("C0LLMALERTS", "llm-alerts")],
            // https://docs.slack.dev/apis/web-api/rate-limits: one a second and channel, short bursts tolerated.
            post_rate: Some(Rate::Bucket { burst: 5, refill: Duration::from_secs(1) }),
            // Tier 3.
            update_rate: Some(Rate::Window { calls: 50, per: Duration::from_secs(60) }),
            latency: Duration::ZERO,
            allowed_mentions: Vec::new(),
            scopes: ["chat:write", "files:write", "channels:read", "commands"].map(String::from).into(),
        }
    }
}

impl Options {
    /// The defaults without rate limits.
    pub fn unlimited() -> Self {
        Self { post_rate: None, update_rate: None, ..Self::default() }
    }

    /// Adds a channel.
    #[must_use]
    pub fn channel(mut self, channel: Channel) -> Self {
        self.channels.push(channel);
        self
    }
}

/// How a call is made to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// HTTP 200 with `ok: false` and this error.
    Error(String),
    /// This HTTP status with a body that is not JSON.
    Status(u16),
    /// HTTP 429 with this `Retry-After` in seconds.
    RateLimited(u64),
    /// The call has no effect and is never answered.
    Hang,
    /// The call has its effect, but the answer never arrives.
    LostReply,
}
