//! The numbers of marks, each in a dot.

use super::scene::{Area, DrawnShape, Ink};
use super::{ChartMark, font};

/// The radius of a mark's number.
pub(super) const TAG_RADIUS: f32 = 6.5;

/// Draws the numbers of the marks above a plot: over their lines, side by side where those are close.
pub(super) fn draw_tags(marks: &[(String, &ChartMark)], xs: &[f32], plot: Area, shapes: &mut Vec<DrawnShape>) {
    const APART: f32 = 2.0 * TAG_RADIUS + 1.0;
    let mut order: Vec<usize> = (0..marks.len().min(xs.len())).collect();
    order.sort_by(|a, b| xs[*a].total_cmp(&xs[*b]));
    // Pushed apart to the right and to the left; the middle of both keeps them centred over their lines.
    let mut right: Vec<f32> = order.iter().map(|i| xs[*i]).collect();
    let mut left = right.clone();
    for k in 1..order.len() {
        right[k] = right[k].max(right[k - 1] + APART);
    }
    for k in (1..order.len()).rev() {
        left[k - 1] = left[k - 1].min(left[k] - APART);
    }
    for (k, i) in order.iter().enumerate() {
        let after = (order.len() - 1 - k) as f32;
        let x = f32::midpoint(right[k], left[k]).min(plot.right() - after * APART);
        draw_tag(&marks[*i].0, x, plot.y - TAG_RADIUS, shapes);
    }
}

/// Draws the number of a mark.
pub(super) fn draw_tag(number: &str, x: f32, y: f32, shapes: &mut Vec<DrawnShape>) {
    shapes.push(DrawnShape::Dot { x, y, r: TAG_RADIUS, ink: Ink::Mark });
    let half = font::width(number, 9.5, true) / 2.0;
    let text = number.to_owned();
    shapes.push(DrawnShape::Text { x: x - half, y: y + 3.4, text, size: 9.5, bold: true, ink: Ink::Card });
}
