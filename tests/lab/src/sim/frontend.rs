//! The way of a request into the engine: API server, what defers it, and then the scheduler's queue.

use super::engine::Engine;
use super::sequence::{Ending, Sequence};
use super::spec::KvTransferSpec;
use super::workload::Request;

impl Engine {
    /// Takes a request in at its arrival, to which the engine must have advanced.
    pub fn enqueue(&mut self, mut request: Request) {
        self.stats.received += 1;
        let luck = request.luck;
        let mut ending = Ending::Normal;
        if luck.corrupted < self.config.corrupted_share {
            ending = Ending::Corrupted;
            request.output = request.limit;
            request.stops = false;
        } else if luck.error < self.on.errors {
            // Somewhere on its way.
            ending = Ending::Error;
            request.output = (f64::from(request.output) * luck.error / self.on.errors).ceil().max(1.0) as u32;
        }
        let whole = self.spec.prefill_only.then(|| Box::new(request.clone()));
        if whole.is_some() {
            (request.output, request.limit, request.max_tokens, request.stops) = (1, 1, 1, false);
        }
        let deadline = (request.arrived + self.read_timeout).min(request.leaves);
        self.next_deadline = self.next_deadline.min(deadline);
        let entered = self.serve(request.arrived, self.spec.frontend_seconds.0);
        let mut sequence = Sequence::new(request, entered);
        (sequence.ending, sequence.whole) = (ending, whole);
        if let Some(lora) = &self.spec.lora {
            let adapters = self.on.adapters.unwrap_or(lora.adapters);
            sequence.adapter = Some((luck.adapter * adapters as f64) as usize);
        }
        self.intake.arriving.push_back(sequence);
    }

    /// Counts what happened in the last `seconds` up to `now` for those who look from outside.
    pub fn look(&mut self, now: f64, seconds: f64, busy: f64) {
        let cores = self.cores();
        if self.spec.cpu_limit.is_some() {
            // The quota runs out while the API server has more to do than its part, or the engine polls on it.
            let wanted = if self.stats.api_until.0 > now { 1.0 } else { (busy / seconds).min(1.0) };
            self.stats.cfs_periods.0 += 10.0 * seconds;
            self.stats.cfs_periods.1 += if cores < 1.0 && self.is_throttled() { 10.0 * seconds * wanted } else { 0.0 };
        }
        if self.spec.lora.is_some() {
            let running = named(self.adapters.active());
            let waiting = named(self.waiting.iter().filter_map(|sequence| sequence.adapter));
            self.stats.set_lora(running, waiting, now);
        }
    }

    fn is_throttled(&self) -> bool {
        self.on.cpu_throttled || self.spec.cpu_limit.is_some_and(|limit| limit < 1.0)
    }

    /// Cores that the API server has.
    pub(super) fn cores(&self) -> f64 {
        self.on.cpu.min(self.spec.cpu_limit.unwrap_or(1.0)).min(1.0)
    }

    /// Gives the API server work that costs `seconds` of CPU when all is well; when it is done.
    pub(super) fn serve(&mut self, now: f64, seconds: f64) -> f64 {
        let work = seconds * self.on.frontend;
        let cores = self.cores();
        let done = self.intake.api.take(now, work / cores);
        self.stats.api_work += work;
        self.stats.api_until = (done, cores);
        done
    }

    /// KV bytes of a token, where it pulls them from those that compute prompts.
    pub(super) fn pulls(&self) -> Option<f64> {
        self.spec.kv_transfer.as_ref().filter(|_| !self.spec.prefill_only).map(|transfer| transfer.token_bytes)
    }

    /// How long a transfer of so many tokens takes that has the link for itself.
    pub(super) fn transfer_seconds(&self, tokens: u32) -> f64 {
        let alone = |spec: &KvTransferSpec| spec.base_seconds + spec.token_seconds * f64::from(tokens);
        self.spec.kv_transfer.as_ref().map_or(0.0, alone) * self.on.transfer.0
    }

    /// Takes what the API server has handed over, and what need no longer be deferred.
    pub(super) fn take_in(&mut self) {
        let now = self.now;
        let mut moved = false;
        while let Some(mut sequence) = self.intake.arrived(now) {
            moved = true;
            let (share, seconds) = self.on.grammar;
            let luck = sequence.request.luck;
            if luck.grammar < share {
                let ready = self.intake.grammar.take(sequence.entered, seconds);
                self.intake.deferred.push((ready, sequence));
            } else if let Some(token_bytes) = self.pulls() {
                let (_, failed) = self.on.transfer;
                let tokens = sequence.to_compute;
                let alone = self.transfer_seconds(tokens);
                let ready = self.intake.link.take(sequence.entered, alone);
                self.stats.external_queries += u64::from(tokens);
                if luck.transfer < failed {
                    self.stats.failed_transfers += 1;
                } else {
                    // The last token is computed here: its logits are wanted.
                    sequence.external = tokens - 1;
                    sequence.to_compute = 1;
                    self.stats.transfer.observe(alone);
                    self.stats.transfer_bytes.observe(f64::from(tokens - 1) * token_bytes);
                }
                self.intake.deferred.push((ready, sequence));
            } else {
                self.waiting.push_back(sequence);
            }
        }
        if !self.intake.deferred.is_empty() {
            while let Some(sequence) = self.intake.ready(now) {
                moved = true;
                self.waiting.push_back(sequence);
            }
        }
        if moved && self.step_end.is_none() && self.running.is_empty() && self.waiting.is_empty() {
            self.report();
        }
    }
}

/// Adapters as `lora_requests_info` lists them.
fn named(adapters: impl Iterator<Item = usize>) -> String {
    let mut adapters: Vec<usize> = adapters.collect();
    adapters.sort_unstable();
    adapters.dedup();
    adapters.iter().map(|adapter| format!("adapter-{adapter}")).collect::<Vec<_>>().join(",")
}
