//! Key figures of a stretch of simulated time, read from the same numbers as the metrics pages.
//!
//! For tests and for tuning; nothing in the simulation depends on it.

use super::fleet::{Fleet, Replica};
use super::stats::{EngineStats, Histogram};

/// What was seen in a stretch of time, of one replica or of all together.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// The 99th percentile of the time to the first token, in seconds; 0 without any.
    pub ttft_p99: f64,
    /// The median of the same.
    pub ttft_p50: f64,
    /// The 99th percentile of the time between tokens, in seconds; 0 without any.
    pub itl_p99: f64,
    /// The mean of the same.
    pub itl_mean: f64,
    /// Mean of the time from first being scheduled to the first token, in seconds.
    pub prefill_mean: f64,
    /// Mean of the used part of the KV pool, 0..1.
    pub kv_mean: f64,
    /// The greatest of any second and replica.
    pub kv_max: f64,
    /// Mean of the waiting requests per replica.
    pub waiting_mean: f64,
    /// The most in any second on any replica.
    pub waiting_max: f64,
    /// Mean of the running requests per replica.
    pub running_mean: f64,
    /// The most in any second on any replica.
    pub running_max: f64,
    /// Preemptions per second and replica, as all rates here.
    pub preemptions: f64,
    /// Sampled tokens.
    pub generated: f64,
    /// Prompt tokens not found in the cache.
    pub computed_prompt_tokens: f64,
    /// Requests answered in full.
    pub finished: f64,
    /// Requests sent by the router.
    pub sent: f64,
    /// Requests given up by their clients.
    pub aborted: f64,
    /// Mean prompt of the finished requests, in tokens.
    pub prompt_tokens: f64,
    /// Mean answer of the finished requests, in tokens.
    pub output_tokens: f64,
    /// Prefix cache hits per query, 0..1.
    pub hit_ratio: f64,
    /// Share of the finished requests that ended by length, 0..1.
    pub length_share: f64,
    /// Share of the answers with an error status, 0..1.
    pub error_share: f64,
    /// Mean SM clock at the end, in MHz.
    pub clock_mhz: f64,
    /// Mean GPU utilisation at the end, 0..1.
    pub gpu_util: f64,
    /// Share of the pods that are ready at the end, 0..1.
    pub ready: f64,
}

/// Advances the fleet by `seconds` and returns the figures of the pool and those of each replica.
pub fn measure(fleet: &mut Fleet, seconds: f64) -> (Figures, Vec<Figures>) {
    let start = fleet.now();
    let before: Vec<Option<EngineStats>> = fleet.replicas().iter().map(|r| r.stats().cloned()).collect();
    let sent: Vec<u64> = fleet.replicas().iter().map(|r| r.sent).collect();
    let mut each = vec![Gauges::default(); before.len()];
    let whole = seconds as u64;
    for second in 1..=whole {
        fleet.advance_to(start + second as f64);
        for (gauges, replica) in each.iter_mut().zip(fleet.replicas()) {
            gauges.read(replica);
        }
    }
    let mut pool = Window::default();
    let mut figures = Vec::new();
    for (i, replica) in fleet.replicas().iter().enumerate() {
        let before = before.get(i).and_then(Option::as_ref);
        let gauges = each.get(i).cloned().unwrap_or_default();
        let window = Window::of(replica, before, sent.get(i).copied().unwrap_or(0), gauges);
        figures.push(window.figures(seconds));
        // A pod that was taken away is no part of the pool.
        if replica.pod.exists() {
            pool.merge(window);
        }
    }
    (pool.figures(seconds), figures)
}

#[derive(Debug, Clone, Default)]
struct Gauges {
    seconds: f64,
    kv: f64,
    kv_max: f64,
    waiting: f64,
    waiting_max: f64,
    running: f64,
    running_max: f64,
}

impl Gauges {
    fn read(&mut self, replica: &Replica) {
        let Some(stats) = replica.stats() else { return };
        let (waiting, running) = (stats.waiting as f64, stats.running as f64);
        self.seconds += 1.0;
        self.kv += stats.kv_usage;
        self.kv_max = self.kv_max.max(stats.kv_usage);
        self.waiting += waiting;
        self.waiting_max = self.waiting_max.max(waiting);
        self.running += running;
        self.running_max = self.running_max.max(running);
    }
}

/// Sums over a stretch of time and over replicas.
#[derive(Default)]
struct Window {
    replicas: f64,
    gauges: Gauges,
    ttft: Option<Histogram>,
    itl: Option<Histogram>,
    prefill: Option<Histogram>,
    prompts: Option<Histogram>,
    outputs: Option<Histogram>,
    preemptions: u64,
    generated: u64,
    prompt_tokens: u64,
    cached: u64,
    queries: u64,
    hits: u64,
    stop: u64,
    length: u64,
    aborted: u64,
    ok: u64,
    errors: u64,
    sent: u64,
    clock: f64,
    util: f64,
    ready: f64,
}

impl Window {
    fn of(replica: &Replica, before: Option<&EngineStats>, sent: u64, gauges: Gauges) -> Self {
        let mut window = Self {
            replicas: 1.0,
            gauges,
            sent: replica.sent - sent,
            clock: replica.gpu.clock_mhz(),
            util: replica.gpu.util,
            ready: f64::from(u8::from(replica.pod.is_ready())),
            ..Self::default()
        };
        let Some(now) = replica.stats() else { return window };
        // After a restart the counters began at zero within the stretch.
        let past = before.filter(|past| past.started == now.started);
        let count = |of: fn(&EngineStats) -> u64| of(now) - past.map_or(0, of);
        let histogram = |of: fn(&EngineStats) -> &Histogram| {
            Some(past.map_or_else(|| of(now).clone(), |past| of(now).since(of(past))))
        };
        window.ttft = histogram(|s| &s.ttft);
        window.itl = histogram(|s| &s.itl);
        window.prefill = histogram(|s| &s.prefill);
        window.prompts = histogram(|s| &s.request_prompt_tokens);
        window.outputs = histogram(|s| &s.request_generation_tokens);
        window.preemptions = count(|s| s.preemptions);
        window.generated = count(|s| s.generation_tokens);
        window.prompt_tokens = count(|s| s.prompt_tokens);
        window.cached = count(|s| s.prompt_tokens_cached);
        window.queries = count(|s| s.cache_queries);
        window.hits = count(|s| s.cache_hits);
        window.stop = count(|s| s.finished_stop);
        window.length = count(|s| s.finished_length);
        window.aborted = count(|s| s.aborted);
        window.ok = count(|s| s.http_2xx);
        window.errors = count(|s| s.http_4xx + s.http_5xx);
        window
    }

    fn merge(&mut self, other: Window) {
        self.replicas += other.replicas;
        let (mine, theirs) = (&mut self.gauges, other.gauges);
        mine.seconds += theirs.seconds;
        mine.kv += theirs.kv;
        mine.kv_max = mine.kv_max.max(theirs.kv_max);
        mine.waiting += theirs.waiting;
        mine.waiting_max = mine.waiting_max.max(theirs.waiting_max);
        mine.running += theirs.running;
        mine.running_max = mine.running_max.max(theirs.running_max);
        for (mine, theirs) in [
            (&mut self.ttft, other.ttft),
            (&mut self.itl, other.itl),
            (&mut self.prefill, other.prefill),
            (&mut self.prompts, other.prompts),
            (&mut self.outputs, other.outputs),
        ] {
            match (mine.as_mut(), theirs) {
                (Some(mine), Some(theirs)) => mine.merge(&theirs),
                (None, Some(theirs)) => *mine = Some(theirs),
                (_, None) => {}
            }
        }
        self.preemptions += other.preemptions;
        self.generated += other.generated;
        self.prompt_tokens += other.prompt_tokens;
        self.cached += other.cached;
        self.queries += other.queries;
        self.hits += other.hits;
        self.stop += other.stop;
        self.length += other.length;
        self.aborted += other.aborted;
        self.ok += other.ok;
        self.errors += other.errors;
        self.sent += other.sent;
        self.clock += other.clock;
        self.util += other.util;
        self.ready += other.ready;
    }

    fn figures(&self, seconds: f64) -> Figures {
        let over = seconds * self.replicas;
        let quantile = |histogram: &Option<Histogram>, q| histogram.as_ref().and_then(|h| h.quantile(q)).unwrap_or(0.0);
        let mean = |histogram: &Option<Histogram>| histogram.as_ref().and_then(Histogram::mean).unwrap_or(0.0);
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let gauges = &self.gauges;
        let seen = gauges.seconds.max(1.0);
        Figures {
            ttft_p99: quantile(&self.ttft, 0.99),
            ttft_p50: quantile(&self.ttft, 0.5),
            itl_p99: quantile(&self.itl, 0.99),
            itl_mean: mean(&self.itl),
            prefill_mean: mean(&self.prefill),
            kv_mean: gauges.kv / seen,
            kv_max: gauges.kv_max,
            waiting_mean: gauges.waiting / seen,
            waiting_max: gauges.waiting_max,
            running_mean: gauges.running / seen,
            running_max: gauges.running_max,
            preemptions: self.preemptions as f64 / over,
            generated: self.generated as f64 / over,
            computed_prompt_tokens: (self.prompt_tokens - self.cached) as f64 / over,
            finished: (self.stop + self.length) as f64 / over,
            sent: self.sent as f64 / over,
            aborted: self.aborted as f64 / over,
            prompt_tokens: mean(&self.prompts),
            output_tokens: mean(&self.outputs),
            hit_ratio: share(self.hits, self.queries),
            length_share: share(self.length, self.stop + self.length),
            error_share: share(self.errors, self.errors + self.ok),
            clock_mhz: self.clock / self.replicas,
            gpu_util: self.util / self.replicas,
            ready: self.ready / self.replicas,
        }
    }
}
