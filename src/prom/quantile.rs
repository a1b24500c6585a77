//! Quantiles of classic histograms, as Prometheus' `histogram_quantile` computes them.
//!
//! Source: Prometheus, "histogram_quantile()", and `promql/quantile.go`.

/// A bucket's upper bound and its cumulative count, ascending by bound.
pub(super) type Bucket = (f64, f64);

/// Sorts buckets by upper bound and adds up those with the same bound: `le="1"` and `le="1.0"` are one.
pub(super) fn sorted(mut buckets: Vec<Bucket>) -> Vec<Bucket> {
    buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    buckets.dedup_by(|(bound, count), (before, sum)| {
        let same = bound == before;
        *sum += if same { *count } else { 0.0 };
        same
    });
    buckets
}

/// Returns the value below which the share `q` of the observations lies; NaN if there are none or `+Inf` is missing.
pub(super) fn quantile(q: f64, buckets: &[Bucket]) -> f64 {
    if q.is_nan() {
        return f64::NAN;
    }
    if !(0.0..=1.0).contains(&q) {
        return if q < 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    let Some(((last, _), finite)) = buckets.split_last() else { return f64::NAN };
    if *last != f64::INFINITY || finite.is_empty() {
        return f64::NAN;
    }
    // Replicas are scraped at different times, so a sum of rates may decrease from one bucket to the next.
    let mut most = f64::NEG_INFINITY;
    let counts: Vec<f64> = buckets
        .iter()
        .map(|(_, count)| {
            most = most.max(*count);
            most
        })
        .collect();
    if most == 0.0 || most.is_nan() {
        return f64::NAN;
    }
    let rank = q * most;
    let i = counts[..finite.len()].partition_point(|count| *count < rank);
    let Some((bound, _)) = finite.get(i) else { return finite[finite.len() - 1].0 };
    if i == 0 && *bound <= 0.0 {
        return *bound;
    }
    let (start, below) = if i == 0 { (0.0, 0.0) } else { (finite[i - 1].0, counts[i - 1]) };
    start + (bound - start) * ((rank - below) / (counts[i] - below))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f64 = f64::INFINITY;

    #[test]
    fn a_quantile_lies_within_its_bucket_as_far_as_its_rank() {
        let buckets = [(0.1, 2.0), (1.0, 6.0), (2.0, 8.0), (INF, 10.0)];
        assert_eq!(quantile(0.1, &buckets), 0.05);
        assert!((quantile(0.5, &buckets) - 0.775).abs() < 1e-12);
        assert_eq!(quantile(0.8, &buckets), 2.0);
        assert_eq!(quantile(0.99, &buckets), 2.0, "what lies above the last bound is not known");
        assert_eq!(quantile(0.0, &buckets), 0.0);
        assert_eq!((quantile(-1.0, &buckets), quantile(2.0, &buckets)), (-INF, INF));
    }

    #[test]
    fn what_tells_no_quantile_is_no_number() {
        for buckets in [&[][..], &[(INF, 3.0)], &[(0.1, 2.0), (1.0, 3.0)], &[(0.1, 0.0), (INF, 0.0)]] {
            assert!(quantile(0.5, buckets).is_nan(), "{buckets:?}");
        }
        assert!(quantile(f64::NAN, &[(0.1, 2.0), (INF, 3.0)]).is_nan());
    }

    #[test]
    fn a_bucket_that_holds_less_than_a_lower_one_holds_as_much() {
        assert_eq!(quantile(0.5, &[(1.0, 4.0), (2.0, 3.0), (INF, 4.0)]), 0.5);
        assert_eq!(quantile(1.0, &[(1.0, 4.0), (2.0, 3.0), (INF, 4.0)]), 1.0);
        assert_eq!(quantile(0.5, &[(-1.0, 4.0), (2.0, 4.0), (INF, 4.0)]), -1.0);
    }
}
