//! The way of one request through the gateway: let in, checked, sent on, waited for, counted.

use super::super::fault::ErrorStatus;
use super::super::fleet::Fleet;
use super::super::fleet::door::{Event, Happening, Refusal};
use super::super::workload::{Luck, Request};
use super::backend::{Backend, beyond};
use super::core::{Due, Gateway};
use super::fault::{GatewayFault, LimitScope};
use super::ledger::{Outcome, Row};
use super::spec::GatewayKind;

/// A request inside the gateway. Times are unix seconds.
#[derive(Debug)]
pub struct Flow {
    /// Index of the fleet.
    pub fleet: usize,
    /// Index of the key.
    pub key: usize,
    /// As its client sent it.
    pub request: Request,
    /// When it came.
    pub arrived: f64,
    /// Seconds it waited for the gateway's own slots.
    pub queue: f64,
    /// Seconds of a call to something else, its queue included.
    pub callout: f64,
    /// Tries made.
    pub tries: u32,
    /// Where it was sent last.
    pub replica: Option<usize>,
    /// When it was sent last.
    pub sent: f64,
    /// When its first token came.
    pub first_token: Option<f64>,
}

impl Gateway {
    /// A client's request comes to `fleet` at `now`.
    pub(super) fn arrive(&mut self, fleet: usize, request: Request, now: f64) {
        let (key, misrouted) = self.draw_client();
        *self.ledger.started.entry(fleet).or_default() += 1;
        let mut row = Row { fleet, key, replica: None, outcome: Outcome::UnknownModel };
        let wait = self.cpu.wait(now);
        if self.spec.most_queue_seconds.is_some_and(|most| wait > most) {
            return self.count(Row { outcome: Outcome::Overloaded, ..row });
        }
        if let Some(status) = self.auth_refusal(key) {
            // It names the deployment that it would have called.
            row.replica = Some(0);
            self.cpu.take(now, 0.2 * self.cost());
            return self.count(Row { outcome: Outcome::Unauthorized(status), ..row });
        }
        if self.is_beyond_limit(key, now) {
            self.cpu.take(now, 0.2 * self.cost());
            return self.count(Row { outcome: Outcome::KeyLimited, ..row });
        }
        if misrouted {
            self.cpu.take(now, 0.2 * self.cost());
            let all = self.misrouted_share() >= 1.0;
            let vanished = all && self.spec.kind == GatewayKind::Dynamo;
            row.outcome = if vanished { Outcome::Vanished } else { Outcome::UnknownModel };
            return self.count(row);
        }
        let ticket = self.next_ticket();
        let mut flow = Flow {
            fleet,
            key,
            request: Request { ticket, ..request },
            arrived: now,
            queue: wait,
            callout: 0.0,
            tries: 0,
            replica: None,
            sent: now,
            first_token: None,
        };
        let patience = self.patience(fleet).min(flow.request.leaves - now);
        if wait >= patience {
            // It leaves before its turn and costs nothing.
            self.schedule(now + patience, Due::Leave(ticket));
        } else {
            let ready = self.cpu.take(now, self.cost());
            match self.call_out(ready, now + patience) {
                Some(done) => {
                    flow.callout = done - ready;
                    self.schedule(done, Due::Send(ticket));
                }
                None => self.schedule(now + patience, Due::Leave(ticket)),
            }
        }
        self.flows.insert(ticket, flow);
    }

    /// Its client goes away while the gateway still has it.
    pub(super) fn leave(&mut self, ticket: u64, now: f64) {
        self.end(ticket, Outcome::ClientGone, now);
    }

    /// Sends a request on, the first time or again; the fleet has advanced to `now`.
    pub(super) fn send(&mut self, fleets: &mut [Fleet], ticket: u64, now: f64) {
        let Some(flow) = self.flows.get(&ticket) else { return };
        let fleet = flow.fleet;
        self.notice(&fleets[fleet], fleet, now);
        let replica = match self.pick(fleet, now) {
            Ok(replica) => replica,
            Err(outcome) => return self.end(ticket, outcome, now),
        };
        let unreachable = self.is_unreachable(replica);
        let limit = self.backend_limit();
        let backend = &mut self.backends[fleet][replica];
        backend.in_flight += 1;
        let limited = limit.is_some_and(|rpm| backend.beyond(now, rpm));
        let Some(flow) = self.flows.get_mut(&ticket) else { return };
        flow.replica = Some(replica);
        flow.sent = now;
        flow.tries += 1;
        if flow.tries == 1 {
            let (before, callout) = (now - flow.arrived, flow.callout);
            let work = (before - flow.queue - callout).max(0.0);
            let sent = self.ledger.sent(fleet);
            sent.before.observe(before);
            sent.work.observe(work);
            sent.callout.observe(callout);
            sent.input.observe(f64::from(flow.request.prompt));
        }
        let mut request = flow.request.clone();
        if flow.tries > 1 {
            // What went wrong by chance may go well the next time.
            let (status, error) = self.draw_pair();
            request.luck = Luck { status, error, ..request.luck };
        }
        if unreachable {
            return self.fail(ticket, Outcome::ConnectFailed, now);
        }
        if limited {
            return self.fail(ticket, Outcome::BackendLimited, now);
        }
        match fleets[fleet].submit(replica, request) {
            Ok(()) => self.arm(ticket, now, fleets),
            Err(Refusal::Unreachable) => self.fail(ticket, Outcome::ConnectFailed, now),
            Err(Refusal::Status(ErrorStatus::Client)) => self.fail(ticket, Outcome::BackendRejected, now),
            Err(Refusal::Status(ErrorStatus::Server)) => self.fail(ticket, Outcome::BackendFailed, now),
        }
    }

    /// Looks whether a request has been silent for too long, for the gateway or for its client.
    pub(super) fn check_silence(&mut self, fleets: &[Fleet], ticket: u64, now: f64) {
        let Some((gateway, client)) = self.deadlines(ticket, fleets) else { return };
        if now >= client && client <= gateway {
            self.end(ticket, Outcome::ClientGone, now);
        } else if now >= gateway {
            self.fail(ticket, Outcome::TimedOut, now);
        } else {
            self.schedule(gateway.min(client), Due::Silence(ticket));
        }
    }

    fn arm(&mut self, ticket: u64, now: f64, fleets: &[Fleet]) {
        if let Some((gateway, client)) = self.deadlines(ticket, fleets) {
            self.schedule(gateway.min(client).max(now), Due::Silence(ticket));
        }
    }

    /// When the gateway and the client would give the request up, as things stand; `None` if it has ended.
    fn deadlines(&self, ticket: u64, fleets: &[Fleet]) -> Option<(f64, f64)> {
        let flow = self.flows.get(&ticket)?;
        let replica = &fleets[flow.fleet].replicas()[flow.replica?];
        let heard = flow.first_token.map(|first| replica.last_step().unwrap_or(first).max(first));
        let gateway = heard.unwrap_or(flow.sent) + self.spec.timeout_seconds;
        let client = (heard.unwrap_or(flow.arrived) + self.patience(flow.fleet)).min(flow.request.leaves);
        Some((gateway, client))
    }

    /// Takes in what happened to a request inside an engine; noticed at `now`.
    pub(super) fn hear(&mut self, event: Event, now: f64) {
        let Some(flow) = self.flows.get_mut(&event.ticket) else { return };
        match event.what {
            Happening::FirstToken => {
                flow.first_token = Some(event.at);
                let (fleet, seconds) = (flow.fleet, event.at - flow.arrived);
                self.ledger.sent(fleet).ttft.observe(seconds);
            }
            Happening::Finished => self.succeed(event.ticket, event.at),
            // An error event behind a status of 200: who only passes bytes on does not see it.
            Happening::Failed => match self.spec.kind {
                GatewayKind::LiteLlm | GatewayKind::Dynamo => self.fail(event.ticket, Outcome::BackendFailed, now),
                GatewayKind::Epp | GatewayKind::EppObjective | GatewayKind::Smg => {
                    self.succeed(event.ticket, event.at);
                }
            },
            Happening::Lost => self.fail(event.ticket, Outcome::Dropped, now),
            Happening::Abandoned => {
                let (fleet, left) = (flow.fleet, flow.request.leaves <= event.at);
                let own = !left && self.spec.timeout_seconds <= self.patience(fleet);
                if own {
                    self.fail(event.ticket, Outcome::TimedOut, now);
                } else {
                    self.end(event.ticket, Outcome::ClientGone, now);
                }
            }
        }
    }

    fn succeed(&mut self, ticket: u64, at: f64) {
        let Some(flow) = self.flows.get(&ticket) else { return };
        let (fleet, key) = (flow.fleet, flow.key);
        let Some(replica) = flow.replica else { return };
        let first = flow.first_token.unwrap_or(at);
        let gaps = u64::from(flow.request.output.saturating_sub(1));
        let gap = if gaps > 0 { (at - first) / gaps as f64 } else { 0.0 };
        let meter = self.ledger.meter(fleet, key, replica);
        meter.queue.observe(flow.queue);
        meter.overhead.observe((flow.sent - flow.arrived - flow.queue).max(0.0));
        meter.total.observe(at - flow.arrived);
        meter.backend.observe(at - flow.sent);
        meter.ttft.observe(first - flow.sent);
        meter.per_token.observe((at - flow.sent) / f64::from(flow.request.output.max(1)));
        meter.itl.observe_n(gap, gaps);
        meter.input.observe(f64::from(flow.request.prompt));
        meter.output.observe(f64::from(flow.request.output));
        meter.cached.observe(f64::from(flow.request.cached));
        let backend = &mut self.backends[fleet][replica];
        backend.judge(at, true);
        backend.last = (f64::from(flow.request.prompt), first - flow.sent, gap);
        *self.ledger.tries.entry(Row { fleet, key, replica: Some(replica), outcome: Outcome::Success }).or_default() +=
            1;
        self.end(ticket, Outcome::Success, at);
    }

    /// A try failed: cools the backend down, tries again or gives up.
    fn fail(&mut self, ticket: u64, outcome: Outcome, now: f64) {
        let Some(flow) = self.flows.get_mut(&ticket) else { return };
        let (fleet, key, streams) = (flow.fleet, flow.key, flow.first_token.is_some());
        let Some(replica) = flow.replica else { return };
        *self.ledger.tries.entry(Row { fleet, key, replica: Some(replica), outcome }).or_default() += 1;
        let others = self.backends[fleet].len() > 1;
        let backend = &mut self.backends[fleet][replica];
        // A status below 500 is the client's own fault and says nothing about the backend.
        let blamed = !matches!(outcome, Outcome::BackendRejected);
        let mostly = blamed && backend.judge(now, false);
        let at_once = outcome == Outcome::BackendLimited;
        if self.spec.kind == GatewayKind::LiteLlm && others && (mostly || at_once) && backend.cooled_until <= now {
            backend.cooled_until = now + self.spec.cooldown_seconds;
            *self.ledger.cooled.entry((fleet, replica, outcome)).or_default() += 1;
        }
        let retried = matches!(
            outcome,
            Outcome::ConnectFailed | Outcome::BackendFailed | Outcome::BackendLimited | Outcome::Dropped
        );
        if let Some(flow) = self.flows.get(&ticket)
            && retried
            && others
            && !streams
            && flow.tries <= self.spec.retries
        {
            self.backends[fleet][replica].in_flight -= 1;
            return self.schedule(now, Due::Send(ticket));
        }
        self.end(ticket, outcome, now);
    }

    fn end(&mut self, ticket: u64, outcome: Outcome, at: f64) {
        let Some(flow) = self.flows.remove(&ticket) else { return };
        if flow.tries > 0 {
            self.ledger.sent(flow.fleet).duration.observe(at - flow.arrived);
        }
        let row = Row { fleet: flow.fleet, key: flow.key, replica: flow.replica, outcome };
        // Without a backend to send it to, a request that is tried again has already given its place up.
        let holds = !matches!(outcome, Outcome::AllCooling | Outcome::NoBackends | Outcome::Vanished);
        if let Some(replica) = flow.replica.filter(|_| holds) {
            self.backends[flow.fleet][replica].in_flight -= 1;
        }
        self.count(row);
    }

    fn count(&mut self, row: Row) {
        *self.ledger.ended.entry(row).or_default() += 1;
    }

    /// Where the next request for `fleet` goes, or why nowhere.
    fn pick(&mut self, fleet: usize, now: f64) -> Result<usize, Outcome> {
        let known = |backend: &Backend| match self.spec.kind {
            GatewayKind::LiteLlm => backend.cooled_until <= now,
            GatewayKind::Dynamo | GatewayKind::Smg => !self.is_forgotten(backend, now),
            // An endpoint leaves the pool with its pod's readiness.
            GatewayKind::Epp | GatewayKind::EppObjective => backend.gone_since.is_none(),
        };
        let backends = &self.backends[fleet];
        let candidates: Vec<usize> = (0..backends.len()).filter(|&i| known(&backends[i])).collect();
        if candidates.is_empty() {
            return Err(match self.spec.kind {
                GatewayKind::LiteLlm => Outcome::AllCooling,
                GatewayKind::Dynamo => Outcome::Vanished,
                GatewayKind::Epp | GatewayKind::EppObjective | GatewayKind::Smg => Outcome::NoBackends,
            });
        }
        let blind = self.faults.iter().find_map(|fault| match *fault {
            GatewayFault::BlindScorer { replica, share } => Some((replica, share)),
            _ => None,
        });
        let (u, v) = self.draw_pair();
        if let Some((replica, share)) = blind
            && candidates.contains(&replica)
            && u < share
        {
            return Ok(replica);
        }
        let in_turn = ((v * candidates.len() as f64) as usize).min(candidates.len() - 1);
        if self.spec.kind == GatewayKind::LiteLlm {
            return Ok(candidates[in_turn]);
        }
        let backends = &self.backends[fleet];
        let turned = candidates[in_turn..].iter().chain(&candidates[..in_turn]);
        let least = turned.copied().min_by_key(|&i| backends[i].in_flight);
        least.ok_or(Outcome::NoBackends)
    }

    fn auth_refusal(&self, key: usize) -> Option<u16> {
        self.faults.iter().find_map(|fault| match *fault {
            GatewayFault::AuthMisconfigured { key: which, status } if which.is_none_or(|which| which == key) => {
                Some(status)
            }
            _ => None,
        })
    }

    fn is_beyond_limit(&mut self, key: usize, now: f64) -> bool {
        let rpm = self.faults.iter().find_map(|fault| match *fault {
            GatewayFault::RateLimited { scope: LimitScope::Key, key: which, rpm }
                if which.is_none_or(|which| which == key) =>
            {
                Some(rpm)
            }
            _ => None,
        });
        rpm.is_some_and(|rpm| beyond(&mut self.key_windows[key], now, rpm))
    }
}
