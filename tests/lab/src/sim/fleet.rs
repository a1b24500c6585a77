//! The fleet: arrivals, router, replicas and faults on one virtual clock.

pub mod door;

use anyhow::{Result, bail, ensure};
use rand::SeedableRng;
use rand::rngs::{SmallRng, StdRng};

use super::cluster::{Autoscaler, TICK_SECONDS};
use super::effect::{self, Fate, Template};
use super::engine::Engine;
use super::fault::{ErrorStatus, Fault};
use super::gpu::Gpu;
use super::pod::Pod;
use super::spec::{FleetSpec, Routing};
use super::stats::EngineStats;
use super::workload::{self, Bend, Wander};

/// A deployment of replicas behind a router, at one point in time.
///
/// The same spec, seed, start and faults at the same times give the same bytes.
#[derive(Debug)]
pub struct Fleet {
    pub(super) spec: FleetSpec,
    pub(super) seed: u64,
    pub(super) now: f64,
    next_arrival: f64,
    next_tick: f64,
    rng: StdRng,
    /// For what was added to the arrivals since, so that they stay what they were.
    pub(super) dice: SmallRng,
    pub(super) wander: Wander,
    pub(super) replicas: Vec<Replica>,
    pub(super) faults: Vec<Fault>,
    /// When each of them began, and when the next ends by itself.
    pub(super) begun: Vec<f64>,
    pub(super) faults_end: f64,
    pub(super) bend: Bend,
    pub(super) template: Template,
    pub(super) generation: u64,
    pub(super) scaled: usize,
    pub(super) scalings: u64,
    pub(super) autoscaler: Autoscaler,
    next_turn: usize,
    weights: Vec<f64>,
    pub(super) ended: Ended,
    /// Of engines that are gone, for a gateway.
    pub(super) events: Vec<door::Event>,
    /// Its place among the fleets of a site, on which its addresses depend.
    pub(super) number: usize,
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
    /// What its pod was made from.
    pub(super) template: Template,
    pub(super) fate: Fate,
    /// Share of its requests that it answers 5xx.
    pub(super) refusals: f64,
    pub(super) ready_since: f64,
    pub(super) starts: u64,
    pub(super) router_knows_at: f64,
    turn_credit: f64,
    /// Busy and prefill seconds, tokens, and bytes to and from host memory of the engine at the last look.
    pub(super) seen: (f64, f64, u64, f64),
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
        let replicas = (0..spec.replicas).map(|i| Replica::new(&spec, i)).collect();
        let mut fleet = Self {
            seed,
            now: start,
            next_arrival: start,
            next_tick: start + TICK_SECONDS,
            rng: StdRng::seed_from_u64(seed),
            dice: SmallRng::seed_from_u64(seed ^ 0x6469_6365),
            wander: Wander::new(),
            replicas,
            faults: Vec::new(),
            begun: Vec::new(),
            faults_end: f64::INFINITY,
            bend: Bend::NONE,
            template: effect::template(&spec, &[]),
            generation: 1,
            scaled: spec.replicas,
            scalings: 0,
            autoscaler: Autoscaler::new(spec.replicas, start),
            next_turn: 0,
            weights: Vec::new(),
            ended: Ended::default(),
            events: Vec::new(),
            number: 0,
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
    /// Errors if it names a replica or a node that the fleet does not have, or if the spec lacks what it spoils.
    pub fn inject(&mut self, fault: Fault) -> Result<()> {
        let last = self.replicas.len() - 1;
        if let Some(replica) = fault.replica() {
            ensure!(replica <= last, "fault `{fault}`: the fleet has replicas 0 to {last}");
        }
        if let Fault::NodeDown { node } = fault {
            ensure!(node <= self.node_of(last), "fault `{fault}`: the fleet has nodes 0 to {}", self.node_of(last));
        }
        if let Some(missing) = effect::missing_for(&self.spec, &fault) {
            bail!("fault `{fault}`: the fleet cannot have it: {missing}");
        }
        self.drop_faults(|old| (old.name(), old.replica()) == (fault.name(), fault.replica()));
        self.faults.push(fault);
        self.begun.push(self.now);
        self.begin(fault);
        self.apply_faults();
        Ok(())
    }

    /// Ends all faults with the name of `fault`, whatever their parameters.
    pub fn clear(&mut self, fault: Fault) {
        self.drop_faults(|old| old.name() == fault.name());
        self.apply_faults();
    }

    /// Ends all faults.
    pub fn clear_all(&mut self) {
        self.drop_faults(|_| true);
        self.apply_faults();
    }

    pub(super) fn drop_faults(&mut self, drops: impl Fn(&Fault) -> bool) {
        let mut begun = std::mem::take(&mut self.begun).into_iter();
        let mut kept = Vec::new();
        self.faults.retain(|fault| {
            let begun = begun.next();
            let keeps = !drops(fault);
            kept.extend(begun.filter(|_| keeps));
            keeps
        });
        self.begun = kept;
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
                let rate = rate * self.wander.factor(&self.spec.unrest, self.now);
                self.next_arrival += workload::next_gap(&mut self.rng, rate);
            }
        }
        self.now = self.now.max(t);
        for engine in self.replicas.iter_mut().filter_map(|replica| replica.engine.as_mut()) {
            engine.advance_to(self.now);
        }
    }

    fn arrive(&mut self) {
        let request = workload::draw(&mut self.rng, &mut self.dice, &self.spec, &self.bend, self.now);
        if let Some(most) = self.spec.concurrency {
            for engine in self.replicas.iter_mut().filter_map(|replica| replica.engine.as_mut()) {
                engine.advance_to(self.now);
            }
            if self.in_flight() >= most {
                return;
            }
        }
        self.hand_over();
        let Some(i) = self.route(true) else {
            self.ended.arrived += 1;
            self.ended.refused += 1;
            return;
        };
        // Without a gateway nobody tries again.
        self.submit(i, request).ok();
    }

    /// Sends the requests whose prompts are computed on to the replicas that decode.
    pub(super) fn hand_over(&mut self) {
        for i in 0..self.spec.prefill_replicas {
            let Some(engine) = self.replicas[i].engine.as_mut() else { continue };
            engine.advance_to(self.now);
            for request in std::mem::take(&mut engine.handed_over) {
                if let Some(decodes) = self.route(false) {
                    self.submit(decodes, request).ok();
                }
            }
        }
    }

    /// The replica for the next request, `None` if the router knows of none that is up; where some compute prompts for
    /// the others, one of those when it is `new`.
    fn route(&mut self, new: bool) -> Option<usize> {
        let n = self.replicas.len();
        let prefill = self.spec.prefill_replicas;
        let meant = |i: usize| prefill == 0 || (i < prefill) == new;
        let mut weights = std::mem::take(&mut self.weights);
        weights.clear();
        weights.extend((0..n).map(|i| if meant(i) { self.weight(i) } else { 0.0 }));
        let chosen = self.choose(&weights);
        self.weights = weights;
        chosen
    }

    fn choose(&mut self, weights: &[f64]) -> Option<usize> {
        let n = weights.len();
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
            Fault::EngineAsleep { replica } if replica == i => 0.0,
            Fault::RanksUneven { factor } if i.is_multiple_of(self.spec.ranks) => factor,
            _ => 1.0,
        });
        base * skew.product::<f64>()
    }
}

impl Replica {
    pub(super) fn new(spec: &FleetSpec, i: usize) -> Self {
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
            template: effect::template(spec, &[]),
            fate: Fate::Lives,
            refusals: 0.0,
            ready_since: 0.0,
            starts: 0,
            router_knows_at: 0.0,
            turn_credit: 0.0,
            seen: (0.0, 0.0, 0, 0.0),
        }
    }

    /// The numbers of its engine, `None` while it is down.
    pub fn stats(&self) -> Option<&EngineStats> {
        self.engine.as_ref().map(|engine| &engine.stats)
    }
}

fn reject(engine: &mut Engine, status: ErrorStatus) {
    match status {
        ErrorStatus::Client => engine.stats.http_4xx += 1,
        ErrorStatus::Server => engine.stats.http_5xx += 1,
    }
}

pub(super) fn count_ended(ended: &mut Ended, stats: &EngineStats) {
    ended.finished += stats.finished_stop + stats.finished_length + stats.finished_error;
    ended.aborted += stats.aborted;
    ended.rejected += stats.http_4xx + stats.http_5xx;
}
