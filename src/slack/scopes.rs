//! The OAuth scopes of the Slack app: the least that our calls and events need.
//!
//! `config/slack/manifest.yaml` requests exactly these; a test compares both, and our calls, with this table.

/// Every Web API method that we call with the bot token, and the scopes it needs.
///
/// Source: <https://docs.slack.dev/reference/methods>, each method's page under "Required scopes".
pub const METHODS: &[(&str, &[&str])] = &[
    ("auth.test", &[]),
    ("chat.delete", &["chat:write"]),
    ("chat.postEphemeral", &["chat:write"]),
    ("chat.postMessage", &["chat:write"]),
    ("chat.update", &["chat:write"]),
    ("conversations.history", &["channels:history", "groups:history"]),
    ("conversations.info", &["channels:read", "groups:read"]),
    ("conversations.list", &["channels:read", "groups:read"]),
    ("conversations.replies", &["channels:history", "groups:history"]),
    ("files.completeUploadExternal", &["files:write"]),
    ("files.delete", &["files:write"]),
    ("files.getUploadURLExternal", &["files:write"]),
    ("usergroups.list", &["usergroups:read"]),
    ("usergroups.users.list", &["usergroups:read"]),
    ("users.info", &["users:read"]),
    ("views.open", &[]),
    ("views.publish", &[]),
];

/// The events that Slack sends us, and the scopes that they need.
pub const EVENTS: &[(&str, &[&str])] = &[
    ("app_home_opened", &[]),
    ("app_mention", &["app_mentions:read"]),
    ("member_joined_channel", &["channels:read", "groups:read"]),
    ("message.im", &["im:history"]),
    // Slash commands; Slack documents them beside the events.
    ("/llm-diagnose", &["commands"]),
];

/// Scopes that may be left out, with the consequence.
pub const OPTIONAL: [(&str, &str); 2] = [
    ("channels:history", "where an answer of Slack's is lost, a message of a public channel may stand twice"),
    ("groups:history", "where an answer of Slack's is lost, a message of a private channel may stand twice"),
];

/// Returns all scopes of the bot token, sorted.
pub fn scopes() -> Vec<&'static str> {
    let mut all: Vec<_> = METHODS.iter().chain(EVENTS).flat_map(|(_, scopes)| scopes.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    all
}
