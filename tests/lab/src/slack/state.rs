//! What the fake remembers.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use serde_json::Value;

use super::blocks::{Rule, Violation};
use super::deliver::Delivery;
use super::limits::Usage;
use super::options::{Channel, Failure, Options, User};
use super::respond::ResponseUrl;
use super::socket::Sockets;
use super::views::{Trigger, View};

/// What a message shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Content {
    /// The top-level text, as sent.
    pub text: String,
    /// The top-level blocks.
    pub blocks: Vec<Value>,
    /// The attachments; ours carry a `color` and `blocks`.
    pub attachments: Vec<Value>,
}

/// A message in a channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The channel's id.
    pub channel: String,
    /// The message's id, unique in the workspace.
    pub ts: String,
    /// The thread's first message, if it is a reply.
    pub thread_ts: Option<String>,
    /// What it shows now.
    pub content: Content,
    /// What it showed before each edit, oldest first.
    pub history: Vec<Content>,
    /// Whether the reply is shown in the channel as well.
    pub is_broadcast: bool,
    /// The only user who sees it, if it is ephemeral.
    pub only_for: Option<String>,
    /// Titles of the files it shares.
    pub files: Vec<String>,
    /// Their ids and names, in the same order.
    pub shared: Vec<(String, String)>,
    /// `metadata` as sent.
    pub metadata: Option<Value>,
    /// Whether someone deleted it.
    pub is_deleted: bool,
    /// The person who wrote it; none is the bot.
    pub user: Option<String>,
    /// When it was posted.
    pub posted: Instant,
}

impl Message {
    /// A message of the bot.
    pub(super) fn new(channel: String, ts: String, thread_ts: Option<String>, content: Content) -> Self {
        Self {
            channel,
            ts,
            thread_ts,
            content,
            history: Vec::new(),
            is_broadcast: false,
            only_for: None,
            files: Vec::new(),
            shared: Vec::new(),
            metadata: None,
            is_deleted: false,
            user: None,
            posted: Instant::now(),
        }
    }

    /// How often it was edited.
    pub fn edits(&self) -> usize {
        self.history.len()
    }

    /// All its blocks: its own and those of its attachments.
    pub fn all_blocks(&self) -> impl Iterator<Item = &Value> {
        let attached = self.content.attachments.iter().filter_map(|a| a["blocks"].as_array()).flatten();
        self.content.blocks.iter().chain(attached)
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Not answered yet, or never (see [`Failure::Hang`]).
    Pending,
    /// `ok: true`.
    Ok,
    /// `ok: false` with this error.
    Error(String),
    /// HTTP 429 with this `Retry-After` in seconds.
    RateLimited(u64),
    /// Another HTTP status.
    Status(u16),
    /// It had its effect, but was not answered, or the connection was reset.
    LostReply,
}

/// One call of the API.
#[derive(Debug, Clone)]
pub struct Call {
    /// `chat.postMessage`
    pub method: String,
    /// When it arrived.
    pub at: Instant,
    /// Its arguments, without the token.
    pub args: Value,
    /// How it ended.
    pub outcome: Outcome,
}

/// A rule that a call broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// `chat.postMessage`
    pub method: String,
    /// Which rule and where.
    pub violation: Violation,
}

/// A file on its way into a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// `F…`
    pub id: String,
    /// Its file name.
    pub name: String,
    /// What it shows, for those who cannot see it.
    pub alt: String,
    /// The announced length in bytes.
    pub length: usize,
    /// The bytes, once uploaded.
    pub bytes: Option<Vec<u8>>,
    /// The channel it was shared in, once completed.
    pub channel: Option<String>,
    /// Whether the upload was completed; only then a picture may show it.
    pub is_complete: bool,
}

/// Everything the fake remembers.
#[derive(Debug)]
pub struct State {
    pub(super) options: Options,
    pub(super) base_url: String,
    pub(super) messages: Vec<Message>,
    pub(super) calls: Vec<Call>,
    pub(super) breaches: Vec<Breach>,
    pub(super) files: Vec<File>,
    pub(super) failures: Vec<(String, Failure)>,
    pub(super) usage: HashMap<String, Usage>,
    pub(super) sockets: Sockets,
    pub(super) deliveries: Vec<Delivery>,
    pub(super) triggers: HashMap<String, Trigger>,
    pub(super) urls: HashMap<String, ResponseUrl>,
    pub(super) views: Vec<View>,
    /// By user, what their Home shows.
    pub(super) homes: BTreeMap<String, Value>,
    /// By `ts`: the names that were added.
    pub(super) reactions: Vec<(String, String)>,
    next_ts: u64,
    next_id: u64,
}

impl State {
    pub(super) fn new(options: Options, base_url: String) -> Self {
        let mut state = Self {
            options,
            base_url,
            messages: Vec::new(),
            calls: Vec::new(),
            breaches: Vec::new(),
            files: Vec::new(),
            failures: Vec::new(),
            usage: HashMap::new(),
            sockets: Sockets::default(),
            deliveries: Vec::new(),
            triggers: HashMap::new(),
            urls: HashMap::new(),
            views: Vec::new(),
            homes: BTreeMap::new(),
            reactions: Vec::new(),
            next_ts: 1,
            next_id: 1,
        };
        state.add_direct_messages();
        state
    }

    /// The messages of a channel (id, `name` or `#name`) that were not deleted, oldest first.
    pub fn messages(&self, channel: &str) -> impl Iterator<Item = &Message> {
        self.all_messages(channel).filter(|message| !message.is_deleted)
    }

    /// A channel as a person reads it; see [`super::FakeSlack::transcript`].
    pub fn transcript(&self, channel: &str) -> String {
        super::transcript::transcript(self, channel)
    }

    /// The calls so far, in order of arrival.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// How many calls of a method have been answered with `ok: true`.
    pub fn count(&self, method: &str) -> usize {
        self.calls.iter().filter(|call| call.method == method && call.outcome == Outcome::Ok).count()
    }

    /// The rules broken so far.
    pub fn violations(&self) -> &[Breach] {
        &self.breaches
    }

    /// The files so far.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// What was sent to the app so far: commands, interactions, events, each attempt by itself.
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// All modals so far; closed ones too.
    pub fn views(&self) -> &[View] {
        &self.views
    }

    /// What a user's Home of the app shows.
    pub fn home(&self, user: &str) -> Option<&Value> {
        self.homes.get(user)
    }

    /// The open WebSockets.
    pub fn connections(&self) -> usize {
        self.sockets.open.len()
    }

    /// Notes a call that arrived; returns its place.
    pub(super) fn called(&mut self, method: &str, args: Value) -> usize {
        self.calls.push(Call { method: method.to_owned(), at: Instant::now(), args, outcome: Outcome::Pending });
        self.calls.len() - 1
    }

    /// Records a rule that was broken outside a message.
    pub(super) fn breach(&mut self, method: &str, rule: Rule, message: String) {
        let violation = Violation { pointer: String::new(), rule, message };
        self.breaches.push(Breach { method: method.into(), violation });
    }

    /// A fresh id, the same in every run.
    pub(super) fn new_id(&mut self, prefix: &str) -> String {
        self.next_id += 1;
        format!("{prefix}{:08X}", self.next_id)
    }

    pub(super) fn all_messages(&self, channel: &str) -> impl Iterator<Item = &Message> {
        let id = self.channel(channel).map(|channel| channel.id.clone());
        self.messages.iter().filter(move |message| Some(&message.channel) == id.as_ref())
    }

    /// A user by id.
    pub(super) fn user(&self, id: &str) -> Option<&User> {
        self.options.users.iter().find(|user| user.id == id)
    }

    /// Opens the direct messages with everybody: they always exist.
    fn add_direct_messages(&mut self) {
        let names = self.options.users.iter().map(|user| Channel::new(&direct(&user.id), &format!("@{}", user.name)));
        let channels: Vec<_> = names.collect();
        self.options.channels.extend(channels);
    }

    /// A channel by its id, `name` or `#name`.
    pub(super) fn channel(&self, name: &str) -> Option<&Channel> {
        let bare = name.strip_prefix('#').unwrap_or(name);
        self.options.channels.iter().find(|channel| channel.id == name || channel.name == bare)
    }

    pub(super) fn message_mut(&mut self, channel: &str, ts: &str) -> Option<&mut Message> {
        self.messages.iter_mut().find(|m| m.channel == channel && m.ts == ts && !m.is_deleted)
    }

    /// A fresh `ts`: ordered and unique like Slack's, and the same in every run.
    pub(super) fn new_ts(&mut self) -> String {
        let ts = format!("{}.{:06}", 1_700_000_000 + self.next_ts / 10_000, self.next_ts % 10_000 * 100);
        self.next_ts += 1;
        ts
    }

    /// Takes the failure that the test planned for the next call of this method.
    pub(super) fn planned_failure(&mut self, method: &str) -> Option<Failure> {
        let index = self.failures.iter().position(|(planned, _)| planned == method || planned == "*")?;
        Some(self.failures.remove(index).1)
    }
}

/// The direct message with a user.
pub(super) fn direct(user: &str) -> String {
    format!("D{}", &user[1..])
}
