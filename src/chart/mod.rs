//! Pictures of signals over time: plain data in, a PNG for chat or an SVG for pages out.
//!
//! [`layout`] decides once what stands where; the two back ends only draw it. Nothing is told by colour alone: what
//! matters is labelled at its line, thicker or dashed. No text is made here but numbers and times.

mod axis;
mod font;
mod label;
mod layout;
mod plot;
mod png;
mod scene;
mod svg;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

use crate::signal::Unit;

pub use png::png;
pub use svg::svg;

/// How long an alternative text may be; Slack's limit for an image's `alt_text`.
const ALT_CHARS: usize = 2_000;

/// A picture: panels over one time span.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What happened, in one clause.
    pub title: String,
    /// Of which pool, and when.
    pub subtitle: String,
    /// What is shown, most telling first.
    pub panels: Vec<Panel>,
    /// The left edge.
    pub from: Timestamp,
    /// The right edge.
    pub to: Timestamp,
    /// Moments that every panel marks; numbered in this order.
    pub marks: Vec<Mark>,
}

/// A moment with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// When.
    pub at: Timestamp,
    /// What began then.
    pub label: String,
}

/// One signal.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The signal's title.
    pub title: String,
    /// The unit of all its numbers.
    pub unit: Unit,
    /// The lines; of thin ones only some are drawn when they are many.
    pub series: Vec<Series>,
    /// What is too much, or too little.
    pub threshold: Option<Threshold>,
    /// What is normal.
    pub band: Option<Band>,
    /// What the thin lines are called together.
    pub others: String,
    /// The panel in words, for those who do not see it.
    pub says: String,
}

/// A limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// In the panel's unit.
    pub value: f64,
    /// Which side of it is bad.
    pub bad: Side,
    /// What it is called, the number included.
    pub label: String,
}

/// A side of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Larger values.
    Above,
    /// Smaller values.
    Below,
}

/// What is normal over the picture's time.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// What it is called.
    pub label: String,
    /// When, and from which value to which; the same twice is a line.
    pub points: Vec<(Timestamp, f64, f64)>,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Stands at the line of an outlier, and of a pool beside replicas.
    pub name: String,
    /// In order of time; what is no number is a gap.
    pub points: Vec<(Timestamp, f64)>,
    /// How it is drawn.
    pub role: Role,
}

/// What a line stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// One replica among others: thin and grey.
    Replica,
    /// All replicas together.
    Pool,
    /// The replica that is different: thick and named.
    Outlier,
}

/// What the picture shows, in words.
pub fn alt(chart: &Chart) -> String {
    let marks = chart.marks.iter().map(|mark| format!("{} {}.", axis::clock_time(mark.at), mark.label));
    let head = [format!("{}.", chart.title), format!("{}.", chart.subtitle)];
    let panels = chart.panels.iter().map(|panel| panel.says.clone());
    let all: Vec<String> = head.into_iter().chain(marks).chain(panels).collect();
    let text = font::clean(&all.join(" "));
    match text.char_indices().nth(ALT_CHARS - 1) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
