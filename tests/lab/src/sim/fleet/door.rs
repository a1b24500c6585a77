//! The side door of a fleet: a gateway submits each request to the replica it chose and hears how it went.

use super::super::fault::{ErrorStatus, Fault};
use super::super::workload::{self, Request};
use super::{Fleet, Replica, reject};

/// What happened to a request that came with a ticket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// The ticket.
    pub ticket: u64,
    /// Unix seconds.
    pub at: f64,
    /// What.
    pub what: Happening,
}

/// The turns in a request's life inside an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// The API server had its first token.
    FirstToken,
    /// Its last token was sampled.
    Finished,
    /// It ended with an error inside the engine, behind a status of 200.
    Failed,
    /// Nobody heard of it for the read timeout, so the engine dropped it.
    Abandoned,
    /// It died with its engine.
    Lost,
}

/// Why a replica did not take a request in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing listens there.
    Unreachable,
    /// It answered with an error at once.
    Status(ErrorStatus),
}

impl Fleet {
    /// Shuts the front door: from now on requests come by [`Fleet::submit`] only.
    pub(in super::super) fn leave_arrivals_to_gateway(&mut self) {
        self.next_arrival = f64::INFINITY;
    }

    /// The request that the clients send at `now`, and the seconds to their next one.
    pub(in super::super) fn draw(&mut self, now: f64) -> (Request, f64) {
        let request = workload::draw(&mut self.rng, &mut self.dice, &self.spec, &self.bend, now);
        let rate = workload::rate(&self.spec, &self.bend, now) * self.wander.factor(&self.spec.unrest, now);
        (request, workload::next_gap(&mut self.rng, rate))
    }

    /// Hands a request to a replica at the fleet's present; events will carry its ticket.
    pub(in super::super) fn submit(&mut self, replica: usize, request: Request) -> Result<(), Refusal> {
        self.ended.arrived += 1;
        let status = self.faults.iter().find_map(|fault| match fault {
            Fault::ClientErrors { status, .. } => Some(*status),
            _ => None,
        });
        let status = status.filter(|_| request.refused);
        let (refusals, engine) = match self.replicas.get_mut(replica) {
            Some(replica) => {
                replica.sent += 1;
                (replica.refusals, replica.engine.as_mut())
            }
            None => (0.0, None),
        };
        let Some(engine) = engine else {
            self.ended.refused += 1;
            return Err(Refusal::Unreachable);
        };
        engine.advance_to(self.now);
        let status = status.or((request.luck.status < refusals).then_some(ErrorStatus::Server));
        if let Some(status) = status {
            reject(engine, status);
            return Err(Refusal::Status(status));
        }
        engine.enqueue(Request { arrived: self.now, ..request });
        Ok(())
    }

    /// What happened to requests with tickets since the last call and up to the present, in order of time.
    pub(in super::super) fn take_events(&mut self) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.events);
        for engine in self.replicas.iter_mut().filter_map(|replica| replica.engine.as_mut()) {
            events.append(&mut engine.events);
        }
        events.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.ticket.cmp(&b.ticket)));
        // What the API server has not sent yet is heard later.
        self.events = events.split_off(events.partition_point(|event| event.at <= self.now));
        events
    }

    /// Events that nobody has taken yet.
    #[cfg(test)]
    pub(in super::super) fn unheard(&self) -> usize {
        let engines = self.replicas.iter().filter_map(|replica| replica.engine.as_ref());
        self.events.len() + engines.map(|engine| engine.events.len()).sum::<usize>()
    }

    /// Moves its pods and nodes to addresses of their own, so that several fleets fit into one cluster.
    pub(in super::super) fn relocate(&mut self, number: usize) {
        self.number = number;
        for (i, replica) in self.replicas.iter_mut().enumerate() {
            replica.relocate(number, i / self.spec.gpus_per_node, i);
        }
    }
}

impl Replica {
    /// Moves its pod and its node to the addresses that the fleet of that number has; the first keeps what it has.
    pub(in super::super) fn relocate(&mut self, number: usize, node: usize, i: usize) {
        if number > 0 {
            let pod = &mut self.pod;
            pod.uid.replace_range(9..13, &format!("{:04x}", 0x7d3e + number));
            pod.node = format!("gpu-node-{number}-{node}");
            pod.host_ip = format!("10.0.{number}.{}", 10 + node);
            pod.ip = format!("10.{}.{}.{}", 42 + number, i / 200, 10 + i % 200);
        }
    }

    /// When its engine ended its last step, in unix seconds; `None` while it is down.
    pub(in super::super) fn last_step(&self) -> Option<f64> {
        self.engine.as_ref().map(super::Engine::last_step)
    }
}
