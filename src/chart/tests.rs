//! Charts of usual and odd data stay inside the picture, and their texts do not overlap.

use std::time::Duration;

use super::png::SCALE;
use super::scene::{Area, DrawnShape, Ink, Scene};
use super::*;
use knowledge::clock;

fn at(minute: usize) -> Timestamp {
    clock::after(Timestamp::from_second(1_790_000_000).unwrap(), Duration::from_secs(60 * minute as u64))
}

fn series(name: &str, role: Role, value: impl Fn(usize) -> f64) -> ChartSeries {
    ChartSeries { name: name.to_owned(), role, points: (0..60).map(|i| (at(i), value(i))).collect() }
}

fn panel(title: &str, unit: Unit, series: Vec<ChartSeries>) -> Panel {
    Panel {
        title: title.to_owned(),
        unit,
        series,
        threshold: None,
        band: None,
        others: "other replicas".to_owned(),
        says: format!("{title}: high."),
    }
}

/// A low value for two thirds of the time, then a high one.
fn step(low: f64, high: f64) -> impl Fn(usize) -> f64 {
    move |i| if i < 40 { low + (i % 3) as f64 * low * 0.05 } else { high - (i % 4) as f64 * high * 0.02 }
}

fn typical(panels: usize) -> Chart {
    let one = |i: usize| {
        let mut lines = vec![series("all replicas", Role::Pool, step(0.4, 8.0))];
        if i % 2 == 1 {
            lines =
                (0..6).map(|n| series(&format!("pod-{n}"), Role::Replica, step(0.4 + n as f64 * 0.05, 1.2))).collect();
            lines.push(series("vllm-llama-8b-6f9c-1", Role::Outlier, step(0.5, 9.0)));
        }
        let mut panel = panel("inter-token latency p99", Unit::Seconds, lines);
        panel.threshold =
            Some(ChartThreshold { value: 1.5, bad: ThresholdSide::Above, label: "limit 1.5 s".to_owned() });
        let points = (0..60).map(|i| (at(i), 0.3, 0.6)).collect();
        panel.band = Some(Band { label: "yesterday".to_owned(), points });
        panel
    };
    let mark = |minute, label: &str| ChartMark { at: at(minute), label: label.to_owned() };
    Chart {
        title: "First tokens come late ← KV cache is exhausted ← prompts became longer".to_owned(),
        subtitle: "llama-8b · llm · 2026-11-20 13:20–14:20 UTC".to_owned(),
        panels: (0..panels).map(one).collect(),
        from: at(0),
        to: at(59),
        marks: vec![mark(38, "prompts became longer"), mark(40, "first tokens come late")],
    }
}

/// Charts of all kinds of odd data.
fn odd() -> Vec<Chart> {
    let many = |n: usize| -> Vec<ChartSeries> {
        let name = |i| format!("vllm-{i}-{}", "x".repeat(300));
        let outlier = series(&"outlier".repeat(80), Role::Outlier, step(1.0, 9.0));
        (0..n).map(|i| series(&name(i), Role::Replica, move |m| (m * i) as f64)).chain([outlier]).collect()
    };
    let lines = vec![
        vec![],
        vec![ChartSeries { name: String::new(), points: vec![], role: Role::Pool }],
        vec![ChartSeries { name: "one".to_owned(), points: vec![(at(30), 4.0)], role: Role::Pool }],
        vec![series("level", Role::Pool, |_| 3.0)],
        vec![series("zero", Role::Outlier, |_| 0.0)],
        vec![series("none", Role::Pool, |_| f64::NAN)],
        vec![series("infinite", Role::Pool, |i| if i % 2 == 0 { f64::INFINITY } else { f64::NEG_INFINITY })],
        vec![series("huge", Role::Pool, |i| f64::MAX / (i + 1) as f64), series("low", Role::Outlier, |_| f64::MIN)],
        vec![series("negative", Role::Pool, |i| -(i as f64))],
        vec![series("tiny", Role::Pool, |i| i as f64 * 1e-300)],
        many(500),
        (0..40).map(|i| series(&format!("outlier {i}"), Role::Outlier, move |m| (m + i) as f64)).collect(),
        (0..500).map(|i| series("thin", Role::Replica, move |m| (m + i) as f64)).collect(),
        vec![ChartSeries {
            name: "back".into(),
            points: (0..60).rev().map(|i| (at(i), 1.0)).collect(),
            role: Role::Pool,
        }],
    ];
    let units = [Unit::Seconds, Unit::Ratio, Unit::Bytes, Unit::Count, Unit::Hertz];
    let mut charts: Vec<Chart> = lines
        .into_iter()
        .enumerate()
        .map(|(i, lines)| Chart {
            panels: vec![panel(&"title 模型 ".repeat(i * 5), units[i % 5], lines)],
            ..typical(0)
        })
        .collect();
    let evil = "<!channel> \u{0}\u{1b}[31m & \"quotes\" </text><script>alert(1)</script> \u{202e}evil 🦀 ]]>";
    let mut hostile = typical(4);
    (hostile.title, hostile.subtitle) = (evil.repeat(40), evil.repeat(40));
    for panel in &mut hostile.panels {
        (panel.title, panel.others, panel.says) = (evil.to_owned(), evil.repeat(9), evil.to_owned());
        panel.series.iter_mut().for_each(|series| series.name = evil.to_owned());
        panel.threshold = Some(ChartThreshold { value: f64::NAN, bad: ThresholdSide::Below, label: evil.to_owned() });
        panel.band = Some(Band { label: evil.to_owned(), points: vec![(at(3), f64::NAN, 1.0), (at(9), 2.0, 1.0)] });
    }
    hostile.marks = (0..30).map(|i| ChartMark { at: at(58 + i % 3), label: evil.repeat(i) }).collect();
    charts.push(hostile);
    charts.push(typical(20));
    charts.push(Chart { title: String::new(), subtitle: String::new(), marks: Vec::new(), ..typical(0) });
    charts.push(Chart { from: at(59), to: at(0), ..typical(3) });
    charts.push(Chart { from: at(5), to: at(5), ..typical(2) });
    charts.push(Chart { from: Timestamp::MIN, to: Timestamp::MAX, ..typical(1) });
    charts
}

fn texts(scene: &Scene) -> Vec<(Area, &str)> {
    let of = |shape: &'_ DrawnShape| match shape {
        DrawnShape::Text { x, y, text, size, bold, .. } => {
            let w = font::width(text, *size, *bold);
            Some(Area { x: *x, y: y - size * 0.75, w, h: size * 0.95 })
        }
        _ => None,
    };
    let text = |shape: &'_ DrawnShape| matches!(shape, DrawnShape::Text { .. });
    let words = scene.shapes.iter().filter_map(|shape| match shape {
        DrawnShape::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    scene.shapes.iter().filter(|shape| text(shape)).filter_map(of).zip(words).collect()
}

fn says(scene: &Scene, text: &str) -> bool {
    texts(scene).iter().any(|(_, own)| *own == text)
}

#[test]
fn no_text_leaves_the_picture_or_covers_another() {
    for chart in (1..=6).map(typical).chain(odd()) {
        let scene = layout::scene(&chart);
        let all = Area { x: 0.0, y: 0.0, w: scene.width + 0.5, h: scene.height + 0.5 };
        let texts = texts(&scene);
        for (i, (area, text)) in texts.iter().enumerate() {
            assert!(all.contains(area), "`{text}` at {area:?} is not in {all:?}");
            let over = texts[..i].iter().find(|(other, _)| other.overlaps(area));
            assert_eq!(over, None, "`{text}` at {area:?}");
        }
    }
}

#[test]
fn no_shape_leaves_the_picture() {
    for chart in (1..=6).map(typical).chain(odd()) {
        let scene = layout::scene(&chart);
        assert!(scene.height.is_finite() && scene.height < 1_200.0, "{}", scene.height);
        let all = Area { x: 0.0, y: 0.0, w: scene.width, h: scene.height };
        for shape in &scene.shapes {
            let inside = match shape {
                DrawnShape::Fill { area, .. } => all.contains(area),
                DrawnShape::Polygon { points, .. } | DrawnShape::Line { points, .. } => {
                    points.iter().all(|p| all.holds(*p))
                }
                DrawnShape::Dot { x, y, .. } => all.holds((*x, *y)),
                DrawnShape::Text { .. } => true,
            };
            assert!(inside, "{shape:?}");
        }
    }
}

#[test]
fn what_matters_is_named_at_its_line() {
    let scene = layout::scene(&typical(2));
    for text in ["limit 1.5 s", "yesterday", "vllm-llama-8b-6f9c-1", "other replicas", "1", "2"] {
        assert!(says(&scene, text), "{text}: {:?}", texts(&scene));
    }
}

#[test]
fn of_five_hundred_replicas_some_are_drawn_and_the_rest_is_counted() {
    let lines = (0..500).map(|i| series("thin", Role::Replica, move |_| i as f64));
    let chart = Chart { panels: vec![panel("queue", Unit::Count, lines.collect())], ..typical(0) };
    let scene = layout::scene(&chart);
    let thin: Vec<f32> = scene
        .shapes
        .iter()
        .filter_map(|shape| match shape {
            DrawnShape::Line { points, ink: Ink::Replica, .. } => Some(points[0].1),
            _ => None,
        })
        .collect();
    assert_eq!(thin.len(), 24);
    assert!(says(&scene, "other replicas +476"), "{:?}", texts(&scene));
    let (top, bottom) = thin.iter().fold((f32::MAX, f32::MIN), |(t, b), y| (t.min(*y), b.max(*y)));
    assert!(bottom - top > 80.0, "the smallest and the largest are among them: {top} {bottom}");
}

#[test]
fn a_gap_in_the_data_is_a_gap_in_the_line() {
    let mut line = series("pool", Role::Pool, |i| i as f64);
    line.points.retain(|(when, _)| !(at(20)..at(30)).contains(when));
    line.points[40].1 = f64::NAN;
    line.points.truncate(48);
    let chart = Chart { panels: vec![panel("queue", Unit::Count, vec![line])], marks: Vec::new(), ..typical(0) };
    let scene = layout::scene(&chart);
    let runs = scene.shapes.iter().filter(|shape| matches!(shape, DrawnShape::Line { ink: Ink::Pool, .. })).count();
    assert_eq!(runs, 2, "one missed point is joined, ten are not");
}

#[test]
fn every_odd_picture_is_a_png_and_well_formed_svg() {
    for chart in odd() {
        let (w, h, _) = decoded(&png(&chart));
        assert!(w == 1_040 && h > 40 && h < 2_400, "{w} x {h}");
        well_formed(&svg(&chart));
    }
}

#[test]
fn the_picture_is_small_and_shows_what_was_laid_out() {
    let chart = typical(6);
    let (bytes, scene) = (png(&chart), layout::scene(&chart));
    assert!(bytes.len() < 200_000, "{} bytes", bytes.len());
    let (w, h, pixels) = decoded(&bytes);
    assert_eq!((w, h), ((scene.width * SCALE) as usize, (scene.height * SCALE).ceil() as usize));
    let pixel = |x: f32, y: f32| {
        let i = ((y * SCALE) as usize * w + (x * SCALE) as usize) * 3;
        [pixels[i], pixels[i + 1], pixels[i + 2]]
    };
    let limit = scene.shapes.iter().find_map(|shape| match shape {
        DrawnShape::Line { points, ink: Ink::Limit, .. } => Some(points[0]),
        _ => None,
    });
    let (x, y) = limit.unwrap();
    assert!((0..6).any(|dx| pixel(x + dx as f32, y) == [0x8f, 0x2d, 0x6e]), "the limit is drawn where it was laid out");
    let outlier = pixels.chunks(3).filter(|p| *p == [0xd5, 0x5e, 0x00]).count();
    assert!(outlier > 1_000, "{outlier} pixels of the outlier");
    assert_eq!(pixel(2.0, 2.0), [255, 255, 255]);
}

#[test]
fn the_svg_keeps_text_as_text_and_lets_none_out() {
    let chart = typical(2);
    let text = svg(&chart);
    assert!(text.contains(">limit 1.5 s</text>") && text.contains("<title>First tokens"), "{text}");
    assert!(text.contains("currentColor") && !text.contains("<style"), "a page may forbid styles of others");
    let hostile = odd().into_iter().find(|chart| chart.title.contains("script")).unwrap();
    let text = svg(&hostile);
    assert!(!text.contains("<script") && !text.contains("<!channel"), "{text}");
}

#[test]
fn the_alternative_text_says_what_is_seen_and_has_an_end() {
    let text = alt(&typical(2));
    assert_eq!(
        text,
        "First tokens come late ← KV cache is exhausted ← prompts became longer. llama-8b · llm · 2026-11-20 \
         13:20–14:20 UTC. 14:51 prompts became longer. 14:53 first tokens come late. inter-token latency p99: high. \
         inter-token latency p99: high."
    );
    assert!(odd().iter().all(|chart| alt(chart).chars().count() <= ALT_CHARS));
}

/// Returns width, height and the RGB bytes.
fn decoded(bytes: &[u8]) -> (usize, usize, Vec<u8>) {
    let mut decoder = ::png::Decoder::new(std::io::Cursor::new(bytes));
    decoder.set_transformations(::png::Transformations::EXPAND);
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(info.color_type, ::png::ColorType::Rgb);
    (info.width as usize, info.height as usize, pixels)
}

/// Checks that elements nest and close, attributes are quoted, and `&` begins only the five entities that XML knows.
#[track_caller]
fn well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        assert!(!text.contains('>'), "{text}");
        entities(text);
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        assert!(!tag.contains('<') && tag.matches('"').count().is_multiple_of(2), "{tag}");
        entities(tag);
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap();
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name)),
            (false, false) => open.push(name),
            (false, true) => {}
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
    assert!(svg.chars().all(|c| c == '\n' || !c.is_control()));
}

#[track_caller]
fn entities(text: &str) {
    for after in text.split('&').skip(1) {
        assert!(["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|e| after.starts_with(e)), "{after}");
    }
}
