//! One panel: heading, axes, normal range, lines, threshold, and the labels of the lines.

use jiff::Timestamp;

use super::axis::{self, Axis, HUGE};
use super::label::{self, ChartLabels};
use super::scene::{Area, DrawnShape, Ink};
use super::tags::draw_tags;
use super::{Chart, ChartMark, ChartSeries, Panel, Role, ThresholdSide, font};
use knowledge::signal::format_value;

const TITLE: f32 = 12.5;
const TITLE_LINE: f32 = 16.0;
const SMALL: f32 = 10.5;
/// The height of a label.
const NAME: f32 = 13.0;
/// Space between heading and plot, for the numbers of the marks.
const STRIP: f32 = 15.0;
/// Space below the plot, for the times.
const FOOT: f32 = 20.0;
/// Maximum number of thin lines; more would be a grey area.
const MOST_THIN: usize = 24;
/// Maximum number of labelled thick lines.
const MOST_NAMED: usize = 3;
/// Maximum width of a label, as a share of the plot's width.
const NAME_SHARE: f32 = 0.62;
/// A distance of more than this many usual steps between two samples is a gap.
const GAP: f64 = 2.6;

/// The largest share of a plot that is shaded as beyond a threshold.
const MOST_SHADED: f32 = 0.75;
/// The height of the strip that is shaded instead.
const SHADED_STRIP: f32 = 10.0;

/// The heading of a panel: the lines of the title and the latest value.
#[derive(Debug)]
pub(super) struct PlotHeading {
    lines: Vec<String>,
    value: Option<(String, Ink)>,
}

impl PlotHeading {
    pub(super) fn height(&self) -> f32 {
        self.lines.len().max(1) as f32 * TITLE_LINE
    }
}

/// Builds the heading of a panel of width `w`.
pub(super) fn heading(panel: &Panel, w: f32) -> PlotHeading {
    // The pool's latest value is the number in the message; without a pool's line, the outlier's is shown.
    let of = |role: Role| panel.series.iter().find(|series| series.role == role);
    let main = of(Role::Pool).or_else(|| of(Role::Outlier));
    let value = main.and_then(|series| {
        let (_, value) = series.points.iter().rev().find(|(_, v)| v.is_finite())?;
        let text = font::fit(&format_value(*value, panel.unit), TITLE, true, w * 0.4);
        Some((text, ink(series.role)))
    });
    let room = w - value.as_ref().map_or(0.0, |(text, _)| font::width(text, TITLE, true) + 8.0);
    PlotHeading { lines: font::wrap(&font::clean(&panel.title), TITLE, true, room, 2), value }
}

/// Returns the height of a panel of this width without its heading.
pub(super) fn below_heading(w: f32) -> f32 {
    STRIP + FOOT + if w > 300.0 { 116.0 } else { 104.0 }
}

fn ink(role: Role) -> Ink {
    match role {
        Role::Replica => Ink::Replica,
        Role::Pool => Ink::Pool,
        Role::Outlier => Ink::Outlier,
    }
}

/// The mapping of times and values to coordinates.
struct Frame<'a> {
    plot: Area,
    axis: &'a Axis,
    from: Timestamp,
    to: Timestamp,
}

impl Frame<'_> {
    fn x(&self, at: Timestamp) -> f32 {
        let (from, to) = (self.from.as_millisecond() as f64, self.to.as_millisecond() as f64);
        let share = if to > from { (at.as_millisecond() as f64 - from) / (to - from) } else { 0.5 };
        self.plot.x + self.plot.w * share.clamp(0.0, 1.0) as f32
    }

    fn y(&self, value: f64) -> f32 {
        let share = (value.clamp(-HUGE, HUGE) - self.axis.lo) / (self.axis.hi - self.axis.lo);
        self.plot.bottom() - self.plot.h * share.clamp(0.0, 1.0) as f32
    }

    fn shows(&self, at: Timestamp) -> bool {
        at >= self.from && at <= self.to
    }

    /// Splits a line at its gaps.
    fn runs(&self, points: &[(Timestamp, f64)]) -> Vec<Vec<(f32, f32)>> {
        let mut runs: Vec<Vec<(f32, f32)>> = Vec::new();
        let usual = usual_step(points.iter().map(|(at, _)| *at));
        let mut last: Option<Timestamp> = None;
        for (at, value) in points.iter().filter(|(at, value)| value.is_finite() && self.shows(*at)) {
            let apart = last.map(|last| (at.as_millisecond() - last.as_millisecond()) as f64);
            let joined = apart.is_some_and(|apart| apart >= 0.0 && apart <= usual * GAP);
            match runs.last_mut().filter(|_| joined) {
                Some(run) => run.push((self.x(*at), self.y(*value))),
                None => runs.push(vec![(self.x(*at), self.y(*value))]),
            }
            last = Some(*at);
        }
        runs
    }
}

/// Returns the median distance between moments, milliseconds.
fn usual_step(moments: impl Iterator<Item = Timestamp> + Clone) -> f64 {
    let pairs = moments.clone().zip(moments.skip(1));
    let mut apart: Vec<i64> = pairs.map(|(a, b)| b.as_millisecond() - a.as_millisecond()).filter(|d| *d > 0).collect();
    apart.sort_unstable();
    apart.get(apart.len() / 2).map_or(0.0, |d| *d as f64)
}

/// Draws a panel into `area`, its plot below `head`.
pub(super) fn panel(
    panel: &Panel,
    heading: PlotHeading,
    chart: &Chart,
    marks: &[(String, &ChartMark)],
    area: Area,
    head: f32,
    shapes: &mut Vec<DrawnShape>,
) {
    write_heading(heading, area, shapes);
    let (drawn, hidden) = drawn(&panel.series);
    let shown = |at: &Timestamp| *at >= chart.from && *at <= chart.to;
    let own = drawn.iter().flat_map(|series| series.points.iter().filter(|(at, _)| shown(at)).map(|(_, v)| *v));
    let band = panel.band.iter().flat_map(|band| band.points.iter().filter(|(at, ..)| shown(at)));
    let limit = panel.threshold.iter().map(|threshold| threshold.value);
    let all = own.chain(band.flat_map(|(_, low, high)| [*low, *high])).chain(limit);
    let axis = axis::values(panel.unit, all, 4);
    let gutter = axis.ticks.iter().map(|(_, label)| font::width(label, SMALL, false)).fold(0.0, f32::max) + 6.0;
    let plot = Area {
        x: area.x + gutter,
        y: area.y + head + STRIP,
        w: (area.w - gutter).max(20.0),
        h: area.h - head - STRIP - FOOT,
    };
    let frame = Frame { plot, axis: &axis, from: chart.from, to: chart.to };
    axes(&frame, area, shapes);
    let xs: Vec<f32> = marks.iter().map(|(_, mark)| frame.x(mark.at)).collect();
    let mut labels = ChartLabels::default();
    beyond(panel, &frame, shapes);
    let normal = normal(panel, &frame, shapes);
    for x in &xs {
        let points = vec![(*x, plot.y), (*x, plot.bottom())];
        labels.avoid(&points);
        shapes.push(DrawnShape::Line { points, width: 1.1, dash: &[2.0, 2.0], ink: Ink::Mark });
    }
    let mut names = lines(panel, &drawn, &frame, &mut labels, shapes);
    names.extend(others(panel, &drawn, hidden, &frame));
    names.extend(panel.band.iter().zip(normal).map(|(band, line)| Name::new(&band.label, Ink::NormalName, line)));
    named_limit(panel, &frame, &mut labels, shapes);
    for name in names {
        put(&name, plot, &mut labels, |w| label::along(&name.line, plot, w, NAME), shapes);
    }
    draw_tags(marks, &xs, plot, shapes);
}

fn write_heading(heading: PlotHeading, area: Area, shapes: &mut Vec<DrawnShape>) {
    for (i, text) in heading.lines.into_iter().enumerate() {
        let y = area.y + TITLE_LINE * (i as f32 + 1.0) - 4.0;
        shapes.push(DrawnShape::Text { x: area.x, y, text, size: TITLE, bold: true, ink: Ink::Text });
    }
    if let Some((text, ink)) = heading.value {
        let x = area.right() - font::width(&text, TITLE, true);
        shapes.push(DrawnShape::Text { x, y: area.y + TITLE_LINE - 4.0, text, size: TITLE, bold: true, ink });
    }
}

/// A label of a line.
struct Name {
    text: String,
    ink: Ink,
    line: Vec<(f32, f32)>,
}

impl Name {
    fn new(text: &str, ink: Ink, line: Vec<(f32, f32)>) -> Self {
        Self { text: font::clean(text), ink, line }
    }

    fn bold(&self) -> bool {
        !matches!(self.ink, Ink::Faint | Ink::NormalName)
    }
}

/// Draws the lines; returns the labels of pool and outliers, the most important first.
fn lines(
    panel: &Panel,
    drawn: &[&ChartSeries],
    frame: &Frame<'_>,
    labels: &mut ChartLabels,
    shapes: &mut Vec<DrawnShape>,
) -> Vec<Name> {
    let mut names = Vec::new();
    for series in drawn {
        let runs = frame.runs(&series.points);
        runs.iter().for_each(|run| labels.avoid(run));
        draw(series.role, &runs, shapes);
        let says = series.role == Role::Outlier || (series.role == Role::Pool && panel.series.len() > 1);
        if let Some(longest) = longest(runs).filter(|_| says && names.len() < MOST_NAMED) {
            names.push(Name::new(&series.name, ink(series.role), longest));
        }
    }
    names.reverse();
    names
}

fn longest(runs: Vec<Vec<(f32, f32)>>) -> Option<Vec<(f32, f32)>> {
    runs.into_iter().max_by_key(Vec::len)
}

/// Returns the common label of the thin lines, if there are thick lines too or some are left out.
fn others(panel: &Panel, drawn: &[&ChartSeries], hidden: usize, frame: &Frame<'_>) -> Option<Name> {
    let (thin, thick): (Vec<&ChartSeries>, Vec<&ChartSeries>) =
        drawn.iter().partition(|series| series.role == Role::Replica);
    let line = thin.iter().filter_map(|series| longest(frame.runs(&series.points))).max_by_key(Vec::len)?;
    match (hidden, thick.is_empty()) {
        (0, true) => None,
        (0, false) => Some(Name::new(&panel.others, Ink::Faint, line)),
        (hidden, _) => Some(Name::new(&format!("{} +{hidden}", panel.others), Ink::Faint, line)),
    }
}

/// Returns the lines in drawing order, thin ones first, and the number of thin lines left out. The drawn ones are
/// spread evenly over the latest values, so that the range of all replicas stays visible.
fn drawn(series: &[ChartSeries]) -> (Vec<&ChartSeries>, usize) {
    let newest = |s: &ChartSeries| s.points.iter().rev().map(|(_, v)| *v).find(|v| v.is_finite()).unwrap_or(f64::MIN);
    let mut thin: Vec<&ChartSeries> = series.iter().filter(|s| s.role == Role::Replica).collect();
    let hidden = thin.len().saturating_sub(MOST_THIN);
    if hidden > 0 {
        thin.sort_by(|a, b| newest(a).total_cmp(&newest(b)));
        thin = (0..MOST_THIN).map(|i| thin[i * (thin.len() - 1) / (MOST_THIN - 1)]).collect();
    }
    let mut thick: Vec<&ChartSeries> = series.iter().filter(|s| s.role != Role::Replica).collect();
    thick.sort_by_key(|s| s.role);
    thin.extend(thick);
    (thin, hidden)
}

fn axes(frame: &Frame<'_>, area: Area, shapes: &mut Vec<DrawnShape>) {
    let plot = frame.plot;
    for (value, label) in &frame.axis.ticks {
        let y = frame.y(*value);
        let points = vec![(plot.x, y), (plot.right(), y)];
        shapes.push(DrawnShape::Line { points, width: 0.8, dash: &[], ink: Ink::Grid });
        let x = plot.x - 5.0 - font::width(label, SMALL, false);
        shapes.push(DrawnShape::Text { x, y: y + 3.6, text: label.clone(), size: SMALL, bold: false, ink: Ink::Faint });
    }
    let mut free = area.x;
    for (at, label) in axis::times(frame.from, frame.to, (plot.w / 46.0) as usize) {
        let w = font::width(&label, SMALL, false);
        let x = (frame.x(at) - w / 2.0).min(area.right() - w);
        if x < free {
            continue;
        }
        free = x + w + 6.0;
        let points = vec![(frame.x(at), plot.bottom()), (frame.x(at), plot.bottom() + 3.0)];
        shapes.push(DrawnShape::Line { points, width: 0.8, dash: &[], ink: Ink::Faint });
        let y = plot.bottom() + FOOT - 3.5;
        shapes.push(DrawnShape::Text { x, y, text: label, size: SMALL, bold: false, ink: Ink::Faint });
    }
}

/// Shades the bad side of the threshold; where that is nearly the whole plot, as above a limit near 0, only a strip beside
/// the line: a plot that is shaded everywhere says nothing.
fn beyond(panel: &Panel, frame: &Frame<'_>, shapes: &mut Vec<DrawnShape>) {
    let Some(threshold) = panel.threshold.as_ref().filter(|t| t.value.is_finite()) else { return };
    let (plot, y) = (frame.plot, frame.y(threshold.value));
    let (top, bottom) = match threshold.bad {
        ThresholdSide::Above => (plot.y, y),
        ThresholdSide::Below => (y, plot.bottom()),
    };
    let strip = |h: f32| if h > plot.h * MOST_SHADED { SHADED_STRIP } else { h };
    let (top, bottom) = match threshold.bad {
        ThresholdSide::Above => (bottom - strip(bottom - top), bottom),
        ThresholdSide::Below => (top, top + strip(bottom - top)),
    };
    if bottom > top {
        shapes.push(DrawnShape::Fill { area: Area { y: top, h: bottom - top, ..plot }, ink: Ink::Beyond });
    }
}

/// Draws the normal range; returns its upper edge, where its label goes.
fn normal(panel: &Panel, frame: &Frame<'_>, shapes: &mut Vec<DrawnShape>) -> Option<Vec<(f32, f32)>> {
    let band = panel.band.as_ref()?;
    let edge = |pick: fn(f64, f64) -> f64| -> Vec<(Timestamp, f64)> {
        let valid = band.points.iter().filter(|(_, low, high)| low.is_finite() && high.is_finite());
        valid.map(|(at, low, high)| (*at, pick(*low, *high))).collect()
    };
    let (upper, lower) = (frame.runs(&edge(f64::max)), frame.runs(&edge(f64::min)));
    for (up, low) in upper.iter().zip(&lower) {
        let level = up.iter().zip(low).all(|(a, b)| (a.1 - b.1).abs() < 1.0);
        if level {
            let points = up.clone();
            shapes.push(DrawnShape::Line { points, width: 1.6, dash: &[1.5, 2.5], ink: Ink::NormalName });
        } else {
            let points = up.iter().chain(low.iter().rev()).copied().collect();
            shapes.push(DrawnShape::Polygon { points, ink: Ink::Normal });
        }
    }
    upper.into_iter().max_by_key(Vec::len)
}

fn draw(role: Role, runs: &[Vec<(f32, f32)>], shapes: &mut Vec<DrawnShape>) {
    let width: f32 = match role {
        Role::Replica => 0.9,
        Role::Pool => 1.9,
        Role::Outlier => 2.6,
    };
    for run in runs {
        match run.as_slice() {
            [(x, y)] => shapes.push(DrawnShape::Dot { x: *x, y: *y, r: width.max(1.5), ink: ink(role) }),
            _ => shapes.push(DrawnShape::Line { points: run.clone(), width, dash: &[], ink: ink(role) }),
        }
    }
}

fn named_limit(panel: &Panel, frame: &Frame<'_>, labels: &mut ChartLabels, shapes: &mut Vec<DrawnShape>) {
    let Some(threshold) = panel.threshold.as_ref().filter(|t| t.value.is_finite()) else { return };
    let (plot, y) = (frame.plot, frame.y(threshold.value));
    let points = vec![(plot.x, y), (plot.right(), y)];
    labels.avoid(&points);
    let name = Name::new(&threshold.label, Ink::Limit, points.clone());
    shapes.push(DrawnShape::Line { points, width: 1.5, dash: &[6.0, 3.0], ink: Ink::Limit });
    put(&name, plot, labels, |w| label::level(y, plot, w, NAME), shapes);
}

/// Draws a label at the best of its positions.
fn put(
    name: &Name,
    plot: Area,
    labels: &mut ChartLabels,
    places: impl Fn(f32) -> Vec<Area>,
    shapes: &mut Vec<DrawnShape>,
) {
    if name.text.is_empty() {
        return;
    }
    let (ink, bold) = (name.ink, name.bold());
    let text = font::fit(&name.text, SMALL, bold, plot.w * NAME_SHARE);
    let w = font::width(&text, SMALL, bold) + 4.0;
    // A threshold's label stays at its line; the others may move away, because they have the colour of their line.
    if let Some(area) = labels.place(plot, places(w), ink != Ink::Limit) {
        shapes.push(DrawnShape::Text { x: area.x + 2.0, y: area.bottom() - 3.2, text, size: SMALL, bold, ink });
    }
}
