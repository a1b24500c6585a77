//! The layout of a chart: title, numbered legend, and the grid of panels. Pure; shared by both renderers.

use super::scene::{Area, DrawnShape, Ink, Scene};
use super::tags::{TAG_RADIUS, draw_tag};
use super::{Chart, ChartMark, Panel, axis, font, plot};

/// Logical width; the PNG has twice as many pixels, so that it is sharp on a phone.
pub(super) const WIDTH: f32 = 520.0;
const MARGIN: f32 = 14.0;
const GAP: f32 = 16.0;
/// Space between rows of panels.
const ROW_GAP: f32 = 9.0;
const TITLE: f32 = 16.0;
const SMALL: f32 = 11.0;
const LINE: f32 = 15.0;
/// Maximum number of panels: more would be too small to read on a phone.
const MOST_PANELS: usize = 6;
/// Maximum number of marks.
pub const MOST_MARKS: usize = 4;

/// Lays out a chart.
pub(super) fn scene(chart: &Chart) -> Scene {
    let mut shapes = Vec::new();
    let inner = WIDTH - 2.0 * MARGIN;
    let mut y = MARGIN;
    for line in font::wrap(&font::clean(&chart.title), TITLE, true, inner, 2) {
        y += TITLE + 3.0;
        shapes.push(DrawnShape::Text { x: MARGIN, y: y - 4.0, text: line, size: TITLE, bold: true, ink: Ink::Text });
    }
    for line in font::wrap(&font::clean(&chart.subtitle), SMALL, false, inner, 2) {
        y += LINE;
        shapes.push(DrawnShape::Text { x: MARGIN, y: y - 2.0, text: line, size: SMALL, bold: false, ink: Ink::Faint });
    }
    let marks = marks(chart);
    y = legend(&marks, y, inner, &mut shapes) + 9.0;
    let panels = &chart.panels[..chart.panels.len().min(MOST_PANELS)];
    for row in rows(panels.len()) {
        let (first, count) = row;
        let w = (inner - GAP * (count as f32 - 1.0)) / count as f32;
        let row: Vec<&Panel> = panels[first..first + count].iter().collect();
        let titles: Vec<plot::PlotHeading> = row.iter().map(|panel| plot::heading(panel, w)).collect();
        let head = titles.iter().map(plot::PlotHeading::height).fold(0.0, f32::max);
        let height = head + plot::below_heading(w);
        for (i, (panel, heading)) in row.into_iter().zip(titles).enumerate() {
            let area = Area { x: MARGIN + i as f32 * (w + GAP), y, w, h: height };
            plot::panel(panel, heading, chart, &marks, area, head, &mut shapes);
        }
        y += height + ROW_GAP;
    }
    let height = (y - ROW_GAP + MARGIN - 4.0).max(2.0 * MARGIN + LINE);
    shapes.insert(0, DrawnShape::Fill { area: Area { x: 0.0, y: 0.0, w: WIDTH, h: height }, ink: Ink::Card });
    Scene { width: WIDTH, height, shapes }
}

/// Returns the first panel and the number of panels of each row. One or two panels get the full width each; of three
/// or more in an odd number only the first does, which is the symptom that users notice.
fn rows(panels: usize) -> Vec<(usize, usize)> {
    if panels <= 2 {
        return (0..panels).map(|i| (i, 1)).collect();
    }
    let wide = panels % 2;
    let pairs = (wide..panels).step_by(2).map(|i| (i, 2));
    (0..wide).map(|i| (i, 1)).chain(pairs).collect()
}

/// Returns the marks inside the time range, with their displayed numbers.
fn marks(chart: &Chart) -> Vec<(String, &ChartMark)> {
    let inside = chart.marks.iter().filter(|mark| mark.at >= chart.from && mark.at <= chart.to);
    inside.take(MOST_MARKS).enumerate().map(|(i, mark)| ((i + 1).to_string(), mark)).collect()
}

/// Draws the legend of the marks; returns its bottom.
fn legend(marks: &[(String, &ChartMark)], top: f32, inner: f32, shapes: &mut Vec<DrawnShape>) -> f32 {
    let (mut x, mut y) = (MARGIN, top);
    for (i, (number, mark)) in marks.iter().enumerate() {
        let before = 2.0 * TAG_RADIUS + 5.0;
        let text = font::clean(&format!("{} {}", axis::clock_time(mark.at), mark.label));
        let text = font::fit(&text, SMALL, false, inner - before);
        let w = before + font::width(&text, SMALL, false);
        if i == 0 || x + w > MARGIN + inner {
            (x, y) = (MARGIN, y + LINE + 2.0);
        }
        draw_tag(number, x + TAG_RADIUS, y - TAG_RADIUS + 1.0, shapes);
        shapes.push(DrawnShape::Text { x: x + before, y: y - 2.0, text, size: SMALL, bold: false, ink: Ink::Text });
        x += w + 14.0;
    }
    y
}
