//! What Kubernetes does to a fleet: pods that start, end, are replaced and scaled; nodes that go.

use super::effect::{self, Fate, Image, OnReplica};
use super::engine::Engine;
use super::fault::{Fault, Page};
use super::fleet::{Fleet, Replica, count_ended};
use super::pod::PodState;
use super::spec::EngineSpec;
use super::target::TargetKind;

/// Seconds between looks at pods and GPUs.
pub(super) const TICK_SECONDS: f64 = 1.0;
/// The autoscaler's own: how often it looks, and how long it waits before it takes replicas away
/// (https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/).
const AUTOSCALE_SECONDS: f64 = 15.0;
const SCALE_DOWN_SECONDS: f64 = 300.0;
const TOLERANCE: f64 = 0.1;
/// Seconds from the start of a model's load to its failure.
const LOAD_FAILS_SECONDS: f64 = 20.0;

/// What the autoscaler has in mind.
#[derive(Debug)]
pub(super) struct Autoscaler {
    pub desired: usize,
    next_look: f64,
    /// The most that was wanted, and until when that holds against fewer.
    recent: Vec<(f64, usize)>,
}

impl Autoscaler {
    pub fn new(replicas: usize, now: f64) -> Self {
        Self { desired: replicas, next_look: now + AUTOSCALE_SECONDS, recent: Vec::new() }
    }
}

impl Fleet {
    /// Replicas that the Deployment asks for.
    pub fn wanted(&self) -> usize {
        let asked = match self.spec.autoscale_target {
            Some(_) => self.autoscaler.desired,
            None => self.spec.replicas,
        };
        let mut wanted = asked as i64;
        for fault in &self.faults {
            match *fault {
                Fault::ScaleUp { by } | Fault::Unschedulable { by } => wanted += by as i64,
                Fault::ScaleDown { by } => wanted -= by as i64,
                _ => {}
            }
        }
        wanted.max(0) as usize
    }

    /// Replicas that the autoscaler asks for.
    pub fn desired(&self) -> usize {
        let (least, most) = self.spec.autoscaler;
        match self.spec.autoscale_target {
            Some(_) => self.autoscaler.desired,
            None => self.spec.replicas.clamp(least, most.max(least)),
        }
    }

    /// Rollouts and scalings: what `metadata.generation` counts.
    pub fn metadata_generation(&self) -> u64 {
        self.generation + self.scalings
    }

    /// The node of the replica with this index.
    pub(super) fn node_of(&self, replica: usize) -> usize {
        replica / self.spec.gpus_per_node
    }

    /// Whether the node of this index answers.
    pub fn node_is_up(&self, node: usize) -> bool {
        !self.faults.iter().any(|fault| matches!(fault, Fault::NodeDown { node: lost } if *lost == node))
    }

    /// Whether the page of a target is lost on its way; `None` when it is not.
    pub(super) fn missing_page(&self, kind: TargetKind) -> Option<Page> {
        self.faults.iter().find_map(|fault| {
            let Fault::MetricsMissing { replica, page } = *fault else { return None };
            let hit = match (kind, page) {
                (TargetKind::Serving(i), Page::Server | Page::Stats) => replica.is_none_or(|replica| replica == i),
                (TargetKind::Dcgm(node) | TargetKind::NvidiaGpuExporter(node), Page::Gpu) => {
                    replica.is_none_or(|replica| self.node_of(replica) == node)
                }
                (TargetKind::KubeStateMetrics, Page::Kube) => true,
                _ => false,
            };
            hit.then_some(page)
        })
    }

    /// Looks after pods, the rollout and the GPUs.
    pub(super) fn tick(&mut self) {
        self.wander.advance(&mut self.dice, &self.spec.unrest, self.now, TICK_SECONDS);
        let now = self.now;
        for i in 0..self.replicas.len() {
            if let Some(engine) = &mut self.replicas[i].engine {
                engine.advance_to(now);
            }
            self.replicas[i].look(now);
            if self.replicas[i].pod.advance_to(now) {
                self.start_engine(i);
            }
        }
        if self.faults_end <= now {
            let over = self
                .begun
                .iter()
                .zip(&self.faults)
                .filter(|(begun, fault)| matches!(fault, Fault::Blip { seconds, .. } if *begun + seconds <= now));
            let over: Vec<Fault> = over.map(|(_, fault)| *fault).collect();
            self.drop_faults(|fault| over.contains(fault));
            self.apply_faults();
        }
        self.kill_for_memory();
        self.hand_over();
        if self.spec.autoscale_target.is_some() && now >= self.autoscaler.next_look {
            self.autoscale();
        }
        self.roll_out();
    }

    /// Requests in flight per ready replica against the target, as the autoscaler's documentation has it.
    fn autoscale(&mut self) {
        self.autoscaler.next_look = self.now + AUTOSCALE_SECONDS;
        let Some(target) = self.spec.autoscale_target else { return };
        let ready = self.replicas.iter().filter(|replica| replica.pod.is_ready()).count().max(1);
        let per_replica = self.in_flight() as f64 / ready as f64;
        let ratio = per_replica / target;
        let (least, most) = self.spec.autoscaler;
        let current = self.autoscaler.desired;
        let proposed = if (ratio - 1.0).abs() <= TOLERANCE {
            current
        } else {
            ((ready as f64 * ratio).ceil() as usize).min((2 * current).max(current + 4)).clamp(least, most.max(least))
        };
        let now = self.now;
        self.autoscaler.recent.retain(|(at, _)| at + SCALE_DOWN_SECONDS > now);
        self.autoscaler.recent.push((now, proposed));
        let highest = self.autoscaler.recent.iter().map(|(_, proposed)| *proposed).max();
        self.autoscaler.desired = proposed.max(highest.unwrap_or(proposed).min(current));
        self.scale();
    }

    /// Makes as many pods as are wanted, and takes away those above.
    pub(super) fn scale(&mut self) {
        let wanted = self.wanted();
        if wanted != self.scaled {
            self.scaled = wanted;
            self.scalings += 1;
        }
        let homeless: usize = self
            .faults
            .iter()
            .map(|fault| match *fault {
                Fault::Unschedulable { by } => by,
                _ => 0,
            })
            .sum();
        let placed = wanted.saturating_sub(homeless);
        while self.replicas.len() < wanted {
            let i = self.replicas.len();
            let mut replica = Replica::new(&self.spec, i);
            replica.relocate(self.number, self.node_of(i), i);
            replica.pod.state = PodState::Gone;
            replica.template = self.template.clone();
            self.replicas.push(replica);
        }
        for i in 0..self.replicas.len() {
            let exists = self.replicas[i].pod.exists();
            let homeless = self.replicas[i].pod.state == PodState::Unschedulable;
            if i >= wanted {
                if exists {
                    self.stop_engine(i);
                    self.replicas[i].router_knows_at = self.now;
                    self.replicas[i].pod.state = PodState::Gone;
                }
            } else if i >= placed {
                if !exists {
                    self.create(i);
                    self.replicas[i].pod.state = PodState::Unschedulable;
                }
            } else if !exists || homeless {
                self.create(i);
            }
        }
    }

    /// A pod of the present template, on its way.
    fn create(&mut self, i: usize) {
        let replica = &mut self.replicas[i];
        replica.router_knows_at = self.now;
        replica.template = self.template.clone();
        replica.pod.replace(self.now, self.spec.startup_seconds, self.generation);
        replica.begin_template(self.now);
    }

    /// Replaces outdated pods, a quarter of the fleet at a time.
    fn roll_out(&mut self) {
        let generation = self.generation;
        let pods = || self.replicas.iter().map(|replica| &replica.pod).filter(|pod| pod.exists());
        let at_once = pods().count().div_ceil(4);
        let busy = pods().filter(|pod| pod.generation == generation && !pod.is_ready()).count();
        // A pod whose template never worked is in nobody's way and goes first.
        let failed = |replica: &Replica| replica.template.image != Image::Works && replica.fate == Fate::Lives;
        let outdated = |replica: &Replica| {
            (replica.pod.is_ready() || failed(replica)) && replica.pod.exists() && replica.pod.generation < generation
        };
        let next: Vec<usize> = (0..self.replicas.len())
            .filter(|&i| outdated(&self.replicas[i]))
            .take(at_once.saturating_sub(busy))
            .collect();
        for i in next {
            // Its endpoint is removed before the process is told to stop.
            self.stop_engine(i);
            self.create(i);
        }
    }

    pub(super) fn start_engine(&mut self, i: usize) {
        let works = self.template.image == Image::Works;
        let replica = &mut self.replicas[i];
        replica.starts += 1;
        if works {
            replica.pod.generation = self.generation;
            replica.template = self.template.clone();
        }
        replica.seen = (0.0, 0.0, 0, 0.0);
        // Each start of each replica has its own noise.
        let seed = self.seed ^ ((i as u64 + 1) << 32 | replica.starts);
        let timeout = self.spec.workload.read_timeout_seconds;
        let config = replica.template.engine.clone();
        let prefill_only = i < self.spec.prefill_replicas;
        let own = EngineSpec { prefill_only, ..self.spec.engine.clone() };
        let mut engine = Engine::new(&own, config, timeout, seed, self.now);
        self.spec.dialect.prepare(&mut engine.stats);
        let cold = self.faults.iter().find_map(|fault| match *fault {
            Fault::ColdStart { replica, slowdown, seconds } if replica.is_none_or(|replica| replica == i) => {
                Some((slowdown, seconds))
            }
            _ => None,
        });
        if let Some((slowdown, seconds)) = cold {
            engine.set_cold(slowdown, seconds);
        }
        replica.engine = Some(engine);
        replica.ready_since = self.now;
        self.apply_faults_to(i);
    }

    pub(super) fn stop_engine(&mut self, i: usize) {
        if let Some(mut engine) = self.replicas[i].engine.take() {
            engine.advance_to(self.now);
            count_ended(&mut self.ended, &engine.stats);
            self.ended.lost += engine.in_flight();
            self.events.append(&mut engine.into_events());
        }
    }

    /// The process of a ready replica ends now and is started again.
    fn restart(&mut self, i: usize, reason: &'static str, exit_code: u32) {
        if !self.replicas[i].pod.is_ready() {
            return;
        }
        self.stop_engine(i);
        let replica = &mut self.replicas[i];
        replica.router_knows_at = self.now + self.spec.router_delay_seconds;
        replica.pod.restart(self.now, self.spec.startup_seconds, reason, exit_code);
    }

    fn kill_for_memory(&mut self) {
        for at in 0..self.faults.len() {
            // An engine that dies by itself lets the server end in order: `vllm serve` exits with 0 then.
            let (replica, seconds, reason, exit_code) = match self.faults[at] {
                Fault::HostOom { replica, seconds } => (replica, seconds, "OOMKilled", 137),
                Fault::GpuOom { replica, seconds } => (replica, seconds, "Completed", 0),
                _ => continue,
            };
            let full = self.replicas[replica].ready_since.max(self.begun[at] - seconds) + seconds <= self.now;
            if full {
                self.restart(replica, reason, exit_code);
            }
        }
    }

    /// What happens once, when a fault begins.
    pub(super) fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Rollout {} => self.generation += 1,
            Fault::ColdStart { replica, .. } => {
                for i in (0..self.replicas.len()).filter(|i| replica.is_none_or(|replica| replica == *i)) {
                    // `vllm serve` ends with status 0 when it is told to.
                    self.restart(i, "Completed", 0);
                }
            }
            Fault::GpuHardwareFault { replica, xid, dies } => {
                self.replicas[replica].gpu.meet(xid);
                if dies && effect::is_survivable(xid) && effect::ends_process(xid) {
                    self.restart(replica, "Error", 1);
                }
            }
            _ => {}
        }
    }

    pub(super) fn apply_faults(&mut self) {
        self.bend = effect::bend(&self.faults);
        let ends = self.faults.iter().zip(&self.begun).map(|(fault, begun)| match fault {
            Fault::Blip { seconds, .. } => begun + seconds,
            _ => f64::INFINITY,
        });
        self.faults_end = ends.fold(f64::INFINITY, f64::min);
        let template = effect::template(&self.spec, &self.faults);
        if template != self.template {
            self.template = template;
            self.generation += 1;
        }
        self.scale();
        for i in 0..self.replicas.len() {
            let fate = effect::fate(&self.faults, i, self.node_of(i));
            let replica = &mut self.replicas[i];
            if fate != replica.fate && replica.pod.has_container() {
                replica.fate = fate;
                match fate {
                    Fate::Lives => {
                        replica.gpu.reset();
                        replica.pod.recover(self.now, self.spec.startup_seconds);
                        replica.begin_template(self.now);
                    }
                    Fate::Crashes | Fate::NodeLost => {
                        self.stop_engine(i);
                        let replica = &mut self.replicas[i];
                        replica.router_knows_at = self.now + self.spec.router_delay_seconds;
                        match fate {
                            Fate::NodeLost => replica.pod.state = PodState::NodeLost,
                            Fate::Lives | Fate::Crashes => replica.pod.crash(self.now),
                        }
                    }
                }
            }
            self.apply_faults_to(i);
        }
    }

    fn apply_faults_to(&mut self, i: usize) {
        let on: OnReplica = effect::on_replica(&self.faults, i);
        let replica = &mut self.replicas[i];
        replica.gpu.throttle = on.throttle;
        replica.gpu.link = on.link;
        replica.gpu.shared = on.gpu_shared;
        replica.refusals = on.refusals;
        if let Some(engine) = &mut replica.engine {
            engine.set(on);
        }
    }
}

impl Replica {
    /// What a pod that has just been made does, by its image.
    fn begin_template(&mut self, now: f64) {
        match self.template.image {
            Image::Works => {}
            Image::FailsToLoad => self.pod.doom(now + LOAD_FAILS_SECONDS),
            Image::Missing => self.pod.wait_for_image(now),
        }
    }

    /// The GPU's and the container's counters follow what the engine did in the last second.
    fn look(&mut self, now: f64) {
        let seen = self.engine.as_ref().map_or((0.0, 0.0, 0, 0.0), |engine| {
            let stats = &engine.stats;
            let (loaded, stored) = stats.offloaded;
            (stats.busy_seconds, stats.prefill_seconds, stats.computed_tokens, loaded + stored)
        });
        let busy = (seen.0 - self.seen.0).max(0.0);
        self.gpu.advance(TICK_SECONDS, busy, (seen.1 - self.seen.1).max(0.0));
        let host = (seen.3 - self.seen.3).max(0.0);
        self.gpu.exchange(TICK_SECONDS, seen.2.saturating_sub(self.seen.2) as f64, busy, host);
        self.seen = seen;
        if let Some(engine) = &mut self.engine {
            engine.look(now, TICK_SECONDS, busy);
        }
    }
}
