//! The bucket bounds of the histograms behind quantiles.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use promql_parser::parser::{Expr, token};

use super::context::FactQueryContext;
use super::end_and_length;
use knowledge::promql::parse;

/// The histogram behind a quantile.
#[derive(Debug, PartialEq)]
struct Histogram {
    /// The PromQL of its buckets.
    query: String,
    /// The factor that converts its bounds to the signal's unit.
    scale: f64,
}

/// Returns the finite upper bounds behind the quantiles of `queries`, ascending and in the quantile's unit. Omits
/// queries that are not a quantile of one histogram, and those that Prometheus did not answer.
pub(super) async fn bounds(
    context: FactQueryContext<'_>,
    queries: &BTreeMap<&str, &str>,
) -> BTreeMap<String, Vec<f64>> {
    let of: BTreeMap<&str, Histogram> =
        queries.iter().filter_map(|(name, query)| Some((*name, histogram(&parse(query).ok()?)?))).collect();
    // Quantiles of the same histogram share one query.
    let distinct: BTreeSet<&str> = of.values().map(|histogram| histogram.query.as_str()).collect();
    let (at, _) = end_and_length(context.windows.during);
    let ask = async |query: &str| {
        let rows = context.prometheus.query(&format!("group by (le) ({query})"), at, context.deadline).await.ok()?;
        let mut all: Vec<f64> = rows.iter().filter_map(|row| row.labels.get("le")?.parse().ok()).collect();
        all.retain(|bound: &f64| bound.is_finite());
        all.sort_by(f64::total_cmp);
        all.dedup();
        Some(all)
    };
    let answers = join_all(distinct.iter().map(|query| ask(query))).await;
    let answers: BTreeMap<&str, Option<Vec<f64>>> = distinct.into_iter().zip(answers).collect();
    let scaled = |(name, histogram): (&str, &Histogram)| {
        let bounds = answers.get(histogram.query.as_str())?.as_ref()?;
        Some((name.to_owned(), bounds.iter().map(|bound| bound * histogram.scale).collect()))
    };
    of.iter().filter_map(|(name, histogram)| scaled((name, histogram))).collect()
}

fn histogram(expr: &Expr) -> Option<Histogram> {
    match expr {
        Expr::Paren(inner) => histogram(&inner.expr),
        Expr::Call(call) if call.func.name == "histogram_quantile" => {
            Some(Histogram { query: call.args.args.get(1)?.to_string(), scale: 1.0 })
        }
        Expr::Binary(binary) if binary.op.id() == token::T_DIV => match binary.rhs.as_ref() {
            Expr::NumberLiteral(by) if by.val > 0.0 => {
                let inner = histogram(&binary.lhs)?;
                Some(Histogram { scale: inner.scale / by.val, ..inner })
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_histogram_of_a_quantile_is_found_and_what_is_none_has_none() {
        let of = |query: &str| histogram(&parse(query).unwrap()).map(|h| (h.query.contains("x_bucket"), h.scale));
        let quantile = "histogram_quantile(0.5, sum by (le, ) (rate(x_bucket{a=\"b\"}[5m])))";
        assert_eq!(of(quantile), Some((true, 1.0)));
        assert_eq!(of(&format!("{quantile} / 1000")), Some((true, 0.001)));
        assert_eq!(of(&format!("max({quantile} or {quantile})")), None);
        assert_eq!(of("rate(x_sum[5m]) / rate(x_count[5m])"), None);
    }
}
