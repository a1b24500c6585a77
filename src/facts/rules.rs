//! The alerting rules about the pool.

use std::collections::BTreeSet;
use std::time::Duration;

use diagnose::Pool;
use findings::facts::{PrometheusFacts, Rule};
use findings::{Request, Scope};
use knowledge::alert::Labels;
use knowledge::gap::Gap;
use knowledge::playbook::Library;
use knowledge::promql::{parse, visit_selectors};
use prom::AlertingRule;

/// Maximum rules.
const MAX_RULES: usize = 50;

/// Adds the rules whose alerts name the pool, that are generated from the playbooks, or that read the pool's
/// metrics; firing rules come first.
pub(super) fn of_pool(
    library: &Library,
    request: &Request,
    pool: Option<&Pool<'_>>,
    all: Vec<AlertingRule>,
    facts: &mut PrometheusFacts,
) {
    if all.is_empty() {
        let why = "this server evaluates none; with VictoriaMetrics they stand in vmalert (`-vmalert.proxyURL`), \
                   with Thanos in its ruler";
        facts.missing.push(Gap::absent("the alerting rules", why));
    }
    let playbook_alerts: BTreeSet<&str> =
        library.playbooks.values().flat_map(|playbook| &playbook.alerts).map(|rule| rule.alert.as_str()).collect();
    let metrics = pool.map(metrics).unwrap_or_default();
    let concerns_pool = |rule: &AlertingRule| {
        let active: Vec<_> = rule.alerts.iter().map(|alert| names(&request.scope, &alert.labels)).collect();
        if active.contains(&Some(true)) {
            return true;
        }
        // True if it fires for other pools only.
        let elsewhere = !active.is_empty() && active.iter().all(|named| *named == Some(false));
        let reads = || read_by(&rule.query).iter().any(|metric| metrics.contains(metric));
        !elsewhere && (playbook_alerts.contains(rule.name.as_str()) || reads())
    };
    let mut own: Vec<AlertingRule> = all.into_iter().filter(|rule| concerns_pool(rule)).collect();
    let rank = |state: &str| ["firing", "pending"].iter().position(|s| *s == state).unwrap_or(2);
    own.sort_by(|a, b| rank(&a.state).cmp(&rank(&b.state)).then_with(|| a.name.cmp(&b.name)));
    if own.len() > MAX_RULES {
        let why = format!("{} more rules are left out, none of which fires before these", own.len() - MAX_RULES);
        facts.missing.push(Gap::absent("all alerting rules", why));
    }
    let to_rule = |rule: AlertingRule| Rule {
        name: rule.name,
        query: rule.query,
        for_seconds: rule.duration,
        state: rule.state,
        labels: rule.labels,
        error: rule.error.filter(|error| !error.is_empty()),
    };
    facts.rules = own.into_iter().take(MAX_RULES).map(to_rule).collect();
}

/// Returns true if labels name the pool, false if they name another; `None` if they share no dimension with its
/// scope.
fn names(scope: &Scope, labels: &Labels) -> Option<bool> {
    let own = Scope::of_labels(labels).dimensions;
    let matching: Vec<bool> = scope
        .dimensions
        .iter()
        .filter(|(dimension, _)| *dimension != "job")
        .filter_map(|(dimension, value)| Some(own.get(dimension)? == value))
        .collect();
    if matching.is_empty() { None } else { Some(matching.iter().all(|same| *same)) }
}

/// Returns the metrics that the signals of the pool's engines read.
fn metrics(pool: &Pool<'_>) -> BTreeSet<String> {
    let queries = |engine: &knowledge::signal::Engine| -> Vec<String> {
        engine.signals.values().filter_map(|entry| entry.query.clone()).collect()
    };
    let mut names = BTreeSet::new();
    for (engine, engine_seen) in pool.serving() {
        for query in queries(engine) {
            names.extend(read_by(&pool.bound(engine, engine_seen, &query)));
        }
    }
    // `up` exists for every target.
    names.remove("up");
    names
}

/// Returns the metrics that a query reads; empty if it cannot be parsed.
fn read_by(query: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if let Ok(expr) = parse(query) {
        visit_selectors(&expr, Duration::ZERO, &mut |selector, _| names.extend(selector.name.clone()));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_a_query_are_found_wherever_they_stand() {
        let read = read_by("sum(rate(a_total{b=\"c\"}[5m])) / on (d) max(e:f) > 2 and g offset 5m");
        assert_eq!(read, BTreeSet::from(["a_total", "e:f", "g"].map(str::to_owned)));
        assert_eq!(read_by("sum((((").len(), 0);
    }
}
