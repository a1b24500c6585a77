//! Charts of signals over time: plain data in, a PNG for chat or an SVG for pages out.
//!
//! [`layout`] decides all positions once; the two renderers only draw. Colour is never the only distinction: important
//! lines are labelled, thicker or dashed. The only text generated here is numbers and times.

mod axis;
mod font;
mod label;
mod layout;
mod plot;
mod png;
mod scene;
mod svg;
mod tags;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

use knowledge::clip::clip;
use knowledge::signal::Unit;

pub use layout::MOST_MARKS;
pub use png::png;
pub use svg::svg;

/// Maximum length of an alternative text; Slack's limit for an image's `alt_text`.
const ALT_CHARS: usize = 2_000;

/// A chart: panels over one time range.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The title: the incident in one clause.
    pub title: String,
    /// The pool and the time range.
    pub subtitle: String,
    /// The panels, most important first.
    pub panels: Vec<Panel>,
    /// The start of the time range, the left edge.
    pub from: Timestamp,
    /// The end of the time range, the right edge.
    pub to: Timestamp,
    /// Moments that every panel marks, numbered in this order.
    pub marks: Vec<ChartMark>,
}

/// A labelled moment.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartMark {
    /// The time of the mark.
    pub at: Timestamp,
    /// The event that began then.
    pub label: String,
}

/// The panel of one signal.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The title of the signal.
    pub title: String,
    /// The unit of all values.
    pub unit: Unit,
    /// The lines; only some of the replicas are drawn if there are many.
    pub series: Vec<ChartSeries>,
    /// The threshold of the signal, if any.
    pub threshold: Option<ChartThreshold>,
    /// The normal range, if known.
    pub band: Option<Band>,
    /// The common label of the replicas.
    pub others: String,
    /// The panel as text, for the alternative text.
    pub says: String,
}

/// A threshold line.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartThreshold {
    /// The value in the panel's unit.
    pub value: f64,
    /// The side of the threshold that is bad.
    pub bad: ThresholdSide,
    /// The label, including the number.
    pub label: String,
}

/// A side of a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThresholdSide {
    /// Values above the threshold.
    Above,
    /// Values below the threshold.
    Below,
}

/// The normal range over the chart's time range.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// The label of the band.
    pub label: String,
    /// Time, lower bound and upper bound; equal bounds are drawn as a line.
    pub points: Vec<(Timestamp, f64, f64)>,
}

/// A line.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartSeries {
    /// The label, drawn at the line of an outlier, and of a pool if replicas are drawn too.
    pub name: String,
    /// Samples in order of time; a non-finite value is a gap.
    pub points: Vec<(Timestamp, f64)>,
    /// The role of the line, which decides its style.
    pub role: Role,
}

/// The role of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// One replica among others: thin and grey.
    Replica,
    /// All replicas together.
    Pool,
    /// The replica that differs: thick and labelled.
    Outlier,
}

/// Returns the alternative text of a chart.
pub fn alt(chart: &Chart) -> String {
    let marks = chart.marks.iter().map(|mark| format!("{} {}.", axis::clock_time(mark.at), mark.label));
    let head = [format!("{}.", chart.title), format!("{}.", chart.subtitle)];
    let panels = chart.panels.iter().map(|panel| panel.says.clone());
    let all: Vec<String> = head.into_iter().chain(marks).chain(panels).collect();
    clip(&font::clean(&all.join(" ")), ALT_CHARS)
}
