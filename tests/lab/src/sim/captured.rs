//! Pages as text, for tests: what families they have, and whether a simulated page could be a captured one.

use std::collections::{BTreeMap, BTreeSet};

/// What is to be known of one family.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Shape {
    /// The word in its `# TYPE` line.
    pub kind: String,
    /// The names of labels, `le` left out, in all combinations seen.
    pub labels: BTreeSet<Vec<String>>,
    /// The values of `le`.
    pub bounds: BTreeSet<String>,
}

/// The families of a page by name.
pub fn shapes(page: &str) -> BTreeMap<String, Shape> {
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a type");
            let twice = shapes.insert(name.to_owned(), Shape { kind: kind.to_owned(), ..Shape::default() });
            assert!(twice.is_none(), "{name} is declared twice");
        } else if !line.starts_with('#') {
            let (name, labels) = sample(line);
            let family = ["", "_bucket", "_count", "_sum"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix).filter(|family| shapes.contains_key(*family)))
                .unwrap_or_else(|| panic!("no type for {line}"));
            let shape = shapes.get_mut(family).expect("found above");
            if name.ends_with("_bucket") {
                let bound = labels.iter().find(|(name, _)| name == "le").expect("a bucket has a bound");
                shape.bounds.insert(bound.1.clone());
            }
            let mut names: Vec<String> = labels.into_iter().map(|(name, _)| name).filter(|name| name != "le").collect();
            names.sort();
            shape.labels.insert(names);
        }
    }
    shapes
}

/// The value of the only sample, or the sum of all samples, of `name` whose labels contain `labels`.
pub fn value(page: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let lines = page.lines().filter(|line| !line.starts_with('#')).filter(|line| {
        let (found, own) = sample(line);
        found == name && labels.iter().all(|(l, v)| own.iter().any(|(name, value)| name == l && value == v))
    });
    let number = |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok()).expect("a number");
    lines.map(number).sum()
}

/// Panics with the first thing that `page` has and the captured one has not.
pub fn assert_like(page: &str, captured: &str) {
    let captured = shapes(captured);
    for (name, shape) in shapes(page) {
        let real = captured.get(&name).unwrap_or_else(|| panic!("{name} is on no captured page"));
        assert_eq!(shape.kind, real.kind, "type of {name}");
        // A family that was quiet when it was captured shows no labels.
        if !real.labels.is_empty() {
            for labels in &shape.labels {
                assert!(real.labels.contains(labels), "{name}: {labels:?} instead of {:?}", real.labels);
            }
        }
        if !real.bounds.is_empty() && !shape.bounds.is_empty() {
            assert_eq!(shape.bounds, real.bounds, "buckets of {name}");
        }
    }
}

fn sample(line: &str) -> (&str, Vec<(String, String)>) {
    let (name, rest) = match line.split_once('{') {
        Some((name, rest)) => (name, rest.rsplit_once('}').expect("a closing brace").0),
        None => (line.split_once(' ').expect("a value").0, ""),
    };
    let mut labels = Vec::new();
    let mut rest = rest;
    while let Some((label, after)) = rest.split_once("=\"") {
        let mut end = 0;
        let bytes = after.as_bytes();
        while end < bytes.len() && bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        labels.push((label.trim_start_matches(',').to_owned(), after[..end].to_owned()));
        rest = &after[end + 1..];
    }
    (name, labels)
}
