//! The gate of one Prometheus server, which all entries with its address share: the slots of their queries, and a circuit
//! that keeps them from a server that does not work.
//!
//! Closed ─failures in a row, and a probe fails too─▶ open for a pause ─a probe─▶ closed, or open for twice as long.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use prometheus_client::metrics::histogram::Histogram;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::chunks::Limits;
use super::memory::AnswerMemory;
use super::{CHECK_BYTES, PromError, Row, answer};

/// The query of a probe.
const PROBE: &str = "vector(1)";
/// Entries that probe at the same time.
const PROBES: usize = 8;

/// The limits of a circuit.
#[derive(Debug, Clone, Copy)]
pub(super) struct CircuitLimits {
    /// Failures in a row after which a probe decides.
    pub(super) failures: u32,
    /// The first pause; doubles with each failed probe.
    pub(super) pause: Duration,
    /// The longest pause.
    pub(super) longest_pause: Duration,
    /// The deadline of a probe.
    pub(super) probe: Duration,
    /// The least time that a query must have had, so that its lateness counts.
    pub(super) fair: Duration,
}

impl Default for CircuitLimits {
    fn default() -> Self {
        let [fair, pause, probe, longest_pause] = [2, 5, 10, 15].map(Duration::from_secs);
        Self { failures: 5, pause, longest_pause, probe, fair }
    }
}

/// The state of a server: asked, or not asked for a while.
#[derive(Debug, Default)]
struct Circuit {
    /// Queries and probes in a row that failed.
    failures: u32,
    /// The error of the last one.
    why: String,
    /// The end and the length of the pause in which nothing is sent but a probe at its end; `None` while it is closed.
    pause: Option<(Instant, Duration)>,
}

/// The slots of an entry: those of its server, of which it takes only a part if others share them.
#[derive(Debug, Clone)]
pub(super) struct QuerySlots {
    own: Arc<Semaphore>,
    of_server: Arc<Semaphore>,
}

/// A slot of a query; free again when it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    _permits: [OwnedSemaphorePermit; 2],
}

/// The slots and the circuit of one server.
pub(super) struct Gate {
    /// The server as `host:port`.
    pub(super) server: String,
    /// The slots of queries, and as many of those who must not keep the others waiting.
    slots: [Arc<Semaphore>; 2],
    /// The most slots that one entry takes.
    most_slots: usize,
    limits: CircuitLimits,
    circuit: Mutex<Circuit>,
    /// The client, with its headers, and the address of each entry; those that probe next come first.
    entries: Mutex<VecDeque<(reqwest::Client, String)>>,
    /// The task that probes, which ends with the gate.
    watcher: Mutex<JoinSet<()>>,
    unsent: AtomicU64,
}

/// Formats the gate without addresses, which may hold passwords.
impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Locks what is whole after each use.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    /// Creates the gate of a server with so many slots; of several entries each takes half of them, so that the queries of
    /// the others do not wait for its.
    pub(super) fn new(server: String, slots: usize, entries: usize, limits: CircuitLimits) -> Self {
        Self {
            server,
            slots: [(); 2].map(|()| Arc::new(Semaphore::new(slots))),
            most_slots: if entries > 1 { (slots / 2).max(1) } else { slots },
            limits,
            circuit: Mutex::default(),
            entries: Mutex::default(),
            watcher: Mutex::default(),
            unsent: AtomicU64::new(0),
        }
    }

    /// Adds an entry, through which probes are sent too, and returns its slots and its second ones.
    pub(super) fn add(&self, http: reqwest::Client, base: String) -> [QuerySlots; 2] {
        lock(&self.entries).push_back((http, base));
        let of = |of_server| QuerySlots { own: Arc::new(Semaphore::new(self.most_slots)), of_server };
        self.slots.clone().map(of)
    }

    /// Returns true while queries are not sent.
    pub(super) fn is_shut(&self) -> bool {
        lock(&self.circuit).pause.is_some()
    }

    /// Returns the time until a probe asks the server again: zero while one does, `None` if queries are sent.
    pub(super) fn pause_left(&self) -> Option<Duration> {
        let (until, _) = lock(&self.circuit).pause?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Returns the number of queries that were not sent.
    pub(super) fn unsent(&self) -> u64 {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Decides about a call.
    ///
    /// # Errors
    /// [`PromError::Shut`] while the server is not asked.
    pub(super) fn pass(self: &Arc<Self>) -> Result<(), PromError> {
        let circuit = lock(&self.circuit);
        let Some((until, _)) = circuit.pause else { return Ok(()) };
        let again_in = until.saturating_duration_since(Instant::now());
        let shut = PromError::Shut { why: circuit.why.clone(), times: circuit.failures, again_in };
        drop(circuit);
        self.watch();
        Err(shut)
    }

    /// Decides about a query, and waits for a slot; callers drop it at their deadline.
    pub(super) async fn enter(self: &Arc<Self>, slots: &QuerySlots) -> Result<Slot, PromError> {
        let pass = || {
            self.pass().inspect_err(|_| {
                self.unsent.fetch_add(1, Ordering::Relaxed);
            })
        };
        // Who is not let through needs no slot.
        pass()?;
        // First its own: what waits for the server's stands before the queries of others.
        let own = Arc::clone(&slots.own).acquire_owned().await.map_err(|_| PromError::Late)?;
        let of_server = Arc::clone(&slots.of_server).acquire_owned().await.map_err(|_| PromError::Late)?;
        // The server may have failed meanwhile.
        pass()?;
        Ok(Slot { _permits: [own, of_server] })
    }

    /// Notes that a query is sent now; its duration is observed at its end.
    pub(super) fn sent(self: &Arc<Self>, deadline: Instant, seconds: Option<Histogram>) -> SentQuery {
        SentQuery {
            gate: Arc::clone(self),
            sent_at: Instant::now(),
            deadline,
            seconds,
            lateness_counts: true,
            has_ended: false,
        }
    }

    fn tell<T>(self: &Arc<Self>, result: &Result<T, PromError>) {
        match result {
            Err(error) if error.is_silence() => {
                let mut circuit = lock(&self.circuit);
                // Else it was sent before the pause.
                if circuit.pause.is_none() {
                    circuit.failed(error);
                    let is_suspect = circuit.failures >= self.limits.failures;
                    drop(circuit);
                    if is_suspect {
                        self.watch();
                    }
                }
            }
            _ => self.close(),
        }
    }

    fn close(&self) {
        if std::mem::take(&mut *lock(&self.circuit)).pause.is_some() {
            info!(server = self.server, "Prometheus answers again");
            // It may sleep for the rest of the pause, and would find the next failure so much later.
            *lock(&self.watcher) = JoinSet::new();
        }
    }

    /// Takes the outcome of a probe; returns the pause until the next one, `None` if none is needed.
    fn probed(&self, outcome: &Result<(), PromError>) -> Option<Duration> {
        let Err(error) = outcome else {
            self.close();
            return None;
        };
        let mut circuit = lock(&self.circuit);
        // An answer may have come meanwhile.
        if circuit.failures < self.limits.failures {
            return None;
        }
        circuit.failed(error);
        let longer = |(_, pause): (_, Duration)| pause.saturating_mul(2).min(self.limits.longest_pause);
        let pause = circuit.pause.map_or(self.limits.pause, longer);
        circuit.pause = Some((Instant::now() + pause, pause));
        let (server, times, pause_seconds) = (&self.server, circuit.failures, pause.as_secs_f64());
        let error = &circuit.why;
        warn!(server, error, times, pause_seconds, "Prometheus does not answer: it is not asked for a while");
        Some(pause)
    }

    /// Starts the task that probes, unless it runs. A caller that goes away does not end it.
    fn watch(self: &Arc<Self>) {
        // Without a runtime, or if its runtime ended, the next call starts it.
        let Ok(runtime) = Handle::try_current() else { return };
        let mut watcher = lock(&self.watcher);
        while watcher.try_join_next().is_some() {}
        if watcher.is_empty() {
            watcher.spawn_on(watch(Arc::downgrade(self)), &runtime);
        }
    }

    /// Returns the entries for a probe, in order; `None` if the server has answered.
    fn next_probe(&self) -> Option<(Vec<(reqwest::Client, String)>, Duration)> {
        if lock(&self.circuit).failures < self.limits.failures {
            return None;
        }
        let mut entries = lock(&self.entries);
        let turn = PROBES.min(entries.len());
        entries.rotate_left(turn);
        Some((entries.iter().cloned().collect(), self.limits.probe))
    }
}

impl Circuit {
    fn failed(&mut self, error: &PromError) {
        self.failures += 1;
        self.why = match error {
            PromError::Late => "Prometheus does not answer in time".to_owned(),
            error => error.to_string(),
        };
    }
}

/// Probes at once and after each pause until the server answers.
async fn watch(gate: Weak<Gate>) {
    while let Some((entries, within)) = gate.upgrade().and_then(|gate| gate.next_probe()) {
        let outcome = tokio::time::timeout(within, probe(entries, within)).await.unwrap_or(Err(PromError::Late));
        let Some(pause) = gate.upgrade().and_then(|gate| gate.probed(&outcome)) else { return };
        tokio::time::sleep(pause).await;
    }
}

/// Sends a small query through each entry until one is answered, because what is behind one may hang, or a proxy refuse it,
/// while the others work. If there is no connection, that holds for all.
async fn probe(entries: Vec<(reqwest::Client, String)>, within: Duration) -> Result<(), PromError> {
    let ask = async |(http, base): (reqwest::Client, String)| {
        let form = [("query", PROBE.to_owned()), ("timeout", format!("{}ms", within.as_millis()))];
        let response = http.post(format!("{base}/api/v1/query")).form(&form).send().await;
        let limits = Limits { deadline: Instant::now() + within, bytes: CHECK_BYTES };
        answer::read::<Row>(response.map_err(PromError::from_http)?, limits, &AnswerMemory::with(CHECK_BYTES)).await
    };
    let mut answers = std::pin::pin!(stream::iter(entries).map(ask).buffer_unordered(PROBES));
    let mut outcome = Ok(());
    while let Some(answer) = answers.next().await {
        match answer {
            Err(error @ (PromError::NotPrometheus { .. } | PromError::Cut(_))) if error.is_silence() => {
                outcome = Err(error);
            }
            // A refusal of this entry by a proxy tells nothing of what is behind it.
            Err(PromError::NotPrometheus { .. }) => {}
            Err(error) if error.is_silence() => return Err(error),
            _ => return Ok(()),
        }
    }
    outcome
}

/// A query under way. It counts as late if it is dropped after its deadline; dropped before, its caller has gone away,
/// which tells nothing about the server.
#[derive(Debug)]
pub(super) struct SentQuery {
    gate: Arc<Gate>,
    sent_at: Instant,
    deadline: Instant,
    seconds: Option<Histogram>,
    lateness_counts: bool,
    has_ended: bool,
}

impl SentQuery {
    /// Tells the gate how the query ended.
    pub(super) fn ended<T>(mut self, result: &Result<T, PromError>) {
        self.has_ended = true;
        // Its time ran out: that is told when it is dropped.
        if !matches!(result, Err(PromError::Late)) {
            self.lateness_counts = false;
            self.gate.tell(result);
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
        let is_late = Instant::now() >= self.deadline;
        if let Some(seconds) = self.seconds.as_ref().filter(|_| self.has_ended || is_late) {
            seconds.observe(self.sent_at.elapsed().as_secs_f64());
        }
        let is_fair = self.deadline.saturating_duration_since(self.sent_at) >= self.gate.limits.fair;
        if self.lateness_counts && is_fair && is_late {
            self.gate.tell(&Err::<(), _>(PromError::Late));
        }
    }
}

#[cfg(test)]
mod tests;
