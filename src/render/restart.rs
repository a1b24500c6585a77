//! The cost of a step that restarts replicas, as one line below it.

use super::Phrases;
use findings::{Fix, RestartCost};
use knowledge::signal::{Unit, format_value};
use message::{Line, TextSpan};

/// Renders the cost of a step; `None` without one.
pub(super) fn cost(fix: &Fix, words: &Phrases) -> Option<Line> {
    let cost = fix.cost.as_ref()?;
    let parts: Vec<String> = parts(cost, words);
    let parts = (!parts.is_empty()).then(|| parts.join("; "))?.into();
    let of = ("of", cost.of.into());
    Some(match &cost.replica {
        // A rollout of one replica may start the new one first.
        Some(_) if cost.of == 1 => words.line("restart-only", &[("parts", parts)]),
        Some(name) => {
            words.line("restart-named", &[("replica", TextSpan::Code(name.clone()).into()), of, ("parts", parts)])
        }
        None => words.line("restart-each", &[of, ("parts", parts)]),
    })
}

fn parts(cost: &RestartCost, words: &Phrases) -> Vec<String> {
    let ratio = |value: f64| format_value(value, Unit::Ratio).into();
    let key = if cost.replica.is_some() || cost.of == 1 { "restart-running" } else { "restart-running-each" };
    let running = cost.running.map(|n| words.text(key, &[("n", n.into())]));
    let hits = cost.hits.map(|hits| words.text("restart-hits", &[("hits", ratio(hits))]));
    let others = cost.others_kv.map(|kv| {
        let key = if kv > 1.0 { "restart-others-full" } else { "restart-others" };
        words.text(key, &[("n", cost.of.saturating_sub(1).into()), ("kv", ratio(kv))])
    });
    let node = cost.closed_node.as_ref().map(|node| words.text("restart-node", &[("node", node.as_str().into())]));
    [running, hits, others, node].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(cost: Option<RestartCost>) -> Option<String> {
        let fix = Fix { action: "x".to_owned(), cause: "y".to_owned(), cost, verify: None, source: None };
        super::cost(&fix, &Phrases::english()).map(|line| line.text())
    }

    #[test]
    fn a_restart_tells_what_is_known_of_its_cost() {
        let cost = RestartCost {
            replica: Some("vllm-1".to_owned()),
            of: 4,
            running: Some(37),
            hits: Some(0.62),
            others_kv: Some(0.71),
            closed_node: None,
        };
        assert_eq!(
            told(Some(cost.clone())).unwrap(),
            "Restarts vllm-1, 1 of 4 replicas: 37 requests in flight end; its prefix cache (hits of the pool: 62 %) is lost; \
             the other 3 use about 71 % of their KV cache meanwhile"
        );
        let full = RestartCost { others_kv: Some(1.2), hits: None, replica: None, ..cost.clone() };
        assert_eq!(
            told(Some(full)).unwrap(),
            "Restarts 4 replicas one after another: each ends about 37 requests in flight; the other 3 cannot carry the \
             load: it takes about 120 % of their KV cache"
        );
        let only = RestartCost { of: 1, others_kv: None, hits: None, closed_node: Some("gpu-7".to_owned()), ..cost };
        assert_eq!(
            told(Some(only)).unwrap(),
            "Restarts the only replica, and nothing serves until it has loaded: 37 requests in flight end; its node gpu-7 \
             takes no new pods already"
        );
        assert_eq!(told(None), None);
    }
}
