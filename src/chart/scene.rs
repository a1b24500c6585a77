//! What is drawn, as plain shapes in logical pixels; colours are the back ends'.

/// What a shape is for; decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    /// The background.
    Card,
    /// Words that matter.
    Text,
    /// Words that explain.
    Faint,
    /// Lines to read values by.
    Grid,
    Pool,
    Replica,
    Outlier,
    /// A limit's line and name.
    Limit,
    /// The bad side of a limit.
    Beyond,
    /// What is normal, and its name.
    Normal,
    NormalName,
    /// A moment.
    Mark,
}

/// A box.
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
pub(super) enum Shape {
    /// A filled box.
    Fill { area: Area, ink: Ink },
    /// A filled outline.
    Polygon { points: Vec<(f32, f32)>, ink: Ink },
    /// A line; `dash` is drawn and left out in turn, nothing for a whole one.
    Line { points: Vec<(f32, f32)>, width: f32, dash: &'static [f32], ink: Ink },
    /// A filled circle.
    Dot { x: f32, y: f32, r: f32, ink: Ink },
    /// Words on one line, from the left end of their base line.
    Text { x: f32, y: f32, text: String, size: f32, bold: bool, ink: Ink },
}

/// A whole picture, drawn in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scene {
    pub(super) width: f32,
    pub(super) height: f32,
    pub(super) shapes: Vec<Shape>,
}
