//! Socket Mode: WebSockets that we open and over which Slack sends the requests of users.
//!
//! Each slot keeps one connection: it opens the next one when Slack announces the end of the current one, and
//! reconnects with a backoff after a loss. slack-morphism's own manager requires another HTTP client, handles
//! envelopes one by one, and does not report its state.

mod connection;
mod dial;

use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper_util::client::proxy::matcher::Matcher;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

use super::{Ack, Slack, SlackError, SlackRequest};
use connection::{ConnectionEnd, ConnectionEvent, SocketConnection};
use knowledge::clock::Backoff;
use telemetry::Metrics;

/// Envelopes handled concurrently over all connections; further ones are acknowledged and dropped.
const AT_ONCE: usize = 256;
/// The delay between the first connections of the slots, so that they do not start together.
const STAGGER: Duration = Duration::from_millis(200);
/// The lifetime from which a connection resets the backoff.
const GOOD: Duration = Duration::from_secs(30);
/// The pauses while the failure may be transient.
const PAUSES: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(30) };
/// The pause while only a person can fix the failure.
const SLOW: Duration = Duration::from_secs(60);

/// Timeouts and intervals; the defaults follow from Slack's limit of 3 seconds and from its silent connection losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketTiming {
    /// The time from an envelope to its acknowledgement; Slack waits 3 seconds.
    pub ack: Duration,
    /// The interval between two pings.
    pub ping: Duration,
    /// The silence, even to pings, after which a connection is dead.
    pub idle: Duration,
    /// The time from connecting to `hello`.
    pub open: Duration,
    /// The time for which an ending connection is read after its successor is ready.
    pub linger: Duration,
}

impl Default for SocketTiming {
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

/// The state of Socket Mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketStatus {
    /// Connections that received Slack's `hello`.
    pub connected: u32,
    /// Configured connections.
    pub wanted: u32,
    /// The reason why the last connection ended or failed; `None` once all are connected.
    pub error: Option<String>,
}

/// Shared access to the [`SocketStatus`] for readiness and metrics.
#[derive(Debug, Clone)]
pub struct SocketState {
    status: Arc<watch::Sender<SocketStatus>>,
    metrics: Arc<Metrics>,
}

impl SocketState {
    /// Creates the state before the first connection.
    pub fn new(wanted: u32, metrics: Arc<Metrics>) -> Self {
        let status = SocketStatus { connected: 0, wanted, error: None };
        Self { status: Arc::new(watch::Sender::new(status)), metrics }
    }

    /// Returns the current status.
    pub fn status(&self) -> SocketStatus {
        self.status.borrow().clone()
    }

    /// Waits until the status meets a condition.
    pub async fn wait_for(&self, condition: impl FnMut(&SocketStatus) -> bool) {
        // The sender is a field of `self`, so it still exists.
        let _ = self.status.subscribe().wait_for(condition).await;
    }

    fn changed(&self, change: impl FnOnce(u32) -> u32) {
        self.status.send_modify(|status| {
            status.connected = change(status.connected);
            if status.connected >= status.wanted {
                status.error = None;
            }
            self.metrics.socket_connections.set(i64::from(status.connected));
        });
    }

    /// Records the reason for a failure; returns true if it differs from the previous one.
    fn failed(&self, why: &str) -> bool {
        let mut is_news = false;
        self.status.send_modify(|status| {
            is_news = status.error.as_deref() != Some(why);
            status.error = Some(why.to_owned());
        });
        is_news
    }
}

/// Counts a connection as connected until dropped.
struct ConnectedGuard(SocketState);

impl ConnectedGuard {
    fn new(state: &SocketState) -> Self {
        state.changed(|n| n + 1);
        Self(state.clone())
    }
}

impl Drop for ConnectedGuard {
    fn drop(&mut self) {
        self.0.changed(|n| n.saturating_sub(1));
    }
}

/// The configuration that all connections share.
pub struct Socket<H> {
    /// The client that returns the WebSocket addresses.
    pub slack: Slack,
    /// The app-level token.
    pub app_token: SecretString,
    /// The state, with the number of configured connections.
    pub state: SocketState,
    /// The service's own metrics.
    pub metrics: Arc<Metrics>,
    /// Timeouts and intervals.
    pub timing: SocketTiming,
    /// The handler of requests.
    pub handle: H,
}

/// The resources that all connections share.
struct SocketContext<H> {
    socket: Socket<H>,
    slots: Arc<Semaphore>,
    proxies: Matcher,
    tasks: TaskTracker,
}

/// Keeps the connections until `stop`; returns when the last accepted envelope has been acknowledged.
pub async fn run<H, A>(socket: Socket<H>, stop: CancellationToken)
where
    H: Fn(SlackRequest) -> A + Send + Sync + 'static,
    A: Future<Output = Ack> + Send + 'static,
{
    let wanted = socket.state.status().wanted;
    let tasks = TaskTracker::new();
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let shared = Arc::new(SocketContext { socket, slots, proxies: Matcher::from_env(), tasks: tasks.clone() });
    // If a slot panics, all slots stop; the supervisor then restarts them together.
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

/// Keeps one slot connected.
async fn keep<H, A>(shared: Arc<SocketContext<H>>, slot: u32, stop: CancellationToken)
where
    H: Fn(SlackRequest) -> A + Send + Sync + 'static,
    A: Future<Output = Ack> + Send + 'static,
{
    let state = shared.socket.state.clone();
    let mut tries = 0;
    let mut wait = STAGGER * slot;
    // The connection with an announced end; it is read until its successor is ready.
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
                let (tell, mut events) = mpsc::channel(4);
                let connection =
                    SocketConnection { shared: Arc::clone(&shared), tell, leave: leave.clone(), stop: stop.clone() };
                shared.tasks.spawn(connection.serve(line));
                let end = loop {
                    match events.recv().await {
                        Some(ConnectionEvent::Ready) => {
                            let status = state.status();
                            info!(
                                slot,
                                connected = status.connected,
                                wanted = status.wanted,
                                "Slack's socket is connected"
                            );
                            old.take().inspect(CancellationToken::cancel);
                        }
                        Some(ConnectionEvent::Ended(end)) => break end,
                        None => break ConnectionEnd::Lost("its task ended".to_owned()),
                    }
                };
                if matches!(end, ConnectionEnd::Refresh) {
                    // Of two ending connections only the younger one is needed.
                    old.replace(leave).inspect(CancellationToken::cancel);
                }
                end
            }
        };
        if began.elapsed() >= GOOD {
            tries = 0;
        }
        let pause = jittered(PAUSES.pause(tries));
        wait = match end {
            ConnectionEnd::Stopped => return,
            ConnectionEnd::Refresh if began.elapsed() >= GOOD => Duration::ZERO,
            ConnectionEnd::Refresh | ConnectionEnd::Lost(_) => pause,
            ConnectionEnd::TooMany => pause + Duration::from_secs(10),
            ConnectionEnd::Wait(at_least) => pause + at_least,
            ConnectionEnd::Refused(_) | ConnectionEnd::Disabled => jittered(SLOW),
        };
        tries += u32::from(!wait.is_zero());
        log_disconnect(&state, slot, &end, wait);
    }
}

/// Returns between half and all of a pause, so that clients do not reconnect together.
fn jittered(whole: Duration) -> Duration {
    // The keys of a new `RandomState` are random.
    let random = RandomState::new().build_hasher().finish() % 1_000;
    whole / 2 + whole.mul_f64(random as f64 / 2_000.0)
}

/// Logs a new failure as a warning or error, repetitions at debug level.
fn log_disconnect(state: &SocketState, slot: u32, end: &ConnectionEnd, wait: Duration) {
    if matches!(end, ConnectionEnd::Refresh) {
        debug!(slot, "Slack ends this connection soon: opening the next one");
        return;
    }
    let reason = end.to_string();
    let again = format!("{:.1} s", wait.as_secs_f64());
    match (state.failed(&reason), end) {
        (true, ConnectionEnd::Refused(_) | ConnectionEnd::Disabled) => {
            error!(slot, reason, again, "Slack's socket is closed to us")
        }
        (true, _) => warn!(slot, reason, again, "Slack's socket is not connected: trying again"),
        (false, _) => debug!(slot, reason, again, "Slack's socket is still not connected: trying again"),
    }
}

async fn open<H>(shared: &SocketContext<H>) -> Result<dial::SlackWebSocket, ConnectionEnd> {
    let socket = &shared.socket;
    let address = socket.slack.open_socket(socket.app_token.expose_secret()).await.map_err(|error| match error {
        SlackError::RateLimited(wait) => ConnectionEnd::Wait(wait),
        SlackError::Refused { code, .. } => ConnectionEnd::Refused(code),
        error => ConnectionEnd::Lost(error.to_string()),
    })?;
    match tokio::time::timeout(socket.timing.open, dial::dial(&address, &shared.proxies)).await {
        Ok(line) => line.map_err(ConnectionEnd::Lost),
        Err(_) => Err(ConnectionEnd::Lost("the WebSocket did not open in time".to_owned())),
    }
}

/// Opens one connection, waits for Slack's `hello` and closes it, for `doctor`.
///
/// # Errors
/// The failure, in one sentence.
pub async fn probe(slack: &Slack, app_token: &SecretString) -> Result<(), String> {
    let timing = SocketTiming::default();
    let address = slack.open_socket(app_token.expose_secret()).await.map_err(|error| match error {
        SlackError::Refused { code, .. } => ConnectionEnd::Refused(code).to_string(),
        error => error.to_string(),
    })?;
    let hello = async {
        let line = dial::dial(&address, &Matcher::from_env()).await?;
        connection::greeted(line).await
    };
    tokio::time::timeout(timing.open, hello).await.map_err(|_| "no hello came over the WebSocket".to_owned())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_have_bounds_and_differ() {
        let pauses: Vec<Duration> = (0..20).map(|_| jittered(SLOW)).collect();
        assert!(pauses.iter().all(|pause| (SLOW / 2..=SLOW).contains(pause)), "{pauses:?}");
        assert!(pauses.windows(2).any(|two| two[0] != two[1]), "{pauses:?}");
    }
}
