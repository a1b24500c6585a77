//! Placement of line labels: they cover as little as possible and never overlap.

use super::scene::Area;

/// The labels that are placed in one plot.
#[derive(Debug, Default)]
pub(super) struct ChartLabels {
    placed: Vec<Area>,
    /// Points along all lines, densely spaced.
    busy: Vec<(f32, f32)>,
}

/// Distance between two points of a line, logical pixels.
const STEP: f32 = 4.0;

/// Returns the grid cell of a point.
fn cell((x, y): &(f32, f32)) -> (i32, i32) {
    ((x / STEP) as i32, (y / STEP) as i32)
}

impl ChartLabels {
    /// Adds a line that labels should not cover.
    pub(super) fn avoid(&mut self, line: &[(f32, f32)]) {
        for pair in line.windows(2) {
            let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
            let steps = ((x1 - x0).abs().max((y1 - y0).abs()) / STEP).ceil().clamp(1.0, 200.0);
            for i in 0..steps as usize {
                let t = i as f32 / steps;
                self.busy.push((x0 + (x1 - x0) * t, y0 + (y1 - y0) * t));
            }
        }
        self.busy.extend(line.last());
        // Several lines in one cell count as one.
        self.busy.sort_by_key(cell);
        self.busy.dedup_by_key(|point| cell(point));
    }

    /// Places a label at the position inside `plot` that covers the fewest points; the earlier one if equal. Returns
    /// `None` if all positions are taken. If all of them are taken or cover something, a `loose` label goes to the
    /// nearest free position that covers nothing.
    pub(super) fn place(&mut self, plot: Area, places: Vec<Area>, loose: bool) -> Option<Area> {
        let free = |area: &Area| plot.contains(area) && !self.placed.iter().any(|other| other.overlaps(area));
        let hidden = |area: &Area| self.busy.iter().filter(|point| area.holds(**point)).count();
        let best = |places: Vec<Area>| {
            places.into_iter().filter(|area| free(area)).map(|area| (hidden(&area), area)).min_by_key(|(n, _)| *n)
        };
        let first = places.first().copied()?;
        let mut best_place = best(places);
        if loose && best_place.is_none_or(|(n, _)| n > 0) {
            let further = around(first, plot).into_iter().filter(|area| free(area));
            let clear = further.into_iter().find(|area| hidden(area) == 0);
            best_place = clear.map(|area| (0, area)).or(best_place);
        }
        let (_, area) = best_place?;
        self.placed.push(area);
        Some(area)
    }
}

/// Returns positions all over a plot, the nearest first.
fn around(at: Area, plot: Area) -> Vec<Area> {
    const ROWS: usize = 12;
    const COLUMNS: usize = 24;
    let share = |i: usize, n: usize, room: f32| 1.0 + (room - 2.0).max(0.0) * i as f32 / (n - 1) as f32;
    let cell = |i: usize| Area {
        x: plot.x + share(i % COLUMNS, COLUMNS, plot.w - at.w),
        y: plot.y + share(i / COLUMNS, ROWS, plot.h - at.h),
        ..at
    };
    let mut cells: Vec<Area> = (0..ROWS * COLUMNS).map(cell).collect();
    cells.sort_by(|a, b| (a.x - at.x).hypot(a.y - at.y).total_cmp(&(b.x - at.x).hypot(b.y - at.y)));
    cells
}

/// Returns positions along a line for a label of this size: from its end to its beginning, above and below.
pub(super) fn along(line: &[(f32, f32)], plot: Area, w: f32, h: f32) -> Vec<Area> {
    const AWAY: [f32; 3] = [2.0, 6.0, 14.0];
    let spots = [1.0, 0.85, 0.7, 0.55, 0.4, 0.25, 0.1, 0.0];
    let at = |t: f32| line.get(((line.len().saturating_sub(1)) as f32 * t) as usize).copied();
    let mut places = Vec::new();
    for away in AWAY {
        for (x, y) in spots.into_iter().filter_map(at) {
            let x = (x - w).clamp(plot.x + 1.0, (plot.right() - w - 1.0).max(plot.x + 1.0));
            // Clear of the line over the whole width of the label.
            let stretch = line.iter().filter(|(px, _)| (x..=x + w).contains(px)).map(|(_, py)| *py);
            let (top, bottom) = stretch.fold((y, y), |(t, b), py| (t.min(py), b.max(py)));
            places.push(Area { x, y: top - away - h, w, h });
            places.push(Area { x, y: bottom + away, w, h });
            places.push(Area { x, y: y - away - h, w, h });
            places.push(Area { x, y: y + away, w, h });
        }
    }
    places
}

/// Returns positions along a horizontal line: left, right and between, above and below.
pub(super) fn level(y: f32, plot: Area, w: f32, h: f32) -> Vec<Area> {
    let spots = [0.0, 1.0, 0.5, 0.25, 0.75];
    let x = |t: f32| plot.x + 3.0 + (plot.w - w - 6.0).max(0.0) * t;
    spots.into_iter().flat_map(|t| [y - 1.5 - h, y + 1.5].map(|y| Area { x: x(t), y, w, h })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_off_each_other_and_off_lines_where_they_can() {
        let plot = Area { x: 0.0, y: 0.0, w: 200.0, h: 100.0 };
        let line: Vec<(f32, f32)> = (0..=50).map(|i| (i as f32 * 4.0, 50.0)).collect();
        let mut labels = ChartLabels::default();
        labels.avoid(&line);
        let placed: Vec<Area> =
            (0..4).filter_map(|_| labels.place(plot, along(&line, plot, 60.0, 12.0), true)).collect();
        assert_eq!(placed.len(), 4);
        for (i, area) in placed.iter().enumerate() {
            assert!(plot.contains(area) && !line.iter().any(|point| area.holds(*point)), "{area:?}");
            assert!(placed[..i].iter().all(|other| !other.overlaps(area)), "{placed:?}");
        }
        let wide = labels.place(plot, level(50.0, plot, 300.0, 12.0), false);
        assert_eq!(wide, None, "what does not fit is left out");
    }
}
