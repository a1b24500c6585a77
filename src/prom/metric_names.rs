//! The names of the metrics that Prometheus has, and the removal of other metrics from queries.
//!
//! Queries name the metrics of all versions of an engine and of optional features. A metric that does not exist is an
//! empty vector, so the result of an expression over it is known without a query.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use promql_parser::label::{METRIC_NAME, MatchOp};
use promql_parser::parser::{BinaryExpr, Expr, VectorSelector, token};

use super::{Prometheus, Row};
use knowledge::promql::parse;

/// Functions that return a value for an empty argument.
const FUNCTIONS_OF_EMPTY: [&str; 4] = ["absent", "absent_over_time", "info", "scalar"];

/// Maximum number of names that is trusted; VictoriaMetrics cuts at 100,000 (`-search.maxTagValues`).
const MAX_NAMES: usize = 50_000;

/// The names of the metrics that existed in a time range; `None` inside if the server did not return them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricNames(Option<Arc<BTreeSet<String>>>);

impl MetricNames {
    /// Returns true if a metric of this name may exist.
    fn may_have(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.contains(name))
    }

    /// Returns true if a metric of this name is known to exist.
    pub fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|names| names.contains(name))
    }

    /// Returns true if the metrics of all rows may exist.
    pub fn have_all(&self, rows: &[Row]) -> bool {
        rows.iter().filter_map(|row| row.labels.get(METRIC_NAME)).all(|name| self.may_have(name))
    }

    /// Removes metrics that do not exist from a query; `None` if its result is empty. Invalid PromQL is not changed.
    pub fn prune(&self, query: &str) -> Option<String> {
        if self.0.is_none() {
            return Some(query.to_owned());
        }
        let Ok(expr) = parse(query) else { return Some(query.to_owned()) };
        let pruned = self.pruned(expr.clone())?;
        Some(if pruned == expr { query.to_owned() } else { pruned.to_string() })
    }

    /// Removes metrics that do not exist from an expression; `None` if its result is empty.
    fn pruned(&self, expr: Expr) -> Option<Expr> {
        match expr {
            Expr::VectorSelector(selector) => self.may_select(&selector).then_some(Expr::VectorSelector(selector)),
            Expr::MatrixSelector(selector) => self.may_select(&selector.vs).then_some(Expr::MatrixSelector(selector)),
            Expr::Aggregate(mut of) => {
                *of.expr = self.pruned(*of.expr)?;
                Some(Expr::Aggregate(of))
            }
            Expr::Unary(mut of) => {
                *of.expr = self.pruned(*of.expr)?;
                Some(Expr::Unary(of))
            }
            Expr::Paren(mut of) => {
                *of.expr = self.pruned(*of.expr)?;
                Some(Expr::Paren(of))
            }
            Expr::Subquery(mut of) => {
                *of.expr = self.pruned(*of.expr)?;
                Some(Expr::Subquery(of))
            }
            Expr::Call(call) if FUNCTIONS_OF_EMPTY.contains(&call.func.name) => Some(Expr::Call(call)),
            Expr::Call(mut call) => {
                for arg in &mut call.args.args {
                    let pruned = self.pruned((**arg).clone())?;
                    **arg = pruned;
                }
                Some(Expr::Call(call))
            }
            Expr::Binary(of) => self.binary(of),
            other => Some(other),
        }
    }

    fn may_select(&self, selector: &VectorSelector) -> bool {
        let named = selector.matchers.matchers.iter().find(|m| m.name == METRIC_NAME && m.op == MatchOp::Equal);
        let name = selector.name.as_deref().or(named.map(|m| m.value.as_str()));
        name.is_none_or(|name| self.may_have(name))
    }

    fn binary(&self, of: BinaryExpr) -> Option<Expr> {
        let fills = of.modifier.as_ref().is_some_and(|modifier| modifier.fill_values != Default::default());
        if fills {
            return Some(Expr::Binary(of));
        }
        let BinaryExpr { op, lhs, rhs, modifier } = of;
        match (self.pruned(*lhs), self.pruned(*rhs)) {
            (Some(lhs), Some(rhs)) => {
                Some(Expr::Binary(BinaryExpr { op, lhs: Box::new(lhs), rhs: Box::new(rhs), modifier }))
            }
            (lhs, rhs) if op.id() == token::T_LOR => lhs.or(rhs),
            (lhs, None) if op.id() == token::T_LUNLESS => lhs,
            _ => None,
        }
    }
}

impl FromIterator<String> for MetricNames {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        Self(Some(Arc::new(names.into_iter().collect())))
    }
}

impl Prometheus {
    /// Reads the names of the metrics that have series between two times; unknown if the server does not answer before
    /// the deadline, or not completely.
    ///
    /// Source of the shape: Prometheus HTTP API, "Querying label values". It reads the index and no samples. Times are
    /// rounded to whole blocks, so some of the names may be of a little earlier or later. Some servers only cover the
    /// last hours (Cortex without `query-store-for-labels-enabled`): a metric that an upgrade renamed has no past
    /// there.
    pub async fn metric_names(&self, from: Timestamp, to: Timestamp, deadline: Instant) -> MetricNames {
        let path = format!("label/{METRIC_NAME}/values?start={}&end={}", from.as_second(), to.as_second());
        match self.api_with_completeness::<Vec<String>>(&path, "the names of its metrics", deadline).await {
            // A server without an index returns no names; a long list may be truncated without a warning.
            Ok((names, is_complete)) if names.is_empty() || names.len() >= MAX_NAMES || !is_complete => {
                MetricNames::default()
            }
            Ok((names, _)) => names.into_iter().collect(),
            Err(error) => {
                tracing::debug!(%error, "the names of the metrics are not known");
                MetricNames::default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pruned(query: &str) -> Option<String> {
        let names: MetricNames = ["a", "b", "up"].map(str::to_owned).into_iter().collect();
        names.pruned(parse(query).unwrap()).map(|expr| expr.to_string())
    }

    fn same(query: &str) -> String {
        parse(query).unwrap().to_string()
    }

    #[test]
    fn what_does_not_exist_is_not_asked_for() {
        for query in [
            "gone",
            "{__name__=\"gone\"}",
            "sum by (x) (rate(gone{x=\"y\"}[5m]))",
            "a * on (x) group_left () gone",
            "a and on (x) (sum(gone) > 1)",
            "gone unless a",
            "-gone",
            "max_over_time((gone > 0)[5m:1m])",
            "0 * count(gone)",
            "histogram_quantile(0.9, sum by (le) (rate(gone[5m])))",
            "label_replace(gone, \"x\", \"y\", \"\", \"\")",
        ] {
            assert_eq!(pruned(query), None, "{query}");
        }
    }

    #[test]
    fn what_exists_stays_and_alternatives_that_do_not_exist_go() {
        for (query, expected) in [
            ("a or gone", "a"),
            ("gone or on (x) b", "b"),
            ("sum(rate(gone[5m]) or rate(a[5m])) / sum(b)", "sum(rate(a[5m])) / sum(b)"),
            ("a unless on (x) gone", "a"),
            ("(gone or a) * 2", "(a) * 2"),
            ("a * (gone or b + a)", "a * (b + a)"),
            ("sum(a or gone * b or b)", "sum(a or b)"),
        ] {
            assert_eq!(pruned(query), Some(same(expected)), "{query}");
        }
    }

    #[test]
    fn what_may_have_a_value_is_asked_whole() {
        for query in [
            "absent(gone)",
            "vector(scalar(gone))",
            "{__name__=~\"gone|a\"}",
            "{job=\"x\"}",
            "up == 0 or absent(gone{x=\"y\"})",
            "time() - a",
        ] {
            assert_eq!(pruned(query), Some(same(query)), "{query}");
        }
        let unknown = MetricNames::default();
        assert_eq!(unknown.prune("gone or a").as_deref(), Some("gone or a"));
    }

    #[tokio::test]
    async fn a_list_of_names_that_may_be_incomplete_is_not_trusted() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        for (status, body, is_known) in [
            (200, r#"{"status":"success","data":["a"]}"#, true),
            (200, r#"{"status":"success","data":["a"],"warnings":null}"#, true),
            (200, r#"{"status":"success","data":["a"],"warnings":["a store is away"]}"#, false),
            (200, r#"{"status":"success","isPartial":true,"data":["a"]}"#, false),
            (200, r#"{"status":"success","data":[]}"#, false),
            (404, "404 page not found", false),
        ] {
            let status = reqwest::StatusCode::from_u16(status).unwrap();
            let answers = axum::Router::new().fallback(move || async move { (status, body) });
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let server = tokio::spawn(async move { axum::serve(listener, answers).await });
            let prometheus = Prometheus::new(&crate::Config { url, ..Default::default() }).unwrap();
            let at = Timestamp::from_second(1_790_000_000).unwrap();
            let names = prometheus.metric_names(at, at, Instant::now() + std::time::Duration::from_secs(10)).await;
            assert_eq!(names != MetricNames::default(), is_known, "{body}");
            server.abort();
        }
    }
}
