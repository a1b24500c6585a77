//! How far a value lies from a condition's threshold: from -1 (clearly not met) over 0 (at it) to 1 (clearly met).
//!
//! Each kind of number has its scale. A multiple of the past or of the peers is judged by what no change at all would be:
//! that is -1, and twice the change is 1; where the past varies more than that by itself, by what it varies. A share or a temperature is judged by its difference, a number of things by whole
//! things, everything else by its factor.

use crate::playbook::{Comparison, Op, Reference};
use crate::signal::Unit;

/// A share that lies so much beyond its threshold is clearly beyond it; less where there is less room up to 0 or 1.
const CLEAR_SHARE: f64 = 0.1;
/// Any other number that is so many times its threshold is clearly beyond it.
const CLEAR_FACTOR: f64 = 1.5;
/// A temperature that lies so many degrees beyond its threshold is clearly beyond it.
const CLEAR_CELSIUS: f64 = 5.0;
/// A number of things that lies so much of it beyond its threshold is clearly beyond it, and one thing is enough for a few.
const CLEAR_COUNT: f64 = 0.1;
/// The least change that is clearly one, where the threshold itself is no change (`> 1x baseline`).
const CLEAR_CHANGE: f64 = 1.1;

/// What a comparison says of a value, -1..=1; the sign tells whether it holds. `limit` is the threshold as a number, `varies`
/// how many times of itself the past is within minutes. Not a number counts as clearly not met.
pub(super) fn degree(comparison: Comparison, value: f64, limit: f64, unit: Unit, varies: Option<f64>) -> f64 {
    let holds = comparison.op.holds(value, limit);
    let distance = match (comparison.to, unit) {
        // Of something that should not be there at all, one is clear.
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
    // What cannot be compared is clearly not met. Most of what a check can say it says halfway.
    let x = if distance.is_nan() { 1.0 } else { distance.min(1.0) };
    let said = x * (2.0 - x);
    if holds { said } else { -said }
}

/// How many times one is the other, as the logarithm's size; endless where one of them is nothing.
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
