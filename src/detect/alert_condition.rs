//! The alerts' own expressions: the pool that they select, and whether they hold.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::value::ValueType;
use promql_parser::parser::{BinaryExpr, Expr, VectorSelector};

use findings::observation::median;
use findings::scope::{DIMENSIONS, REPLICA_LABELS, Scope, is_reported_by};
use findings::{AlertCondition, ConditionFound, Request};
use futures::future::join_all;
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use knowledge::promql::{parse, visit_selectors};
use prom::Prometheus;

/// Maximum length of an expression that is evaluated, number of its selectors, and of series that are looked at. Longer
/// ones are rare, and anybody who may send alerts can write them.
const LENGTH: usize = 4_000;
const SELECTORS: usize = 8;
const SERIES: usize = 50;
/// The times before an incident at which an expression has its usual value.
const USUAL: [Duration; 3] =
    [Duration::from_secs(3_600), Duration::from_secs(3 * 3_600), Duration::from_secs(6 * 3_600)];

/// Returns a request whose scope has the dimensions that its alerts' expressions select and its labels lack: a rule that
/// sums over a pool loses the pool's labels, `sum(rate(vllm:…{namespace="llm"}[5m]))`. A dimension counts if all selectors
/// of engines' series have it with one value, and no alert has another.
pub fn with_selected_pool(library: &Library, request: &Request) -> Request {
    let engines = || library.engines.values().filter(|engine| engine.kind.is_pool());
    let of_pool = |name: &str| engines().any(|engine| is_reported_by(engine, name));
    let mut of_selectors: Vec<Labels> = Vec::new();
    for condition in &request.conditions {
        let Ok(expr) = parse(&condition.expression) else { return request.clone() };
        let own = selectors(&expr).into_iter().filter(|selector| selector.name.as_deref().is_some_and(of_pool));
        of_selectors.extend(own.map(|selector| Scope::of_labels(&equal(&selector)).dimensions));
    }
    let mut request = request.clone();
    let Some((first, others)) = of_selectors.split_first() else { return request };
    let alerts = request.conditions.iter().flat_map(|condition| &condition.alerts);
    let of_alerts: Vec<Labels> = alerts.map(|labels| Scope::of_labels(labels).dimensions).collect();
    for (dimension, value) in first {
        let agreed = others.iter().all(|of| of.get(dimension) == Some(value));
        let contradicted = of_alerts.iter().any(|of| of.get(dimension).is_some_and(|own| own != value));
        if agreed && !contradicted {
            request.scope.dimensions.entry(dimension.clone()).or_insert_with(|| value.clone());
        }
    }
    request
}

/// Evaluates the alerts' own expressions before the deadline; also returns the number of queries. Where a claim could be
/// wrong there is none: that it does not hold is said only of a Prometheus with the alerts' own series.
pub async fn condition(
    prometheus: &Prometheus,
    request: &Request,
    deadline: Instant,
) -> (Option<ConditionFound>, usize) {
    let (mut queries, mut gone) = (0, !request.conditions.is_empty());
    for condition in &request.conditions {
        let Some(expr) = bounded(&condition.expression) else {
            gone = false;
            continue;
        };
        queries += 1;
        let query = format!("topk({SERIES}, {expr})");
        let rows = match prometheus.query(&query, request.at, deadline).await {
            Ok(rows) if rows.incomplete().is_none() => rows,
            _ => return (None, queries),
        };
        let own: Vec<f64> = rows.iter().filter(|row| condition.may_be_of(&row.labels)).map(|row| row.value).collect();
        if let [first, ..] = own.as_slice() {
            let compared = compared(&expr).filter(|_| own.len() == 1 && rows.len() < SERIES);
            let Some((side, comparison)) = compared else {
                return (Some(ConditionFound { holds: true, value: None, usual: None, is_new: false }), queries);
            };
            queries += USUAL.len();
            let usual = usual(prometheus, request, condition, side, deadline).await;
            let held = usual.and_then(|usual| holds_for(usual, comparison));
            let is_new = held == Some(false) && !is_counter(side);
            return (Some(ConditionFound { holds: true, value: Some(*first), usual, is_new }), queries);
        }
        if rows.is_empty() && gone {
            queries += 1;
            gone = has_all_series(prometheus, request, condition, &expr, deadline).await;
        } else {
            gone = false;
        }
    }
    (gone.then_some(ConditionFound { holds: false, value: None, usual: None, is_new: false }), queries)
}

/// Returns the median of an expression's values before the incident, if most of the moments have one series of the alert's.
async fn usual(
    prometheus: &Prometheus,
    request: &Request,
    condition: &AlertCondition,
    side: &Expr,
    deadline: Instant,
) -> Option<f64> {
    let query = format!("topk({SERIES}, {side})");
    let since = request.since.unwrap_or(request.at);
    let moments = join_all(USUAL.map(async |before| {
        let rows = prometheus.query(&query, since.checked_sub(before).ok()?, deadline).await.ok()?;
        let mut own = rows.iter().filter(|row| condition.may_be_of(&row.labels)).map(|row| row.value);
        let is_whole = rows.incomplete().is_none() && rows.len() < SERIES;
        own.next().filter(|value| is_whole && value.is_finite() && own.next().is_none())
    }));
    let mut values: Vec<f64> = moments.await.into_iter().flatten().collect();
    if values.len() * 2 > USUAL.len() { median(&mut values) } else { None }
}

/// Returns true for a counter alone, which is larger than before on every day.
fn is_counter(side: &Expr) -> bool {
    let name = match side {
        Expr::VectorSelector(selector) => selector.name.as_deref().unwrap_or_default(),
        _ => return false,
    };
    ["_total", "_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end))
}

/// Parses an expression that is small enough to be evaluated, and selects series by their names.
fn bounded(text: &str) -> Option<Expr> {
    let expr = parse(text).ok().filter(|expr| text.len() <= LENGTH && expr.value_type() == ValueType::Vector)?;
    let selectors = selectors(&expr);
    let is_small = (1..=SELECTORS).contains(&selectors.len());
    (is_small && selectors.iter().all(|selector| selector.name.is_some())).then_some(expr)
}

/// Returns true if an expression has no value, not even an infinite one, although Prometheus has series of all its
/// selectors, and of the first with the labels by which the alert names its pool or replica.
async fn has_all_series(
    prometheus: &Prometheus,
    request: &Request,
    condition: &AlertCondition,
    expr: &Expr,
    deadline: Instant,
) -> bool {
    let mut selectors = selectors(expr);
    let Some(alert) = condition.alerts.first() else { return false };
    let names = DIMENSIONS.iter().flat_map(|(_, names)| names.iter()).chain(&REPLICA_LABELS);
    let names: BTreeSet<&str> = names.copied().collect();
    let named = names.into_iter().filter_map(|name| Some(Matcher::new(MatchOp::Equal, name, alert.get(name)?)));
    let named: Vec<Matcher> = named.collect();
    let Some(first) = selectors.first_mut().filter(|_| !named.is_empty()) else { return false };
    first.matchers.matchers.extend(named);
    let present: Vec<String> = selectors.iter().map(|selector| format!("count({selector})")).collect();
    let query = format!("{} unless count({expr})", present.join(" and "));
    prometheus.query(&query, request.at, deadline).await.is_ok_and(|rows| !rows.is_empty())
}

/// Returns the labels that a selector asks for by their values.
fn equal(selector: &VectorSelector) -> Labels {
    let equal = selector.matchers.matchers.iter().filter(|matcher| matcher.op == MatchOp::Equal);
    equal.map(|matcher| (matcher.name.clone(), matcher.value.clone())).collect()
}

/// Returns the side of an expression that is compared with a number, and the comparison.
fn compared(expr: &Expr) -> Option<(&Expr, &BinaryExpr)> {
    match expr {
        Expr::Paren(inner) => compared(&inner.expr),
        Expr::Binary(of) if of.op.is_comparison_operator() && !of.return_bool() => {
            match [&of.lhs, &of.rhs].map(|side| side.value_type()) {
                [_, ValueType::Scalar] => Some((&of.lhs, of)),
                [ValueType::Scalar, _] => Some((&of.rhs, of)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns true if a comparison with a number on its right holds for another value.
fn holds_for(value: f64, comparison: &BinaryExpr) -> Option<bool> {
    let Expr::NumberLiteral(number) = comparison.rhs.as_ref() else { return None };
    let order = value.partial_cmp(&number.val)?;
    match comparison.op.to_string().as_str() {
        ">" => Some(order.is_gt()),
        ">=" => Some(order.is_ge()),
        "<" => Some(order.is_lt()),
        "<=" => Some(order.is_le()),
        "==" => Some(order.is_eq()),
        "!=" => Some(order.is_ne()),
        _ => None,
    }
}

/// Returns an expression's selectors from left to right.
fn selectors(expr: &Expr) -> Vec<VectorSelector> {
    let mut found = Vec::new();
    visit_selectors(expr, Duration::ZERO, &mut |selector, _| found.push(selector.clone()));
    found
}
