//! Fleets and the gateway in front of them on one virtual clock.

use anyhow::{Result, ensure};

use super::super::exposition::{self, Family, Numbers};
use super::super::fault::Fault;
use super::super::fleet::Fleet;
use super::super::spec::FleetSpec;
use super::super::target::{Scraped, Target, TargetKind};
use super::core::{Due, Gateway};
use super::fault::GatewayFault;
use super::ledger::Ledger;
use super::spec::{GatewayKind, GatewaySpec};
use super::{page_dynamo, page_epp, page_litellm, page_smg};

/// Seconds between the gateway's looks at what its backends answered.
const TICK_SECONDS: f64 = 0.1;

/// One gateway and the fleets behind it, one model each.
///
/// The same specs, seed, start and faults at the same times give the same bytes.
#[derive(Debug)]
pub struct Site {
    fleets: Vec<Fleet>,
    pub(super) gateway: Gateway,
    start: f64,
    now: f64,
    ticks: u64,
}

impl Site {
    /// An idle site at `start` (unix seconds); errors if a spec cannot work.
    pub fn new(spec: GatewaySpec, specs: Vec<FleetSpec>, seed: u64, start: f64) -> Result<Self> {
        spec.validate()?;
        ensure!(!specs.is_empty(), "a site needs at least one fleet");
        let patience = specs.iter().map(|spec| spec.workload.read_timeout_seconds).collect();
        let mut fleets = Vec::with_capacity(specs.len());
        for (i, mut fleet_spec) in specs.into_iter().enumerate() {
            // Whoever of the two gives up first closes the connection that the engine sees.
            let workload = &mut fleet_spec.workload;
            let least = workload.read_timeout_seconds.unwrap_or(f64::INFINITY).min(spec.timeout_seconds);
            workload.read_timeout_seconds = Some(least);
            let mut fleet = Fleet::new(fleet_spec, seed.wrapping_add(i as u64), start)?;
            fleet.leave_arrivals_to_gateway();
            if i > 0 {
                fleet.relocate(i);
            }
            fleets.push(fleet);
        }
        let mut gateway = Gateway::new(spec, &fleets, patience, seed, start);
        for i in 0..fleets.len() {
            gateway.schedule(start, Due::Arrival(i));
        }
        Ok(Self { fleets, gateway, start, now: start, ticks: 0 })
    }

    /// The fleets, in the order of their specs.
    pub fn fleets(&self) -> &[Fleet] {
        &self.fleets
    }

    /// A fleet, to inject faults into or end them.
    ///
    /// Faults of the fleet's own router have no effect: requests come where the gateway sends them.
    pub fn fleet_mut(&mut self, index: usize) -> Option<&mut Fleet> {
        self.fleets.get_mut(index)
    }

    /// What the gateway counted.
    pub fn ledger(&self) -> &Ledger {
        &self.gateway.ledger
    }

    /// Requests inside the gateway.
    pub fn in_flight(&self) -> u64 {
        self.gateway.flows.len() as u64
    }

    /// The time it has advanced to, in unix seconds.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// The gateway's faults that are active.
    pub fn faults(&self) -> &[GatewayFault] {
        &self.gateway.faults
    }

    /// Starts a fault now, in place of one of the same name.
    ///
    /// Errors if it names a key or replica that is not there, or what this gateway cannot do.
    pub fn inject(&mut self, fault: GatewayFault) -> Result<()> {
        let dynamo = self.gateway.spec.kind == GatewayKind::Dynamo;
        let by_key = matches!(fault, GatewayFault::AuthMisconfigured { .. } | GatewayFault::RateLimited { .. });
        ensure!(!(dynamo && by_key), "gateway fault `{fault}`: this gateway has no keys");
        if let GatewayFault::AuthMisconfigured { key: Some(key), .. }
        | GatewayFault::RateLimited { key: Some(key), .. } = fault
        {
            let last = self.gateway.spec.keys.len() - 1;
            ensure!(key <= last, "gateway fault `{fault}`: the gateway has keys 0 to {last}");
        }
        if let GatewayFault::BackendUnreachable { replica: Some(replica) }
        | GatewayFault::BackendTimeout { replica: Some(replica), .. }
        | GatewayFault::BlindScorer { replica, .. } = fault
        {
            let most = self.fleets.iter().map(|fleet| fleet.replicas().len()).max().unwrap_or(0);
            ensure!(replica < most, "gateway fault `{fault}`: the fleets have replicas 0 to {}", most - 1);
        }
        self.clear(fault);
        self.gateway.faults.push(fault);
        if let GatewayFault::BackendTimeout { replica, slowdown } = fault {
            for fleet in &mut self.fleets {
                for i in (0..fleet.replicas().len()).filter(|i| replica.is_none_or(|replica| replica == *i)) {
                    fleet.inject(Fault::BadReplica { replica: i, slowdown })?;
                }
            }
        }
        Ok(())
    }

    /// Ends the fault with the name of `fault`, whatever its parameters.
    pub fn clear(&mut self, fault: GatewayFault) {
        let before = self.gateway.faults.len();
        self.gateway.faults.retain(|old| old.name() != fault.name());
        self.gateway.forget_callout();
        if self.gateway.faults.len() < before
            && let GatewayFault::BackendTimeout { .. } = fault
        {
            for fleet in &mut self.fleets {
                fleet.clear(Fault::BadReplica { replica: 0, slowdown: 1.0 });
            }
        }
    }

    /// Ends all faults of the gateway; those of the fleets stay.
    pub fn clear_all(&mut self) {
        for fault in GatewayFault::ALL {
            self.clear(fault);
        }
    }

    /// Simulates up to `t` (unix seconds); a time in the past changes nothing.
    pub fn advance_to(&mut self, t: f64) {
        loop {
            let tick = self.start + (self.ticks + 1) as f64 * TICK_SECONDS;
            let next = self.gateway.next_at();
            if tick.min(next) > t {
                break;
            }
            if tick <= next {
                self.ticks += 1;
                self.listen(tick);
            } else if let Some((at, due)) = self.gateway.next_due() {
                self.act(at, due);
            }
        }
        self.now = self.now.max(t);
        for fleet in &mut self.fleets {
            fleet.advance_to(self.now);
        }
    }

    /// Takes in what happened inside the engines.
    fn listen(&mut self, now: f64) {
        self.gateway.follow_load(now);
        for (i, fleet) in self.fleets.iter_mut().enumerate() {
            fleet.advance_to(now);
            self.gateway.notice(fleet, i, now);
            for event in fleet.take_events() {
                self.gateway.hear(event, now);
            }
        }
    }

    fn act(&mut self, now: f64, due: Due) {
        match due {
            Due::Arrival(i) => {
                let (request, gap) = self.fleets[i].draw(now);
                self.gateway.schedule(now + gap, Due::Arrival(i));
                let most = self.fleets[i].spec().concurrency;
                let open = || self.gateway.flows.values().filter(|flow| flow.fleet == i).count() as u64;
                if most.is_none_or(|most| open() < most) {
                    self.gateway.arrive(i, request, now);
                }
            }
            Due::Send(ticket) => {
                self.bring_fleet(ticket, now);
                self.gateway.send(&mut self.fleets, ticket, now);
            }
            Due::Silence(ticket) => {
                self.bring_fleet(ticket, now);
                self.gateway.check_silence(&self.fleets, ticket, now);
            }
            Due::Leave(ticket) => self.gateway.leave(ticket, now),
        }
    }

    /// Advances the fleet that a request is for to `now`.
    fn bring_fleet(&mut self, ticket: u64, now: f64) {
        if let Some(flow) = self.gateway.flows.get(&ticket) {
            self.fleets[flow.fleet].advance_to(now);
        }
    }

    /// The gateway's page in the Prometheus text format.
    pub fn gateway_page(&self) -> String {
        exposition::text(&self.gateway_families(), self.gateway_numbers())
    }

    fn gateway_families(&self) -> Vec<Family> {
        match self.gateway.spec.kind {
            GatewayKind::LiteLlm => page_litellm::families(&self.gateway, &self.fleets, self.now),
            GatewayKind::Dynamo => page_dynamo::families(&self.gateway, &self.fleets, self.now),
            GatewayKind::Epp => {
                let mut page = page_epp::families(&self.gateway, &self.fleets, page_epp::Names::LlmD);
                page.extend(page_epp::families(&self.gateway, &self.fleets, page_epp::Names::Objective));
                page
            }
            GatewayKind::EppObjective => page_epp::families(&self.gateway, &self.fleets, page_epp::Names::Objective),
            GatewayKind::Smg => page_smg::families(&self.gateway, &self.fleets, self.now),
        }
    }

    fn gateway_numbers(&self) -> Numbers {
        match self.gateway.spec.kind {
            GatewayKind::LiteLlm => Numbers::Python,
            _ => Numbers::Go,
        }
    }
}

impl Scraped for Site {
    fn now(&self) -> f64 {
        self.now
    }

    fn advance_to(&mut self, t: f64) {
        self.advance_to(t);
    }

    fn targets(&self) -> Vec<Target> {
        let (job, port, name) = self.gateway.spec.kind.job();
        let labels = [&self.gateway.spec.namespace, &format!("{name}-0"), name];
        let mut targets = vec![Target::new(TargetKind::Gateway, job, "10.42.210.10", port, labels, false)];
        let mut state_seen = false;
        for (i, fleet) in self.fleets.iter().enumerate() {
            for mut target in fleet.targets() {
                // The cluster has one kube-state-metrics for all.
                let state = target.kind == TargetKind::KubeStateMetrics;
                if !(state && state_seen) {
                    state_seen |= state;
                    target.fleet = i;
                    targets.push(target);
                }
            }
        }
        for (i, target) in targets.iter_mut().enumerate() {
            target.path = format!("/targets/{i}/metrics");
        }
        targets
    }

    fn families(&self, target: &Target) -> Option<Vec<Family>> {
        let fleet = self.fleets.get(target.fleet)?;
        match target.kind {
            TargetKind::Gateway => Some(self.gateway_families()),
            TargetKind::KubeStateMetrics => {
                let with_state = self.fleets.iter().filter(|fleet| fleet.spec().kube_state_metrics);
                let pages: Option<Vec<_>> = with_state.map(|fleet| fleet.families(target)).collect();
                Some(joined(pages?.into_iter()))
            }
            TargetKind::Serving(i) if self.gateway.spec.kind == GatewayKind::Dynamo => {
                let mut page = fleet.families(target)?;
                page.extend(page_dynamo::worker(fleet, target.fleet, i, self.now)?);
                Some(page)
            }
            _ => fleet.families(target),
        }
    }

    fn numbers(&self, target: &Target) -> Numbers {
        match self.fleets.get(target.fleet) {
            Some(fleet) if target.kind != TargetKind::Gateway => fleet.numbers(target),
            _ => self.gateway_numbers(),
        }
    }
}

/// Pages as one, with the samples of a family together.
fn joined(pages: impl Iterator<Item = Vec<Family>>) -> Vec<Family> {
    let mut all: Vec<Family> = Vec::new();
    for family in pages.flatten() {
        match all.iter_mut().find(|old| old.name == family.name) {
            Some(old) => old.samples.extend(family.samples),
            None => all.push(family),
        }
    }
    all
}
