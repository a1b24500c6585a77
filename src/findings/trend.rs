//! The line through a pool's own hours: what a driver of this size cost before. It is a Theil–Sen estimator, which tolerates a
//! quarter of outliers.

use crate::observation::median;

/// Minimum number of points for a line.
const MIN_POINTS: usize = 8;
/// Minimum spread of the batch sizes for a slope, as a share of the usual size.
const MIN_SPREAD: f64 = 0.2;
/// Multiple of the largest batch up to which the line is extrapolated; beyond it, steps may cost more.
const MAX_EXTRAPOLATION: f64 = 1.5;
/// Maximum median distance from the line, as a share; with more, the batch does not drive the signal.
const SCATTER: f64 = 0.3;

/// Returns the value of the line through points `(driver, cost)` at a driver of `x`, up to 1.5 times the largest; `None` if the
/// points do not allow one.
pub fn expected(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let points: Vec<(f64, f64)> = points.iter().copied().filter(|(x, y)| *x > 0.0 && *y > 0.0).collect();
    let middle = |values: Vec<f64>| median(&mut { values });
    let usual = middle(points.iter().map(|(x, _)| *x).collect()).filter(|_| points.len() >= MIN_POINTS)?;
    let (least, most) = points.iter().fold((f64::MAX, 0.0_f64), |(a, b), (x, _)| (a.min(*x), b.max(*x)));
    let has_spread = most - least > MIN_SPREAD * usual;
    let reach = if has_spread { MAX_EXTRAPOLATION } else { 1.0 + MIN_SPREAD };
    if x.is_nan() || x > most * reach || (!has_spread && x * reach < least) {
        return None;
    }
    // A batch smaller than all others costs no more than the smallest.
    let x = x.max(least);
    let pairs = points.iter().enumerate().flat_map(|(i, a)| points[i + 1..].iter().map(move |b| (a, b)));
    let slopes =
        pairs.filter(|(a, b)| (a.0 - b.0).abs() > MIN_SPREAD / 4.0 * usual).map(|(a, b)| (a.1 - b.1) / (a.0 - b.0));
    // No step becomes faster with a larger batch.
    let slope = if has_spread { middle(slopes.collect()).unwrap_or(0.0).max(0.0) } else { 0.0 };
    let base = middle(points.iter().map(|(x, y)| y - slope * x).collect())?;
    let scatter = middle(points.iter().map(|(x, y)| ((base + slope * x) / y - 1.0).abs()).collect())?;
    Some(base + slope * x).filter(|expected| *expected > 0.0 && scatter <= SCATTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool whose steps take 10 ms and 1 ms for each running request.
    fn pool(batches: impl IntoIterator<Item = f64>) -> Vec<(f64, f64)> {
        batches.into_iter().map(|n| (n, 0.010 + 0.001 * n)).collect()
    }

    fn day() -> Vec<(f64, f64)> {
        pool((0..24).map(|i| 8.0 + f64::from(i)))
    }

    fn near(value: Option<f64>, expected: f64) {
        assert!(value.is_some_and(|value| (value / expected - 1.0).abs() < 0.05), "{value:?}, expected {expected}");
    }

    #[test]
    fn a_batch_costs_what_such_batches_cost() {
        near(expected(&day(), 20.0), 0.030);
        near(expected(&day(), 40.0), 0.050);
        near(expected(&day(), 1.0), 0.018);
    }

    #[test]
    fn a_quarter_of_odd_points_does_not_bend_the_line() {
        let mut outlying = day();
        outlying.iter_mut().step_by(4).for_each(|(_, y)| *y *= 10.0);
        near(expected(&outlying, 30.0), 0.040);
    }

    #[test]
    fn what_the_hours_do_not_tell_is_not_guessed() {
        assert_eq!(expected(&day()[..7], 10.0), None, "too few points");
        assert_eq!(expected(&day(), 60.0), None, "far beyond all batches");
        let flat = pool([20.0; 12]);
        near(expected(&flat, 21.0), 0.030);
        assert_eq!(expected(&flat, 30.0), None, "no slope is known");
        assert_eq!(expected(&flat, 10.0), None, "no slope is known");
        let wild: Vec<(f64, f64)> = (0..24).map(|i| (10.0 + f64::from(i), [0.01, 0.2, 0.05][i as usize % 3])).collect();
        assert_eq!(expected(&wild, 20.0), None, "the batch is not what drives it");
        assert_eq!(expected(&[], 1.0), None);
        assert_eq!(expected(&day(), f64::NAN), None);
    }
}
