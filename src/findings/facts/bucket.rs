//! Precision of a histogram's quantiles: they are known only to the bucket that contains them.

/// A bucket of a histogram, in the unit of its values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QuantileBucket {
    /// Between two bounds.
    Between(f64, f64),
    /// At or above the last finite bound.
    Beyond(f64),
}

/// Relative difference below which a value equals a bound: scaling changes the last digits.
const TOLERANCE: f64 = 1e-9;

/// Returns the bucket of an interpolated quantile. `bounds` are the finite upper bounds, ascending; `None` if it is
/// empty or the quantile is not finite.
/// Source: <https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile>.
pub fn bucket(quantile: f64, bounds: &[f64]) -> Option<QuantileBucket> {
    let last = *bounds.last()?;
    let at_most = |bound: f64| quantile <= bound + TOLERANCE * bound.abs();
    if !quantile.is_finite() {
        return None;
    }
    // A quantile in the bucket without an upper bound is reported as the last finite bound.
    if quantile >= last - TOLERANCE * last.abs() {
        return Some(QuantileBucket::Beyond(last));
    }
    let i = bounds.iter().position(|bound| at_most(*bound))?;
    let low = if i == 0 { bounds[0].min(0.0) } else { bounds[i - 1] };
    Some(QuantileBucket::Between(low, bounds[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_known_as_well_as_its_bucket_is_narrow() {
        let bounds = [0.25, 0.5, 1.0];
        for (quantile, known) in [
            (0.1, Some(QuantileBucket::Between(0.0, 0.25))),
            (0.375, Some(QuantileBucket::Between(0.25, 0.5))),
            (0.5, Some(QuantileBucket::Between(0.25, 0.5))),
            (1.0, Some(QuantileBucket::Beyond(1.0))),
            (f64::NAN, None),
        ] {
            assert_eq!(bucket(quantile, &bounds), known, "{quantile}");
        }
        assert_eq!(bucket(0.4, &[]), None);
    }
}
