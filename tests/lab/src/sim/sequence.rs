//! One request inside an engine, and what of it is computed.

use super::spec::BLOCK_TOKENS;
use super::workload::Request;

/// Steps after which a decoding sequence needs a further block.
pub(super) const PHASES: u64 = BLOCK_TOKENS as u64;

#[derive(Debug)]
pub(super) struct Sequence {
    pub request: Request,
    /// Unix seconds at which the API server hands it to the engine.
    pub entered: f64,
    /// Tokens generated up to the step `since`.
    pub generated: u32,
    pub since: u64,
    /// Tokens still to be computed before the next one can be sampled.
    pub to_compute: u32,
    /// Prompt tokens whose KV came from elsewhere.
    pub external: u32,
    /// What is asked of the replica that decodes, where this one only computes the prompt.
    pub whole: Option<Box<Request>>,
    /// The LoRA adapter it names.
    pub adapter: Option<usize>,
    /// How it will end.
    pub ending: Ending,
    pub first_scheduled: Option<f64>,
    pub first_token: Option<f64>,
    /// Unix seconds at which the API server had the last token that its prefill gave.
    pub seen: f64,
    /// Unix seconds at which the client last heard of it.
    pub last_heard: f64,
    pub preemptions: u32,
}

/// How a request ends if its client stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// By a stop token or at its limit.
    Normal,
    /// At its limit, with garbage.
    Corrupted,
    /// With an error inside the engine.
    Error,
}

impl Sequence {
    pub fn new(request: Request, entered: f64) -> Self {
        Self {
            entered,
            generated: 0,
            since: 0,
            to_compute: request.prompt - request.cached,
            external: 0,
            whole: None,
            adapter: None,
            ending: Ending::Normal,
            first_scheduled: None,
            first_token: None,
            seen: entered,
            last_heard: request.arrived,
            preemptions: 0,
            request,
        }
    }

    /// Tokens whose KV its prefill has to hold.
    pub fn context(&self) -> u32 {
        self.request.prompt + self.generated
    }

    pub fn generated_at(&self, step: u64) -> u32 {
        self.generated + (step - self.since) as u32
    }

    pub fn finish_step(&self) -> u64 {
        self.since + u64::from(self.request.output - self.generated)
    }

    /// Residue of the steps whose token is the first of a block.
    pub fn phase(&self) -> usize {
        let computed = u64::from(self.request.prompt + self.generated - 1);
        ((self.since + PHASES - computed % PHASES) % PHASES) as usize
    }

    /// Back to the queue: all but the cached prefix is computed again.
    pub fn preempt(&mut self, step: u64, decodes: bool, last_end: f64) {
        if decodes {
            self.generated = self.generated_at(step).min(self.request.output - 1);
            self.last_heard = last_end;
        }
        self.preemptions += 1;
        self.to_compute = self.context() - self.request.cached;
    }
}
