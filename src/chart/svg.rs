//! SVG renderer for pages: text stays text, and a page may set the colours.

use std::fmt::Write;

use super::scene::{Area, DrawnShape, Ink};
use super::{Chart, alt, font, layout};

/// Renders a chart as an `<svg>` element for use in HTML or alone.
///
/// It has no style of its own, which a strict content security policy would refuse; pages style the class `chart`. Text
/// and marks take the surrounding text colour, so that they are readable on dark and light backgrounds. A page may set
/// `--chart-card`, `--chart-pool`, `--chart-outlier`, `--chart-replica`, `--chart-limit` and `--chart-normal`.
pub fn svg(chart: &Chart) -> String {
    let scene = layout::scene(chart);
    let (w, h) = (number(scene.width), number(scene.height));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" \
         height=\"{h}\" font-family=\"'DejaVu Sans', Verdana, sans-serif\">\n\
         <title>{}</title>\n<desc>{}</desc>\n",
        escaped(&chart.title),
        escaped(&alt(chart))
    );
    for shape in &scene.shapes {
        add(&mut out, shape);
    }
    out.push_str("</svg>\n");
    out
}

/// Returns the colour and its opacity.
fn colour(ink: Ink) -> (&'static str, f32) {
    match ink {
        Ink::Card => ("var(--chart-card, none)", 1.0),
        Ink::Text | Ink::Mark => ("currentColor", 1.0),
        Ink::Faint => ("currentColor", 0.72),
        Ink::Grid => ("currentColor", 0.14),
        Ink::Pool => ("var(--chart-pool, #2a86c2)", 1.0),
        Ink::Replica => ("var(--chart-replica, #8d949e)", 0.75),
        Ink::Outlier => ("var(--chart-outlier, #d9660a)", 1.0),
        Ink::Limit => ("var(--chart-limit, #b8579a)", 1.0),
        Ink::Beyond => ("var(--chart-limit, #b8579a)", 0.12),
        Ink::Normal => ("var(--chart-normal, #12946f)", 0.24),
        Ink::NormalName => ("var(--chart-normal, #12946f)", 1.0),
    }
}

fn filled(ink: Ink) -> String {
    let (colour, opacity) = colour(ink);
    if opacity < 1.0 { format!("fill=\"{colour}\" fill-opacity=\"{opacity}\"") } else { format!("fill=\"{colour}\"") }
}

fn add(out: &mut String, shape: &DrawnShape) {
    // Writing into a String does not fail.
    let _ = match shape {
        DrawnShape::Fill { area: Area { x, y, w, h }, ink } => writeln!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}/>",
            number(*x),
            number(*y),
            number(*w),
            number(*h),
            filled(*ink)
        ),
        DrawnShape::Polygon { points, ink } => writeln!(out, "<polygon points=\"{}\" {}/>", list(points), filled(*ink)),
        DrawnShape::Line { points, width, dash, ink } => {
            let (colour, opacity) = colour(*ink);
            let dashes = match dash {
                [] => " stroke-linecap=\"round\"".to_owned(),
                dash => {
                    format!(" stroke-dasharray=\"{}\"", dash.iter().map(|d| number(*d)).collect::<Vec<_>>().join(" "))
                }
            };
            writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-opacity=\"{opacity}\" \
                 stroke-width=\"{}\" stroke-linejoin=\"round\"{dashes}/>",
                list(points),
                number(*width)
            )
        }
        DrawnShape::Dot { x, y, r, ink } => {
            // A mark's number must be readable on its circle whatever the page's colours are: draw the circle as a
            // ring.
            let look = match ink {
                Ink::Mark => "fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.2\"".to_owned(),
                ink => filled(*ink),
            };
            writeln!(out, "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" {look}/>", number(*x), number(*y), number(*r))
        }
        DrawnShape::Text { x, y, text, size, bold, ink } => {
            let ink = if *ink == Ink::Card { Ink::Text } else { *ink };
            let weight = if *bold { " font-weight=\"bold\"" } else { "" };
            writeln!(
                out,
                "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{weight} {}>{}</text>",
                number(*x),
                number(*y),
                number(*size),
                filled(ink),
                escaped(text)
            )
        }
    };
}

fn list(points: &[(f32, f32)]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect::<Vec<_>>().join(" ")
}

/// Formats a coordinate; a tenth of a pixel is enough.
fn number(value: f32) -> String {
    let rounded = (value * 10.0).round() / 10.0 + 0.0;
    format!("{rounded}")
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in font::clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
