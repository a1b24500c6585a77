//! Comparison of the running engine's metrics with the computed capacity.

use std::collections::BTreeMap;

use super::{CapacityReport, Live, SCHEMA, phrases};
use findings::{Observations, Scope};

const CAPACITY: &str = "kv_cache_capacity_tokens";
const PROMPT: &str = "prompt_tokens_mean";
const OUTPUT: &str = "generation_tokens_mean";
const RUNNING: &str = "requests_running";

/// The signals that [`compare`] reads.
pub const SIGNALS: [&str; 4] = [CAPACITY, PROMPT, OUTPUT, RUNNING];
/// Ratio of live to computed capacity that counts as equal: activations are only estimated.
const EQUAL_RATIO: std::ops::RangeInclusive<f64> = 0.9..=1.1;

/// Adds the observed metrics to a report, or to an empty one; `problems` are sentences, `degraded` says that Prometheus
/// was unavailable or slow.
pub fn compare(
    report: Option<CapacityReport>,
    scope: &Scope,
    observations: &Observations,
    problems: Vec<String>,
    degraded: bool,
) -> CapacityReport {
    let mut report = report.unwrap_or_else(|| CapacityReport {
        schema: SCHEMA.to_owned(),
        model: None,
        weights: None,
        kv: None,
        fit: None,
        live: None,
        assumed: Vec::new(),
        warnings: Vec::new(),
    });
    let value = |signal: &str| observations.signals.get(signal).and_then(|o| o.value).filter(|v| v.is_finite());
    let positive = |signal: &str| value(signal).filter(|v| *v > 0.0);
    let capacity = positive(CAPACITY);
    let by_replica: BTreeMap<String, f64> = observations
        .signals
        .get(CAPACITY)
        .map(|o| o.replicas.iter().map(|r| (r.name.clone(), r.value)).collect())
        .unwrap_or_default();
    let replicas = observations.pool.len();
    let computed = report.fit.as_ref().map(|fit| fit.kv_pool_tokens as f64).filter(|tokens| *tokens > 0.0);
    let ratio = capacity.zip(computed).map(|(live, computed)| live / computed);
    let length = value(PROMPT).zip(value(OUTPUT)).map(|(prompt, output)| prompt + output).filter(|l| *l >= 1.0);
    let live = Live {
        scope: scope.dimensions.clone(),
        replicas,
        kv_capacity_tokens: capacity,
        live_over_computed: ratio,
        prompt_tokens_mean: value(PROMPT),
        generation_tokens_mean: value(OUTPUT),
        mean_requests_per_replica: capacity.zip(length).map(|(tokens, length)| tokens / length),
        running_per_replica: value(RUNNING).filter(|_| replicas > 0).map(|running| running / replicas as f64),
        missing: SIGNALS
            .iter()
            .filter(|signal| value(signal).is_none())
            .map(|signal| {
                let why = observations.signals.get(*signal).and_then(|o| o.why.clone());
                ((*signal).to_owned(), why.unwrap_or_else(|| "no value".to_owned()))
            })
            .collect(),
        problems,
        degraded,
        kv_capacity_by_replica: by_replica,
    };
    let (least, most) = live
        .kv_capacity_by_replica
        .values()
        .fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(*v), most.max(*v)));
    if least < most * 0.95 {
        report.warnings.push(phrases::replicas_differ(&live, least, most));
    }
    if let Some(ratio) = ratio.filter(|ratio| !EQUAL_RATIO.contains(ratio)) {
        report.warnings.push(phrases::differs(ratio));
    }
    // With sliding windows or recurrent states, more requests fit than the number of tokens suggests.
    let bounded = report.model.as_ref().is_some_and(|m| m.layers.sliding_window + m.layers.recurrent > 0);
    if let Some((running, holds)) = live.running_per_replica.zip(live.mean_requests_per_replica)
        && !bounded
        && running > 0.9 * holds
    {
        report.warnings.push(phrases::full(running, holds));
    }
    report.live = Some(live);
    report
}
