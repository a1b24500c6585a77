//! The gate of one Prometheus server, which all clients of its address share: the slots of their queries, and the circuit
//! that keeps them from a server that does not work.

use std::collections::BTreeSet;
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
use super::slots::QuerySlots;
use super::{Answer, CHECK_BYTES, PromError, Row, answer};

/// The query of a probe.
const PROBE: &str = "vector(1)";

/// Maximum number of entries that one probe asks, each because the one before it got an error page.
const PROBED: usize = 8;

/// The entries of the configuration that use a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GateUsers {
    /// One alone.
    One,
    /// Several that differ in their headers or their path: a proxy may lead each to another server.
    Several,
}

/// The slots and the circuit of one server.
#[derive(Debug)]
pub(super) struct Gate {
    /// The server as `host:port`.
    pub(super) server: String,
    slots: Arc<Semaphore>,
    second_slots: Arc<Semaphore>,
    /// The most slots that one of several clients takes.
    most_slots: Option<usize>,
    users: GateUsers,
    circuit: Mutex<Circuit>,
    turns: Mutex<ProbeTurns>,
    /// Marked when a query that waits for a probe should ask the circuit again.
    changed: watch::Sender<()>,
    /// The probes under way, and those that wait for the end of a pause; they end with the gate.
    probes: Mutex<JoinSet<()>>,
    unsent: AtomicU64,
}

impl Gate {
    /// Creates the gate of a server with so many slots.
    pub(super) fn new(server: String, slots: usize, users: GateUsers, settings: CircuitSettings) -> Self {
        Self {
            server,
            slots: Arc::new(Semaphore::new(slots)),
            second_slots: Arc::new(Semaphore::new(slots)),
            most_slots: (users != GateUsers::One).then_some((slots / 2).max(1)),
            users,
            circuit: Mutex::new(Circuit::new(settings)),
            turns: Mutex::default(),
            changed: watch::Sender::new(()),
            probes: Mutex::default(),
            unsent: AtomicU64::new(0),
        }
    }

    /// Returns the slots of one more client: half of them where there are others, whose queries then do not wait for its.
    pub(super) fn slots_of_a_client(&self) -> QuerySlots {
        QuerySlots::new(&self.slots, self.most_slots)
    }

    /// Returns as many slots of those who must not keep the others waiting.
    pub(super) fn second_slots_of_a_client(&self) -> QuerySlots {
        QuerySlots::new(&self.second_slots, self.most_slots)
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

    fn turns(&self) -> MutexGuard<'_, ProbeTurns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn circuit(&self) -> MutexGuard<'_, Circuit> {
        // A circuit is whole after each of its methods.
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what a result tells about the server. Where several share it, an error page or a broken answer is one of the
    /// proxy that leads to what is behind it: it may lead others elsewhere.
    fn sign<T>(&self, result: &Result<T, PromError>) -> Sign {
        match result {
            Err(PromError::NotPrometheus { .. } | PromError::Cut(_)) if self.users == GateUsers::Several => {
                Sign::Answer
            }
            Err(PromError::Late) => Sign::Silence { why: "Prometheus does not answer in time".to_owned(), weak: true },
            Err(error) if error.is_silence() => {
                let weak = !matches!(error, PromError::Unreachable(_));
                Sign::Silence { why: error.to_string(), weak }
            }
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
    /// The number of the entry among those of the gate.
    entry: usize,
}

/// Formats the door without the address, which may hold a password.
impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl Door {
    /// Creates the door of one more entry.
    pub(super) fn new(gate: Arc<Gate>, http: reqwest::Client, base: String) -> Self {
        let entry = gate.turns().add(Prober { http: http.clone(), base: base.clone() });
        Self { gate, http, base, entry }
    }

    /// Waits until queries are sent: at once, or while a probe runs. A caller's deadline ends the wait by dropping it.
    ///
    /// # Errors
    /// [`PromError::Shut`] while the server is not asked.
    pub(super) async fn pass(&self) -> Result<(), PromError> {
        self.pass_or_outage().await.map_err(|outage| {
            self.gate.unsent.fetch_add(1, Ordering::Relaxed);
            self.gate.turns().refused.insert(self.entry);
            outage.into()
        })
    }

    /// Waits as [`Self::pass`], and for the end of each pause that ends before the deadline; for checks, which do not count
    /// as unsent.
    ///
    /// # Errors
    /// [`PromError::Shut`] if the server is not asked before the deadline.
    pub(super) async fn pass_before(&self, deadline: Instant) -> Result<(), PromError> {
        loop {
            match self.pass_or_outage().await {
                Err(outage) if Instant::now() + outage.again_in < deadline => {
                    tokio::time::sleep(outage.again_in).await;
                }
                passed => return passed.map_err(PromError::from),
            }
        }
    }

    async fn pass_or_outage(&self) -> Result<(), Outage> {
        let mut changed = self.gate.changed.subscribe();
        loop {
            let passage = self.gate.circuit().ask(Instant::now());
            match passage {
                Passage::Go => return Ok(()),
                Passage::Shut(outage) => return Err(outage),
                Passage::Wait { until, probe } => {
                    if probe {
                        self.probe(None);
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

    /// Starts probes as a task of its own, so that a caller that goes away does not end it: at once, or after a pause.
    fn probe(&self, pause: Option<Duration>) {
        // Without a runtime there is none, and it counts as lost later.
        let Ok(runtime) = Handle::try_current() else { return };
        let mut probes = self.gate.probes.lock().unwrap_or_else(PoisonError::into_inner);
        while probes.try_join_next().is_some() {}
        probes.spawn_on(run_probes(Arc::downgrade(&self.gate), pause), &runtime);
    }

    fn tell<T>(&self, result: &Result<T, PromError>) {
        let change = self.gate.circuit().tell(Instant::now(), self.gate.sign(result));
        self.gate.tell_change(&change);
        match change {
            CircuitChange::Suspected => {
                self.gate.turns().begin_after(self.entry);
                self.probe(None);
            }
            CircuitChange::Opened(outage) => {
                self.gate.turns().begin_after(self.entry);
                self.probe(Some(outage.again_in));
            }
            CircuitChange::None | CircuitChange::Closed => {}
        }
    }
}

/// The order in which entries probe, one after the other, because what is behind one may hang while the others work. Those whose
/// queries were not sent come first.
#[derive(Debug, Default)]
struct ProbeTurns {
    /// The clients of the entries.
    probers: Vec<Prober>,
    /// The entries whose queries were not sent, until they have probed.
    refused: BTreeSet<usize>,
    /// The entry that probed last, or whose query was the last without an answer.
    last: usize,
}

impl ProbeTurns {
    /// Adds an entry and returns its number.
    fn add(&mut self, prober: Prober) -> usize {
        self.probers.push(prober);
        self.probers.len() - 1
    }

    /// Begins anew with the entry after this one, whose query was the last that got no answer.
    fn begin_after(&mut self, entry: usize) {
        self.refused.clear();
        self.last = entry;
    }

    /// Returns the client of the next probe; `None` without entries.
    fn next(&mut self) -> Option<Prober> {
        let waiting = self.refused.range(self.last + 1..).chain(&self.refused).next().copied();
        self.last = waiting.unwrap_or(self.last + 1) % self.probers.len().max(1);
        self.refused.remove(&self.last);
        self.probers.get(self.last).cloned()
    }
}

/// A client as a probe needs it.
#[derive(Clone)]
struct Prober {
    http: reqwest::Client,
    base: String,
}

/// Formats the prober without the address, which may hold a password.
impl fmt::Debug for Prober {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prober").finish_non_exhaustive()
    }
}

impl Prober {
    async fn ask(&self, within: Duration) -> Result<Answer<Row>, PromError> {
        let deadline = Instant::now() + within;
        let ask = async {
            let form = [("query", PROBE.to_owned()), ("timeout", format!("{}ms", within.as_millis()))];
            let response = self.http.post(format!("{}/api/v1/query", self.base)).form(&form).send().await;
            let limits = Limits { deadline, bytes: CHECK_BYTES };
            answer::read(response.map_err(PromError::from_http)?, limits, &AnswerMemory::with(CHECK_BYTES)).await
        };
        tokio::time::timeout_at(deadline.into(), ask).await.unwrap_or(Err(PromError::Late))
    }
}

/// Probes at once, or after a pause, and again after each pause that follows, until the server answers, a caller has
/// begun the next probe, or the gate is gone.
async fn run_probes(gate: Weak<Gate>, mut pause: Option<Duration>) {
    loop {
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
            let Some(gate) = gate.upgrade() else { return };
            if !matches!(gate.circuit().ask(Instant::now()), Passage::Wait { probe: true, .. }) {
                return;
            }
        }
        let Some(within) = gate.upgrade().map(|gate| gate.circuit().settings().probe) else { return };
        let end = Instant::now() + within;
        let mut result = Err(PromError::Late);
        for asked in 1..=PROBED {
            let next = |gate: Arc<Gate>| {
                let mut turns = gate.turns();
                Some((turns.next()?, turns.probers.len()))
            };
            let Some((prober, entries)) = gate.upgrade().and_then(next) else { return };
            let left = end.saturating_duration_since(Instant::now());
            result = prober.ask(left).await;
            // A proxy's refusal of one entry tells nothing about what is behind it: the next one asks, if there is time for an answer.
            let is_refused = matches!(result, Err(PromError::NotPrometheus { .. } | PromError::Cut(_)));
            if !is_refused || asked == entries || end.saturating_duration_since(Instant::now()) < within / 2 {
                break;
            }
        }
        let Some(gate) = gate.upgrade() else { return };
        let change = gate.circuit().probed(Instant::now(), gate.sign(&result));
        gate.tell_change(&change);
        let CircuitChange::Opened(outage) = change else { return };
        pause = Some(outage.again_in);
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
        if !self.lateness_counts || Instant::now() < self.deadline {
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
