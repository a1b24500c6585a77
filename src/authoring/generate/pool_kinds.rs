//! The kinds of pools in `generate rules`: recorded as `llm:pool_kind`, and what of an alert they silence.
//!
//! A pool of long answers or prompts, a batch, and one that was put to sleep are slow, full or silent on purpose, whoever
//! evaluates the rules. A kind that the configuration declares has rules of its own, and none is inferred for its pools.
//!
//! The burn rate of a kind's limit is not recorded, for it would be five rules for each engine and limit. So an alert on it
//! fires for a pool of a kind where more than a hundredth is above the kind's limit and the share above the general limit
//! is too large; `health` asks for the share above the kind's.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};

use super::comparison::{NO_SIGNAL, PLAIN, part};
use super::recording::{RecordingRule, record, tells};
use super::rule_options::pool_matchers;
use super::yaml::RuleGroup;
use knowledge::playbook::{AlertRule, AlertScope, Condition, Evidence, Library, PoolKind, Reference};
use knowledge::signal::{EngineKind, matchers, recorded_name};

/// The recorded series; its label `kind` names the kind.
const SERIES: &str = "llm:pool_kind";
/// The labels of a pool.
const POOL: &str = "cluster, namespace, model_name";
/// Labels that a gateway's rows share with the engines behind it: it may run in a namespace of its own.
const BEHIND_A_GATEWAY: &str = "cluster, model_name";

/// Returns the group that records the kinds.
///
/// # Errors
/// Returns the first kind that recorded series cannot tell.
pub(super) fn group(library: &Library) -> Result<RuleGroup> {
    let mut group = RuleGroup::recording("kinds");
    for kind in library.kinds.moving() {
        let expr = told(library, kind).with_context(|| format!("the kind `{}` cannot become a rule", kind.kind))?;
        record(&mut group.rules, SERIES, &expr, &[("kind", &kind.kind)]);
    }
    Ok(group)
}

/// The pools for which evidence holds, or those for which it does not.
enum Told {
    Of(String),
    NotOf(String),
}

/// Returns the expression whose rows are the pools of a kind.
///
/// # Errors
/// If recorded series cannot tell it.
pub(crate) fn told(library: &Library, kind: &PoolKind) -> Result<String> {
    let (mut head, mut rest) = (None, String::new());
    for evidence in &kind.when {
        let on = pools_in_common(library, Evidence::checks(evidence).into_iter().map(|(signal, _)| signal));
        match one(library, evidence)? {
            Told::Of(expr) if head.is_none() => head = Some((expr, evidence)),
            Told::Of(expr) => rest.push_str(&format!("\nand on ({on}) ({expr})")),
            Told::NotOf(expr) => rest.push_str(&format!("\nunless on ({on}) ({expr})")),
        }
    }
    let (head, evidence) = head.context("each of its conditions holds for pools without data too")?;
    for declared in library.promised.iter().filter(|promised| promised.slo.kind.is_some()) {
        let own = matchers(&pool_matchers(declared));
        let series: BTreeSet<&str> = Evidence::checks(evidence).into_iter().map(|(signal, _)| signal).collect();
        let series = series.iter().map(|signal| format!("{}{{{own}}}", recorded_name(signal, false)));
        rest.push_str(&format!("\nunless on ({POOL}) ({})", series.collect::<Vec<_>>().join(" or ")));
    }
    Ok(head + &rest)
}

fn one(library: &Library, evidence: &Evidence) -> Result<Told> {
    let Some((signal, when)) = evidence.signal.as_deref().zip(evidence.when.as_ref()) else {
        return any(library, &evidence.any);
    };
    if !library.engines.values().any(|engine| tells(engine, signal)) {
        bail!("no engine tells `{signal}` in PromQL alone");
    }
    match when {
        Condition::Present => Ok(Told::Of(recorded_name(signal, false))),
        Condition::NoData => Ok(Told::NotOf(recorded_name(signal, false))),
        Condition::Absent => {
            bail!("`{signal} {when}` needs to know who was asked, which recorded series do not tell: write `no data`")
        }
        Condition::All(_) => Ok(Told::Of(part(library, evidence, AlertScope::Pool, &PLAIN)?.expr)),
    }
}

/// Returns the pools for which one of several holds; where one is "no data", those that have data and for which none holds.
fn any(library: &Library, alternatives: &[Evidence]) -> Result<Told> {
    let (mut of, mut not_of) = (Vec::new(), Vec::new());
    for alternative in alternatives {
        match one(library, alternative)? {
            Told::Of(expr) => of.push(expr),
            Told::NotOf(expr) => not_of.push(expr),
        }
    }
    let not_of = not_of.join(&format!(" and on ({POOL}) "));
    match (of.join(" or "), not_of) {
        (of, none) if none.is_empty() && !of.is_empty() => Ok(Told::Of(format!("({of})"))),
        (of, not_of) if of.is_empty() && !not_of.is_empty() => Ok(Told::NotOf(not_of)),
        (of, not_of) if !of.is_empty() => Ok(Told::NotOf(format!("{not_of} unless on ({POOL}) ({of})"))),
        _ => bail!(NO_SIGNAL),
    }
}

/// Returns the labels by which rows of these signals belong to the pools of a kind.
fn pools_in_common<'a>(library: &Library, mut signals: impl Iterator<Item = &'a str>) -> &'static str {
    let of_gateways =
        |name| library.signals.get(name).is_some_and(|signal| signal.of.first() == Some(&EngineKind::Gateway));
    if signals.any(of_gateways) { BEHIND_A_GATEWAY } else { POOL }
}

/// Returns what an alert's general expression leaves out as a whole: the pools of a kind for which its playbook is no harm.
pub(super) fn harmless(library: &Library, playbook: &str, alert: &AlertRule) -> String {
    let signals = || alert.when.iter().flat_map(Evidence::checks).map(|(signal, _)| signal);
    let by_model =
        |signal| RecordingRule { signal, each: alert.each }.labels(library).iter().any(|l| l == "model_name");
    let kinds = library.kinds.moving().filter(|kind| kind.by_past.iter().any(|id| id == playbook));
    let kinds: Vec<&str> = kinds.map(|kind| kind.kind.as_str()).collect();
    if kinds.is_empty() || alert.each != AlertScope::Pool || !signals().all(by_model) {
        return String::new();
    }
    let on = pools_in_common(library, signals());
    format!("\nunless on ({on}) {SERIES}{{kind=~\"{}\"}}", kinds.join("|"))
}

/// Returns what a comparison leaves out: the pools of a kind whose latency is within the limit of their kind.
pub(super) fn within_limit(library: &Library, recorded: RecordingRule<'_>, when: &Condition) -> String {
    let Some(signal) = library.signals.get(recorded.signal).filter(|_| recorded.each == AlertScope::Pool) else {
        return String::new();
    };
    let burn = signal.burn.as_ref().and_then(|burn| Some((burn.of.as_str(), vec![("<=", burn.limit?)])));
    let (of, within) = burn.unwrap_or_else(|| {
        let limits = when.comparisons().iter().filter_map(|comparison| match comparison.to {
            Reference::Number(limit) => Some((comparison.op.opposite().symbol(), limit)),
            _ => None,
        });
        (recorded.signal, limits.collect())
    });
    let (name, on) = (recorded_name(of, false), pools_in_common(library, std::iter::once(recorded.signal)));
    let mut out = String::new();
    for (kind, factor) in library.kinds.moving().filter_map(|kind| Some((&kind.kind, kind.factors.get(of)?))) {
        for (op, limit) in &within {
            out.push_str(&format!(
                "\nunless on ({POOL}) ({name} {op} {} and on ({on}) {SERIES}{{kind=\"{kind}\"}})",
                limit * factor
            ));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use knowledge::playbook::load;
    use serde_json::{Value, json};

    fn of(when: Value) -> Result<String> {
        let kind = json!({ "kind": "k", "title": "t", "factors": { "ttft_p99": 2 }, "when": when });
        told(&load(None).unwrap(), &serde_json::from_value(kind).unwrap())
    }

    #[test]
    fn alternatives_before_the_first_condition_do_not_get_lost() {
        let data = json!({ "any": [
            { "signal": "error_ratio", "when": "< 0.3" },
            { "signal": "error_ratio", "when": "no data" },
        ] });
        let limit = json!({ "signal": "ttft_p99", "when": "> 2 and <= 9" });
        let expected = "(llm:ttft_p99 > 2) <= 9\nunless on (cluster, namespace, model_name) \
            (llm:error_ratio unless on (cluster, namespace, model_name) (llm:error_ratio < 0.3))";
        assert_eq!(of(json!([data, limit])).unwrap(), expected);
        assert_eq!(of(json!([limit, data])).unwrap(), expected);
    }

    #[test]
    fn each_alternative_is_enough_and_a_gateways_is_met_in_its_own_namespace() {
        let either = json!({ "any": [
            { "signal": "error_ratio", "when": "> 1" },
            { "signal": "gateway_e2e_p99", "when": "> 3" },
        ] });
        let expected = "llm:ttft_p99\nand on (cluster, model_name) ((llm:error_ratio > 1 or llm:gateway_e2e_p99 > 3))";
        assert_eq!(of(json!([{ "signal": "ttft_p99", "when": "present" }, either])).unwrap(), expected);
    }

    #[test]
    fn what_recorded_series_cannot_tell_is_refused() {
        for (when, why) in [
            (json!({ "signal": "ttft_p99", "when": "absent" }), "write `no data`"),
            (json!({ "signal": "ttft_p99", "when": "no data" }), "without data too"),
            (json!({ "signal": "ttft_p99", "when": "> 2x peers" }), "compares replicas"),
            (json!({ "signal": "no_such", "when": "> 2" }), "no engine tells `no_such`"),
            (json!({ "any": [] }), "needs either"),
        ] {
            let refused = of(json!([when])).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
