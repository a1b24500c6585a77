//! Gauges of an engine that are read off now and then, as SGLang does, and not with each step.
//!
//! Read at each prefill batch (the new requests not counted yet), at every fortieth decode step, and when the engine
//! falls idle. A hung engine's stay what they were.

use super::stats::EngineStats;

/// `--decode-log-interval`, in decode steps.
const DECODE_STEPS: u32 = 40;
/// Seconds without a decode report after which the throughput of an idle engine reads 0.
const IDLE_SECONDS: f64 = 30.0;

/// What was read last.
#[derive(Debug, Clone)]
pub struct Readings {
    /// Requests in the batch.
    pub running: u64,
    /// Requests in the queue, those included that are not ready for it.
    pub waiting: u64,
    /// Requests that wait for a grammar.
    pub deferred: u64,
    /// Used part of the KV pool, 0..1.
    pub kv_usage: f64,
    /// Part of the last prefill batch that the prefix cache held, 0..1.
    pub hit_ratio: f64,
    throughput: f64,
    /// Time and sampled tokens of the last decode report.
    reported: (f64, u64),
    decode_steps: u32,
    /// Looked-up and found prompt tokens up to the last prefill batch.
    cache: (u64, u64),
}

impl Readings {
    /// All zero, for an engine started at `started` (unix seconds).
    pub fn new(started: f64) -> Self {
        Self {
            running: 0,
            waiting: 0,
            deferred: 0,
            kv_usage: 0.0,
            hit_ratio: 0.0,
            throughput: 0.0,
            reported: (started, 0),
            decode_steps: 0,
            cache: (0, 0),
        }
    }

    /// Sampled tokens per second between the last two decode reports.
    pub fn throughput(&self, now: f64) -> f64 {
        let idle = self.running == 0 && now - self.reported.0 > IDLE_SECONDS;
        if idle { 0.0 } else { self.throughput }
    }
}

impl EngineStats {
    /// Reads the gauges off after a step that ended at `now`, in which `decoding` sequences got a token, if it is time.
    pub(super) fn read_off(&mut self, now: f64, decoding: u64, prefilled: bool) {
        let Some(readings) = &mut self.readings else { return };
        if prefilled {
            readings.running = decoding;
            let (queries, hits) = (self.cache_queries - readings.cache.0, self.cache_hits - readings.cache.1);
            if queries > 0 {
                readings.hit_ratio = hits as f64 / queries as f64;
            }
            readings.cache = (self.cache_queries, self.cache_hits);
        } else {
            readings.decode_steps += u32::from(decoding > 0);
            let idle = self.running == 0 && self.waiting == 0;
            if readings.decode_steps < DECODE_STEPS && !idle {
                return;
            }
            readings.running = self.running;
            if readings.decode_steps >= DECODE_STEPS {
                let (at, tokens) = readings.reported;
                readings.throughput = (self.generation_tokens - tokens) as f64 / (now - at).max(1e-3);
                readings.reported = (now, self.generation_tokens);
                readings.decode_steps = 0;
            }
        }
        self.read_queue();
    }

    /// Reads the gauges off while nothing is computed, whoever waits.
    pub(super) fn read_idle(&mut self) {
        if let Some(readings) = &mut self.readings {
            readings.running = self.running;
        }
        self.read_queue();
    }

    fn read_queue(&mut self) {
        let Some(readings) = &mut self.readings else { return };
        readings.waiting = self.waiting;
        readings.deferred = self.deferred - self.fetching;
        readings.kv_usage = self.kv_usage;
    }
}
