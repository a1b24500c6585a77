//! The alerts' own expressions: the pool that they name, and whether they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::{Duration, Instant};

use promql_parser::label::MatchOp;
use promql_parser::parser::{Expr, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};

use findings::scope::{Scope, is_reported_by};
use findings::{AlertCondition, ConditionFound, Request};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use knowledge::promql::parse;
use prom::Prometheus;

/// Maximum wait for an expression: the verdict does not need it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns a request whose scope has the dimensions that its alerts' expressions select and its labels lack: a rule that
/// sums over a pool loses the pool's labels, `sum(rate(vllm:…{namespace="llm"}[5m]))`.
pub fn with_selected_pool(library: &Library, request: &Request) -> Request {
    let mut selected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for expr in request.conditions.iter().filter_map(|condition| parse(&condition.expression).ok()) {
        let engines = || library.engines.values().filter(|engine| engine.kind.is_pool());
        let of_pool = |name: &str| engines().any(|engine| is_reported_by(engine, name));
        for selector in selectors(&expr).iter().filter(|selector| selector.name.as_deref().is_some_and(of_pool)) {
            let equal = selector.matchers.matchers.iter().filter(|matcher| matcher.op == MatchOp::Equal);
            let labels: Labels = equal.map(|matcher| (matcher.name.clone(), matcher.value.clone())).collect();
            for (dimension, value) in Scope::of_labels(&labels).dimensions {
                selected.entry(dimension).or_default().insert(value);
            }
        }
    }
    let mut request = request.clone();
    for (dimension, values) in selected {
        if let (Some(value), 1) = (values.first(), values.len()) {
            request.scope.dimensions.entry(dimension).or_insert_with(|| value.clone());
        }
    }
    request
}

/// Evaluates the alerts' own expressions; also returns the number of queries. Nothing is said of a Prometheus without
/// series that the alerts may be about: their rules may be another server's.
pub async fn condition(prometheus: &Prometheus, request: &Request) -> (Option<ConditionFound>, usize) {
    let deadline = Instant::now() + PATIENCE.min(request.deadline / 4);
    let (mut found, mut queries) = (None, 0);
    for condition in &request.conditions {
        let Ok(expr) = parse(&condition.expression) else { continue };
        queries += 1;
        let rows = match prometheus.query(&condition.expression, request.at, deadline).await {
            Ok(rows) if rows.incomplete().is_none() => rows,
            _ => continue,
        };
        let own: Vec<f64> = rows.iter().filter(|row| condition.may_be_of(&row.labels)).map(|row| row.value).collect();
        if let [first, ..] = own.as_slice() {
            let value = Some(*first).filter(|_| own.len() == 1 && compares(&expr));
            return (Some(ConditionFound { series: own.len(), value }), queries);
        }
        if rows.is_empty() && found.is_none() {
            queries += 1;
            let has_series = has_series(prometheus, request, condition, &expr, deadline).await;
            found = has_series.then_some(ConditionFound { series: 0, value: None });
        }
    }
    (found, queries)
}

/// Returns true if Prometheus has series of the expression's first selector that one of the alerts may be about.
async fn has_series(
    prometheus: &Prometheus,
    request: &Request,
    condition: &AlertCondition,
    expr: &Expr,
    deadline: Instant,
) -> bool {
    let Some(selector) = selectors(expr).into_iter().next() else { return false };
    let labels: BTreeSet<&str> = condition.alerts.iter().flat_map(|alert| alert.keys().map(String::as_str)).collect();
    let labels: Vec<&str> = labels.into_iter().collect();
    let query = format!("count by ({}) ({selector})", labels.join(", "));
    let rows = prometheus.query(&query, request.at, deadline).await;
    rows.is_ok_and(|rows| rows.iter().any(|row| condition.may_be_of(&row.labels)))
}

/// Returns true if an expression's value is the one that it compares with a number.
fn compares(expr: &Expr) -> bool {
    match expr {
        Expr::Paren(inner) => compares(&inner.expr),
        Expr::Binary(of) => of.op.is_comparison_operator() && !of.return_bool(),
        _ => false,
    }
}

/// Returns an expression's selectors from left to right.
fn selectors(expr: &Expr) -> Vec<VectorSelector> {
    struct Selectors(Vec<VectorSelector>);
    impl ExprVisitor for Selectors {
        type Error = Infallible;

        fn pre_visit(&mut self, expr: &Expr) -> Result<bool, Infallible> {
            match expr {
                Expr::VectorSelector(selector) => self.0.push(selector.clone()),
                Expr::MatrixSelector(range) => self.0.push(range.vs.clone()),
                _ => {}
            }
            Ok(true)
        }
    }
    let mut found = Selectors(Vec::new());
    let Ok(_) = walk_expr(&mut found, expr);
    found.0
}
