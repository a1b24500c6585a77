//! The fleet: arrivals, router, replicas and faults on one virtual clock.

pub mod door;

use anyhow::{Result, ensure};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::effect::{self, OnReplica};
use super::engine::{Engine, EngineConfig};
use super::fault::{ErrorStatus, Fault};
use super::gpu::Gpu;
use super::pod::{Pod, PodState};
use super::spec::{FleetSpec, Routing};
use super::stats::EngineStats;
use super::workload::{self, Bend};

/// Seconds between looks at pods and GPUs.
const TICK_SECONDS: f64 = 1.0;

/// A deployment of replicas behind a router, at one point in time.
///
/// The same spec, seed, start and faults at the same times give the same bytes.
#[derive(Debug)]
pub struct Fleet {
    spec: FleetSpec,
    seed: u64,
    now: f64,
    next_arrival: f64,
    next_tick: f64,
    rng: StdRng,
    replicas: Vec<Replica>,
    faults: Vec<Fault>,
    bend: Bend,
    config: EngineConfig,
    generation: u64,
    next_turn: usize,
    ended: Ended,
    /// Of engines that are gone, for a gateway.
    events: Vec<door::Event>,
}

/// One pod, its GPU and, while it is up, its engine.
#[derive(Debug)]
pub struct Replica {
    /// The pod as Kubernetes sees it.
    pub pod: Pod,
    /// Its GPU.
    pub gpu: Gpu,
    /// Its engine process, `None` while the pod is not ready.
    pub(super) engine: Option<Engine>,
    /// Requests sent to it by the router, those refused included.
    pub sent: u64,
    starts: u64,
    router_knows_at: f64,
    turn_credit: f64,
    seen_busy: (f64, f64),
}

/// Requests by how they ended, since the start of the simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    /// All that arrived at the router.
    pub arrived: u64,
    /// Answered in full.
    pub finished: u64,
    /// The client went away.
    pub aborted: u64,
    /// Answered with an error status before the engine.
    pub rejected: u64,
    /// Died with the engine that held them.
    pub lost: u64,
    /// Sent to a dead replica, or to none.
    pub refused: u64,
}

impl Fleet {
    /// An idle fleet at `start` (unix seconds); errors if the spec cannot work.
    pub fn new(spec: FleetSpec, seed: u64, start: f64) -> Result<Self> {
        spec.validate()?;
        ensure!(start.is_finite(), "the start of a fleet must be a time in unix seconds");
        let config =
            EngineConfig { max_num_seqs: spec.engine.max_num_seqs, num_gpu_blocks: spec.engine.num_gpu_blocks };
        let replicas = (0..spec.replicas).map(|i| Replica::new(&spec, i)).collect();
        let mut fleet = Self {
            seed,
            now: start,
            next_arrival: start,
            next_tick: start + TICK_SECONDS,
            rng: StdRng::seed_from_u64(seed),
            replicas,
            faults: Vec::new(),
            bend: Bend::NONE,
            config,
            generation: 1,
            next_turn: 0,
            ended: Ended::default(),
            events: Vec::new(),
            spec,
        };
        for i in 0..fleet.replicas.len() {
            fleet.start_engine(i);
        }
        Ok(fleet)
    }

    /// What the fleet is made of.
    pub fn spec(&self) -> &FleetSpec {
        &self.spec
    }

    /// The time it has advanced to, in unix seconds.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// The replicas, by index.
    pub fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    /// The generation of the Deployment: 1, and one more per rollout.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The faults that are active.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// How the requests ended so far; with [`Fleet::in_flight`] they add up to those that arrived.
    pub fn ended(&self) -> Ended {
        let mut ended = self.ended;
        for stats in self.replicas.iter().filter_map(Replica::stats) {
            count_ended(&mut ended, stats);
        }
        ended
    }

    /// Requests inside engines.
    pub fn in_flight(&self) -> u64 {
        let engines = self.replicas.iter().filter_map(|replica| replica.engine.as_ref());
        engines.map(Engine::in_flight).sum()
    }

    /// Starts a fault now, in place of one of the same name on the same replica.
    ///
    /// Errors if it names a replica that the fleet does not have.
    pub fn inject(&mut self, fault: Fault) -> Result<()> {
        if let Some(replica) = fault.replica() {
            let last = self.replicas.len() - 1;
            ensure!(replica <= last, "fault `{fault}`: the fleet has replicas 0 to {last}");
        }
        self.faults.retain(|old| (old.name(), old.replica()) != (fault.name(), fault.replica()));
        self.faults.push(fault);
        self.apply_faults();
        Ok(())
    }

    /// Ends all faults with the name of `fault`, whatever their parameters.
    pub fn clear(&mut self, fault: Fault) {
        self.faults.retain(|old| old.name() != fault.name());
        self.apply_faults();
    }

    /// Ends all faults.
    pub fn clear_all(&mut self) {
        self.faults.clear();
        self.apply_faults();
    }

    /// Simulates up to `t` (unix seconds); a time in the past changes nothing.
    pub fn advance_to(&mut self, t: f64) {
        while self.next_arrival.min(self.next_tick) <= t {
            if self.next_tick <= self.next_arrival {
                self.now = self.next_tick;
                self.next_tick += TICK_SECONDS;
                self.tick();
            } else {
                self.now = self.next_arrival;
                self.arrive();
                let rate = workload::rate(&self.spec, &self.bend, self.now);
                self.next_arrival += workload::next_gap(&mut self.rng, rate);
            }
        }
        self.now = self.now.max(t);
        for engine in self.replicas.iter_mut().filter_map(|replica| replica.engine.as_mut()) {
            engine.advance_to(self.now);
        }
    }

    fn arrive(&mut self) {
        self.ended.arrived += 1;
        let request = workload::draw(&mut self.rng, &self.spec, &self.bend, self.now);
        let Some(i) = self.route() else {
            self.ended.refused += 1;
            return;
        };
        let error = self.faults.iter().find_map(|fault| match fault {
            Fault::ClientErrors { status, .. } => Some(*status),
            _ => None,
        });
        let replica = &mut self.replicas[i];
        replica.sent += 1;
        match &mut replica.engine {
            None => self.ended.refused += 1,
            Some(engine) => {
                engine.advance_to(self.now);
                match error {
                    Some(status) if request.refused => reject(engine, status),
                    _ => engine.enqueue(request),
                }
            }
        }
    }

    /// The replica for the next request, `None` if the router knows of none that is up.
    fn route(&mut self) -> Option<usize> {
        let n = self.replicas.len();
        let weights: Vec<f64> = (0..n).map(|i| self.weight(i)).collect();
        if self.spec.routing == Routing::LeastLoaded {
            for engine in self.replicas.iter_mut().filter_map(|replica| replica.engine.as_mut()) {
                engine.advance_to(self.now);
            }
            self.next_turn = (self.next_turn + 1) % n;
            let in_turn = (0..n).map(|i| (i + self.next_turn) % n);
            let load = |i: usize| {
                let in_flight = self.replicas[i].engine.as_ref().map_or(0, Engine::in_flight);
                (in_flight + 1) as f64 / weights[i]
            };
            return in_turn.filter(|&i| weights[i] > 0.0).min_by(|&a, &b| load(a).total_cmp(&load(b)));
        }
        // Smooth weighted round robin: the one furthest behind its share is next.
        let mut best: Option<usize> = None;
        for (i, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            self.replicas[i].turn_credit += weight;
            if best.is_none_or(|best| self.replicas[i].turn_credit > self.replicas[best].turn_credit) {
                best = Some(i);
            }
        }
        if let Some(best) = best {
            self.replicas[best].turn_credit -= weights.iter().sum::<f64>();
        }
        best
    }

    /// Share of the requests that the router means to give to replica `i`; 0 if it is known to be down.
    fn weight(&self, i: usize) -> f64 {
        let replica = &self.replicas[i];
        if replica.engine.is_none() && self.now >= replica.router_knows_at {
            return 0.0;
        }
        let base = match &self.spec.routing {
            Routing::RoundRobin | Routing::LeastLoaded => 1.0,
            Routing::Weighted(weights) => weights.get(i).copied().unwrap_or(1.0).max(0.0),
        };
        let skew = self.faults.iter().map(|fault| match *fault {
            Fault::RoutingSkew { replica, factor } if replica == i => factor,
            _ => 1.0,
        });
        base * skew.product::<f64>()
    }

    /// Looks after pods, the rollout and the GPUs.
    fn tick(&mut self) {
        for i in 0..self.replicas.len() {
            if let Some(engine) = &mut self.replicas[i].engine {
                engine.advance_to(self.now);
            }
            self.replicas[i].read_gpu();
            if self.replicas[i].pod.advance_to(self.now) {
                self.start_engine(i);
            }
        }
        self.roll_out();
    }

    /// Replaces outdated pods, a quarter of the fleet at a time.
    fn roll_out(&mut self) {
        let at_once = self.replicas.len().div_ceil(4);
        let generation = self.generation;
        let pods = self.replicas.iter().map(|replica| &replica.pod);
        let busy = pods.filter(|pod| pod.generation == generation && !pod.is_ready()).count();
        let outdated = |replica: &Replica| replica.pod.is_ready() && replica.pod.generation < generation;
        let next: Vec<usize> = (0..self.replicas.len())
            .filter(|&i| outdated(&self.replicas[i]))
            .take(at_once.saturating_sub(busy))
            .collect();
        for i in next {
            self.stop_engine(i);
            let replica = &mut self.replicas[i];
            // Its endpoint is removed before the process is told to stop.
            replica.router_knows_at = self.now;
            replica.pod.replace(self.now, self.spec.startup_seconds, generation);
        }
    }

    fn start_engine(&mut self, i: usize) {
        let replica = &mut self.replicas[i];
        replica.starts += 1;
        replica.pod.generation = self.generation;
        replica.seen_busy = (0.0, 0.0);
        // Each start of each replica has its own noise.
        let seed = self.seed ^ ((i as u64 + 1) << 32 | replica.starts);
        let timeout = self.spec.workload.read_timeout_seconds;
        let mut engine = Engine::new(&self.spec.engine, self.config.clone(), timeout, seed, self.now);
        self.spec.dialect.prepare(&mut engine.stats);
        replica.engine = Some(engine);
        self.apply_faults_to(i);
    }

    fn stop_engine(&mut self, i: usize) {
        if let Some(mut engine) = self.replicas[i].engine.take() {
            engine.advance_to(self.now);
            count_ended(&mut self.ended, &engine.stats);
            self.ended.lost += engine.in_flight();
            self.events.append(&mut engine.into_events());
        }
    }

    fn apply_faults(&mut self) {
        self.bend = effect::bend(&self.faults);
        let config = effect::config(&self.spec, &self.faults);
        if config != self.config {
            self.config = config;
            self.generation += 1;
        }
        for i in 0..self.replicas.len() {
            let dead = self.faults.contains(&Fault::LostReplica { replica: i });
            let crashing = !matches!(self.replicas[i].pod.state, PodState::Ready | PodState::Starting { .. });
            if dead && !crashing {
                self.stop_engine(i);
                let replica = &mut self.replicas[i];
                replica.router_knows_at = self.now + self.spec.router_delay_seconds;
                replica.pod.crash(self.now);
            } else if !dead && crashing {
                self.replicas[i].pod.recover(self.now, self.spec.startup_seconds);
            }
            self.apply_faults_to(i);
        }
    }

    fn apply_faults_to(&mut self, i: usize) {
        let OnReplica { slowdown, throttle, stalled } = effect::on_replica(&self.faults, i);
        let replica = &mut self.replicas[i];
        replica.gpu.throttle = throttle;
        if let Some(engine) = &mut replica.engine {
            engine.slowdown = slowdown;
            engine.set_stalled(stalled);
        }
    }
}

impl Replica {
    fn new(spec: &FleetSpec, i: usize) -> Self {
        let suffix = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let pod = Pod::new(
            format!("{}-{i}", spec.deployment),
            format!("5f0c1a52-7d3e-4b8a-9c61-{:012x}", suffix >> 16),
            format!("gpu-node-{}", i / spec.gpus_per_node),
            format!("10.0.0.{}", 10 + i / spec.gpus_per_node),
            format!("10.42.{}.{}", i / 200, 10 + i % 200),
        );
        Self {
            pod,
            gpu: Gpu::new(),
            engine: None,
            sent: 0,
            starts: 0,
            router_knows_at: 0.0,
            turn_credit: 0.0,
            seen_busy: (0.0, 0.0),
        }
    }

    /// The numbers of its engine, `None` while it is down.
    pub fn stats(&self) -> Option<&EngineStats> {
        self.engine.as_ref().map(|engine| &engine.stats)
    }

    fn read_gpu(&mut self) {
        let engine = self.engine.as_ref();
        let busy = engine.map_or((0.0, 0.0), |engine| (engine.stats.busy_seconds, engine.stats.prefill_seconds));
        let (seen_busy, seen_prefill) = self.seen_busy;
        self.gpu.advance(TICK_SECONDS, (busy.0 - seen_busy).max(0.0), (busy.1 - seen_prefill).max(0.0));
        self.seen_busy = busy;
    }
}

fn reject(engine: &mut Engine, status: ErrorStatus) {
    match status {
        ErrorStatus::Client => engine.stats.http_4xx += 1,
        ErrorStatus::Server => engine.stats.http_5xx += 1,
    }
}

fn count_ended(ended: &mut Ended, stats: &EngineStats) {
    ended.finished += stats.finished_stop + stats.finished_length;
    ended.aborted += stats.aborted;
    ended.rejected += stats.http_4xx + stats.http_5xx;
}
