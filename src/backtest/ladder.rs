//! Ladders of thresholds: how often a signal would have fired at the shipped threshold, and at some around it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::runs::{SAME_FIRING, held, joined, runs};
use knowledge::clock;
use knowledge::playbook::{Condition, Evidence, Library, Op, PlaybookKind, Reference};
use knowledge::signal::{Unit, WorseDirection};

/// Factors of the smallest and of the largest shipped threshold that are tried too.
const BELOW: [f64; 2] = [0.5, 0.75];
const ABOVE: [f64; 3] = [1.5, 2.0, 3.0];
/// Shares of the distance to 100 % that are tried above a ratio near it.
const TOWARDS_ONE: [f64; 2] = [0.5, 0.25];
/// The ratio from which multiples of a threshold make no sense.
const HIGH_RATIO: f64 = 0.3;
/// Thresholds that are tried above "any at all".
const ABOVE_NOTHING: [f64; 3] = [1.0, 2.0, 5.0];
/// The same for ratios.
const ABOVE_NO_SHARE: [f64; 3] = [0.001, 0.01, 0.05];
/// The `for` of a symptom without an alert rule.
const SYMPTOM_HOLD: Duration = Duration::from_secs(300);
/// Maximum number of points of a picture.
const POINTS: u64 = 240;

/// A shipped threshold of a signal.
#[derive(Debug, Clone, PartialEq)]
pub struct ThresholdBase {
    /// The signal.
    pub signal: String,
    /// The comparison.
    pub op: Op,
    /// The threshold, in the signal's unit.
    pub threshold: f64,
    /// The time for which it must hold.
    pub hold: Duration,
    /// The alert's name, else the playbook: `alert LLMHighTTFT`, `symptom of crash-loop`.
    pub source: String,
}

/// The thresholds of a signal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThresholdLadder {
    /// The signal.
    pub signal: String,
    /// Its title.
    pub title: String,
    /// The unit of thresholds and values.
    pub unit: Unit,
    /// The comparison: `>`, `>=`, `<` or `<=`.
    pub op: String,
    /// The time for which a value must be beyond a threshold.
    pub hold_seconds: u64,
    /// The pools whose values count, by name. A pool whose promise has other thresholds has a ladder of its own.
    pub pools: Vec<String>,
    /// The thresholds, the one that fires most often first.
    pub rungs: Vec<ThresholdRung>,
    /// The worst value of these pools over time, for a picture; empty if no threshold would have fired in any.
    pub values: Vec<(Timestamp, f64)>,
}

impl ThresholdLadder {
    /// Returns true if another ladder is of the same signal, comparison and `for`: of pools with other thresholds.
    pub fn has_signal_of(&self, other: &Self) -> bool {
        (&self.signal, &self.op, self.hold_seconds) == (&other.signal, &other.op, other.hold_seconds)
    }
}

/// A threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThresholdRung {
    /// The threshold, in the signal's unit.
    pub threshold: f64,
    /// The number of times that it would have fired.
    pub times: usize,
    /// The seconds that it would have fired in all.
    pub seconds: u64,
    /// The sources of a shipped threshold: `alert LLMHighTTFT`; empty for one that is tried.
    pub shipped: Vec<String>,
}

/// Returns the shipped thresholds of a library: the first signal of each alert rule, and what users' symptoms require.
/// Only comparisons with a number in the harmful direction count.
pub fn shipped_thresholds(library: &Library) -> Vec<ThresholdBase> {
    let mut all = Vec::new();
    for playbook in library.playbooks.values() {
        for alert in &playbook.alerts {
            let hold = humantime::parse_duration(&alert.hold).unwrap_or(SYMPTOM_HOLD);
            let first = alert.when.first().and_then(|evidence| evidence.checks().first().copied());
            let source = format!("alert {}", alert.alert);
            all.extend(first.and_then(|(signal, when)| base(library, signal, when, hold, source)));
        }
        // The signs of a mechanism are for telling mechanisms apart, not for alerts.
        let of_users =
            playbook.symptom.iter().filter(|evidence| playbook.kind == PlaybookKind::Symptom && evidence.required);
        for (signal, when) in of_users.flat_map(Evidence::checks) {
            all.extend(base(library, signal, when, SYMPTOM_HOLD, format!("symptom of {}", playbook.playbook)));
        }
    }
    all
}

fn base(library: &Library, signal: &str, when: &Condition, hold: Duration, source: String) -> Option<ThresholdBase> {
    let comparison = when.single()?;
    let Reference::Number(threshold) = comparison.to else { return None };
    let harmful = match library.signals.get(signal)?.bad {
        WorseDirection::High => matches!(comparison.op, Op::Above | Op::AtLeast),
        WorseDirection::Low => matches!(comparison.op, Op::Below | Op::AtMost),
        WorseDirection::Neither => false,
    };
    harmful.then(|| ThresholdBase { signal: signal.to_owned(), op: comparison.op, threshold, hold, source })
}

/// Returns the thresholds to try for shipped ones of a signal, the one that fires most often first.
fn rungs(shipped: &[f64], unit: Unit, op: Op) -> Vec<f64> {
    let low = shipped.iter().copied().fold(f64::INFINITY, f64::min);
    let high = shipped.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let is_high_ratio = unit == Unit::Ratio && high >= HIGH_RATIO;
    let mut all = shipped.to_vec();
    if high == 0.0 {
        all.extend(if unit == Unit::Ratio { ABOVE_NO_SHARE } else { ABOVE_NOTHING });
    } else {
        all.extend(BELOW.map(|factor| low * factor));
        match is_high_ratio {
            true => all.extend(TOWARDS_ONE.map(|share| 1.0 - (1.0 - high) * share).into_iter().filter(|t| *t < 1.0)),
            false => all.extend(ABOVE.map(|factor| high * factor)),
        }
    }
    let mut all: Vec<f64> = all.into_iter().map(three_digits).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    if matches!(op, Op::Below | Op::AtMost) {
        all.reverse();
    }
    all
}

/// Rounds to three significant digits.
fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// Counts the firings of each threshold over the values of one pool with this name, `step` apart, in a range of this length; signals
/// without values are left out.
pub fn count_firings(
    library: &Library,
    pool: &str,
    bases: &[ThresholdBase],
    values: &BTreeMap<String, Vec<(Timestamp, f64)>>,
    step: Duration,
    length: Duration,
) -> Vec<ThresholdLadder> {
    let mut groups: BTreeMap<(&str, &str, Duration), Vec<&ThresholdBase>> = BTreeMap::new();
    for base in bases {
        groups.entry((&base.signal, base.op.symbol(), base.hold)).or_default().push(base);
    }
    let ladder = |((signal, symbol, hold), shipped): ((&str, &str, Duration), Vec<&ThresholdBase>)| {
        let (definition, values) = (library.signals.get(signal)?, values.get(signal)?);
        let op = shipped.first()?.op;
        let thresholds: Vec<f64> = shipped.iter().map(|base| base.threshold).collect();
        let rung = |threshold: f64| {
            let (times, seconds) = times(values, op, threshold, hold, step);
            let own = shipped.iter().filter(|base| three_digits(base.threshold) == threshold);
            let mut sources: Vec<String> = own.map(|base| base.source.clone()).collect();
            sources.sort();
            sources.dedup();
            ThresholdRung { threshold, times, seconds, shipped: sources }
        };
        let rungs: Vec<ThresholdRung> = rungs(&thresholds, definition.unit, op).into_iter().map(rung).collect();
        Some(ThresholdLadder {
            signal: signal.to_owned(),
            title: definition.title.clone(),
            unit: definition.unit,
            op: symbol.to_owned(),
            hold_seconds: hold.as_secs(),
            pools: vec![pool.to_owned()],
            rungs,
            values: worst(values, op, length),
        })
    };
    groups.into_iter().filter_map(ladder).collect()
}

/// Returns the number of firings, and the seconds of all of them. A firing needs a value beyond the threshold at each step
/// for as long as `hold`, like a rule's `for`; firings within minutes of each other are one.
fn times(values: &[(Timestamp, f64)], op: Op, threshold: f64, hold: Duration, step: Duration) -> (usize, u64) {
    let beyond = values.iter().filter(|(_, value)| op.holds(*value, threshold)).map(|(at, _)| at.as_millisecond());
    let fired = held(runs(beyond, step), hold);
    let lasted = |(begin, end): &(i64, i64)| Duration::from_millis(end.abs_diff(*begin)).saturating_sub(hold) + step;
    let seconds = fired.iter().map(|run| lasted(run).as_secs()).sum();
    (joined(fired, SAME_FIRING.max(step)).len(), seconds)
}

/// Returns the worst value of each part of a range, at most [`POINTS`] of them and one more.
fn worst(values: &[(Timestamp, f64)], op: Op, length: Duration) -> Vec<(Timestamp, f64)> {
    // Whole minutes, counted from the epoch, so that the points of all pools are at the same times.
    let part = Duration::from_secs(length.as_secs().div_ceil(POINTS).div_ceil(60).max(1) * 60);
    let mut points: BTreeMap<Timestamp, f64> = BTreeMap::new();
    for (at, value) in values {
        worsen(&mut points, clock::floor(*at, part), *value, op.symbol());
    }
    points.into_iter().collect()
}

fn worsen(points: &mut BTreeMap<Timestamp, f64>, at: Timestamp, value: f64, op: &str) {
    let point = points.entry(at).or_insert(value);
    *point = if op.starts_with('>') { point.max(value) } else { point.min(value) };
}

/// Adds the ladders of one more pool. Counts add up where the thresholds are the same ones.
pub fn add_ladders(all: &mut Vec<ThresholdLadder>, more: Vec<ThresholdLadder>) {
    let thresholds = |ladder: &ThresholdLadder| ladder.rungs.iter().map(|rung| rung.threshold).collect::<Vec<_>>();
    for ladder in more {
        let own = all.iter_mut().find(|own| own.has_signal_of(&ladder) && thresholds(own) == thresholds(&ladder));
        let Some(own) = own else {
            all.push(ladder);
            continue;
        };
        for (own, rung) in own.rungs.iter_mut().zip(ladder.rungs) {
            own.times += rung.times;
            own.seconds += rung.seconds;
            own.shipped.extend(rung.shipped);
            own.shipped.sort();
            own.shipped.dedup();
        }
        own.pools.extend(ladder.pools);
        let mut points: BTreeMap<Timestamp, f64> = std::mem::take(&mut own.values).into_iter().collect();
        for (at, value) in ladder.values {
            worsen(&mut points, at, value, &own.op);
        }
        own.values = points.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_secs(60);

    fn minutes(values: &[f64]) -> Vec<(Timestamp, f64)> {
        let at = |i: usize| Timestamp::from_second(i as i64 * 60).unwrap();
        values.iter().enumerate().map(|(i, value)| (at(i), *value)).collect()
    }

    #[test]
    fn a_ladder_has_the_shipped_thresholds_and_some_around_them() {
        assert_eq!(rungs(&[2.0], Unit::Seconds, Op::Above), [1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        assert_eq!(rungs(&[0.95, 0.85], Unit::Ratio, Op::Above), [0.425, 0.637, 0.85, 0.95, 0.975, 0.988]);
        assert_eq!(rungs(&[0.0], Unit::Count, Op::Above), [0.0, 1.0, 2.0, 5.0]);
        assert_eq!(rungs(&[0.1], Unit::Ratio, Op::Below), [0.3, 0.2, 0.15, 0.1, 0.075, 0.05]);
    }

    #[test]
    fn a_value_fires_once_it_held_and_flapping_is_one_firing() {
        let mut values = vec![1.0; 60];
        values[5..7].fill(9.0); // too short
        values[20..30].fill(9.0);
        values[33..38].fill(9.0); // the same one again
        values[50..60].fill(4.0);
        let values = minutes(&values);
        let fired = |threshold| times(&values, Op::Above, threshold, Duration::from_secs(300), STEP);
        assert_eq!((fired(3.0).0, fired(5.0).0, fired(9.0).0), (2, 1, 0));
        assert_eq!(fired(0.5).0, 1);
        let every_fifth = minutes(&[9.0, 1.0, 1.0, 1.0, 1.0].repeat(12));
        let hold = Duration::from_secs(300);
        assert_eq!(times(&every_fifth, Op::Above, 5.0, hold, STEP), (0, 0), "`for` begins anew at each false step");
        let apart: Vec<_> = values.iter().copied().step_by(5).collect();
        let hold = Duration::from_secs(120);
        assert_eq!(times(&apart, Op::Above, 5.0, hold, STEP * 5).0, 1, "one value says nothing of two minutes");
        let short = times(&values, Op::Above, 5.0, Duration::ZERO, STEP);
        assert_eq!(short.0, 2, "without `for` the short one counts too");
    }

    #[test]
    fn the_ladders_of_pools_add_up_and_keep_the_worst_value() {
        let library = knowledge::playbook::load(None).unwrap();
        let bases = shipped_thresholds(&library);
        assert!(bases.iter().any(|base| base.source == "alert LLMHighTTFT" && base.signal == "ttft_burn"));
        let of = |pool: &str, bases: &[ThresholdBase], values: &[f64]| {
            let values = BTreeMap::from([("ttft_p99".to_owned(), minutes(values))]);
            count_firings(&library, pool, bases, &values, STEP, STEP * 240)
        };
        let mut all = of("a", &bases, &[&[0.1; 20][..], &[2.5; 20]].concat());
        add_ladders(&mut all, of("b", &bases, &[&[7.0; 20][..], &[0.1; 20]].concat()));
        let [ladder] = all.as_slice() else { panic!("{all:?}") };
        let fired: Vec<_> = ladder.rungs.iter().map(|rung| (rung.threshold, rung.times)).collect();
        assert_eq!(fired, [(1.0, 2), (1.5, 2), (2.0, 2), (3.0, 1), (4.0, 1), (6.0, 1)]);
        assert_eq!(ladder.rungs[2].shipped, ["symptom of high-ttft", "symptom of low-prefix-cache-hit-rate"]);
        assert_eq!((ladder.values[0].1, ladder.values[39].1), (7.0, 2.5));
        assert_eq!(ladder.pools, ["a", "b"]);

        let promised = |base: &ThresholdBase| ThresholdBase { threshold: 1.2, ..base.clone() };
        let of_ttft = bases.iter().filter(|base| base.signal == "ttft_p99");
        let promised: Vec<ThresholdBase> = of_ttft.map(promised).collect();
        let before = all.clone();
        add_ladders(&mut all, of("c", &promised, &[1.3; 20]));
        assert_eq!(all[..1], before, "other thresholds are not counted with these");
        assert_eq!((all.len(), &all[1].pools), (2, &vec!["c".to_owned()]));
        let shipped = all[1].rungs.iter().find(|rung| !rung.shipped.is_empty()).unwrap();
        assert_eq!((shipped.threshold, shipped.times), (1.2, 1));
    }
}
