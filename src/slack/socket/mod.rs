//! Socket Mode: WebSockets that we open, through which Slack sends what people do.
//!
//! Each slot keeps one connection: it opens the next before the old one ends when Slack announces that, and comes back
//! with growing pauses when one is lost. slack-morphism's own manager works on another HTTP client only, answers one
//! envelope after the other, and tells nobody how it stands.

mod connection;
mod dial;
mod pause;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper_util::client::proxy::matcher::Matcher;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

use super::{Ack, Inbound, Slack, SlackError};
use crate::clock;
use crate::telemetry::Metrics;
use connection::{Connection, End, News};
use pause::Pause;

/// Envelopes that are worked on at once, over all connections; what comes on top is acknowledged and dropped.
const AT_ONCE: usize = 256;
/// Between the first tries of the slots, so that they do not come at once.
const STAGGER: Duration = Duration::from_millis(200);
/// A connection that lived so long was a good one: its loss starts from the first pause.
const GOOD: Duration = Duration::from_secs(30);

/// How long things may take; what it is unless told is what Slack's 3 seconds and its silent losses ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From an envelope to its ack; Slack waits 3 seconds.
    pub ack: Duration,
    /// Between our pings.
    pub ping: Duration,
    /// A connection that says nothing for so long, not even to pings, is dead.
    pub idle: Duration,
    /// From dialling to `hello`.
    pub open: Duration,
    /// How long an announced end is read on after its successor is there.
    pub linger: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            ack: Duration::from_millis(2_500),
            ping: Duration::from_secs(15),
            idle: Duration::from_secs(75),
            open: Duration::from_secs(10),
            linger: Duration::from_secs(10),
        }
    }
}

/// How Socket Mode stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketStatus {
    /// Connections over which Slack said hello.
    pub connected: u32,
    /// Connections that are to be.
    pub wanted: u32,
    /// Since when `connected` is what it is; none before the first.
    pub since: Option<Timestamp>,
    /// Why the last one ended or did not come about; none once all are there.
    pub error: Option<String>,
}

/// A view of [`SocketStatus`] for readiness and metrics.
#[derive(Debug, Clone)]
pub struct SocketState {
    status: Arc<watch::Sender<SocketStatus>>,
    metrics: Arc<Metrics>,
}

impl SocketState {
    /// Before the first connection.
    pub fn new(wanted: u32, metrics: Arc<Metrics>) -> Self {
        let status = SocketStatus { connected: 0, wanted, since: None, error: None };
        Self { status: Arc::new(watch::Sender::new(status)), metrics }
    }

    /// How it stands now.
    pub fn status(&self) -> SocketStatus {
        self.status.borrow().clone()
    }

    /// Waits until it stands as asked.
    pub async fn wait_for(&self, asked: impl FnMut(&SocketStatus) -> bool) {
        // The sender lives in `self`, so it cannot be gone.
        let _ = self.status.subscribe().wait_for(asked).await;
    }

    fn changed(&self, change: impl FnOnce(u32) -> u32) {
        self.status.send_modify(|status| {
            status.connected = change(status.connected);
            status.since = Some(clock::now());
            if status.connected >= status.wanted {
                status.error = None;
            }
            self.metrics.socket_connections.set(i64::from(status.connected));
        });
    }

    /// Remembers why there is none, and says whether that is news.
    fn failed(&self, why: &str) -> bool {
        let mut is_news = false;
        self.status.send_modify(|status| {
            is_news = status.error.as_deref() != Some(why);
            status.error = Some(why.to_owned());
        });
        is_news
    }
}

/// Counts a connection as long as it is up.
struct Up(SocketState);

impl Up {
    fn new(state: &SocketState) -> Self {
        state.changed(|n| n + 1);
        Self(state.clone())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.0.changed(|n| n.saturating_sub(1));
    }
}

/// What all connections share.
pub struct Socket<H> {
    /// For the addresses.
    pub slack: Slack,
    /// The app-level token.
    pub app_token: SecretString,
    /// How it stands, and how many connections there are to be.
    pub state: SocketState,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// How long things may take.
    pub timing: Timing,
    /// Takes what came.
    pub handle: H,
}

/// Everything that a connection needs.
struct Shared<H> {
    socket: Socket<H>,
    slots: Arc<Semaphore>,
    proxies: Matcher,
    tasks: TaskTracker,
}

/// Keeps the connections until `stop`; ends when the last envelope that was taken has been acknowledged.
pub async fn run<H, A>(socket: Socket<H>, stop: CancellationToken)
where
    H: Fn(Inbound) -> A + Send + Sync + 'static,
    A: Future<Output = Ack> + Send + 'static,
{
    let wanted = socket.state.status().wanted;
    let tasks = TaskTracker::new();
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let shared = Arc::new(Shared { socket, slots, proxies: Matcher::from_env(), tasks: tasks.clone() });
    // Ends with the first slot that panics: whoever keeps this running begins anew with all of them.
    let stop = stop.child_token();
    let _ends = stop.clone().drop_guard();
    let slots = (0..wanted).map(|slot| tasks.spawn(keep(Arc::clone(&shared), slot, stop.clone())));
    if let Err(error) = futures::future::try_join_all(slots).await
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
    tasks.close();
    tasks.wait().await;
}

/// One slot: one connection after the other.
async fn keep<H, A>(shared: Arc<Shared<H>>, slot: u32, stop: CancellationToken)
where
    H: Fn(Inbound) -> A + Send + Sync + 'static,
    A: Future<Output = Ack> + Send + 'static,
{
    let state = shared.socket.state.clone();
    let mut pause = Pause::default();
    let mut wait = STAGGER * slot;
    // The connection whose end was announced; it is read on until its successor is there.
    let mut old: Option<CancellationToken> = None;
    loop {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => return,
        }
        let opened = tokio::select! {
            opened = open(&shared) => opened,
            () = stop.cancelled() => return,
        };
        let began = Instant::now();
        let end = match opened {
            Err(end) => end,
            Ok(line) => {
                let leave = CancellationToken::new();
                let (tell, mut told) = mpsc::channel(4);
                let connection =
                    Connection { shared: Arc::clone(&shared), tell, leave: leave.clone(), stop: stop.clone() };
                shared.tasks.spawn(connection.serve(line));
                let end = loop {
                    match told.recv().await {
                        Some(News::Ready) => {
                            let status = state.status();
                            info!(
                                slot,
                                connected = status.connected,
                                wanted = status.wanted,
                                "Slack's socket is connected"
                            );
                            old.take().inspect(CancellationToken::cancel);
                        }
                        Some(News::Ended(end)) => break end,
                        None => break End::Lost("its task ended".to_owned()),
                    }
                };
                if matches!(end, End::Refresh) {
                    // Of two that are about to end only the younger one is needed.
                    old.replace(leave).inspect(CancellationToken::cancel);
                }
                end
            }
        };
        if began.elapsed() >= GOOD {
            pause = Pause::default();
        }
        wait = match end {
            End::Stopped => return,
            End::Refresh if began.elapsed() >= GOOD => Duration::ZERO,
            End::Refresh => pause.next(),
            End::TooMany => pause.at_least(Duration::from_secs(10)),
            End::Wait(at_least) => pause.at_least(at_least),
            End::Lost(_) => pause.next(),
            End::Refused(_) | End::Disabled => pause.slow(),
        };
        tell(&state, slot, &end, wait);
    }
}

/// Says once what is wrong, and after that only in detail.
fn tell(state: &SocketState, slot: u32, end: &End, wait: Duration) {
    if matches!(end, End::Refresh) {
        debug!(slot, "Slack ends this connection soon: opening the next one");
        return;
    }
    let reason = end.to_string();
    let again = format!("{:.1} s", wait.as_secs_f64());
    match (state.failed(&reason), end) {
        (true, End::Refused(_) | End::Disabled) => error!(slot, reason, again, "Slack's socket is closed to us"),
        (true, _) => warn!(slot, reason, again, "Slack's socket is not connected: trying again"),
        (false, _) => debug!(slot, reason, again, "Slack's socket is still not connected: trying again"),
    }
}

async fn open<H>(shared: &Shared<H>) -> Result<dial::Line, End> {
    let socket = &shared.socket;
    let address = socket.slack.open_socket(socket.app_token.expose_secret()).await.map_err(|error| match error {
        SlackError::RateLimited(wait) => End::Wait(wait),
        SlackError::Refused { code, .. } => End::Refused(code),
        error => End::Lost(error.to_string()),
    })?;
    match tokio::time::timeout(socket.timing.open, dial::dial(&address, &shared.proxies)).await {
        Ok(line) => line.map_err(End::Lost),
        Err(_) => Err(End::Lost("the WebSocket did not open in time".to_owned())),
    }
}

/// Opens one connection, waits for Slack's hello, and closes it: for `doctor`.
///
/// # Errors
/// What failed, in a sentence.
pub async fn probe(slack: &Slack, app_token: &SecretString) -> Result<(), String> {
    let timing = Timing::default();
    let address = slack.open_socket(app_token.expose_secret()).await.map_err(|error| match error {
        SlackError::Refused { code, .. } => End::Refused(code).to_string(),
        error => error.to_string(),
    })?;
    let hello = async {
        let line = dial::dial(&address, &Matcher::from_env()).await?;
        connection::greeted(line).await
    };
    tokio::time::timeout(timing.open, hello).await.map_err(|_| "no hello came over the WebSocket".to_owned())?
}
