//! A stateful stand-in for Slack's Web API, for what a bot that posts and edits messages needs.
//!
//! It enforces Slack's documented limits, scopes and rates, remembers messages and their edits, records every rule that
//! a call breaks, and shows a channel as a person would read it. Its people type commands, press buttons, fill in
//! modals and write to the bot ([`FakeSlack::command`] and its siblings), over Socket Mode or signed HTTP; they can do
//! no more than Slack's own programs let them, and what the app answers wrongly is recorded as well. What is refused has
//! no effect. What each part is good for is shown by its tests: messages (`tests`), Socket Mode (`tests_socket`), HTTP
//! and `response_url` (`tests_http`), modals and menus (`tests_modals`), scopes, tiers, files and people
//! (`tests_directory`).
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use llm_diagnose_lab::slack::{Failure, FakeSlack, Options};
//! let slack = FakeSlack::start(Options::default()).await?;
//! slack.fail_next("chat.update", Failure::Error("message_not_found".into()), 1);
//! // … point the program at `slack.base_url` with the token `xoxb-lab` …
//! slack.wait_for(|state| state.count("chat.postMessage") == 1, std::time::Duration::from_secs(5)).await?;
//! assert_eq!(slack.violations(), []);
//! println!("{}", slack.transcript("#llm-alerts"));
//! # Ok(()) }
//! ```

pub mod blocks;
mod control;
mod deliver;
mod directory;
mod fields;
mod files;
mod history;
mod limits;
mod methods;
mod modals;
mod options;
mod people;
mod respond;
mod server;
mod sign;
mod socket;
mod state;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_directory;
#[cfg(test)]
mod tests_http;
#[cfg(test)]
mod tests_modals;
#[cfg(test)]
mod tests_socket;
mod transcript;
mod views;
mod window;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use control::Forgery;
pub use deliver::{Ack, Delivery, Kind};
pub use limits::Rate;
pub use options::{Channel, Failure, Group, Options, TEAM, User};
pub use people::Press;
pub use respond::ResponseUrl;
pub use state::{Breach, Call, Content, File, Message, Outcome, State};
pub use views::{Trigger, View};

use server::Hub;

/// The running fake; it stops when dropped.
pub struct FakeSlack {
    /// `http://127.0.0.1:PORT/api`, without a slash at the end.
    pub base_url: String,
    /// The token that it accepts.
    pub token: String,
    hub: Arc<Hub>,
    tasks: [JoinHandle<()>; 2],
}

impl FakeSlack {
    /// Starts it on a free port of the loopback interface.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("fake Slack cannot listen on 127.0.0.1")?;
        let base_url = format!("http://{}/api", listener.local_addr()?);
        let token = options.token.clone();
        let links = TcpListener::bind("127.0.0.1:0").await.context("fake Slack cannot listen on 127.0.0.1")?;
        let mut state = State::new(options, base_url.clone());
        state.sockets.host = links.local_addr()?.to_string();
        let hub = Hub::new(state, crate::stack::http()?);
        let router = server::router(hub.clone());
        let server = tokio::spawn(async move {
            // It ends only with the task.
            axum::serve(listener, router).await.ok();
        });
        let sockets = tokio::spawn(socket::listen(links, hub.clone()));
        Ok(Self { base_url, token, hub, tasks: [server, sockets] })
    }

    /// The messages of a channel (id, `name` or `#name`) that were not deleted, oldest first, replies among them.
    pub fn messages(&self, channel: &str) -> Vec<Message> {
        self.hub.lock().messages(channel).cloned().collect()
    }

    /// The calls so far, in order of arrival.
    pub fn calls(&self) -> Vec<Call> {
        self.hub.lock().calls().to_vec()
    }

    /// The rules broken so far.
    pub fn violations(&self) -> Vec<Breach> {
        self.hub.lock().violations().to_vec()
    }

    /// The files so far.
    pub fn files(&self) -> Vec<File> {
        self.hub.lock().files().to_vec()
    }

    /// Looks at the whole state without copying it.
    pub fn with<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.hub.lock())
    }

    /// Lets the next `n` calls of a method (`*` for any; `upload`, with a status, for a file's bytes) fail; failures planned earlier come first.
    pub fn fail_next(&self, method: &str, failure: Failure, n: usize) {
        let planned = std::iter::repeat_n((method.to_owned(), failure), n);
        self.hub.lock().failures.extend(planned);
    }

    /// Lets so many calls that failed with [`Failure::Late`] have their effect, those of the future among them.
    pub fn release(&self, n: usize) {
        self.hub.released.add_permits(n);
    }

    /// Changes the options of the running fake, such as its latency or a channel's state.
    pub fn configure(&self, change: impl FnOnce(&mut Options)) {
        change(&mut self.hub.lock().options);
    }

    /// Deletes a message as a person would; false if there is none.
    pub fn delete(&self, channel: &str, ts: &str) -> bool {
        let mut state = self.hub.lock();
        let id = state.channel(channel).map(|channel| channel.id.clone()).unwrap_or_default();
        let found = state.message_mut(&id, ts).map(|message| message.is_deleted = true).is_some();
        drop(state);
        self.hub.tell();
        found
    }

    /// Waits until the state meets a condition, which is looked at after every change; fails with a summary of what
    /// there was instead.
    pub async fn wait_for(&self, mut condition: impl FnMut(&State) -> bool, within: Duration) -> anyhow::Result<()> {
        let mut changes = self.hub.changed.subscribe();
        let met = async {
            while !condition(&self.hub.lock()) {
                if changes.changed().await.is_err() {
                    break;
                }
            }
        };
        match tokio::time::timeout(within, met).await {
            Ok(()) => Ok(()),
            Err(_) => Err(anyhow::anyhow!("not seen on Slack within {within:?}; there is:\n{}", self.summary())),
        }
    }

    /// A channel as a person reads it, without ids and times: stable enough for inline snapshots.
    pub fn transcript(&self, channel: &str) -> String {
        self.with(|state| state.transcript(channel))
    }

    /// A message as a page that looks like Slack's window, with `time` beside its author; none if there is no such
    /// message.
    pub fn html(&self, channel: &str, ts: &str, time: &str) -> Option<String> {
        let state = self.hub.lock();
        state.messages(channel).find(|message| message.ts == ts).map(|message| window::page(&state, message, time))
    }

    fn summary(&self) -> String {
        let state = self.hub.lock();
        let calls = state.calls.iter().map(|call| format!("{}: {:?}\n", call.method, call.outcome));
        let channels = state.options.channels.iter();
        let transcripts =
            channels.map(|channel| format!("#{}\n{}\n", channel.name, transcript::transcript(&state, &channel.id)));
        calls.chain(transcripts).collect()
    }
}

impl Drop for FakeSlack {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        // Each connection's task ends with the sender of its orders.
        self.hub.lock().sockets.open.clear();
    }
}
