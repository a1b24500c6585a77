//! The gate of one Prometheus server, which all clients of its address share: the slots of their queries, and the circuit
//! that keeps them from a server that does not work.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::chunks::Limits;
use super::circuit::{Circuit, CircuitChange, CircuitSettings, Outage, Passage, Sign};
use super::memory::AnswerMemory;
use super::{CHECK_BYTES, PromError, Row, answer};

/// The query of a probe.
const PROBE: &str = "vector(1)";

/// The slots and the circuit of one server.
#[derive(Debug)]
pub(super) struct Gate {
    /// The server as `host:port`.
    pub(super) server: String,
    /// The slots of the queries that run at the same time.
    pub(super) slots: Arc<Semaphore>,
    /// As many slots of those who must not keep the others waiting.
    pub(super) second_slots: Arc<Semaphore>,
    /// True if its entries differ in their path: what is behind one of them may fail alone.
    has_paths: bool,
    circuit: Mutex<Circuit>,
    /// Marked when a query that waits for a probe should ask the circuit again.
    changed: watch::Sender<()>,
    /// The probes under way; they end with the gate.
    probes: Mutex<JoinSet<()>>,
    unsent: AtomicU64,
}

impl Gate {
    /// Creates the gate of a server with so many slots; `has_paths` if its entries differ in their path.
    pub(super) fn new(server: String, slots: usize, has_paths: bool, settings: CircuitSettings) -> Self {
        Self {
            server,
            slots: Arc::new(Semaphore::new(slots)),
            second_slots: Arc::new(Semaphore::new(slots)),
            has_paths,
            circuit: Mutex::new(Circuit::new(settings)),
            changed: watch::Sender::new(()),
            probes: Mutex::default(),
            unsent: AtomicU64::new(0),
        }
    }

    /// Returns true while queries are not sent.
    pub(super) fn is_shut(&self) -> bool {
        self.circuit().is_open()
    }

    /// Returns the time until the server is asked again; `None` if it is asked, or a probe asks it now.
    pub(super) fn pause_left(&self) -> Option<Duration> {
        self.circuit().pause_left(Instant::now())
    }

    /// Returns the number of queries that were not sent.
    pub(super) fn unsent(&self) -> u64 {
        self.unsent.load(Ordering::Relaxed)
    }

    fn circuit(&self) -> MutexGuard<'_, Circuit> {
        // A circuit is whole after each of its methods.
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what a result tells about the server. If it has several paths, an error page is an answer of the proxy that
    /// leads to them.
    fn sign<T>(&self, result: &Result<T, PromError>) -> Sign {
        match result {
            Err(PromError::NotPrometheus { .. } | PromError::Cut(_)) if self.has_paths => Sign::Answer,
            Err(PromError::Late) => Sign::Silence { why: "Prometheus does not answer in time".to_owned(), late: true },
            Err(error) if error.is_silence() => Sign::Silence { why: error.to_string(), late: false },
            Ok(_) | Err(_) => Sign::Answer,
        }
    }

    fn tell_change(&self, change: &CircuitChange) {
        let server = &self.server;
        match change {
            CircuitChange::Opened(Outage { why, times, again_in }) => {
                let pause_seconds = again_in.as_secs_f64();
                warn!(
                    server,
                    error = why,
                    times,
                    pause_seconds,
                    "Prometheus does not answer: it is not asked for a while"
                );
            }
            CircuitChange::Closed => info!(server, "Prometheus answers again"),
            CircuitChange::None | CircuitChange::Suspected => return,
        }
        self.changed.send_replace(());
    }
}

/// A client's way through the gate, with its address and headers.
#[derive(Clone)]
pub(super) struct Door {
    /// The gate of the server.
    pub(super) gate: Arc<Gate>,
    /// The client, with its headers.
    pub(super) http: reqwest::Client,
    /// The address that requests are sent to, including a password.
    pub(super) base: String,
}

/// Formats the door without the address, which may hold a password.
impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl Door {
    /// Waits until queries are sent: at once, or while a probe runs. A caller's deadline ends the wait by dropping it.
    ///
    /// # Errors
    /// [`PromError::Shut`] while the server is not asked.
    pub(super) async fn pass(&self) -> Result<(), PromError> {
        let mut changed = self.gate.changed.subscribe();
        loop {
            let passage = self.gate.circuit().ask(Instant::now());
            match passage {
                Passage::Go => return Ok(()),
                Passage::Shut(Outage { why, times, again_in }) => {
                    self.gate.unsent.fetch_add(1, Ordering::Relaxed);
                    return Err(PromError::Shut { why, times, again_in });
                }
                Passage::Wait { until, probe } => {
                    if probe {
                        self.probe();
                    }
                    // After that time the probe is lost, and the next one starts.
                    let _ = tokio::time::timeout_at(until.into(), changed.changed()).await;
                }
            }
        }
    }

    /// Notes that a query is sent now.
    pub(super) fn sent(&self, deadline: Instant) -> SentQuery {
        SentQuery { door: self.clone(), sent_at: Instant::now(), deadline, lateness_counts: true }
    }

    /// Starts a probe as a task of its own, so that a caller that goes away does not end it.
    fn probe(&self) {
        // Without a runtime there is none, and it counts as lost later.
        let Ok(runtime) = Handle::try_current() else { return };
        let (gate, http, base) = (Arc::downgrade(&self.gate), self.http.clone(), self.base.clone());
        let within = self.gate.circuit().settings().probe;
        let mut probes = self.gate.probes.lock().unwrap_or_else(PoisonError::into_inner);
        while probes.try_join_next().is_some() {}
        probes.spawn_on(run_probe(gate, http, base, within), &runtime);
    }

    fn tell<T>(&self, result: &Result<T, PromError>) {
        let change = self.gate.circuit().tell(Instant::now(), self.gate.sign(result));
        self.gate.tell_change(&change);
        if change == CircuitChange::Suspected {
            self.probe();
        }
    }
}

/// Sends the probe and passes its outcome to the gate, if there still is one.
async fn run_probe(gate: Weak<Gate>, http: reqwest::Client, base: String, within: Duration) {
    let deadline = Instant::now() + within;
    let ask = async {
        let form = [("query", PROBE.to_owned()), ("timeout", format!("{}ms", within.as_millis()))];
        let response = http.post(format!("{base}/api/v1/query")).form(&form).send().await;
        let limits = Limits { deadline, bytes: CHECK_BYTES };
        answer::read::<Row>(response.map_err(PromError::from_http)?, limits, &AnswerMemory::with(CHECK_BYTES)).await
    };
    let result = tokio::time::timeout_at(deadline.into(), ask).await.unwrap_or(Err(PromError::Late));
    if let Some(gate) = gate.upgrade() {
        let change = gate.circuit().probed(Instant::now(), gate.sign(&result));
        gate.tell_change(&change);
    }
}

/// A query under way. It counts as late if it is dropped after its deadline; dropped before, its caller has gone away,
/// which tells nothing about the server.
#[derive(Debug)]
pub(super) struct SentQuery {
    door: Door,
    sent_at: Instant,
    deadline: Instant,
    lateness_counts: bool,
}

impl SentQuery {
    /// Tells the gate how the query ended.
    pub(super) fn ended<T>(mut self, result: &Result<T, PromError>) {
        // Its time ran out: that is told when it is dropped.
        if !matches!(result, Err(PromError::Late)) {
            self.lateness_counts = false;
            self.door.tell(result);
        }
    }

    /// Notes that the answer has begun, which may be longer than the time for it.
    pub(super) fn has_begun(mut self) -> Self {
        self.lateness_counts = false;
        self
    }
}

impl Drop for SentQuery {
    fn drop(&mut self) {
        if !self.lateness_counts || self.door.gate.has_paths || Instant::now() < self.deadline {
            return;
        }
        let had = self.deadline.saturating_duration_since(self.sent_at);
        if had >= self.door.gate.circuit().settings().fair {
            self.door.tell(&Err::<(), _>(PromError::Late));
        }
    }
}

#[cfg(test)]
mod tests;
