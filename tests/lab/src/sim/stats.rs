//! The numbers an engine keeps about itself: what its metrics page is made from.

use super::reading::Readings;
use super::spec::EngineSpec;

/// Buckets of `time_to_first_token_seconds` (vLLM `v1/metrics/buckets.py`).
static TTFT: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
/// Buckets of the latencies per token.
static PER_TOKEN: [f64; 19] =
    [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
/// Buckets of whole requests and their phases.
static REQUEST: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];
/// Token counts, of which a model has those up to its `max_model_len`.
static TOKENS: [f64; 18] =
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5];
static ITERATION: [f64; 13] =
    [1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
/// Buckets of `nixl_xfer_time_seconds` (vLLM `kv_connector/v1/nixl/stats.py`).
static TRANSFER: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0];
/// Buckets of `nixl_bytes_transferred`: odd powers of two from 2 KiB to 8 GiB.
static BYTES: [f64; 12] = [
    2048.0,
    8192.0,
    32768.0,
    131072.0,
    524288.0,
    2097152.0,
    8388608.0,
    33554432.0,
    134217728.0,
    536870912.0,
    2147483648.0,
    8589934592.0,
];
/// Label sets of `lora_requests_info` that are kept; a real page keeps all of them.
const LORA_SETS: usize = 24;
static PREEMPTIONS: [f64; 7] = [1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0];

/// A histogram with fixed bounds.
#[derive(Debug, Clone)]
pub struct Histogram {
    /// Upper bounds of the buckets, without +Inf.
    pub bounds: &'static [f64],
    /// Observations per bucket, not cumulated, the one for +Inf last.
    pub counts: Vec<u64>,
    /// Sum of all observations.
    pub sum: f64,
}

impl Histogram {
    /// No observations.
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Adds `n` observations of `value`.
    pub fn observe_n(&mut self, value: f64, n: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += n;
        self.sum += value * n as f64;
    }

    /// Adds one observation.
    pub fn observe(&mut self, value: f64) {
        self.observe_n(value, 1);
    }

    /// How many observations there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The mean observation, `None` without any.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum / count as f64)
    }

    /// The quantile `q` as PromQL's `histogram_quantile` estimates it, `None` without observations.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = q * count as f64;
        let mut below = 0;
        for (i, upper) in self.bounds.iter().enumerate() {
            let inside = self.counts[i];
            if (below + inside) as f64 >= rank && inside > 0 {
                let lower = if i == 0 { 0.0 } else { self.bounds[i - 1] };
                return Some(lower + (upper - lower) * (rank - below as f64) / inside as f64);
            }
            below += inside;
        }
        self.bounds.last().copied()
    }

    /// Adds the observations of `other`, which has the same bounds.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.sum += other.sum;
    }

    /// What was observed since `past`, an earlier state of the same histogram.
    pub fn since(&self, past: &Histogram) -> Histogram {
        let counts = self.counts.iter().zip(&past.counts);
        Histogram {
            bounds: self.bounds,
            counts: counts.map(|(now, then)| now - then).collect(),
            sum: self.sum - past.sum,
        }
    }
}

/// Counters, gauges and histograms of one engine process; a restart begins with fresh ones.
///
/// Gauges are of the last step, as vLLM reports them: a hung engine's stay what they were.
#[derive(Debug, Clone)]
pub struct EngineStats {
    /// Unix seconds at which the process started.
    pub started: f64,
    /// Sequences in the batch.
    pub running: u64,
    /// Requests that are not, new and preempted ones and those deferred.
    pub waiting: u64,
    /// Of these, those that wait for a grammar, for KV blocks or for a LoRA slot.
    pub deferred: u64,
    /// Of these, those whose KV blocks are on their way.
    pub fetching: u64,
    /// Used part of the KV pool, 0..1.
    pub kv_usage: f64,
    /// It was put to sleep.
    pub asleep: bool,
    /// Blocks in the KV pool.
    pub num_gpu_blocks: u32,
    /// Recompute preemptions.
    pub preemptions: u64,
    /// Prompt tokens looked up in the prefix cache.
    pub cache_queries: u64,
    /// Of these, found.
    pub cache_hits: u64,
    /// Prompt tokens of requests whose prefill ended.
    pub prompt_tokens: u64,
    /// Of these, taken from the prefix cache.
    pub prompt_tokens_cached: u64,
    /// Prompt tokens whose KV came from other replicas.
    pub prompt_tokens_external: u64,
    /// Prompt tokens that were asked of other replicas.
    pub external_queries: u64,
    /// Sampled tokens.
    pub generation_tokens: u64,
    /// Tokens that went through the model, accepted or not.
    pub computed_tokens: u64,
    /// Drafts made, one per sequence and step.
    pub drafts: u64,
    /// Tokens in them.
    pub draft_tokens: u64,
    /// Of these, accepted; by position in the draft.
    pub accepted_tokens: Vec<u64>,
    /// Requests that ended by themselves.
    pub finished_stop: u64,
    /// Requests that ended at `max_tokens` or `max_model_len`.
    pub finished_length: u64,
    /// Requests that ended with an error inside the engine.
    pub finished_error: u64,
    /// Requests with NaN logits, which end by length.
    pub corrupted: u64,
    /// Requests whose client went away; in no metric but `http_2xx`.
    pub aborted: u64,
    /// Answers with a status of 200 to 299, those whose client went away included.
    pub http_2xx: u64,
    /// Answers with a status of 400 to 499.
    pub http_4xx: u64,
    /// Answers with a status of 500 to 599.
    pub http_5xx: u64,
    /// Requests that reached the engine.
    pub received: u64,
    /// Gauges that are read off now and then, for dialects that do so.
    pub readings: Option<Readings>,
    /// Seconds in which a step was under way.
    pub busy_seconds: f64,
    /// Of these, spent on prompt tokens.
    pub prefill_seconds: f64,
    /// CPU seconds of work that the API server was given.
    pub api_work: f64,
    /// Unix seconds at which it will have done that, and the cores it has for it.
    pub api_until: (f64, f64),
    /// Periods of the CPU quota, and those in which it ran out; of the container, so restarts keep them.
    pub cfs_periods: (f64, f64),
    /// Label sets of `lora_requests_info`: running and waiting adapters, unix seconds.
    pub lora: Vec<(String, String, f64)>,
    /// KV bytes loaded from host memory, and stored there.
    pub offloaded: (f64, f64),
    /// Leases on the blocks of finished prompts that ended unread.
    pub expired_leases: u64,
    /// Of the requests whose client went away, those that were never scheduled.
    pub aborted_waiting: u64,
    /// KV transfers that failed.
    pub failed_transfers: u64,
    /// Seconds per KV transfer.
    pub transfer: Histogram,
    /// Bytes per KV transfer.
    pub transfer_bytes: Histogram,
    /// Tokens booked per step: sampled ones and, when a prefill ends, its computed ones.
    pub iteration_tokens: Histogram,
    /// Seconds from arrival to the first token.
    pub ttft: Histogram,
    /// Seconds between the tokens of a request.
    pub itl: Histogram,
    /// Seconds per token after the first, per finished request.
    pub time_per_output_token: Histogram,
    /// Seconds from arrival to the last token.
    pub e2e: Histogram,
    /// Seconds from arrival to the first scheduling.
    pub queue: Histogram,
    /// Seconds from the first scheduling to the first token.
    pub prefill: Histogram,
    /// Seconds from the first to the last token.
    pub decode: Histogram,
    /// Seconds from the first scheduling to the last token.
    pub inference: Histogram,
    /// Prompt tokens per finished request.
    pub request_prompt_tokens: Histogram,
    /// Sampled tokens per finished request.
    pub request_generation_tokens: Histogram,
    /// The `max_tokens` of the finished requests.
    pub request_max_tokens: Histogram,
    /// Prompt tokens not found in the cache, per finished request.
    pub request_computed_tokens: Histogram,
    /// Preemptions per finished request.
    pub request_preemptions: Histogram,
}

impl EngineStats {
    /// All zero, for a process started at `started` (unix seconds).
    pub fn new(spec: &EngineSpec, num_gpu_blocks: u32, started: f64) -> Self {
        let lengths = TOKENS.partition_point(|bound| *bound <= f64::from(spec.max_model_len));
        let tokens = || Histogram::new(&TOKENS[..lengths]);
        let request = || Histogram::new(&REQUEST);
        Self {
            started,
            running: 0,
            waiting: 0,
            deferred: 0,
            fetching: 0,
            kv_usage: 0.0,
            asleep: false,
            num_gpu_blocks,
            preemptions: 0,
            cache_queries: 0,
            cache_hits: 0,
            prompt_tokens: 0,
            prompt_tokens_cached: 0,
            prompt_tokens_external: 0,
            external_queries: 0,
            generation_tokens: 0,
            computed_tokens: 0,
            drafts: 0,
            draft_tokens: 0,
            accepted_tokens: vec![0; spec.speculative.as_ref().map_or(0, |speculative| speculative.tokens as usize)],
            finished_stop: 0,
            finished_length: 0,
            finished_error: 0,
            corrupted: 0,
            aborted: 0,
            http_2xx: 0,
            http_4xx: 0,
            http_5xx: 0,
            received: 0,
            readings: None,
            busy_seconds: 0.0,
            prefill_seconds: 0.0,
            api_work: 0.0,
            api_until: (started, 1.0),
            cfs_periods: (0.0, 0.0),
            lora: Vec::new(),
            offloaded: (0.0, 0.0),
            expired_leases: 0,
            aborted_waiting: 0,
            failed_transfers: 0,
            transfer: Histogram::new(&TRANSFER),
            transfer_bytes: Histogram::new(&BYTES),
            iteration_tokens: Histogram::new(&ITERATION),
            ttft: Histogram::new(&TTFT),
            itl: Histogram::new(&PER_TOKEN),
            time_per_output_token: Histogram::new(&PER_TOKEN),
            e2e: request(),
            queue: request(),
            prefill: request(),
            decode: request(),
            inference: request(),
            request_prompt_tokens: tokens(),
            request_generation_tokens: tokens(),
            request_max_tokens: tokens(),
            request_computed_tokens: tokens(),
            request_preemptions: Histogram::new(&PREEMPTIONS),
        }
    }

    /// CPU seconds of the API server: a little always, and its work as far as it has come.
    pub fn cpu_seconds(&self, now: f64) -> f64 {
        let idle = 0.02 * (now - self.started).max(0.0);
        let (until, cores) = self.api_until;
        20.0 + idle + self.api_work - (until - now).max(0.0) * cores
    }

    /// CPU seconds of the whole container: the engine's process polls while it computes.
    pub fn container_cpu_seconds(&self, now: f64) -> f64 {
        self.cpu_seconds(now) + 0.05 * (now - self.started).max(0.0) + 0.7 * self.busy_seconds
    }

    /// Sets the adapters of the moment; of the sets that were, only the latest are kept.
    pub(super) fn set_lora(&mut self, running: String, waiting: String, now: f64) {
        self.lora.retain(|(r, w, _)| (r, w) != (&running, &waiting));
        if self.lora.len() >= LORA_SETS {
            self.lora.remove(0);
        }
        self.lora.push((running, waiting, now));
    }
}
