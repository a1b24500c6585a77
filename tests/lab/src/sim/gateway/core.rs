//! The gateway process: what it holds, what is due next, what it knows of its backends.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::fleet::Fleet;
use super::backend::Backend;
use super::fault::{GatewayFault, LimitScope};
use super::flow::Flow;
use super::ledger::Ledger;
use super::pool::Pool;
use super::spec::{GatewayKind, GatewaySpec};

/// Clients that wait for ever still go away some day.
const LONGEST_PATIENCE_SECONDS: f64 = 6_000.0;

/// One gateway.
#[derive(Debug)]
pub struct Gateway {
    /// What it is.
    pub spec: GatewaySpec,
    /// Unix seconds at which it started.
    pub started: f64,
    /// What it counted.
    pub ledger: Ledger,
    /// Requests inside, by ticket.
    pub flows: BTreeMap<u64, Flow>,
    /// Its view of each fleet's replicas.
    pub backends: Vec<Vec<Backend>>,
    /// Its own slots.
    pub cpu: Pool,
    /// Share of its slots that worked during the last seconds, 0..1.
    pub busy: f64,
    pub(super) faults: Vec<GatewayFault>,
    pub(super) key_windows: Vec<(f64, u32)>,
    /// What it calls out to while that is slow.
    callout: Option<Pool>,
    patience: Vec<f64>,
    rng: SmallRng,
    tickets: u64,
    due: BinaryHeap<Entry>,
    entries: u64,
}

/// What can be due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Due {
    /// The clients of a fleet send a request.
    Arrival(usize),
    /// A request is ready to be sent on.
    Send(u64),
    /// A request may have been silent for too long.
    Silence(u64),
    /// A client goes away.
    Leave(u64),
}

/// The earliest is the greatest, and of those at the same time the first that was scheduled.
#[derive(Debug)]
struct Entry {
    at: f64,
    number: u64,
    due: Due,
}

impl Gateway {
    /// An idle gateway in front of `fleets`, whose clients have so much `patience`, started at `now` (unix seconds).
    pub fn new(spec: GatewaySpec, fleets: &[Fleet], patience: Vec<Option<f64>>, seed: u64, now: f64) -> Self {
        Self {
            started: now,
            ledger: Ledger::new(spec.kind),
            flows: BTreeMap::new(),
            backends: fleets.iter().map(|fleet| vec![Backend::new(); fleet.replicas().len()]).collect(),
            cpu: Pool::new(spec.cpu_slots),
            busy: 0.0,
            faults: Vec::new(),
            key_windows: vec![(f64::NEG_INFINITY, 0); spec.keys.len()],
            callout: None,
            patience: patience.into_iter().map(|seconds| seconds.unwrap_or(LONGEST_PATIENCE_SECONDS)).collect(),
            rng: SmallRng::seed_from_u64(seed ^ 0x6761_7465),
            tickets: 0,
            due: BinaryHeap::new(),
            entries: 0,
            spec,
        }
    }

    /// Seconds without a token after which the clients of a fleet go away.
    pub fn patience(&self, fleet: usize) -> f64 {
        self.patience[fleet]
    }

    /// Seconds of own work for one request, under the faults there are.
    pub fn cost(&self) -> f64 {
        let factors = self.faults.iter().map(|fault| match *fault {
            GatewayFault::GatewayOverload { factor } => factor,
            _ => 1.0,
        });
        self.spec.cpu_seconds * factors.product::<f64>()
    }

    /// Share of the requests, 0..1, whose model it does not know.
    pub fn misrouted_share(&self) -> f64 {
        let shares = self.faults.iter().map(|fault| match *fault {
            GatewayFault::GatewayMisroute { share } => share,
            _ => 0.0,
        });
        shares.fold(0.0, f64::max)
    }

    /// Connections to the replica are refused although its engine is well.
    pub fn is_unreachable(&self, replica: usize) -> bool {
        self.faults.iter().any(|fault| match fault {
            GatewayFault::BackendUnreachable { replica: which } => which.is_none_or(|which| which == replica),
            _ => false,
        })
    }

    /// Requests per minute beyond which each backend refuses.
    pub(super) fn backend_limit(&self) -> Option<u32> {
        self.faults.iter().find_map(|fault| match *fault {
            GatewayFault::RateLimited { scope: LimitScope::Deployments, rpm, .. } => Some(rpm),
            _ => None,
        })
    }

    /// Follows which replicas of a fleet are there.
    pub(super) fn notice(&mut self, fleet: &Fleet, index: usize, now: f64) {
        let known = self.backends[index].len();
        self.backends[index].resize_with(known.max(fleet.replicas().len()), Backend::new);
        for (i, replica) in fleet.replicas().iter().enumerate() {
            // A picker sees pods, not connections.
            let by_readiness = matches!(self.spec.kind, GatewayKind::Epp | GatewayKind::EppObjective);
            let there = replica.stats().is_some() && (by_readiness || !self.is_unreachable(i));
            let backend = &mut self.backends[index][i];
            backend.gone_since = if there { None } else { backend.gone_since.or(Some(now)) };
        }
    }

    /// Its lease is over: it is no backend any more.
    pub fn is_forgotten(&self, backend: &Backend, now: f64) -> bool {
        backend.gone_since.is_some_and(|since| now - since >= self.spec.lease_seconds)
    }

    /// Follows how busy its slots are, at each tick.
    pub(super) fn follow_load(&mut self, now: f64) {
        // About five seconds of memory at ten looks a second.
        self.busy += 0.02 * (self.cpu.busy(now) - self.busy);
    }

    /// What it called out to answers at once again.
    pub(super) fn forget_callout(&mut self) {
        self.callout = None;
    }

    /// The end of a call to something else that starts at `now`, `None` if its turn comes after `deadline`.
    pub(super) fn call_out(&mut self, now: f64, deadline: f64) -> Option<f64> {
        let slow = self.faults.iter().find_map(|fault| match *fault {
            GatewayFault::UpstreamBottleneck { seconds, slots } => Some((seconds, slots)),
            _ => None,
        });
        let Some((seconds, slots)) = slow else {
            self.callout = None;
            return Some(now);
        };
        let pool = self.callout.get_or_insert_with(|| Pool::new(slots));
        let waits = now + pool.wait(now) + seconds;
        if waits > deadline {
            return None;
        }
        Some(pool.take(now, seconds))
    }

    /// The key of the next client, and whether its model is unknown.
    pub(super) fn draw_client(&mut self) -> (usize, bool) {
        let [key_u, route_u] = self.rng.random::<[f64; 2]>();
        let total: f64 = self.spec.keys.iter().map(|key| key.share).sum();
        let mut left = key_u * total;
        let mut chosen = self.spec.keys.len() - 1;
        for (i, key) in self.spec.keys.iter().enumerate() {
            left -= key.share;
            if left <= 0.0 {
                chosen = i;
                break;
            }
        }
        (chosen, route_u < self.misrouted_share())
    }

    pub(super) fn draw_pair(&mut self) -> (f64, f64) {
        let [a, b] = self.rng.random::<[f64; 2]>();
        (a, b)
    }

    pub(super) fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    pub(super) fn schedule(&mut self, at: f64, due: Due) {
        self.entries += 1;
        self.due.push(Entry { at, number: self.entries, due });
    }

    /// When something is due next, in unix seconds.
    pub(super) fn next_at(&self) -> f64 {
        self.due.peek().map_or(f64::INFINITY, |entry| entry.at)
    }

    pub(super) fn next_due(&mut self) -> Option<(f64, Due)> {
        self.due.pop().map(|entry| (entry.at, entry.due))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}
