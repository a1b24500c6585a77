//! Accepts connections: a bounded number of them, each with timeouts.
//!
//! Any client that reaches the port can open connections and send nothing. At the limit a new connection closes the one
//! that has waited longest without a complete request, so the webhook and /healthz still answer.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::connection::{HttpConnection, Phase, drive};
use knowledge::clock::Backoff;
use service::config::ServerLimits;
use telemetry::Metrics;

/// File descriptors reserved for the store, Prometheus, Slack and bundles.
const OTHER_FILES: u64 = 128;
/// The pauses after errors of `accept`.
const PAUSES: Backoff = Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(1) };
/// The shortest time between two logs of the same problem.
const LOG_EVERY: Duration = Duration::from_secs(60);
/// The timeout of a request's head during shutdown.
const LAST_HEADER: Duration = Duration::from_secs(1);

/// Serves `app` until `stop`, then until the open requests are answered; dropping the future closes the rest.
pub async fn listen(
    listener: TcpListener,
    app: Router,
    limits: ServerLimits,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    let limits = ServerLimits { connections: most_connections(limits.connections), ..limits };
    let shortest = limits.header_timeout.min(limits.body_timeout).min(limits.idle_timeout);
    let mut tick = tokio::time::interval((shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(1)));
    let mut open = Open {
        by_task: HashMap::new(),
        limits,
        metrics,
        full_log: LogLimiter::default(),
        late_log: LogLimiter::default(),
    };
    let mut tasks = JoinSet::new();
    let mut trouble = AcceptBackoff::default();
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => {}
            Some(end) = tasks.join_next_with_id() => open.remove(end.map_or_else(|error| error.id(), |(id, ())| id)),
            _ = tick.tick() => open.cut_overdue(),
            accepted = trouble.accept(&listener), if open.has_room() => match accepted {
                Ok((stream, from)) => {
                    open.make_room();
                    // Small responses go out at once.
                    let _ = stream.set_nodelay(true);
                    let connection = Arc::new(HttpConnection::new());
                    let task = tasks.spawn(drive(stream, from, app.clone(), Arc::clone(&connection), stop.clone()));
                    open.add(task.id(), connection);
                }
                Err(error) => {
                    open.metrics.accept_error();
                    trouble.met(&error);
                    if is_out_of_files(&error) {
                        open.cut_one();
                    }
                }
            },
        }
    }
    drop(listener);
    open.limits.header_timeout = open.limits.header_timeout.min(LAST_HEADER);
    while !tasks.is_empty() {
        tokio::select! {
            Some(end) = tasks.join_next_with_id() => open.remove(end.map_or_else(|error| error.id(), |(id, ())| id)),
            _ = tick.tick() => open.cut_overdue(),
        }
    }
}

/// The open connections.
struct Open {
    by_task: HashMap<Id, Arc<HttpConnection>>,
    limits: ServerLimits,
    metrics: Arc<Metrics>,
    full_log: LogLimiter,
    late_log: LogLimiter,
}

impl Open {
    fn add(&mut self, task: Id, connection: Arc<HttpConnection>) {
        self.by_task.insert(task, connection);
        self.count();
    }

    fn remove(&mut self, task: Id) {
        self.by_task.remove(&task);
        self.count();
    }

    fn count(&self) {
        self.metrics.connections.set(i64::try_from(self.by_task.len()).unwrap_or(i64::MAX));
    }

    /// Returns true below the limit, or if a connection can be closed for a new one.
    fn has_room(&self) -> bool {
        self.by_task.len() < self.limits.connections || self.first_to_go().is_some()
    }

    /// Returns the connection to close first: by its phase, then the one that is longest in it.
    fn first_to_go(&self) -> Option<Id> {
        let states = self.by_task.iter().map(|(id, connection)| (connection.state(), *id));
        let first = states.filter(|((phase, _), _)| *phase != Phase::Answer).min_by_key(|(state, _)| *state);
        first.map(|(_, id)| id)
    }

    fn make_room(&mut self) {
        if self.by_task.len() >= self.limits.connections {
            self.cut_one();
            if let Some(times) = self.full_log.record() {
                warn!(
                    connections = self.limits.connections,
                    times,
                    "the limit of connections is reached (`http.connections`): closed the one that waited longest"
                );
            }
        }
    }

    fn cut_one(&mut self) {
        if let Some(id) = self.first_to_go() {
            self.close_connection(id, "gave_way");
        }
    }

    fn cut_overdue(&mut self) {
        let overdue = |(id, connection): (&Id, &Arc<HttpConnection>)| Some((*id, connection.overdue(&self.limits)?));
        let overdue: Vec<(Id, &str)> = self.by_task.iter().filter_map(overdue).collect();
        for (id, why) in overdue {
            self.close_connection(id, why);
            if why == "body_late"
                && let Some(times) = self.late_log.record()
            {
                warn!(times, "a request's body took longer than `http.body_timeout`: closed it; alerts may be missing");
            }
        }
    }

    fn close_connection(&mut self, id: Id, why: &str) {
        if let Some(connection) = self.by_task.remove(&id) {
            connection.cut.cancel();
            self.metrics.cut(why);
            self.count();
        }
    }
}

/// The state after errors of `accept`: it pauses, as it would otherwise retry in a busy loop.
#[derive(Default)]
struct AcceptBackoff {
    errors: u32,
    until: Option<Instant>,
    log: LogLimiter,
}

impl AcceptBackoff {
    async fn accept(&mut self, listener: &TcpListener) -> io::Result<(tokio::net::TcpStream, std::net::SocketAddr)> {
        if let Some(until) = self.until {
            tokio::time::sleep_until(until.into()).await;
        }
        let accepted = listener.accept().await?;
        (self.errors, self.until) = (0, None);
        Ok(accepted)
    }

    fn met(&mut self, error: &io::Error) {
        // The client closed the connection before it was accepted.
        if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
            return;
        }
        self.until = Some(Instant::now() + PAUSES.pause(self.errors));
        self.errors = self.errors.saturating_add(1);
        if let Some(times) = self.log.record() {
            error!(%error, times, "cannot accept connections: alerts may not reach us");
        }
    }
}

fn is_out_of_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].iter().any(|exhausted| errno == Some(exhausted.raw_os_error()))
}

/// Limits a log message to one per [`LOG_EVERY`], with the number of occurrences since the last one.
#[derive(Default)]
struct LogLimiter {
    last: Option<Instant>,
    times: u64,
}

impl LogLimiter {
    /// Counts an occurrence; returns the number since the last log message if another one is due.
    fn record(&mut self) -> Option<u64> {
        self.times += 1;
        if self.last.is_some_and(|last| last.elapsed() < LOG_EVERY) {
            return None;
        }
        self.last = Some(Instant::now());
        Some(std::mem::take(&mut self.times))
    }
}

/// Raises the soft limit of open files to the hard one; returns the number of connections that it allows.
fn most_connections(configured: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    if let Err(error) = raised {
        warn!(%error, "cannot raise the limit of open files");
    }
    let Some(files) = getrlimit(Resource::Nofile).current else { return configured };
    let possible = usize::try_from(files - OTHER_FILES.min(files / 2)).unwrap_or(usize::MAX);
    if possible < configured {
        info!(
            files,
            connections = possible,
            "fewer connections than `http.connections`: the limit of open files is low"
        );
    }
    configured.min(possible).max(1)
}
