//! History for Prometheus: a few series in OpenMetrics text, which promtool turns into blocks.
//!
//! Times are unix seconds. Import before the start, more than three hours in the past, and query with a time inside
//! the history: it carries no stale markers, so that a last sample is seen for five minutes more.
//! Source: <https://prometheus.io/docs/prometheus/latest/storage/#backfilling-from-openmetrics-format>.

use std::collections::BTreeMap;
use std::fmt::Write;

/// One series with its samples, in any order.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The metric's name.
    pub name: String,
    /// Its labels; the last of several with the same name holds.
    pub labels: Vec<(String, String)>,
    /// Unix seconds and values.
    pub samples: Vec<(i64, f64)>,
}

impl Series {
    /// A series without samples.
    pub fn new(name: &str, labels: &[(&str, &str)]) -> Self {
        let labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Self { name: name.into(), labels, samples: Vec::new() }
    }

    /// Adds a sample.
    #[must_use]
    pub fn at(mut self, time: i64, value: f64) -> Self {
        self.samples.push((time, value));
        self
    }

    /// Adds one value every `step` seconds, from `from` to `to`, both included.
    #[must_use]
    pub fn steady(self, from: i64, to: i64, step: i64, value: f64) -> Self {
        self.shaped(from, to, step, |_| value)
    }

    /// Adds a counter that grows by `rate` a second. It goes on where the samples so far end, so that calls with
    /// adjoining times make one counter with changing rates.
    #[must_use]
    pub fn counter(self, from: i64, to: i64, step: i64, rate: f64) -> Self {
        let (since, base) = self.samples.last().copied().unwrap_or((from, 0.0));
        self.shaped(from, to, step, |time| base + (time - since) as f64 * rate)
    }

    /// Adds what a function of the time gives, every `step` seconds.
    #[must_use]
    pub fn shaped(mut self, from: i64, to: i64, step: i64, value: impl Fn(i64) -> f64) -> Self {
        let times = (0..).map(|index| from + index * step.max(1)).take_while(|time| *time <= to);
        self.samples.extend(times.map(|time| (time, value(time))));
        self
    }
}

/// The series as OpenMetrics text. Series with the same name and labels become one; of two samples at the same time
/// the later in the list holds, for promtool would drop one silently.
pub fn openmetrics(series: impl IntoIterator<Item = Series>) -> String {
    let mut sorted: BTreeMap<(String, BTreeMap<String, String>), BTreeMap<i64, f64>> = BTreeMap::new();
    for Series { name, labels, samples } in series {
        sorted.entry((name, labels.into_iter().collect())).or_default().extend(samples);
    }
    let mut text = String::new();
    for ((name, labels), samples) in sorted {
        let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = labels.join(",");
        for (time, value) in samples {
            writeln!(text, "{name}{{{labels}}} {} {time}", number(value)).expect("a String takes any text");
        }
    }
    text.push_str("# EOF\n");
    text
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn number(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".into(),
        f64::NEG_INFINITY => "-Inf".into(),
        value if value.is_nan() => "NaN".into(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_come_out_ordered_escaped_and_once() {
        let a = [("pod", "a\"\\\n")];
        let text = openmetrics([
            Series::new("b", &[]).at(20, f64::INFINITY).at(10, f64::NAN),
            Series::new("a_total", &a).counter(0, 20, 10, 2.0).counter(30, 40, 10, 1.0),
            Series::new("a_total", &a).at(40, 99.5),
        ]);
        let expected = r#"a_total{pod="a\"\\\n"} 0 0
a_total{pod="a\"\\\n"} 20 10
a_total{pod="a\"\\\n"} 40 20
a_total{pod="a\"\\\n"} 50 30
a_total{pod="a\"\\\n"} 99.5 40
b{} NaN 10
b{} +Inf 20
# EOF
"#;
        assert_eq!(text, expected);
    }
}
