//! The kinds of pools in `generate rules`: recorded as `llm:pool_kind`, and what of an alert they silence.
//!
//! A pool of long answers or prompts, a batch, and one that was put to sleep are slow, full or silent on purpose, whoever
//! evaluates the rules. A kind that the configuration declares has rules of its own, and none is inferred for its pools.

use super::recording::{RecordingRule, record};
use super::rule_options::pool_matchers;
use knowledge::playbook::{AlertRule, AlertScope, Condition, Evidence, Library, Op, PoolKind, Reference};
use knowledge::signal::{matchers, recorded_name};

/// The recorded series; its label `kind` names the kind.
const SERIES: &str = "llm:pool_kind";
/// The labels of a pool.
const POOL: &str = "cluster, namespace, model_name";

/// Renders the group that records the kinds.
pub(super) fn group(library: &Library) -> String {
    let mut out = "  - name: llm-diagnose.record.kinds\n    rules:\n".to_owned();
    for kind in library.kinds.moving() {
        let Some(expr) = told(library, kind) else { continue };
        record(&mut out, SERIES, &expr, &[("kind", &kind.kind)]);
    }
    out
}

/// Returns the expression whose rows are the pools of a kind; `None` if recorded series cannot tell it.
fn told(library: &Library, kind: &PoolKind) -> Option<String> {
    let (mut expr, mut first) = (String::new(), None);
    for evidence in &kind.when {
        // Of several, what has no data leaves the other one to decide.
        let one = evidence.any.iter().find(|one| one.when.as_ref().is_some_and(|when| !when.comparisons().is_empty()));
        let (signal, when) = one.unwrap_or(evidence).signal.as_deref().zip(one.unwrap_or(evidence).when.as_ref())?;
        match (one.is_some(), first.is_none()) {
            (true, _) => expr.push_str(&format!("\nunless on ({POOL}) {}", compared(signal, when, true)?)),
            (false, true) => (expr, first) = (compared(signal, when, false)?, Some(recorded_name(signal, false))),
            (false, false) => expr.push_str(&format!("\nand on ({POOL}) {}", compared(signal, when, false)?)),
        }
    }
    let first = first?;
    for declared in library.promised.iter().filter(|promised| promised.slo.kind.is_some()) {
        expr.push_str(&format!("\nunless {first}{{{}}}", matchers(&pool_matchers(declared))));
    }
    Some(expr)
}

/// Returns the comparison of a recorded series with numbers; `inverted`, the rows for which it does not hold.
fn compared(signal: &str, when: &Condition, inverted: bool) -> Option<String> {
    let name = recorded_name(signal, false);
    let mut parts = when.comparisons().iter().map(|comparison| match comparison.to {
        Reference::Number(limit) if inverted => Some(format!("{} {limit}", inverse(comparison.op).symbol())),
        Reference::Number(limit) => Some(format!("{} {limit}", comparison.op.symbol())),
        _ => None,
    });
    let first = format!("{name} {}", parts.next()??);
    parts.try_fold(first, |expr, part| Some(format!("({expr}) {}", part?)))
}

fn inverse(op: Op) -> Op {
    match op {
        Op::Above => Op::AtMost,
        Op::AtLeast => Op::Below,
        Op::Below => Op::AtLeast,
        Op::AtMost => Op::Above,
    }
}

/// Returns what an alert's general expression leaves out: the pools of a kind for which its playbook is no harm, and those
/// whose latency is below the limit of their kind.
pub(super) fn exceptions(library: &Library, playbook: &str, alert: &AlertRule) -> String {
    let checks: Vec<(&str, &Condition)> = alert.when.iter().flat_map(Evidence::checks).collect();
    let by_model = |(signal, _): &(&str, &Condition)| {
        RecordingRule { signal, each: alert.each }.labels(library).iter().any(|label| label == "model_name")
    };
    if !checks.iter().all(by_model) || alert.each != AlertScope::Pool {
        return String::new();
    }
    let harmless = library.kinds.moving().filter(|kind| kind.by_past.iter().any(|id| id == playbook));
    let harmless: Vec<&str> = harmless.map(|kind| kind.kind.as_str()).collect();
    let mut out = match harmless.as_slice() {
        [] => String::new(),
        kinds => format!("\nunless on ({POOL}) {SERIES}{{kind=~\"{}\"}}", kinds.join("|")),
    };
    for kind in library.kinds.moving() {
        for (signal, when) in &checks {
            let Some((of, limit)) = latency(library, signal, when) else { continue };
            let Some(factor) = kind.factors.get(of) else { continue };
            let (name, limit) = (recorded_name(of, false), limit * factor);
            out.push_str(&format!(
                "\nunless on ({POOL}) ({SERIES}{{kind=\"{}\"}} and on ({POOL}) {name} < {limit})",
                kind.kind
            ));
        }
    }
    out
}

/// Returns the latency that a check is about, and its limit.
fn latency<'a>(library: &'a Library, signal: &'a str, when: &Condition) -> Option<(&'a str, f64)> {
    if let Some(burn) = library.signals.get(signal).and_then(|signal| signal.burn.as_ref()) {
        return Some((&burn.of, burn.limit?));
    }
    when.comparisons().iter().find_map(|comparison| match comparison.to {
        Reference::Number(limit) => Some((signal, limit)),
        _ => None,
    })
}
