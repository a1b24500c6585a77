//! Axes with round tick values.

use jiff::Timestamp;

use knowledge::signal::Unit;

/// Maximum absolute value; larger values are clamped, real values are far below.
pub(super) const HUGE: f64 = 1e300;
/// The allowed distances between two ticks of a time axis, seconds.
const TIME_STEPS: [i64; 13] = [15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];
const DAY: i64 = 86_400;
/// Maximum number of ticks, for any input.
const MOST_TICKS: i64 = 40;

/// A vertical axis: its range and its labelled values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub(super) lo: f64,
    pub(super) hi: f64,
    pub(super) ticks: Vec<(f64, String)>,
}

/// Returns the factor to the displayed unit, and the unit's suffix.
fn shown(unit: Unit, reach: f64) -> (f64, &'static str) {
    let scaled = |names: [&'static str; 5]| match reach {
        r if r >= 2e12 => (1e-12, names[4]),
        r if r >= 2e9 => (1e-9, names[3]),
        r if r >= 2e6 => (1e-6, names[2]),
        r if r >= 2e3 => (1e-3, names[1]),
        _ => (1.0, names[0]),
    };
    let binary = |names: [&'static str; 5]| {
        let power = (0..4).take_while(|p| reach >= 2.0 * 1024f64.powi(p + 1)).count();
        (1024f64.powi(-i32::try_from(power).unwrap_or(0)), names[power])
    };
    match unit {
        Unit::Ratio => (100.0, " %"),
        Unit::Seconds if reach < 1.0 => (1e3, " ms"),
        Unit::Seconds if reach < 600.0 => (1.0, " s"),
        Unit::Seconds if reach < 36_000.0 => (1.0 / 60.0, " min"),
        Unit::Seconds => (1.0 / 3_600.0, " h"),
        Unit::Bytes => binary([" B", " KiB", " MiB", " GiB", " TiB"]),
        Unit::BytesPerSecond => binary([" B/s", " KiB/s", " MiB/s", " GiB/s", " TiB/s"]),
        Unit::Factor => (1.0, "x"),
        Unit::Celsius => (1.0, " °C"),
        Unit::Hertz => (1e-6, " MHz"),
        Unit::Watts => (1.0, " W"),
        Unit::Tokens | Unit::Requests | Unit::Count => scaled(["", "k", "M", "G", "T"]),
        Unit::TokensPerSecond | Unit::RequestsPerSecond | Unit::PerSecond => scaled(["/s", "k/s", "M/s", "G/s", "T/s"]),
    }
}

/// Builds an axis that covers all of `values` with round ticks, about `wanted` steps.
///
/// It begins at zero, so that heights are proportional to values. For temperatures, frequencies and power that lie
/// close together it does not, because that would hide the changes.
pub(super) fn values(unit: Unit, values: impl Iterator<Item = f64>, wanted: usize) -> Axis {
    let mut range: Option<(f64, f64)> = None;
    for v in values.filter(|v| v.is_finite()) {
        let v = v.clamp(-HUGE, HUGE);
        range = Some(range.map_or((v, v), |(lo, hi)| (lo.min(v), hi.max(v))));
    }
    let (mut lo, mut hi) = range.unwrap_or((0.0, 0.0));
    let physical = matches!(unit, Unit::Celsius | Unit::Hertz | Unit::Watts);
    if !(physical && lo > 0.6 * hi) {
        (lo, hi) = (lo.min(0.0), hi.max(0.0));
    }
    let full = unit == Unit::Ratio && lo >= 0.0 && (0.6..=1.0).contains(&hi);
    if full {
        hi = 1.0;
    } else if hi > 0.0 {
        // The line should not touch the upper edge, where it is easily overlooked.
        hi += (hi - lo) * 0.04;
    }
    let (factor, suffix) = shown(unit, hi.abs().max(lo.abs()));
    if hi <= lo {
        let least = if unit == Unit::Ratio { 0.05 } else { 1.0 / factor };
        (lo, hi) = (lo, lo + lo.abs().max(least));
    }
    let whole = matches!(unit, Unit::Count | Unit::Requests) && factor >= 1.0;
    let mut step = nice((hi - lo) * factor / wanted.max(1) as f64);
    if whole {
        step = step.max(1.0).ceil();
    }
    let first = (lo * factor / step).floor();
    let last = ((hi * factor / step) - 1e-9).ceil();
    let count = (last - first).clamp(1.0, MOST_TICKS as f64) as i64;
    let decimals = decimals(step);
    let label = |v: f64| match v.abs() {
        // Zero needs no prefix.
        v0 if v0 < step / 2.0 => format!("0{}", suffix.trim_start_matches(['k', 'M', 'G', 'T'])),
        v0 if v0 >= 1e6 => format!("{v:.0e}{suffix}"),
        _ => format!("{:.*}{suffix}", decimals, v + 0.0),
    };
    let at = |i: i64| (first + i as f64) * step;
    Axis {
        lo: at(0) / factor,
        hi: at(count) / factor,
        ticks: (0..=count).map(|i| (at(i) / factor, label(at(i)))).collect(),
    }
}

/// Returns a round number that is not much smaller: 1, 2, 2.5 or 5 times a power of ten.
fn nice(raw: f64) -> f64 {
    if !raw.is_finite() || raw <= f64::MIN_POSITIVE {
        return 1.0;
    }
    let power = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 2.5, 5.0].into_iter().map(|m| m * power).find(|step| *step >= raw * 0.85).unwrap_or(10.0 * power)
}

/// Returns the number of decimals that multiples of `step` need.
fn decimals(step: f64) -> usize {
    (0..9).find(|d| ((step * 10f64.powi(*d)).fract()).abs() < 1e-6).map_or(9, |d| d as usize)
}

/// Returns round times between two moments, at most `most`, with their labels in UTC.
pub(super) fn times(from: Timestamp, to: Timestamp, most: usize) -> Vec<(Timestamp, String)> {
    let (first, last) = (from.as_second(), to.as_second());
    let most = i64::try_from(most.max(1)).unwrap_or(1).min(MOST_TICKS);
    let span = last.saturating_sub(first);
    if span <= 0 {
        return vec![(from, clock_time(from))];
    }
    let days = || {
        let per = span / most / DAY + 1;
        per * DAY
    };
    let step = TIME_STEPS.into_iter().find(|step| span / step < most).unwrap_or_else(days);
    let format = match step {
        s if s < 60 => "%H:%M:%S",
        s if s < DAY => "%H:%M",
        _ => "%m-%d",
    };
    let begin = first.div_euclid(step) * step;
    (0..=most + 1)
        .map(|i| begin + i * step)
        .filter(|at| (first..=last).contains(at))
        .filter_map(|at| Timestamp::from_second(at).ok())
        .map(|at| (at, at.strftime(format).to_string()))
        .collect()
}

/// Formats a time as the axis shows it.
pub(super) fn clock_time(at: Timestamp) -> String {
    at.strftime("%H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(unit: Unit, list: &[f64]) -> Vec<String> {
        values(unit, list.iter().copied(), 4).ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_in_the_unit_that_is_read() {
        assert_eq!(labels(Unit::Seconds, &[0.3, 7.4]), ["0 s", "2 s", "4 s", "6 s", "8 s"]);
        assert_eq!(labels(Unit::Seconds, &[0.02, 0.09]), ["0 ms", "20 ms", "40 ms", "60 ms", "80 ms", "100 ms"]);
        assert_eq!(labels(Unit::Ratio, &[0.4, 0.98]), ["0 %", "25 %", "50 %", "75 %", "100 %"]);
        assert_eq!(labels(Unit::Tokens, &[1_100.0, 3_900.0]), ["0", "1k", "2k", "3k", "4k", "5k"]);
        assert_eq!(labels(Unit::Count, &[4.0, 2.0]), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(labels(Unit::Celsius, &[61.0, 84.0]), ["60 °C", "70 °C", "80 °C", "90 °C"]);
        assert_eq!(labels(Unit::Bytes, &[3.0 * 1024f64.powi(3)]), ["0 GiB", "1 GiB", "2 GiB", "3 GiB", "4 GiB"]);
    }

    #[test]
    fn whatever_comes_the_axis_holds_it_and_its_labels_differ() {
        let odd = [0.0, 1e-300, 1e-9, 0.5, 1.0, 3.7, 999.0, 1e6, 1e12, 1e300, f64::MAX, -5.0, -1e300, f64::MIN];
        let units = [Unit::Ratio, Unit::Seconds, Unit::Count, Unit::Bytes, Unit::Hertz, Unit::TokensPerSecond];
        for unit in units {
            for (a, b) in odd.iter().flat_map(|a| odd.iter().map(move |b| (*a, *b))) {
                let axis = values(unit, [a, b, f64::NAN, f64::INFINITY].into_iter(), 4);
                assert!(axis.hi > axis.lo && (axis.hi - axis.lo).is_finite(), "{unit:?} {a} {b}: {axis:?}");
                assert!((2..=MOST_TICKS as usize + 1).contains(&axis.ticks.len()), "{unit:?} {a} {b}");
                assert!(
                    axis.ticks.iter().all(|(v, label)| v.is_finite() && label.len() < 24),
                    "{unit:?} {a} {b}: {axis:?}"
                );
                let (a, b) = (a.clamp(-HUGE, HUGE), b.clamp(-HUGE, HUGE));
                let slack = (axis.hi - axis.lo) * 1e-6;
                assert!(a.min(b) >= axis.lo - slack && a.max(b) <= axis.hi + slack, "{unit:?} {a} {b}: {axis:?}");
            }
        }
    }

    #[test]
    fn times_are_round_and_few() {
        let at = |s: i64| Timestamp::from_second(1_790_000_000 + s).unwrap();
        let labels = |span, most| -> Vec<String> { times(at(0), at(span), most).into_iter().map(|(_, l)| l).collect() };
        assert_eq!(labels(3_600, 5), ["14:15", "14:30", "14:45", "15:00"]);
        assert_eq!(labels(0, 5), ["14:13"]);
        for span in [1, 59, 600, 7_200, 86_400, 10_000_000, 10_000_000_000] {
            for most in [1, 3, 8] {
                assert!(times(at(0), at(span), most).len() <= most + 1, "{span} {most}");
            }
        }
        assert!(times(Timestamp::MIN, Timestamp::MAX, 5).len() <= 6);
    }
}
