//! Lints of PromQL: it parses, `or` between two names is inside the aggregation, and pools are not mixed.

use promql_parser::parser::token::{T_LOR, T_MUL};
use promql_parser::parser::{BinaryExpr, Expr, LabelModifier};

use knowledge::playbook::Lint;
use knowledge::promql::parse;
use knowledge::signal::{Engine, Fill, fill};

/// Checks a signal's query; returns the problem's lint, a sentence and a hint.
pub(super) fn problem(engine: &Engine, query: &str) -> Option<(Lint, String, Option<String>)> {
    let window = std::time::Duration::from_secs(300);
    let replica = ["cluster", "namespace"].map(str::to_owned).into_iter().chain(engine.replica.iter().cloned());
    for by in [Vec::new(), replica.collect()] {
        let scope = if by.is_empty() { "" } else { "namespace=\"n\"" };
        let text =
            fill(query, &Fill { scope, workload: scope, window, by: &by, target: &engine.target(), prefix: None });
        // `$1` is a group of `label_replace`.
        let unknown = |at: &usize| !text[at + 1..].starts_with(|c: char| c.is_ascii_digit());
        if let Some(at) = text.match_indices('$').map(|(at, _)| at).find(unknown) {
            let placeholder: String = text[at..].chars().take_while(|c| *c == '$' || c.is_alphanumeric()).collect();
            let hint = "known are `$scope`, `$workload`, `$window`, `$by`, `$target` and `$remote`".to_owned();
            return Some((Lint::SignalPlaceholder, format!("unknown placeholder `{placeholder}`"), Some(hint)));
        }
        match parse(&text) {
            Err(error) => {
                let hint =
                    query.contains("$scope,").then(|| "write `$scope` last in its braces: it may be empty".to_owned());
                return Some((Lint::SignalPromql, format!("the query does not parse: {error}"), hint));
            }
            // A rule always groups; then `on ($by)` stays within the pool.
            Ok(expr) if !by.is_empty() && any(&expr, &mixes_pools) => {
                return Some((
                    Lint::SignalMixedPools,
                    "a join without `cluster` meets the pools and targets of others: two clusters or namespaces may have \
                     the same `job` and `instance`, and an alert's rule has no scope that keeps them apart"
                        .to_owned(),
                    Some("join on `$target`, or on the pool's labels, `on (cluster, namespace, model_name)`".to_owned()),
                ));
            }
            Ok(expr) if any(&expr, &or_outside) => {
                return Some((
                    Lint::SignalOrOutsideAggregation,
                    "`or` joins two aggregations: in a mixed rollout the first hides the second".to_owned(),
                    Some("write `max(new or old)`, not `max(new) or max(old)`".to_owned()),
                ));
            }
            Ok(_) => {}
        }
    }
    None
}

/// Returns true if the predicate holds for the expression or for one inside it.
fn any(expr: &Expr, holds: &dyn Fn(&Expr) -> bool) -> bool {
    let inside = match expr {
        Expr::Binary(b) => any(&b.lhs, holds) || any(&b.rhs, holds),
        Expr::Aggregate(a) => any(&a.expr, holds),
        Expr::Paren(p) => any(&p.expr, holds),
        Expr::Unary(u) => any(&u.expr, holds),
        Expr::Subquery(s) => any(&s.expr, holds),
        Expr::Call(c) => c.args.args.iter().any(|arg| any(arg, holds)),
        _ => false,
    };
    inside || holds(expr)
}

/// Returns true if two aggregations are joined by `or`.
fn or_outside(expr: &Expr) -> bool {
    let Expr::Binary(b) = expr else { return false };
    b.op.id() == T_LOR && aggregates(&b.lhs) && aggregates(&b.rhs) && !is_zero(&b.rhs) && !by_replica(b)
}

/// Labels whose values are unique everywhere.
const UNIQUE: [&str; 3] = ["UUID", "uuid", "serial_number"];

/// Returns true if rows are joined by labels that do not tell whose they are.
fn mixes_pools(expr: &Expr) -> bool {
    let Expr::Binary(b) = expr else { return false };
    let matching = b.modifier.as_ref().and_then(|m| m.matching.as_ref());
    let tells = |label: &String| label == "cluster" || UNIQUE.contains(&label.as_str());
    matches!(matching, Some(LabelModifier::Include(on)) if !on.labels.iter().any(tells))
}

/// Returns true if the expression is an aggregation, or arithmetic on aggregations.
fn aggregates(expr: &Expr) -> bool {
    match expr {
        Expr::Aggregate(_) => true,
        Expr::Paren(p) => aggregates(&p.expr),
        Expr::Binary(b) => aggregates(&b.lhs) || aggregates(&b.rhs),
        _ => false,
    }
}

/// Returns true for `or on (instance)`, which decides for each replica separately: no replica with old names is hidden.
fn by_replica(expr: &BinaryExpr) -> bool {
    let matching = expr.modifier.as_ref().and_then(|modifier| modifier.matching.as_ref());
    matches!(matching, Some(LabelModifier::Include(on)) if on.labels.iter().any(|label| label == "instance"))
}

/// Returns true for `0 * x`, which gives a zero for an absent series and hides nothing.
fn is_zero(expr: &Expr) -> bool {
    match expr {
        Expr::Paren(p) => is_zero(&p.expr),
        Expr::Binary(b) if b.op.id() == T_MUL => {
            [&b.lhs, &b.rhs].iter().any(|side| matches!(&***side, Expr::NumberLiteral(n) if n.val == 0.0))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn or_between_aggregations_is_found_and_inside_or_with_a_zero_it_is_fine() {
        let outside = |text: &str| any(&parse(text).unwrap(), &or_outside);
        assert!(outside("max(new) or max(old)"));
        assert!(outside("1 - (sum by (a) (new) or sum by (a) (old)) / sum(x)"));
        assert!(!outside("max(new or old)"));
        assert!(outside("sum(max by (pod) (new) or on (pod) max by (pod) (old))"));
        assert!(!outside("sum(max by (instance) (new) or on (instance) max by (instance) (old))"));
        assert!(!outside("sum by (a) (x > 1) or 0 * sum by (a) (x)"));
    }

    #[test]
    fn a_join_that_may_meet_another_pool_is_found_and_one_by_identity_is_fine() {
        let mixed = |text: &str| any(&parse(text).unwrap(), &mixes_pools);
        assert!(mixed("max by (pod) (sum by (pod) (x) / on () group_left () avg(x))"));
        assert!(mixed("x unless on (job, instance) (up == 0)"));
        assert!(!mixed("x unless on (cluster, namespace, job, instance) (up == 0)"));
        assert!(!mixed("x unless on (UUID) y"));
        assert!(!mixed("sum by (model) (x) / sum by (model) (y)"));
    }
}
