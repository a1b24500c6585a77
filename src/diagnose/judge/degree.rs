//! The distance of a value from a condition's threshold: from -1 (clearly not met) over 0 (at it) to 1 (clearly met).
//!
//! Each kind of number has its scale. For a multiple of the past or of the peers, no change at all is -1 and twice
//! the change is 1; if the past varies more than that by itself, its variation is the scale. A share or a temperature
//! is judged by its difference, a count by whole numbers, everything else by its factor.

use knowledge::playbook::{Comparison, Op, Reference};
use knowledge::signal::Unit;

/// Difference at which a share is clearly beyond its threshold; less where there is less room up to 0 or 1.
const CLEAR_SHARE: f64 = 0.1;
/// Factor at which any other number is clearly beyond its threshold.
const CLEAR_FACTOR: f64 = 1.5;
/// Difference in degrees at which a temperature is clearly beyond its threshold.
const CLEAR_CELSIUS: f64 = 5.0;
/// Part of its threshold by which a count is clearly beyond it; for small thresholds one is enough.
const CLEAR_COUNT: f64 = 0.1;
/// Minimum clear change where the threshold itself is no change (`> 1x baseline`).
const CLEAR_CHANGE: f64 = 1.1;

/// Returns the support of a comparison, -1..=1; the sign says if it holds. `limit` is the threshold as a number,
/// `varies` the variation of the past ([`findings::Observation::varies`]). NaN counts as clearly not met.
pub(crate) fn degree(comparison: Comparison, value: f64, limit: f64, unit: Unit, varies: Option<f64>) -> f64 {
    let holds = holds(comparison, value, limit);
    if is_nothing_as_before(comparison, value, limit) {
        return if holds { 1.0 } else { -1.0 };
    }
    let distance = match (comparison.to, unit) {
        // Of something that should not occur at all, one is clear.
        (Reference::Number(0.0), _) => f64::INFINITY,
        // Between two whole numbers: one more or less than the last that holds is clear.
        (_, Unit::Count) if value.fract() == 0.0 => {
            let edge = match comparison.op {
                Op::Above | Op::AtMost => limit.floor() + 0.5,
                Op::AtLeast | Op::Below => limit.ceil() - 0.5,
            };
            (value - edge).abs() / (CLEAR_COUNT * limit).max(0.5)
        }
        (Reference::Baseline(times), _) => {
            let change = times.ln().abs().max(CLEAR_CHANGE.ln()).max(varies.unwrap_or(1.0).ln());
            ratio(value, limit) / change
        }
        (Reference::Peers(times), _) => ratio(value, limit) / times.ln().abs().max(CLEAR_CHANGE.ln()),
        (Reference::Number(_), Unit::Ratio) => {
            let room = limit.min(1.0 - limit) / 2.0;
            (value - limit).abs() / CLEAR_SHARE.min(room.max(f64::EPSILON))
        }
        (Reference::Number(_), Unit::Celsius) => (value - limit).abs() / CLEAR_CELSIUS,
        (Reference::Number(_), _) => ratio(value, limit) / CLEAR_FACTOR.ln(),
    };
    // NaN is clearly not met. The curve is steep near the threshold: half of the distance gives three quarters of the
    // support.
    let x = if distance.is_nan() { 1.0 } else { distance.min(1.0) };
    let support = x * (2.0 - x);
    if holds { support } else { -support }
}

/// Returns true if a comparison holds. What was nothing before, or at the peers, and is nothing here has not changed: it is
/// compared as 1 with the multiple.
pub(crate) fn holds(comparison: Comparison, value: f64, limit: f64) -> bool {
    match comparison.to {
        Reference::Baseline(times) | Reference::Peers(times) if is_nothing_as_before(comparison, value, limit) => {
            comparison.op.holds(1.0, times)
        }
        _ => comparison.op.holds(value, limit),
    }
}

fn is_nothing_as_before(comparison: Comparison, value: f64, limit: f64) -> bool {
    limit == 0.0 && value == 0.0 && !matches!(comparison.to, Reference::Number(_))
}

/// Returns the absolute logarithm of the ratio; infinite if one of them is zero.
fn ratio(value: f64, limit: f64) -> f64 {
    if value == limit { 0.0 } else { (value / limit).ln().abs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(condition: &str, value: f64, limit: f64, unit: Unit) -> f64 {
        degree(condition.parse().unwrap(), value, limit, unit, None)
    }

    #[test]
    fn at_the_threshold_nothing_is_said_and_far_from_it_everything() {
        assert_eq!(of("> 2", 2.0, 2.0, Unit::Seconds), 0.0);
        assert!(of("> 2", 2.1, 2.0, Unit::Seconds) < 0.3);
        assert_eq!(of("> 2", 3.0, 2.0, Unit::Seconds), 1.0);
        assert_eq!(of("> 2", 1.0, 2.0, Unit::Seconds), -1.0);
        assert_eq!(of("> 0", 1.0, 0.0, Unit::Count), 1.0);
        assert_eq!(of("> 0", 0.0, 0.0, Unit::Count), -1.0);
        assert_eq!(of("< 1", 1.0, 1.0, Unit::Count), -1.0);
        assert_eq!(of(">= 3", 3.0, 3.0, Unit::Count), 1.0);
        assert_eq!(of("> 0.9", 0.4, 0.9, Unit::Count), -1.0, "CPU cores are no whole number");
        assert!(of("> 1000", 1010.0, 1000.0, Unit::Count) < 0.3);
    }

    #[test]
    fn no_change_at_all_is_clearly_none() {
        assert_eq!(of("> 1.5x baseline", 1.0, 1.5, Unit::Seconds), -1.0);
        assert_eq!(of("> 1.5x baseline", 2.25, 1.5, Unit::Seconds), 1.0);
        assert_eq!(of("< 0.5x peers", 1.0, 0.5, Unit::Requests), -1.0);
        assert_eq!(of("> 1.15x baseline", 0.0, 1.15, Unit::Requests), -1.0);
    }

    #[test]
    fn nothing_after_nothing_is_no_change() {
        for (condition, expected) in
            [("> 1.5x baseline", -1.0), ("< 0.6x baseline", -1.0), ("< 1.3x baseline", 1.0), (">= 0.9x peers", 1.0)]
        {
            assert_eq!(of(condition, 0.0, 0.0, Unit::Ratio), expected, "{condition}");
            assert_eq!(holds(condition.parse().unwrap(), 0.0, 0.0), expected > 0.0, "{condition}");
        }
    }

    #[test]
    fn a_change_that_the_past_shows_by_itself_says_little() {
        let of = |value, varies| degree("> 1.5x baseline".parse().unwrap(), value, 1.5, Unit::Requests, varies);
        assert_eq!(of(2.25, Some(1.2)), 1.0, "a steady past");
        assert!((0.3..0.7).contains(&of(2.25, Some(4.0))), "{}", of(2.25, Some(4.0)));
        assert!((-0.6..-0.3).contains(&of(1.0, Some(4.0))), "{}", of(1.0, Some(4.0)));
        let absolute = degree("> 2".parse().unwrap(), 3.0, 2.0, Unit::Seconds, Some(9.0));
        assert_eq!(absolute, 1.0, "a limit is a limit");
    }

    #[test]
    fn a_share_has_less_room_near_its_ends() {
        assert!((of("> 0.8", 0.75, 0.8, Unit::Ratio) + 0.75).abs() < 1e-9);
        assert_eq!(of("> 0.8", 0.1, 0.8, Unit::Ratio), -1.0);
        assert!(of("> 0.98", 0.99, 0.98, Unit::Ratio) > 0.99);
        assert!(of("> 0.02", 0.03, 0.02, Unit::Ratio) > 0.99);
    }

    #[test]
    fn what_is_no_number_never_speaks_for_anything() {
        assert_eq!(of("> 2", f64::NAN, 2.0, Unit::Seconds), -1.0);
        assert_eq!(of("> 2x baseline", 1.0, f64::NAN, Unit::Seconds), -1.0);
    }
}
