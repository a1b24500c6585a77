//! PNG renderer. No transparency: the picture has its own background, for dark and light surroundings.

use std::collections::HashMap;

use ab_glyph::{Font, Glyph, ScaleFont, point};
use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, PremultipliedColorU8, Rect, Stroke,
    StrokeDash, Transform,
};

use super::scene::{Area, DrawnShape, Ink, Scene};
use super::{Chart, font, layout};

/// Physical pixels per logical pixel: sharp on a phone and on a high-resolution screen.
pub(super) const SCALE: f32 = 2.0;

/// Renders a chart as a PNG, 1,040 pixels wide and as high as its panels need.
pub fn png(chart: &Chart) -> Vec<u8> {
    encode(&draw(&layout::scene(chart)))
}

/// Returns red, green, blue and opacity. The palette is by Okabe and Ito, chosen to be distinguishable with every kind
/// of colour vision: <https://jfly.uni-koeln.de/color/>
fn colour(ink: Ink) -> [u8; 4] {
    match ink {
        Ink::Card => [0xff, 0xff, 0xff, 0xff],
        Ink::Text | Ink::Mark => [0x1d, 0x1c, 0x1d, 0xff],
        Ink::Faint => [0x5b, 0x62, 0x6b, 0xff],
        Ink::Grid => [0xe4, 0xe7, 0xeb, 0xff],
        Ink::Pool => [0x00, 0x72, 0xb2, 0xff],
        Ink::Replica => [0xa9, 0xaf, 0xb8, 0xff],
        Ink::Outlier => [0xd5, 0x5e, 0x00, 0xff],
        Ink::Limit => [0x8f, 0x2d, 0x6e, 0xff],
        Ink::Beyond => [0xcc, 0x79, 0xa7, 0x1a],
        Ink::Normal => [0x00, 0x9e, 0x73, 0x38],
        Ink::NormalName => [0x00, 0x7a, 0x58, 0xff],
    }
}

fn paint(ink: Ink) -> Paint<'static> {
    let [r, g, b, a] = colour(ink);
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(r, g, b, a);
    paint
}

fn draw(scene: &Scene) -> Pixmap {
    // Both are small by construction: the width is fixed, and there are at most six panels.
    let pixels = |logical: f32| (logical * SCALE).ceil().clamp(1.0, 8_192.0) as u32;
    #[expect(clippy::expect_used, reason = "neither zero nor large")]
    let mut map = Pixmap::new(pixels(scene.width), pixels(scene.height)).expect("the size is in range");
    map.fill(Color::WHITE);
    for shape in &scene.shapes {
        add(&mut map, shape);
    }
    map
}

fn add(map: &mut Pixmap, shape: &DrawnShape) {
    let zoom = Transform::from_scale(SCALE, SCALE);
    match shape {
        DrawnShape::Fill { area: Area { x, y, w, h }, ink } => {
            if let Some(rect) = Rect::from_xywh(*x, *y, *w, *h) {
                map.fill_rect(rect, &paint(*ink), zoom, None);
            }
        }
        DrawnShape::Polygon { points, ink } => {
            if let Some(path) = path(points, true) {
                map.fill_path(&path, &paint(*ink), FillRule::Winding, zoom, None);
            }
        }
        DrawnShape::Line { points, width, dash, ink } => {
            let stroke = Stroke {
                width: *width,
                line_cap: if dash.is_empty() { LineCap::Round } else { LineCap::Butt },
                line_join: LineJoin::Round,
                dash: StrokeDash::new(dash.to_vec(), 0.0),
                ..Stroke::default()
            };
            if let Some(path) = path(points, false) {
                map.stroke_path(&path, &paint(*ink), &stroke, zoom, None);
            }
        }
        DrawnShape::Dot { x, y, r, ink } => {
            if let Some(circle) = PathBuilder::from_circle(*x, *y, *r) {
                map.fill_path(&circle, &paint(*ink), FillRule::Winding, zoom, None);
            }
        }
        DrawnShape::Text { x, y, text, size, bold, ink } => write(map, (*x, *y), text, *size, *bold, *ink),
    }
}

fn path(points: &[(f32, f32)], closed: bool) -> Option<Path> {
    let (first, rest) = points.split_first()?;
    let mut path = PathBuilder::new();
    path.move_to(first.0, first.1);
    rest.iter().for_each(|(x, y)| path.line_to(*x, *y));
    if closed {
        path.close();
    }
    path.finish()
}

fn write(map: &mut Pixmap, (x, y): (f32, f32), text: &str, size: f32, bold: bool, ink: Ink) {
    let face = font::face(bold);
    let scale = font::scale(face, size * SCALE);
    let scaled = face.as_scaled(scale);
    let (width, height) = (map.width(), map.height());
    let colour = colour(ink);
    let pixels = map.pixels_mut();
    let mut x = x * SCALE;
    for id in text.chars().map(|c| font::glyph(face, c)) {
        let glyph = Glyph { id, scale, position: point(x, y * SCALE) };
        x += scaled.h_advance(id);
        let Some(outline) = face.outline_glyph(glyph) else { continue };
        let corner = outline.px_bounds().min;
        outline.draw(|dx, dy, cover| {
            let (px, py) = (corner.x as i64 + i64::from(dx), corner.y as i64 + i64::from(dy));
            let inside = (0..i64::from(width)).contains(&px) && (0..i64::from(height)).contains(&py);
            if inside && let Some(pixel) = pixels.get_mut((py * i64::from(width) + px) as usize) {
                *pixel = blend(*pixel, colour, cover);
            }
        });
    }
}

/// Blends a colour over an opaque pixel.
fn blend(under: PremultipliedColorU8, [r, g, b, _]: [u8; 4], cover: f32) -> PremultipliedColorU8 {
    let cover = cover.clamp(0.0, 1.0);
    let mix = |under: u8, over: u8| (f32::from(under) + (f32::from(over) - f32::from(under)) * cover).round() as u8;
    let mixed = [mix(under.red(), r), mix(under.green(), g), mix(under.blue(), b)];
    PremultipliedColorU8::from_rgba(mixed[0], mixed[1], mixed[2], 255).unwrap_or(under)
}

/// Encodes with a palette: a third of the bytes to compress, and half the file size.
fn encode(map: &Pixmap) -> Vec<u8> {
    let (palette, indices) = palette(map.pixels());
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, map.width(), map.height());
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(palette);
    // Neighbours in a palette are not alike, so filters do not help.
    encoder.set_filter(png::Filter::NoFilter);
    encoder.set_compression(png::Compression::Balanced);
    #[expect(clippy::expect_used, reason = "memory takes everything, and the size is the data's")]
    encoder.write_header().and_then(|mut writer| writer.write_image_data(&indices)).expect("a PNG in memory");
    out
}

/// Returns the most frequent colours, and for each pixel the index of the nearest one. All inks are among them; only
/// rare shades at the edges of letters and lines are approximated.
fn palette(pixels: &[PremultipliedColorU8]) -> (Vec<u8>, Vec<u8>) {
    let rgb = |p: &PremultipliedColorU8| [p.red(), p.green(), p.blue()];
    let runs = || pixels.chunk_by(|a, b| a == b).map(|run| (rgb(&run[0]), run.len()));
    let mut used: HashMap<[u8; 3], usize> = HashMap::new();
    for (colour, n) in runs() {
        *used.entry(colour).or_default() += n;
    }
    let mut colours: Vec<([u8; 3], usize)> = used.into_iter().collect();
    colours.sort_unstable_by_key(|(colour, n)| (std::cmp::Reverse(*n), *colour));
    let kept: Vec<[u8; 3]> = colours.iter().take(256).map(|(colour, _)| *colour).collect();
    let apart = |a: [u8; 3], b: [u8; 3]| a.iter().zip(b).map(|(a, b)| i32::from(a.abs_diff(b)).pow(2)).sum::<i32>();
    let nearest = |colour: [u8; 3]| (0..kept.len()).min_by_key(|i| apart(kept[*i], colour)).unwrap_or(0) as u8;
    let index: HashMap<[u8; 3], u8> = colours.iter().map(|(colour, _)| (*colour, nearest(*colour))).collect();
    let mut indices = Vec::with_capacity(pixels.len());
    for (colour, n) in runs() {
        indices.resize(indices.len() + n, index.get(&colour).copied().unwrap_or(0));
    }
    (kept.concat(), indices)
}
