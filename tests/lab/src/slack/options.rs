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
    /// Whether only some people may post; the bot is refused with `restricted_action`.
    pub is_restricted: bool,
}

impl Channel {
    /// A channel that takes the bot's messages.
    pub fn new(id: &str, name: &str) -> Self {
        Self { id: id.into(), name: name.into(), is_archived: false, is_member: true, is_restricted: false }
    }
}

/// A person or a program in a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// `U…`
    pub id: String,
    /// The handle.
    pub name: String,
    /// The workspace; ours is [`TEAM`].
    pub team: String,
    /// A program.
    pub is_bot: bool,
    /// A guest.
    pub is_restricted: bool,
    /// A guest of one channel.
    pub is_ultra_restricted: bool,
    /// From another organisation, in a shared channel.
    pub is_stranger: bool,
    /// Gone.
    pub is_deleted: bool,
}

impl User {
    /// A full member of our workspace.
    pub fn new(id: &str, name: &str) -> Self {
        Self { id: id.into(), name: name.into(), team: TEAM.into(), ..Self::default() }
    }
}

/// A user group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// `S…`
    pub id: String,
    /// The handle.
    pub handle: String,
    /// The members' ids.
    pub users: Vec<String>,
}

/// Our workspace's id.
pub const TEAM: &str = "T0LAB";

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
    /// What the bot token was granted; methods refuse with `missing_scope` without theirs.
    pub scopes: Vec<String>,
    /// The app-level token of Socket Mode.
    pub app_token: String,
    /// What requests over HTTP are signed with.
    pub signing_secret: String,
    /// Where HTTP mode posts: `commands`, `interactions` and `events` below it; none is Socket Mode.
    pub request_url: Option<String>,
    /// The slash command's name.
    pub command: String,
    /// Within which everything that is sent must be acknowledged.
    pub ack_within: Duration,
    /// How long after each failure an event is sent again over HTTP.
    pub event_retries: Vec<Duration>,
    /// Who there is.
    pub users: Vec<User>,
    /// The user groups.
    pub groups: Vec<Group>,
    /// Calls per minute and method of tiers 1 to 4; none switches them off.
    pub tiers: Option<[usize; 4]>,
    /// How long after its posting a message may be edited; none is for ever.
    pub edit_window: Option<Duration>,
    /// The largest file.
    pub max_file_bytes: usize,
    /// How long a trigger opens a modal.
    pub trigger_life: Duration,
    /// Installed for a whole organisation: interactions then come with `team: null`.
    pub is_org: bool,
}

/// What a bot of this kind is granted.
const SCOPES: [&str; 12] = [
    "chat:write",
    "files:write",
    "channels:read",
    "channels:history",
    "commands",
    "users:read",
    "usergroups:read",
    "app_mentions:read",
    "im:history",
    "im:read",
    "im:write",
    "reactions:write",
];

impl Default for Options {
    /// Slack's documented rates, no latency, one channel `#llm-alerts` (`C0LLMALERTS`), the people `U0ANN` (in the user
    /// group `S0ONCALL`), `U0BEN`, `U0GUEST`, `U0ROBOT` and `U0STRANGER`, and Socket Mode.
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
            scopes: SCOPES.map(String::from).into(),
            app_token: "xapp-lab".into(),
            signing_secret: "lab-signing-secret".into(),
            request_url: None,
            command: "/llm-diagnose".into(),
            // https://docs.slack.dev/interactivity/handling-user-interaction#acknowledgment_response
            ack_within: Duration::from_secs(3),
            event_retries: [0, 60, 300].map(Duration::from_secs).into(),
            users: vec![
                User::new("U0ANN", "ann"),
                User::new("U0BEN", "ben"),
                User { is_restricted: true, ..User::new("U0GUEST", "guest") },
                User { is_bot: true, ..User::new("U0ROBOT", "robot") },
                User { is_stranger: true, team: "T0OTHER".into(), ..User::new("U0STRANGER", "stranger") },
            ],
            groups: vec![Group { id: "S0ONCALL".into(), handle: "oncall".into(), users: vec!["U0ANN".into()] }],
            tiers: Some([1, 20, 50, 100]),
            edit_window: None,
            max_file_bytes: 1 << 30,
            trigger_life: Duration::from_secs(3),
            is_org: false,
        }
    }
}

impl Options {
    /// The defaults without rate limits.
    pub fn unlimited() -> Self {
        Self { post_rate: None, update_rate: None, tiers: None, ..Self::default() }
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
    /// The call has its effect, and the connection is reset instead of an answer.
    Reset,
    /// The call has its effect, and is answered, only after so long; also when the caller has left before.
    Slow(Duration),
    /// The connection is reset at once, and the call has its effect when the test lets it: `FakeSlack::release`.
    Late,
}
