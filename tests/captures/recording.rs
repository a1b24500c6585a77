//! A capture: what a real program showed once a second, in a healthy stretch (if there was one) and during a fault.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, bail};
use flate2::read::GzDecoder;

use crate::names::Names;

/// A stretch of time in Unix seconds, both ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Span {
    pub(crate) fn seconds(self) -> f64 {
        self.to - self.from
    }
}

/// One series: its name and labels as Prometheus writes them, and its samples as Unix seconds and values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) labels: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The file: `# before FROM TO`, `# during FROM TO settled TIME [crash]`, then `name{labels} value seconds`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Capture {
    pub(crate) before: Span,
    pub(crate) during: Span,
    /// From here to the end of `during` the fault is steady.
    pub(crate) settled: f64,
    /// The program died of it.
    pub(crate) crash: bool,
    pub(crate) series: Vec<Series>,
    /// The targets that are down while the fault is steady, as `instance="…"`.
    gone: Vec<String>,
}

impl Capture {
    /// Reads a file: all its series, or only those of these names.
    pub(crate) fn read(path: &Path, names: Option<&Names>) -> anyhow::Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let mut before = None;
        let mut during = None;
        let mut series: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
        for (number, line) in BufReader::new(GzDecoder::new(file)).lines().enumerate() {
            let line = line.with_context(|| format!("cannot read {}", path.display()))?;
            if let Some(names) = names
                && !line.starts_with('#')
                && !line.split_once('{').is_some_and(|(name, _)| names.have(name))
            {
                continue;
            }
            let words: Vec<&str> = line.split(' ').collect();
            let parsed = match words.as_slice() {
                ["#", "before", from, to] => {
                    before = span(from, to);
                    before.is_some()
                }
                ["#", "during", from, to, "settled", settled, rest @ ..] => {
                    during = span(from, to).zip(settled.parse::<f64>().ok()).map(|d| (d, rest == ["crash"]));
                    during.is_some()
                }
                _ => sample(&line)
                    .map(|(name, labels, point)| {
                        series.entry((name.to_owned(), labels.to_owned())).or_default().push(point);
                    })
                    .is_some(),
            };
            if !parsed {
                bail!("{}:{}: neither a heading nor a sample: `{line}`", path.display(), number + 1);
            }
        }
        let Some(((during, settled), crash)) = during else {
            bail!("{} lacks `# during`", path.display());
        };
        // A server that was never seen well has no past.
        let before = before.unwrap_or(Span { from: 0.0, to: 0.0 });
        let series: Vec<_> =
            series.into_iter().map(|((name, labels), points)| Series { name, labels, points }).collect();
        let gone = gone(&series, Span { from: settled, ..during });
        Ok(Self { before, during, settled, crash, series, gone })
    }

    /// Whether the program, or the one of its targets that shows this series, stays down.
    pub(crate) fn ends(&self, series: &Series) -> bool {
        self.crash || labels(&series.labels).any(|label| self.gone.iter().any(|instance| instance == label))
    }

    /// The same program under other names: another pool of another team.
    pub(crate) fn renamed(&self, prefix: &str) -> Self {
        let series: Vec<_> =
            self.series.iter().map(|s| Series { labels: renamed(&s.labels, prefix), ..s.clone() }).collect();
        Self { gone: gone(&series, Span { from: self.settled, ..self.during }), series, ..self.clone() }
    }

    /// The same program at another place: every series has these labels, instead of its own of the same names.
    pub(crate) fn placed(&self, place: &[(&str, &str)]) -> Self {
        let label = |(name, value): &(&str, &str)| format!("{name}=\"{value}\"");
        let own: Vec<String> = place.iter().map(label).collect();
        let placed = |text: &str| {
            let replaced = |label: &String| place.iter().any(|(name, _)| label.starts_with(&format!("{name}=")));
            let rest = split(text).into_iter().filter(|label| !replaced(label));
            format!("{{{}}}", own.iter().cloned().chain(rest).collect::<Vec<_>>().join(","))
        };
        let series: Vec<_> = self.series.iter().map(|s| Series { labels: placed(&s.labels), ..s.clone() }).collect();
        Self { series, ..self.clone() }
    }
}

/// Splits `{name="value",…}` into its labels.
fn split(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text.trim_start_matches('{');
    while let Some(at) = rest.find("=\"") {
        let end = at + 2 + end_of_value(&rest[at + 2..]);
        out.push(rest[..=end].to_owned());
        rest = rest[end + 1..].trim_start_matches(',');
    }
    out
}

fn gone(series: &[Series], steady: Span) -> Vec<String> {
    let is_down = |s: &&Series| {
        let mut seen = s.points.iter().filter(|(t, _)| (steady.from..=steady.to).contains(t)).peekable();
        seen.peek().is_some() && seen.all(|(_, up)| *up == 0.0)
    };
    let down = series.iter().filter(|s| s.name == "up").filter(is_down);
    down.filter_map(|s| labels(&s.labels).find(|label| label.starts_with("instance="))).map(str::to_owned).collect()
}

/// Each `name="value"` of `{name="value",…}`.
fn labels(text: &str) -> impl Iterator<Item = &str> {
    text.split(['{', ',', '}'])
}

fn span(from: &str, to: &str) -> Option<Span> {
    Some(Span { from: from.parse().ok()?, to: to.parse().ok()? })
}

fn sample(line: &str) -> Option<(&str, &str, (f64, f64))> {
    let (rest, time) = line.rsplit_once(' ')?;
    let (series, value) = rest.rsplit_once(' ')?;
    let at = series.find('{')?;
    Some((&series[..at], &series[at..], (time.parse().ok()?, value.parse().ok()?)))
}

/// The labels that tell whose a series is; their values are given a prefix.
const NAMING: [&str; 12] = [
    "job",
    "instance",
    "pod",
    "model",
    "model_name",
    "model_group",
    "requested_model",
    "litellm_model_name",
    "model_id",
    "api_base",
    "dynamo_namespace",
    "target_namespace",
];

fn renamed(labels: &str, prefix: &str) -> String {
    let mut out = String::with_capacity(labels.len() + 32);
    let mut rest = labels;
    while let Some(at) = rest.find("=\"") {
        let start = rest[..at].rfind(['{', ',']).map_or(0, |i| i + 1);
        let name = &rest[start..at];
        out.push_str(&rest[..at + 2]);
        if NAMING.contains(&name) {
            out.push_str(prefix);
        }
        let value = &rest[at + 2..];
        let end = end_of_value(value);
        out.push_str(&value[..=end]);
        rest = &value[end + 1..];
    }
    out.push_str(rest);
    out
}

/// Where the closing quote stands.
fn end_of_value(value: &str) -> usize {
    let mut escaped = false;
    for (i, c) in value.char_indices() {
        match c {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return i,
            _ => escaped = false,
        }
    }
    value.len() - 1
}
