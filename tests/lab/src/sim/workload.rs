//! When requests arrive and what they ask for.

use rand::Rng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};

use super::spec::{BLOCK_TOKENS, FleetSpec};

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
    /// An error answers it before the engine sees it.
    pub refused: bool,
    /// What a gateway knows it by, 0 without one.
    pub ticket: u64,
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
}

impl Bend {
    pub const NONE: Bend =
        Bend { rate: 1.0, prompt: 1.0, output: 1.0, max_tokens: 1.0, reuse: 1.0, runaway_share: 0.0, error_share: 0.0 };
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
pub fn draw(rng: &mut StdRng, spec: &FleetSpec, bend: &Bend, t: f64) -> Request {
    let workload = &spec.workload;
    let longest = f64::from(spec.engine.max_model_len);
    let prompt_z: f64 = StandardNormal.sample(rng);
    let output_z: f64 = StandardNormal.sample(rng);
    let [limit_u, follow_up_u, reuse_u, runaway_u, error_u] = rng.random::<[f64; 5]>();

    let prompt = lognormal(workload.prompt_tokens * bend.prompt, workload.prompt_sigma, prompt_z);
    // Room for at least one block of answer.
    let prompt = prompt.clamp(1.0, longest - f64::from(BLOCK_TOKENS)) as u32;

    let max_tokens = (f64::from(pick(&workload.max_tokens, limit_u)) * bend.max_tokens).max(1.0) as u32;
    let limit = max_tokens.min(spec.engine.max_model_len - prompt);
    let wanted = lognormal(workload.output_tokens * bend.output, workload.output_sigma, output_z);
    let runaway = runaway_u < bend.runaway_share;
    let stops = !runaway && wanted <= f64::from(limit);
    let output = if stops { (wanted as u32).max(1) } else { limit };

    let (least, greatest) = workload.reuse_part;
    let part =
        if follow_up_u < workload.reuse_share { (least + (greatest - least) * reuse_u) * bend.reuse } else { 0.0 };
    let reusable = (f64::from(prompt) * part).min(f64::from(prompt - 1)).max(0.0) as u32;

    Request {
        arrived: t,
        prompt,
        cached: reusable / BLOCK_TOKENS * BLOCK_TOKENS,
        output,
        max_tokens,
        stops,
        refused: error_u < bend.error_share,
        ticket: 0,
    }
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
