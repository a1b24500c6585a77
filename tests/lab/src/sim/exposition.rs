//! Metric families and their text: Prometheus exposition for live pages, series names for histories.

use std::fmt::Write as _;

use super::stats::Histogram;

/// A metric with its samples on one page.
#[derive(Debug, Clone)]
pub struct Family {
    /// Name as in the `# TYPE` line of the Prometheus format, `_total` included.
    pub name: &'static str,
    /// One-line help.
    pub help: &'static str,
    /// Type.
    pub kind: Kind,
    /// The samples, those of a histogram in order of their bounds.
    pub samples: Vec<Sample>,
    /// The beginning of the name that is written as something else, with what it is written as.
    pub renamed: Option<(&'static str, &'static str)>,
}

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only rises while the process lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets, a count and a sum.
    Histogram,
}

/// One sample of a family.
#[derive(Debug, Clone)]
pub struct Sample {
    /// What follows the family's name: `_bucket`, `_count`, `_sum` or nothing.
    pub suffix: &'static str,
    /// Labels in the order they are written.
    pub labels: Labels,
    /// Value.
    pub value: f64,
}

/// Names and values of labels.
pub type Labels = Vec<(&'static str, String)>;

/// How a page writes its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// As Python's `prometheus_client`: `122.0`, `1.79519846291e+09`.
    Python,
    /// As Go: `122`.
    Go,
}

impl Kind {
    /// The word in a `# TYPE` line.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

impl Family {
    /// A family without samples.
    pub fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, help, kind, samples: Vec::new(), renamed: None }
    }

    /// The name as it is written, in two parts.
    pub fn written(&self) -> [&'static str; 2] {
        let renamed = self.renamed.and_then(|(from, to)| Some([to, self.name.strip_prefix(from)?]));
        renamed.unwrap_or(["", self.name])
    }

    /// Adds a sample.
    pub fn with(mut self, labels: Labels, value: f64) -> Self {
        self.samples.push(Sample { suffix: "", labels, value });
        self
    }

    /// Adds the samples of a histogram with `le` among `labels` where the alphabet puts it.
    pub fn with_histogram(self, labels: &Labels, histogram: &Histogram) -> Self {
        self.with_histogram_in(labels, histogram, Numbers::Python)
    }

    /// The same with the bounds written as `numbers`.
    pub fn with_histogram_in(mut self, labels: &Labels, histogram: &Histogram, numbers: Numbers) -> Self {
        let place = labels.partition_point(|(name, _)| *name < "le");
        let mut below = 0;
        for (i, count) in histogram.counts.iter().enumerate() {
            below += count;
            let bound = histogram.bounds.get(i).copied().unwrap_or(f64::INFINITY);
            let mut labels = labels.clone();
            labels.insert(place, ("le", number(bound, numbers)));
            self.samples.push(Sample { suffix: "_bucket", labels, value: below as f64 });
        }
        for (suffix, value) in [("_count", below as f64), ("_sum", histogram.sum)] {
            let labels = labels.clone();
            self.samples.push(Sample { suffix, labels, value });
        }
        self
    }
}

/// The page in the Prometheus text format 0.0.4, without timestamps.
pub fn text(families: &[Family], numbers: Numbers) -> String {
    let mut page = String::with_capacity(64 * 1024);
    for family in families {
        let Family { help, kind, samples, .. } = family;
        let [first, last] = family.written();
        // Writing to a String cannot fail.
        let _ = writeln!(page, "# HELP {first}{last} {help}\n# TYPE {first}{last} {}", kind.as_str());
        for sample in samples {
            page.push_str(first);
            page.push_str(last);
            page.push_str(sample.suffix);
            if !sample.labels.is_empty() {
                page.push('{');
                push_labels(&mut page, &sample.labels);
                page.push('}');
            }
            let _ = writeln!(page, " {}", number(sample.value, numbers));
        }
    }
    page
}

/// Writes `name="value"` pairs with commas between them.
pub fn push_labels<N: AsRef<str>>(out: &mut String, labels: &[(N, String)]) {
    for (i, (name, value)) in labels.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(name.as_ref());
        out.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                other => out.push(other),
            }
        }
        out.push('"');
    }
}

/// A sample's value or a bucket's bound as text.
pub fn number(value: f64, numbers: Numbers) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    match numbers {
        Numbers::Go => format!("{value}"),
        Numbers::Python => {
            let plain = format!("{value:?}");
            // From a million on, prometheus_client writes a mantissa and an exponent.
            match plain.find('.') {
                Some(point) if value >= 1e6 && !plain.contains('e') => {
                    let digits = format!("{}{}", &plain[1..point], &plain[point + 1..]);
                    let digits = digits.trim_end_matches('0');
                    let dot = if digits.is_empty() { "" } else { "." };
                    format!("{}{dot}{digits}e+{:02}", &plain[..1], point - 1)
                }
                _ => plain,
            }
        }
    }
}
