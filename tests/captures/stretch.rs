//! Makes 55 minutes with a yesterday out of a capture of two minutes; every value and every increment is a real one.
//!
//! The healthy stretch is repeated for 45 minutes, and for 40 a day earlier; then the fault is played once, and its
//! steady part is repeated until the end. Counters go on from repetition to repetition by their real increments. A crash
//! is played once, and a target that it took down stays down. Start times lie five days back, for a repetition is no
//! restart.

use std::fmt::Write;

use crate::recording::{Capture, Series, Span};

/// Seconds of health before the fault.
const CALM: i64 = 2_700;
/// Seconds of yesterday, around the same time of day.
const YESTERDAY: i64 = 2_400;
const DAY: i64 = 86_400;
/// Seconds from the fault's beginning to the end, when it is judged.
pub(crate) const FAULT: i64 = 600;
/// Seconds for which a gauge that misses in some scrapes of the capture still counts.
const FRESH: f64 = 20.0;
/// The same while a program dies.
const FRESH_IN_A_CRASH: f64 = 5.0;
/// A counter that comes up later than this many seconds after the fault's beginning came up with it, from nothing.
const FROM_NOTHING: f64 = 3.0;

/// When and how often the history is scraped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scrapes {
    /// When the fault begins, in Unix seconds.
    pub(crate) started: i64,
    /// Seconds from scrape to scrape.
    pub(crate) step: i64,
}

/// Writes the whole history, with the fault.
pub(crate) fn incident(capture: &Capture, when: Scrapes, out: &mut String) {
    for series in &capture.series {
        let mut player = Player::new(series, capture);
        player.calm(when.started - DAY - YESTERDAY / 2, when.started - DAY + YESTERDAY / 2, when.step);
        player.calm(when.started - CALM, when.started - 1, when.step);
        player.fault(when);
        player.write(when.started, out);
    }
}

/// Writes the history of the same hours in which nothing happens.
pub(crate) fn neighbour(capture: &Capture, when: Scrapes, out: &mut String) {
    for series in &capture.series {
        let mut player = Player::new(series, capture);
        player.calm(when.started - DAY - YESTERDAY / 2, when.started - DAY + YESTERDAY / 2, when.step);
        player.calm(when.started - CALM, when.started + FAULT, when.step);
        player.write(when.started, out);
    }
}

struct Player<'a> {
    series: &'a Series,
    capture: &'a Capture,
    counter: bool,
    /// It ends with its program.
    ends: bool,
    calm: Vec<(f64, f64)>,
    fault: Vec<(f64, f64)>,
    /// A counter's value so far.
    total: f64,
    points: Vec<(i64, f64)>,
}

impl<'a> Player<'a> {
    fn new(series: &'a Series, capture: &'a Capture) -> Self {
        let within = |span: Span| {
            let inside = series.points.iter().filter(|(t, _)| (span.from - 1.0..=span.to + 1.0).contains(t));
            inside.map(|(t, v)| (t - span.from, *v)).collect::<Vec<_>>()
        };
        let counter = ["_total", "_sum", "_count", "_bucket"].iter().any(|end| series.name.ends_with(end));
        // A scrape of the fault's own second is the fault's.
        let fault_begins = capture.during.from - capture.before.from;
        let mut calm = within(capture.before);
        calm.retain(|(t, _)| fault_begins <= 0.0 || *t < fault_begins);
        let total = calm.first().map_or(0.0, |(_, v)| *v);
        let ends = capture.ends(series);
        Self { series, capture, counter, ends, calm, fault: within(capture.during), total, points: Vec::new() }
    }

    /// Repeats the healthy stretch.
    fn calm(&mut self, from: i64, to: i64, step: i64) {
        let (Some(first), Some(last)) = (self.calm.first().copied(), self.calm.last().copied()) else { return };
        let base = self.total;
        let length = self.capture.before.seconds();
        for t in (from..=to).step_by(step as usize) {
            let x = (t - from) as f64;
            let (round, x) = ((x / length).floor(), x % length);
            let Some((seen, value)) = last_before(&self.calm, x) else {
                if self.counter {
                    self.points.push((t, self.total));
                }
                continue;
            };
            if self.counter {
                self.total = self.total.max(base + round * (last.1 - first.1) + value - first.1);
                self.points.push((t, self.total));
            } else if x - seen <= FRESH {
                self.points.push((t, value));
            }
        }
    }

    /// Plays the fault once, then repeats its steady part.
    fn fault(&mut self, when: Scrapes) {
        let length = self.capture.during.seconds();
        let settled = self.capture.settled - self.capture.during.from;
        let Some(first) = self.fault.first().copied() else {
            return if self.counter && !self.calm.is_empty() && !self.ends {
                self.stand_still(when)
            };
        };
        let gone = self.series.name == "up" && self.fault.last().is_some_and(|(_, v)| *v == 0.0);
        let zero = if self.calm.is_empty() && first.0 > FROM_NOTHING { 0.0 } else { first.1 };
        let base = self.total;
        let last = self.fault.last().map_or(zero, |(_, v)| *v);
        let at_settled = last_before(&self.fault, settled).map_or(zero, |(_, v)| v);
        for t in scrapes(when) {
            let x = (t - when.started) as f64;
            if self.ends && x > length {
                if gone {
                    self.points.push((t, 0.0));
                }
                continue;
            }
            let rounds = if x > length { ((x - length) / (length - settled)).floor() } else { 0.0 };
            let y = if x > length { settled + (x - length) % (length - settled) } else { x };
            let fresh = if self.ends { FRESH_IN_A_CRASH } else { FRESH };
            match last_before(&self.fault, y) {
                Some((seen, value)) if self.counter && (!self.ends || y - seen <= fresh) => {
                    self.total = match x > length {
                        false => base + value - zero,
                        true => base + last - zero + rounds * (last - at_settled) + (value - at_settled).max(0.0),
                    };
                    self.points.push((t, self.total));
                }
                Some((seen, value)) if !self.counter && y - seen <= fresh => self.points.push((t, value)),
                None if self.counter && !self.calm.is_empty() => self.points.push((t, self.total)),
                Some(_) | None => {}
            }
        }
    }

    fn stand_still(&mut self, when: Scrapes) {
        let total = self.total;
        self.points.extend(scrapes(when).map(|t| (t, total)));
    }

    fn write(&self, started: i64, out: &mut String) {
        let Series { name, labels, .. } = self.series;
        let long_ago = (started - 5 * DAY) as f64;
        for (t, value) in &self.points {
            let value = match name.as_str() {
                "process_start_time_seconds" => long_ago,
                name if name.contains("uptime_seconds") => *t as f64 - long_ago,
                _ => *value,
            };
            let value = if value.is_nan() { "NaN".to_owned() } else { value.to_string() };
            writeln!(out, "{name}{labels} {value} {t}").expect("a String takes any text");
        }
    }
}

fn scrapes(when: Scrapes) -> impl Iterator<Item = i64> {
    // The scrapes go on as they began.
    let first = when.started - CALM;
    let skipped = (CALM + when.step - 1) / when.step * when.step;
    (first + skipped..=when.started + FAULT).step_by(when.step as usize)
}

/// The last sample that is not later.
fn last_before(points: &[(f64, f64)], t: f64) -> Option<(f64, f64)> {
    points[..points.partition_point(|(at, _)| *at <= t)].last().copied()
}
