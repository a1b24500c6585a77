//! When requests arrive and what they ask for.

use rand::Rng;
use rand::rngs::{SmallRng, StdRng};
use rand_distr::{Distribution, StandardNormal};

use super::spec::{BLOCK_TOKENS, FleetSpec, Unrest};

const DAY_SECONDS: f64 = 86_400.0;
const PEAK_SECONDS: f64 = 14.0 * 3_600.0;

/// One request as its client sends it, with the answer the model would give.
#[derive(Debug, Clone)]
pub struct Request {
    /// Unix seconds at which it reaches the replica.
    pub arrived: f64,
    /// Prompt length in tokens.
    pub prompt: u32,
    /// Prompt tokens that the prefix cache holds, whole blocks and fewer than `prompt`.
    pub cached: u32,
    /// Tokens it will generate.
    pub output: u32,
    /// The `max_tokens` it was sent with.
    pub max_tokens: u32,
    /// It ends at a stop token and not at a limit.
    pub stops: bool,
    /// The answer's length where nothing else ends it.
    pub limit: u32,
    /// An error answers it before the engine sees it.
    pub refused: bool,
    /// Unix seconds at which its client goes away whatever it got; infinite for most.
    pub leaves: f64,
    /// Even numbers in 0..1 that decide what else may happen to it; see [`Luck`].
    pub luck: Luck,
}

/// A request's own dice, thrown when it arrives.
#[derive(Debug, Clone, Copy)]
pub struct Luck {
    /// It wants a grammar.
    pub grammar: f64,
    /// Which adapter it names.
    pub adapter: f64,
    /// Its KV transfer fails.
    pub transfer: f64,
    /// Its logits become NaN.
    pub corrupted: f64,
    /// It fails inside the engine.
    pub error: f64,
    /// Its replica answers 5xx.
    pub status: f64,
}

/// How faults bend the workload; all 1 or 0 when there are none.
#[derive(Debug, Clone, PartialEq)]
pub struct Bend {
    pub rate: f64,
    pub prompt: f64,
    pub output: f64,
    pub max_tokens: f64,
    pub reuse: f64,
    pub runaway_share: f64,
    pub error_share: f64,
    /// Share of the prompts that are huge, and how much longer they are.
    pub huge: (f64, f64),
    /// Share of the clients that go away early, and after how many seconds on average.
    pub leave: (f64, f64),
}

impl Bend {
    pub const NONE: Bend = Bend {
        rate: 1.0,
        prompt: 1.0,
        output: 1.0,
        max_tokens: 1.0,
        reuse: 1.0,
        runaway_share: 0.0,
        error_share: 0.0,
        huge: (0.0, 1.0),
        leave: (0.0, 0.0),
    };
}

/// The wandering of the arrivals: a walk that returns to the mean, and bursts.
#[derive(Debug)]
pub struct Wander {
    level: f64,
    burst_until: f64,
}

impl Wander {
    /// In the middle, without a burst.
    pub const fn new() -> Self {
        Self { level: 0.0, burst_until: f64::NEG_INFINITY }
    }

    /// Goes on by `seconds` to `now`.
    pub fn advance(&mut self, rng: &mut SmallRng, unrest: &Unrest, now: f64, seconds: f64) {
        let step: f64 = StandardNormal.sample(rng);
        let [burst, length] = rng.random::<[f64; 2]>();
        if unrest.walk > 0.0 {
            let keep = (-seconds / unrest.walk_seconds.max(1.0)).exp();
            self.level = keep * self.level + unrest.walk * (1.0 - keep * keep).sqrt() * step;
        }
        if now >= self.burst_until && burst < unrest.bursts_per_hour * seconds / 3_600.0 {
            self.burst_until = now - (1.0 - length).ln() * unrest.burst_seconds;
        }
    }

    /// What the mean rate is multiplied by at `now`.
    pub fn factor(&self, unrest: &Unrest, now: f64) -> f64 {
        let burst = if now < self.burst_until { unrest.burst_factor } else { 1.0 };
        (self.level - unrest.walk * unrest.walk / 2.0).exp() * burst
    }
}

/// Arrivals per second at the pool at unix time `t`.
pub fn rate(spec: &FleetSpec, bend: &Bend, t: f64) -> f64 {
    let phase = (t - PEAK_SECONDS) / DAY_SECONDS * std::f64::consts::TAU;
    spec.requests_per_second * (1.0 + spec.diurnal_amplitude * phase.cos()) * bend.rate
}

/// Seconds to the next arrival of a Poisson process with `rate` per second.
pub fn next_gap(rng: &mut StdRng, rate: f64) -> f64 {
    -(1.0 - rng.random::<f64>()).ln() / rate
}

/// Draws the request that arrives at `t`.
///
/// The number of draws does not depend on the bend, so the same seed gives the same clients with and without a fault.
/// `dice` are apart, so that what they decide leaves the clients as they are.
pub fn draw(rng: &mut StdRng, dice: &mut SmallRng, spec: &FleetSpec, bend: &Bend, t: f64) -> Request {
    let workload = &spec.workload;
    let longest = f64::from(spec.engine.max_model_len);
    let prompt_z: f64 = StandardNormal.sample(rng);
    let output_z: f64 = StandardNormal.sample(rng);
    let [limit_u, follow_up_u, reuse_u, runaway_u, error_u] = rng.random::<[f64; 5]>();

    let [kind_u, huge_u, leave_u, patience_u, adapter, grammar, transfer, corrupted, error, status] =
        dice.random::<[f64; 10]>();

    let (kind_prompt, kind_output) = kind(spec, kind_u);
    let huge = huge_u < bend.huge.0;
    let prompt_mean = workload.prompt_tokens * bend.prompt * kind_prompt * if huge { bend.huge.1 } else { 1.0 };
    // Huge ones are of one size: documents cut to what fits.
    let prompt_sigma = if huge { 0.2 } else { workload.prompt_sigma };
    let prompt = lognormal(prompt_mean, prompt_sigma, prompt_z);
    // Room for at least one block of answer.
    let prompt = prompt.clamp(1.0, longest - f64::from(BLOCK_TOKENS)) as u32;

    let max_tokens = (f64::from(pick(&workload.max_tokens, limit_u)) * bend.max_tokens).max(1.0) as u32;
    let limit = max_tokens.min(spec.engine.max_model_len - prompt);
    let wanted = lognormal(workload.output_tokens * bend.output * kind_output, workload.output_sigma, output_z);
    let runaway = runaway_u < bend.runaway_share;
    let stops = !runaway && wanted <= f64::from(limit);
    let output = if stops { (wanted as u32).max(1) } else { limit };

    let (least, greatest) = workload.reuse_part;
    let part = if huge {
        0.0
    } else if follow_up_u < workload.reuse_share {
        (least + (greatest - least) * reuse_u) * bend.reuse
    } else {
        0.0
    };
    let reusable = (f64::from(prompt) * part).min(f64::from(prompt - 1)).max(0.0) as u32;

    Request {
        arrived: t,
        prompt,
        cached: reusable / BLOCK_TOKENS * BLOCK_TOKENS,
        output,
        max_tokens,
        stops,
        limit,
        refused: error_u < bend.error_share,
        leaves: if leave_u < bend.leave.0 { t + bend.leave.1 * (0.5 + patience_u) } else { f64::INFINITY },
        luck: Luck { grammar, adapter, transfer, corrupted, error, status },
    }
}

/// What lengths of prompt and answer are multiplied by for the kind of request that `u` (0..1) falls on.
fn kind(spec: &FleetSpec, u: f64) -> (f64, f64) {
    let mut left = u;
    for kind in &spec.workload.kinds {
        left -= kind.share;
        if left < 0.0 {
            return (kind.prompt, kind.output);
        }
    }
    (1.0, 1.0)
}

/// A lognormal value of the given mean from a standard normal one.
fn lognormal(mean: f64, sigma: f64, z: f64) -> f64 {
    (mean.ln() - sigma * sigma / 2.0 + sigma * z).exp()
}

/// The value at which the cumulated weights pass `u` (0..1).
fn pick(weighted: &[(u32, f64)], u: f64) -> u32 {
    let total: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    let mut left = u * total;
    for (value, weight) in weighted {
        left -= weight;
        if left <= 0.0 {
            return *value;
        }
    }
    weighted.last().map_or(1, |(value, _)| *value)
}
