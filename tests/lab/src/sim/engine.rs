//! One engine: continuous batching step by step, as vLLM's scheduler does it.
//!
//! A step serves the running sequences first (a token each for those that decode, then chunks of prompts in order),
//! preempts the last admitted when a decode finds no block, and admits from the head of the queue what still fits.
//! Kept out: swapping, priorities, and the sharing of blocks between live requests.
//!
//! Decoding sequences are not touched in each step: all get equally many tokens per step (one, but for speculative
//! decoding), so a count of token steps tells how many tokens each has, and 16 counters tell how many of them cross a
//! block boundary in the next one.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::adapters::Adapters;
use super::effect::OnReplica;
use super::fleet::door::{Event, Happening};
use super::intake::Intake;
use super::leave::note;
use super::sequence::{PHASES, Sequence};
use super::spec::{BLOCK_TOKENS, EngineSpec};
use super::stats::EngineStats;
use super::workload::Request;

/// What a rollout can change about an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineConfig {
    /// `--max-num-seqs`.
    pub max_num_seqs: usize,
    /// Blocks in the KV pool.
    pub num_gpu_blocks: u32,
    /// The steps of its code take so many times as long.
    pub slowdown: f64,
    /// Share of the requests, 0..1, whose logits become NaN.
    pub corrupted_share: f64,
}

/// The engine process of one replica.
#[derive(Debug)]
pub struct Engine {
    pub(super) spec: EngineSpec,
    pub(super) config: EngineConfig,
    pub(super) read_timeout: f64,
    /// Drawn from in each step, so a cheap one; it gives the same numbers on all 64-bit machines.
    rng: SmallRng,
    /// What it reports.
    pub stats: EngineStats,
    /// What happened to requests with tickets, until somebody takes it.
    pub events: Vec<Event>,
    /// What faults do to it.
    pub(super) on: OnReplica,
    /// Steps are slower so many times at the start, and normal after so many seconds.
    cold: (f64, f64),
    pub(super) now: f64,
    /// End of the step under way.
    pub(super) step_end: Option<f64>,
    step_seconds: (f64, f64),
    /// Tokens that each decoding sequence gets from the step under way, and tokens that went through the model in it.
    ticks: u64,
    computed: u64,
    /// End of the last step, and when the API server had its tokens.
    pub(super) last_end: f64,
    pub(super) last_seen: f64,
    /// Steps made, counted in tokens of a decoding sequence.
    pub(super) step: u64,
    pub(super) intake: Intake,
    /// Blocks of finished prompts that others have still to read: until when, how many, and whether nobody will.
    pub(super) leases: Vec<(f64, u32, bool)>,
    /// Requests whose prompts are computed, for those that decode.
    pub handed_over: Vec<Request>,
    pub(super) adapters: Adapters,
    /// Waiting requests that were passed over for want of a LoRA slot.
    skipped: u64,
    pub(super) waiting: VecDeque<Sequence>,
    /// In order of admission; the first `decoding` decode, the others are in prefill.
    pub(super) running: Vec<Sequence>,
    pub(super) decoding: usize,
    /// Decoding sequences by the residue of the steps at which they need a further block.
    pub(super) boundary: [u32; PHASES as usize],
    pub(super) free_blocks: u32,
    pub(super) next_finish: u64,
    pub(super) next_deadline: f64,
}

impl Engine {
    /// An idle engine started at `now` (unix seconds).
    pub fn new(spec: &EngineSpec, config: EngineConfig, read_timeout: Option<f64>, seed: u64, now: f64) -> Self {
        let slots = spec.lora.as_ref().map_or(0, |lora| lora.max_loras);
        Self {
            stats: EngineStats::new(spec, config.num_gpu_blocks, now),
            free_blocks: config.num_gpu_blocks,
            events: Vec::new(),
            spec: spec.clone(),
            config,
            read_timeout: read_timeout.unwrap_or(f64::INFINITY),
            rng: SmallRng::seed_from_u64(seed),
            on: OnReplica::NONE,
            cold: (1.0, 1.0),
            now,
            step_end: None,
            step_seconds: (0.0, 0.0),
            ticks: 1,
            computed: 0,
            last_end: now,
            last_seen: now,
            step: 0,
            intake: Intake::default(),
            leases: Vec::new(),
            handed_over: Vec::new(),
            adapters: Adapters::new(slots),
            skipped: 0,
            waiting: VecDeque::new(),
            running: Vec::new(),
            decoding: 0,
            boundary: [0; PHASES as usize],
            next_finish: u64::MAX,
            next_deadline: f64::INFINITY,
        }
    }

    /// Requests it holds.
    pub fn in_flight(&self) -> u64 {
        (self.intake.len() + self.waiting.len() + self.running.len()) as u64
    }

    /// Blocks held by sequences.
    pub fn used_blocks(&self) -> u32 {
        self.config.num_gpu_blocks - self.free_blocks
    }

    /// When it ended its last step, in unix seconds.
    pub fn last_step(&self) -> f64 {
        self.last_end
    }

    /// What is left to tell after its end: all it held is lost.
    pub fn into_events(mut self) -> Vec<Event> {
        for sequence in self.intake.iter().chain(&self.waiting).chain(&self.running) {
            note(&mut self.events, &sequence.request, self.now, Happening::Lost);
        }
        self.events
    }

    /// Sets what faults do to it.
    pub fn set(&mut self, on: OnReplica) {
        self.stats.asleep = on.asleep;
        self.on = on;
    }

    /// Makes its first steps `slowdown` times as long, and normal over `seconds`.
    pub fn set_cold(&mut self, slowdown: f64, seconds: f64) {
        self.cold = (slowdown, seconds);
    }

    /// Makes all steps that end by `t`.
    pub fn advance_to(&mut self, t: f64) {
        while !self.on.stalled {
            if let Some(end) = self.step_end {
                if end > t {
                    return;
                }
                // After a stall the step ends when the engine wakes.
                self.now = end.max(self.now);
                self.complete();
            }
            if self.now >= self.next_deadline {
                self.drop_abandoned();
            }
            self.end_leases();
            self.take_in();
            if self.running.is_empty() && !self.admits() {
                if !self.waiting.is_empty() {
                    self.report();
                    self.stats.read_idle();
                }
                let deadline = if self.in_flight() > 0 { self.next_deadline } else { f64::INFINITY };
                let next = self.leases.iter().fold(self.intake.next().min(deadline), |least, lease| least.min(lease.0));
                if next > t {
                    break;
                }
                self.now = self.now.max(next);
                continue;
            }
            self.schedule();
        }
        self.now = self.now.max(t);
    }

    /// Whether the head of its queue can run where nothing else does.
    fn admits(&self) -> bool {
        let fits = |next: &Sequence| next.context().div_ceil(BLOCK_TOKENS) <= self.free_blocks;
        !self.on.deadlocked && self.waiting.front().is_some_and(fits)
    }

    /// Starts the next step; there is at least one request that can have one.
    fn schedule(&mut self) {
        let drafts = self.draft();
        let preempted = self.make_room_for_decodes();
        let mut budget = self.spec.max_num_batched_tokens.saturating_sub(self.decoding as u32 * (1 + drafts));
        let mut prefilled = 0;
        for sequence in &mut self.running[self.decoding..] {
            let chunk = sequence.to_compute.min(budget);
            sequence.to_compute -= chunk;
            budget -= chunk;
            prefilled += chunk;
        }
        let mut place = 0;
        let mut loaded = 0;
        while !self.on.deadlocked && !preempted && budget > 0 && self.running.len() < self.config.max_num_seqs {
            let Some(next) = self.waiting.get(place) else { break };
            if !self.adapters.admit(next.adapter) {
                place += 1;
                continue;
            }
            let need = next.context().div_ceil(BLOCK_TOKENS);
            if need > self.free_blocks {
                break;
            }
            let Some(mut sequence) = self.waiting.remove(place) else { break };
            self.free_blocks -= need;
            loaded += u32::from(self.adapters.join(sequence.adapter));
            if sequence.first_scheduled.is_none() {
                sequence.first_scheduled = Some(self.now);
                // An engine that makes embeddings has no prefix cache.
                let looked_up = if self.spec.pooling { 0 } else { sequence.request.prompt };
                if let Some(offload) = &self.spec.offload {
                    // What of the reused part the GPU has forgotten comes from host memory.
                    let blocks = (f64::from(sequence.request.cached / BLOCK_TOKENS) * offload.share) as u32;
                    sequence.external = blocks * BLOCK_TOKENS;
                    sequence.request.cached -= sequence.external;
                    self.stats.external_queries += u64::from(sequence.request.prompt - sequence.request.cached);
                    self.stats.offloaded.0 += f64::from(sequence.external) * offload.token_bytes;
                }
                self.stats.cache_queries += u64::from(looked_up);
                self.stats.cache_hits += u64::from(sequence.request.cached);
            }
            let chunk = sequence.to_compute.min(budget);
            sequence.to_compute -= chunk;
            budget -= chunk;
            prefilled += chunk;
            self.running.push(sequence);
        }
        self.skipped = place as u64;
        self.computed = u64::from(prefilled) + self.decoding as u64 * u64::from(1 + drafts);
        let jitter = 1.0 + self.spec.noise * (2.0 * self.rng.random::<f64>() - 1.0);
        let factor = self.on.slowdown * self.config.slowdown * self.warming() * jitter;
        let prefill = self.spec.prefill_token_seconds * f64::from(prefilled);
        let decode = self.spec.sequence_seconds * self.decoding as f64
            + self.spec.kv_token_seconds * f64::from(self.used_blocks() * BLOCK_TOKENS);
        let drafting = self.spec.speculative.as_ref().map_or(0.0, |speculative| speculative.draft_seconds);
        let loading = self.spec.lora.as_ref().map_or(0.0, |lora| lora.load_seconds) * f64::from(loaded);
        let extra = drafting * f64::from(drafts) + loading;
        let duration = (self.spec.step_seconds + prefill + decode + extra) * factor;
        self.step_seconds = (duration, prefill * factor);
        self.step_end = Some(self.now + duration);
    }

    /// Decides how many tokens the step yields per decoding sequence; the draft tokens that each has in it.
    fn draft(&mut self) -> u32 {
        self.ticks = 1;
        let Some(speculative) = &self.spec.speculative else { return 0 };
        let acceptance = self.on.acceptance.unwrap_or(speculative.acceptance);
        let mut accepted = 0;
        while accepted < speculative.tokens && self.rng.random::<f64>() < acceptance {
            self.stats.accepted_tokens[accepted as usize] += self.decoding as u64;
            accepted += 1;
        }
        self.stats.drafts += self.decoding as u64;
        self.stats.draft_tokens += self.decoding as u64 * u64::from(speculative.tokens);
        self.ticks = u64::from(1 + accepted);
        speculative.tokens
    }

    /// What compilation and graph capture still cost.
    fn warming(&self) -> f64 {
        let (slowdown, seconds) = self.cold;
        if slowdown == 1.0 {
            return 1.0;
        }
        1.0 + (slowdown - 1.0) * (-3.0 * (self.now - self.stats.started) / seconds).exp()
    }

    /// Gives each decoding sequence the blocks it needs, at the cost of those admitted last; true if there were any.
    fn make_room_for_decodes(&mut self) -> bool {
        let mut preempted = false;
        while self.needed() > self.free_blocks {
            let Some(mut victim) = self.running.pop() else { break };
            self.release(&victim, self.running.len() < self.decoding);
            victim.preempt(self.step, self.running.len() < self.decoding, self.last_end);
            self.decoding = self.decoding.min(self.running.len());
            self.next_deadline = self.next_deadline.min(victim.last_heard + self.read_timeout);
            self.stats.preemptions += 1;
            self.waiting.push_front(victim);
            preempted = true;
        }
        self.free_blocks -= self.needed();
        preempted
    }

    /// Blocks that the decoding sequences need for the step's tokens.
    fn needed(&self) -> u32 {
        (0..self.ticks).map(|tick| self.boundary[((self.step + tick) % PHASES) as usize]).sum()
    }

    /// Ends the step under way at `now`.
    fn complete(&mut self) {
        self.step_end = None;
        self.step += self.ticks;
        self.stats.computed_tokens += self.computed;
        // A client that left during a stall must not be counted as served by the step that ends it.
        if self.now >= self.next_deadline {
            self.drop_abandoned();
        }
        let decoding = self.decoding as u64;
        let tokens = decoding * self.ticks;
        if tokens > 0 {
            let seen = self.serve(self.now, self.spec.frontend_seconds.1 * tokens as f64);
            self.stats.itl.observe_n(seen - self.last_seen, decoding);
            self.last_seen = seen;
        } else {
            self.last_seen = self.last_seen.max(self.now);
        }
        let (booked, first) = self.promote();
        self.stats.generation_tokens += tokens + first;
        self.stats.iteration_tokens.observe((tokens + first + booked) as f64);
        if self.step >= self.next_finish {
            self.finish();
        }
        let (seconds, prefill_seconds) = self.step_seconds;
        self.stats.busy_seconds += seconds;
        self.stats.prefill_seconds += prefill_seconds;
        self.last_end = self.now;
        self.report();
        self.stats.read_off(self.now, decoding, prefill_seconds > 0.0);
    }

    /// Turns sequences whose context is computed into decoding ones; prompt tokens booked and tokens sampled.
    fn promote(&mut self) -> (u64, u64) {
        let (mut booked, mut sampled) = (0, 0);
        let cores = self.cores();
        while let Some(sequence) = self.running.get_mut(self.decoding) {
            if sequence.to_compute > 0 {
                break;
            }
            let work = self.spec.frontend_seconds.1 * self.on.frontend;
            let seen = self.intake.api.take(self.now, work / cores);
            self.stats.api_work += work;
            self.stats.api_until.0 = seen;
            sequence.seen = seen;
            let request = &sequence.request;
            sequence.since = self.step;
            sequence.generated += 1;
            sampled += u64::from(!self.spec.pooling);
            if sequence.first_token.is_none() {
                sequence.first_token = Some(self.now);
                booked += u64::from(request.prompt - request.cached - sequence.external);
                self.stats.prompt_tokens += u64::from(request.prompt);
                self.stats.prompt_tokens_cached += u64::from(request.cached);
                self.stats.prompt_tokens_external += u64::from(sequence.external);
                // Who would hear the first token too late has gone by then, and it is thrown away.
                let patience = request.arrived + self.read_timeout;
                if seen < patience {
                    self.stats.ttft.observe(seen - request.arrived);
                    note(&mut self.events, request, seen, Happening::FirstToken);
                } else {
                    sequence.request.leaves = sequence.request.leaves.min(patience.max(self.now));
                    self.next_deadline = self.next_deadline.min(sequence.request.leaves);
                }
            } else {
                self.stats.itl.observe(seen - sequence.last_heard);
            }
            self.next_finish = self.next_finish.min(sequence.finish_step());
            self.boundary[sequence.phase()] += 1;
            self.decoding += 1;
        }
        (booked, sampled)
    }

    pub(super) fn report(&mut self) {
        self.stats.running = self.running.len() as u64;
        let deferred = self.intake.deferred.len() as u64;
        self.stats.waiting = self.waiting.len() as u64 + deferred;
        self.stats.deferred = deferred + self.skipped.min(self.waiting.len() as u64);
        self.stats.fetching = if self.pulls().is_some() { deferred } else { 0 };
        self.stats.kv_usage = f64::from(self.used_blocks()) / f64::from(self.config.num_gpu_blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_TOKENS, Engine};

    impl Engine {
        /// The blocks in use, counted sequence by sequence.
        pub(in super::super) fn held_blocks(&self) -> u32 {
            let mid_step = if self.step_end.is_some() { self.ticks } else { 0 };
            let held = self.running.iter().enumerate().map(|(i, sequence)| {
                // A step under way already holds the block of the token it computes.
                let decoded = || sequence.request.prompt + sequence.generated_at(self.step + mid_step) - 1;
                let tokens = if i < self.decoding { decoded() } else { sequence.context() };
                tokens.div_ceil(BLOCK_TOKENS)
            });
            held.sum()
        }
    }
}
