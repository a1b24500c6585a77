//! Plain shapes in logical pixels; the renderers choose the colours.

/// The purpose of a shape, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    /// The background.
    Card,
    /// Important text.
    Text,
    /// Secondary text.
    Faint,
    /// Grid lines.
    Grid,
    Pool,
    Replica,
    Outlier,
    /// A threshold's line and label.
    Limit,
    /// The bad side of a threshold.
    Beyond,
    /// The normal range.
    Normal,
    NormalName,
    /// A mark.
    Mark,
}

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) x: f32,
    pub(super) y: f32,
    pub(super) w: f32,
    pub(super) h: f32,
}

impl Area {
    pub(super) fn right(&self) -> f32 {
        self.x + self.w
    }

    pub(super) fn bottom(&self) -> f32 {
        self.y + self.h
    }

    pub(super) fn holds(&self, (x, y): (f32, f32)) -> bool {
        (self.x..=self.right()).contains(&x) && (self.y..=self.bottom()).contains(&y)
    }

    pub(super) fn contains(&self, other: &Self) -> bool {
        other.x >= self.x && other.y >= self.y && other.right() <= self.right() && other.bottom() <= self.bottom()
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.x < other.right() && other.x < self.right() && self.y < other.bottom() && other.y < self.bottom()
    }
}

/// A shape.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DrawnShape {
    /// A filled rectangle.
    Fill { area: Area, ink: Ink },
    /// A filled polygon.
    Polygon { points: Vec<(f32, f32)>, ink: Ink },
    /// A polyline; `dash` holds alternating lengths of dashes and gaps, empty for a solid line.
    Line { points: Vec<(f32, f32)>, width: f32, dash: &'static [f32], ink: Ink },
    /// A filled circle.
    Dot { x: f32, y: f32, r: f32, ink: Ink },
    /// Text on one line, from the left end of its baseline.
    Text { x: f32, y: f32, text: String, size: f32, bold: bool, ink: Ink },
}

/// A whole chart, its shapes in drawing order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scene {
    pub(super) width: f32,
    pub(super) height: f32,
    pub(super) shapes: Vec<DrawnShape>,
}
