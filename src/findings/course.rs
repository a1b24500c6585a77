//! The course of a check over the range of an incident: when it began, and whether it changed when the symptom began.
//!
//! Load of 2.4 times yesterday's that was borne for hours does not explain why tokens have been slow for ten minutes. A fault
//! that takes minutes to be felt, such as a queue that grows, has changed before; one that grows slowly is not flat.

use std::time::Duration;

use jiff::Timestamp;
use knowledge::clock;

use crate::Outcome;
use crate::observation::median;

/// Steps in a row that may lack data or the condition within a period, and at its end: a missed scrape does not end it.
const MAX_MISSED_STEPS: usize = 2;
/// Number of steps with the condition that one step without it takes away from a period.
const NOT_MET_COST: i32 = 2;
/// Minimum time before the symptom in which a value has to be known: few faults take longer to be felt.
const MIN_BEFORE: Duration = Duration::from_secs(900);
/// Minimum steps with a value on either side of the beginning.
const MIN_STEPS: usize = 3;
/// Maximum factor between values that are about the same.
const FLAT: f64 = 1.1;
/// Maximum factor between what is left to 1 of shares that are about the same.
const FLAT_REST: f64 = 1.5;
/// Minimum factor between values before and after a jump.
const JUMP: f64 = 1.5;
/// Maximum factor between the halves of the time before the symptom, in which it did not grow yet.
const QUIET: f64 = 1.3;

/// A check at one moment.
#[derive(Debug, Clone, Copy)]
pub struct CourseStep {
    /// The moment.
    pub at: Timestamp,
    /// The result of the check.
    pub outcome: Outcome,
    /// The value, in the signal's unit.
    pub value: Option<f64>,
}

/// A check at each step of a range, in order of time.
#[derive(Debug, Clone)]
pub struct Course(pub Vec<CourseStep>);

impl Course {
    /// Returns the start of the period that lasts until the end; `None` if it holds from the first step on, or not at the
    /// end. The period is the one that best divides the steps: a value that wavers about its limit on normal days has held
    /// now and then before, and that is no onset.
    pub fn began(&self) -> Option<Timestamp> {
        let held = &self.0;
        let last = held.iter().rposition(|step| step.outcome == Outcome::Met)?;
        if held.len() - last > 1 + MAX_MISSED_STEPS {
            return None;
        }
        let (mut sum, mut best, mut since, mut gap) = (0, 0, None, 0);
        for (i, step) in held[..=last].iter().enumerate().rev() {
            match step.outcome {
                Outcome::Met => (sum, gap) = (sum + 1, 0),
                Outcome::NotMet => (sum, gap) = (sum - NOT_MET_COST, gap + 1),
                Outcome::NoData => gap += 1,
            }
            if gap > MAX_MISSED_STEPS {
                break;
            }
            if step.outcome == Outcome::Met && sum > best {
                (best, since) = (sum, Some((i, step.at)));
            }
        }
        // Without a step before that lacks the condition nothing is known of its begin.
        let began = |i: usize| i > MAX_MISSED_STEPS && held[..i].iter().any(|step| step.outcome == Outcome::NotMet);
        since.filter(|(i, _)| began(*i)).map(|(_, at)| at)
    }

    /// Returns the moment at which a symptom began that was quiet before: it met its condition then, or it met it all along and
    /// jumped, to less if it `falls`. `None` if it flapped or grew towards it.
    pub fn quiet_until(&self, falls: bool) -> Option<Timestamp> {
        let began = self.began();
        let at = began.or_else(|| self.jumped(falls))?;
        let (before, _) = self.split(at);
        let (earlier, later) = before.split_at(before.len() / 2);
        let is_flat = middle(earlier).zip(middle(later)).is_some_and(|(earlier, later)| is_near(earlier, later, QUIET));
        let flapped = began.is_some() && before.iter().any(|step| step.outcome == Outcome::Met);
        (is_flat && !flapped).then_some(at)
    }

    /// Returns the moment since which the value is far from that at the beginning of the range, and near that at its end.
    fn jumped(&self, falls: bool) -> Option<Timestamp> {
        let (first, last) = (self.0.get(..self.0.len() / 3)?, self.0.get(self.0.len() - self.0.len() / 6..)?);
        let (was, now) =
            middle(first).zip(middle(last)).filter(|(was, now)| !is_near(*was, *now, JUMP) && (now < was) == falls)?;
        let limit = (was * now).sqrt();
        let is_new = |step: &CourseStep| step.value.is_none_or(|value| (value > limit) == (now > limit));
        let since = self.0.iter().rposition(|step| !is_new(step)).map_or(0, |i| i + 1);
        self.0.get(since).map(|step| step.at)
    }

    /// Returns true if a check held in nearly all of the time before the symptom began, with the value that it has since.
    pub fn is_as_before(&self, began: Timestamp) -> bool {
        let (before, _) = self.split(began);
        // A value near its threshold crosses it now and then.
        let times = |outcome: Outcome| before.iter().filter(|step| step.outcome == outcome).count();
        let held = times(Outcome::NotMet) * 4 <= times(Outcome::Met);
        let first = before.iter().find(|step| step.value.is_some());
        let is_long = first.is_some_and(|first| clock::between(first.at, began) >= MIN_BEFORE);
        held && is_long && self.is_flat(began)
    }

    /// Returns true if the value was about the same before a moment and since.
    pub fn is_flat(&self, at: Timestamp) -> bool {
        let (before, since) = self.split(at);
        // Of a share near 1 the rest counts: a CPU that is busy for 0.92 of the time has room, one at 1 has none.
        let is_same = |before: f64, since: f64| {
            is_near(before, since, FLAT) && (before.max(since) > 1.0 || is_near(1.0 - before, 1.0 - since, FLAT_REST))
        };
        middle(before).zip(middle(since)).is_some_and(|(before, since)| is_same(before, since))
    }

    /// Returns the steps before a moment, and those since.
    fn split(&self, at: Timestamp) -> (&[CourseStep], &[CourseStep]) {
        self.0.split_at(self.0.partition_point(|step| step.at < at))
    }
}

/// Returns the median value; `None` of fewer than [`MIN_STEPS`].
fn middle(steps: &[CourseStep]) -> Option<f64> {
    let mut values: Vec<f64> = steps.iter().filter_map(|step| step.value).collect();
    if values.len() < MIN_STEPS { None } else { median(&mut values) }
}

fn is_near(a: f64, b: f64, factor: f64) -> bool {
    a == b || (a > 0.0 && b > 0.0 && a.max(b) / a.min(b) <= factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(text: &str) -> Option<i64> {
        let outcome = |c| match c {
            '#' => Outcome::Met,
            '.' => Outcome::NotMet,
            _ => Outcome::NoData,
        };
        let step =
            |(i, c)| CourseStep { at: Timestamp::from_second(i as i64).unwrap(), outcome: outcome(c), value: None };
        let course = Course(text.chars().enumerate().map(step).collect());
        course.began().map(|at| at.as_second())
    }

    #[test]
    fn an_onset_is_where_the_last_period_begins() {
        assert_eq!(held("......######"), Some(6));
        assert_eq!(held("..###....###"), Some(9), "an earlier period is another story");
        assert_eq!(held("......##?##"), Some(6), "a missed scrape is no end");
        assert_eq!(held("......#####.####"), Some(6), "a step below the limit is no end");
        assert_eq!(held("......######?."), Some(6), "nor is one at the end");
        assert_eq!(held("...#..#.#..#..######"), Some(14), "it wavered before");
        assert_eq!(held("......######..."), None, "it is over");
        assert_eq!(held("....################......###"), Some(26), "a longer period before is another story too");
        assert_eq!(held(".....##########....#"), Some(19));
        assert_eq!(held("...##????????######"), Some(13), "nothing is known of the time between");
        assert_eq!(held("??????######"), None, "nor of the time before");
        assert_eq!(held("############"), None, "it held all along");
        assert_eq!(held("?###########"), None, "nothing is known of before");
        assert_eq!(held("............"), None);
        assert_eq!(held(""), None);
    }

    /// A course with a step each minute; values above the limit meet the condition.
    fn course(values: &[f64], limit: f64) -> Course {
        let outcome = |value: f64| if value > limit { Outcome::Met } else { Outcome::NotMet };
        let step =
            |(i, value): (usize, &f64)| CourseStep { at: minute(i), outcome: outcome(*value), value: Some(*value) };
        Course(values.iter().enumerate().map(step).collect())
    }

    fn minute(i: usize) -> Timestamp {
        Timestamp::from_second(60 * i64::try_from(i).unwrap()).unwrap()
    }

    fn steps(before: f64, since: f64) -> Vec<f64> {
        [vec![before; 20], vec![since; 10]].concat()
    }

    #[test]
    fn load_that_was_borne_before_is_as_before_and_a_new_surge_is_not() {
        let of = |values: &[f64]| course(values, 6.0).is_as_before(minute(20));
        assert!(of(&steps(9.5, 9.7)), "as large as ever");
        assert!(!of(&steps(4.0, 9.5)), "it did not hold before");
        assert!(!of(&steps(9.5, 12.0)), "it grew once more");
        assert!(!of(&steps(12.0, 9.5)), "it fell");
        let share = |before, since| course(&steps(before, since), 0.9).is_as_before(minute(20));
        assert!(share(0.95, 0.96) && !share(0.92, 1.0), "what is left of a CPU counts");
    }

    #[test]
    fn a_few_minutes_before_tell_nothing() {
        let values = steps(9.5, 9.5);
        assert!(!Course(course(&values, 6.0).0.split_off(10)).is_as_before(minute(20)));
        assert!(!course(&values, 6.0).is_as_before(minute(29)), "nor does one moment since");
    }

    #[test]
    fn a_symptom_was_quiet_if_it_neither_flapped_nor_grew() {
        let of = |values: &[f64], limit: f64| course(values, limit).quiet_until(false);
        assert_eq!(of(&steps(0.5, 8.0), 2.0), Some(minute(20)));
        let mut flaps = steps(0.5, 8.0);
        flaps[4] = 7.0;
        assert_eq!(of(&flaps, 2.0), None);
        let grows: Vec<f64> = (0..30).map(|i| 0.1 * f64::from(i)).collect();
        assert_eq!(of(&grows, 2.0), None);
        assert_eq!(of(&steps(50.0, 220.0), 30.0), Some(minute(20)), "it was above its limit before, and jumped");
        assert_eq!(of(&steps(50.0, 60.0), 30.0), None, "it held all along");
        assert_eq!(of(&steps(220.0, 50.0), 30.0), None, "relief is no beginning");
    }
}
