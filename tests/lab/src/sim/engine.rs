//! One engine: continuous batching step by step, as vLLM's scheduler does it.
//!
//! A step serves the running sequences first (a token each for those that decode, then chunks of prompts in order),
//! preempts the last admitted when a decode finds no block, and admits from the head of the queue what still fits.
//! Kept out: swapping, priorities, speculative decoding, and the sharing of blocks between live requests.
//!
//! Decoding sequences are not touched in each step: all get one token per step, so a count of steps tells how many
//! tokens each has, and 16 counters tell how many of them cross a block boundary in the next step.

use std::collections::VecDeque;

use rand::Rng;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::fleet::door::{Event, Happening};
use super::spec::{BLOCK_TOKENS, EngineSpec};
use super::stats::EngineStats;
use super::workload::Request;

/// Seconds the API server adds before the engine sees a request.
const FRONTEND_SECONDS: f64 = 0.004;
const PHASES: u64 = BLOCK_TOKENS as u64;

/// What a rollout can change about an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineConfig {
    /// `--max-num-seqs`.
    pub max_num_seqs: usize,
    /// Blocks in the KV pool.
    pub num_gpu_blocks: u32,
}

/// The engine process of one replica.
#[derive(Debug)]
pub struct Engine {
    spec: EngineSpec,
    config: EngineConfig,
    read_timeout: f64,
    /// Drawn from in each step, so a cheap one; it gives the same numbers on all 64-bit machines.
    rng: SmallRng,
    /// What it reports.
    pub stats: EngineStats,
    /// What happened to requests with tickets, until somebody takes it.
    pub events: Vec<Event>,
    /// A step takes so many times as long.
    pub slowdown: f64,
    stalled: bool,
    now: f64,
    /// End of the step under way.
    step_end: Option<f64>,
    step_seconds: (f64, f64),
    /// End of the last step.
    last_end: f64,
    /// Steps made.
    step: u64,
    waiting: VecDeque<Sequence>,
    /// In order of admission; the first `decoding` decode, the others are in prefill.
    running: Vec<Sequence>,
    decoding: usize,
    /// Decoding sequences by the residue of the steps at which they need a further block.
    boundary: [u32; PHASES as usize],
    free_blocks: u32,
    next_finish: u64,
    next_deadline: f64,
}

#[derive(Debug)]
struct Sequence {
    request: Request,
    /// Tokens generated up to the step `since`.
    generated: u32,
    since: u64,
    /// Tokens still to be computed before the next one can be sampled.
    to_compute: u32,
    first_scheduled: Option<f64>,
    first_token: Option<f64>,
    /// Unix seconds at which the client last heard of it.
    last_heard: f64,
    preemptions: u32,
}

impl Engine {
    /// An idle engine started at `now` (unix seconds).
    pub fn new(spec: &EngineSpec, config: EngineConfig, read_timeout: Option<f64>, seed: u64, now: f64) -> Self {
        Self {
            stats: EngineStats::new(spec, config.num_gpu_blocks, now),
            free_blocks: config.num_gpu_blocks,
            events: Vec::new(),
            spec: spec.clone(),
            config,
            read_timeout: read_timeout.unwrap_or(f64::INFINITY),
            rng: SmallRng::seed_from_u64(seed),
            slowdown: 1.0,
            stalled: false,
            now,
            step_end: None,
            step_seconds: (0.0, 0.0),
            last_end: now,
            step: 0,
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
        (self.waiting.len() + self.running.len()) as u64
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
        for sequence in self.waiting.iter().chain(&self.running) {
            note(&mut self.events, &sequence.request, self.now, Happening::Lost);
        }
        self.events
    }

    /// Takes a request in at its arrival, to which the engine must have advanced.
    pub fn enqueue(&mut self, request: Request) {
        self.stats.received += 1;
        self.next_deadline = self.next_deadline.min(request.arrived + self.read_timeout);
        self.waiting.push_back(Sequence::new(request));
    }

    /// Hangs the engine, or lets it go on.
    pub fn set_stalled(&mut self, stalled: bool) {
        self.stalled = stalled;
    }

    /// Makes all steps that end by `t`.
    pub fn advance_to(&mut self, t: f64) {
        while !self.stalled {
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
            if self.waiting.is_empty() && self.running.is_empty() {
                break;
            }
            self.schedule();
        }
        self.now = t;
    }

    /// Starts the next step; there is at least one request.
    fn schedule(&mut self) {
        let preempted = self.make_room_for_decodes();
        let mut budget = self.spec.max_num_batched_tokens - self.decoding as u32;
        let mut prefilled = 0;
        for sequence in &mut self.running[self.decoding..] {
            let chunk = sequence.to_compute.min(budget);
            sequence.to_compute -= chunk;
            budget -= chunk;
            prefilled += chunk;
        }
        while !preempted && budget > 0 && self.running.len() < self.config.max_num_seqs {
            let Some(head) = self.waiting.front() else { break };
            let need = head.context().div_ceil(BLOCK_TOKENS);
            if need > self.free_blocks {
                break;
            }
            let Some(mut sequence) = self.waiting.pop_front() else { break };
            self.free_blocks -= need;
            if sequence.first_scheduled.is_none() {
                sequence.first_scheduled = Some(self.now);
                self.stats.cache_queries += u64::from(sequence.request.prompt);
                self.stats.cache_hits += u64::from(sequence.request.cached);
            }
            let chunk = sequence.to_compute.min(budget);
            sequence.to_compute -= chunk;
            budget -= chunk;
            prefilled += chunk;
            self.running.push(sequence);
        }
        let jitter = 1.0 + self.spec.noise * (2.0 * self.rng.random::<f64>() - 1.0);
        let factor = self.slowdown * jitter;
        let prefill = self.spec.prefill_token_seconds * f64::from(prefilled);
        let decode = self.spec.sequence_seconds * self.decoding as f64
            + self.spec.kv_token_seconds * f64::from(self.used_blocks() * BLOCK_TOKENS);
        let duration = (self.spec.step_seconds + prefill + decode) * factor;
        self.step_seconds = (duration, prefill * factor);
        self.step_end = Some(self.now + duration);
    }

    /// Gives each decoding sequence the block it needs, at the cost of those admitted last; true if there were any.
    fn make_room_for_decodes(&mut self) -> bool {
        let phase = (self.step % PHASES) as usize;
        let mut preempted = false;
        while self.boundary[phase] > self.free_blocks {
            let Some(mut victim) = self.running.pop() else { break };
            self.release(&victim, self.running.len() < self.decoding);
            victim.preempt(self.step, self.running.len() < self.decoding, self.last_end);
            self.decoding = self.decoding.min(self.running.len());
            self.next_deadline = self.next_deadline.min(victim.last_heard + self.read_timeout);
            self.stats.preemptions += 1;
            self.waiting.push_front(victim);
            preempted = true;
        }
        self.free_blocks -= self.boundary[phase];
        preempted
    }

    /// Ends the step under way at `now`.
    fn complete(&mut self) {
        self.step_end = None;
        self.step += 1;
        // A client that left during a stall must not be counted as served by the step that ends it.
        if self.now >= self.next_deadline {
            self.drop_abandoned();
        }
        let tokens = self.decoding as u64;
        if tokens > 0 {
            self.stats.itl.observe_n(self.now - self.last_end, tokens);
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
        self.stats.read_off(self.now, tokens, prefill_seconds > 0.0);
    }

    /// Turns sequences whose context is computed into decoding ones; prompt tokens booked and tokens sampled.
    fn promote(&mut self) -> (u64, u64) {
        let (mut booked, mut sampled) = (0, 0);
        while let Some(sequence) = self.running.get_mut(self.decoding) {
            if sequence.to_compute > 0 {
                break;
            }
            let request = &sequence.request;
            sequence.since = self.step;
            sequence.generated += 1;
            sampled += 1;
            if sequence.first_token.is_none() {
                sequence.first_token = Some(self.now);
                booked += u64::from(request.prompt - request.cached);
                self.stats.prompt_tokens += u64::from(request.prompt);
                self.stats.prompt_tokens_cached += u64::from(request.cached);
                self.stats.ttft.observe(self.now - request.arrived + FRONTEND_SECONDS);
                note(&mut self.events, request, self.now, Happening::FirstToken);
            } else {
                self.stats.itl.observe(self.now - sequence.last_heard);
            }
            self.next_finish = self.next_finish.min(sequence.finish_step());
            self.boundary[sequence.phase()] += 1;
            self.decoding += 1;
        }
        (booked, sampled)
    }

    /// Takes out the sequences that have all their tokens.
    fn finish(&mut self) {
        self.next_finish = u64::MAX;
        let mut i = 0;
        while i < self.decoding {
            if self.running[i].finish_step() > self.step {
                self.next_finish = self.next_finish.min(self.running[i].finish_step());
                i += 1;
                continue;
            }
            let sequence = self.running.remove(i);
            self.release(&sequence, true);
            self.decoding -= 1;
            self.observe_finished(&sequence);
        }
    }

    fn observe_finished(&mut self, sequence: &Sequence) {
        let stats = &mut self.stats;
        let request = &sequence.request;
        let scheduled = sequence.first_scheduled.unwrap_or(self.now);
        let first_token = sequence.first_token.unwrap_or(self.now);
        let decode = self.now - first_token;
        if request.stops {
            stats.finished_stop += 1;
        } else {
            stats.finished_length += 1;
        }
        stats.http_2xx += 1;
        stats.e2e.observe(self.now - request.arrived + FRONTEND_SECONDS);
        stats.queue.observe(scheduled - request.arrived);
        stats.prefill.observe(first_token - scheduled);
        stats.decode.observe(decode);
        stats.inference.observe(self.now - scheduled);
        let gaps = f64::from(request.output.saturating_sub(1));
        stats.time_per_output_token.observe(if gaps > 0.0 { decode / gaps } else { 0.0 });
        stats.request_prompt_tokens.observe(f64::from(request.prompt));
        stats.request_generation_tokens.observe(f64::from(request.output));
        stats.request_max_tokens.observe(f64::from(request.max_tokens));
        stats.request_computed_tokens.observe(f64::from(request.prompt - request.cached));
        stats.request_preemptions.observe(f64::from(sequence.preemptions));
        note(&mut self.events, request, self.now, Happening::Finished);
    }

    /// Drops the requests whose clients heard nothing for too long; no step may be under way.
    fn drop_abandoned(&mut self) {
        let before = self.in_flight();
        let heard_by = self.now - self.read_timeout;
        let (events, now) = (&mut self.events, self.now);
        self.waiting.retain(|sequence| {
            let stays = sequence.last_heard > heard_by;
            if !stays {
                note(events, &sequence.request, now, Happening::Abandoned);
            }
            stays
        });
        let decoders_left = self.last_end > heard_by;
        let mut i = 0;
        while i < self.running.len() {
            let decodes = i < self.decoding;
            let stays = if decodes { decoders_left } else { self.running[i].last_heard > heard_by };
            if stays {
                i += 1;
                continue;
            }
            let sequence = self.running.remove(i);
            note(&mut self.events, &sequence.request, self.now, Happening::Abandoned);
            self.release(&sequence, decodes);
            self.decoding -= usize::from(decodes);
        }
        let gone = before - self.in_flight();
        self.stats.aborted += gone;
        self.stats.http_2xx += gone;
        let silent = self.waiting.iter().chain(&self.running[self.decoding..]);
        self.next_deadline = silent.fold(f64::INFINITY, |least, sequence| least.min(sequence.last_heard));
        if self.decoding > 0 {
            self.next_deadline = self.next_deadline.min(self.last_end);
        }
        self.next_deadline += self.read_timeout;
        self.report();
        self.stats.read_off(self.now, 0, false);
    }

    /// Gives the blocks of a sequence that left `running` back.
    fn release(&mut self, sequence: &Sequence, decodes: bool) {
        let tokens = if decodes {
            self.boundary[sequence.phase()] -= 1;
            sequence.request.prompt + sequence.generated_at(self.step) - 1
        } else {
            sequence.context()
        };
        self.free_blocks += tokens.div_ceil(BLOCK_TOKENS);
    }

    fn report(&mut self) {
        self.stats.running = self.running.len() as u64;
        self.stats.waiting = self.waiting.len() as u64;
        self.stats.kv_usage = f64::from(self.used_blocks()) / f64::from(self.config.num_gpu_blocks);
    }
}

impl Sequence {
    fn new(request: Request) -> Self {
        Self {
            generated: 0,
            since: 0,
            to_compute: request.prompt - request.cached,
            first_scheduled: None,
            first_token: None,
            last_heard: request.arrived,
            preemptions: 0,
            request,
        }
    }

    /// Tokens whose KV its prefill has to hold.
    fn context(&self) -> u32 {
        self.request.prompt + self.generated
    }

    fn generated_at(&self, step: u64) -> u32 {
        self.generated + (step - self.since) as u32
    }

    fn finish_step(&self) -> u64 {
        self.since + u64::from(self.request.output - self.generated)
    }

    /// Residue of the steps whose token is the first of a block.
    fn phase(&self) -> usize {
        let computed = u64::from(self.request.prompt + self.generated - 1);
        ((self.since + PHASES - computed % PHASES) % PHASES) as usize
    }

    /// Back to the queue: all but the cached prefix is computed again.
    fn preempt(&mut self, step: u64, decodes: bool, last_end: f64) {
        if decodes {
            self.generated = self.generated_at(step);
            self.last_heard = last_end;
        }
        self.preemptions += 1;
        self.to_compute = self.context() - self.request.cached;
    }
}

fn note(events: &mut Vec<Event>, request: &Request, at: f64, what: Happening) {
    if request.ticket != 0 {
        events.push(Event { ticket: request.ticket, at, what });
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_TOKENS, Engine};

    impl Engine {
        /// The blocks in use, counted sequence by sequence.
        pub(in super::super) fn held_blocks(&self) -> u32 {
            let mid_step = u64::from(self.step_end.is_some());
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
