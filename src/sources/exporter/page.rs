//! A parser of exporters' pages: Prometheus text format 0.0.4, and the part of OpenMetrics that is equal to it.
//!
//! The crates that parse it lose `:` in names, split label values at commas, or have a licence that deny.toml refuses;
//! the format is small. It is as strict as Prometheus: one line that cannot be parsed fails the whole page.
//! Source of the format: <https://prometheus.io/docs/instrumenting/exposition_formats/>

use super::ExporterError;
use knowledge::alert::Labels;

/// Maximum number of wanted samples of one page.
const SAMPLES_MOST: usize = 50_000;
/// Maximum length of an unparsable line in an error, in characters.
const EXCERPT_CHARS: usize = 40;

/// The reason why JSON is no page, and the address of the right one.
/// Source: <https://nvidia.github.io/TensorRT-LLM/commands/trtllm-serve/trtllm-serve.html>.
const JSON: &str =
    "this is JSON, and no page of metrics: the one of TensorRT-LLM (`trtllm-serve`) is `/prometheus/metrics`";

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The metric's name as exposed: with `_total`, `_bucket`, `_sum`.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// The value as exposed; may be NaN, infinite or negative.
    pub value: f64,
}

/// Parses the samples whose names are `wanted`; timestamps and exemplars are left out.
///
/// # Errors
/// If a line is not a sample, the text is JSON or ends within a line, or too many samples are wanted.
pub fn parse(text: &str, is_needed: impl Fn(&str) -> bool) -> Result<Vec<Sample>, ExporterError> {
    if text.trim_start().starts_with(['{', '[']) {
        return Err(ExporterError::NotMetrics(JSON.to_owned()));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(ExporterError::NotMetrics("the page breaks off within a line".to_owned()));
    }
    let mut samples: Vec<Sample> = Vec::new();
    let mut last: Option<(&str, bool)> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, labels, value)) = read(line) else {
            let excerpt: String = line.chars().take(EXCERPT_CHARS).collect();
            return Err(ExporterError::NotMetrics(format!("line {} is no sample: `{excerpt}`", number + 1)));
        };
        let keep = match last {
            Some((last, keep)) if last == name => keep,
            _ => is_needed(name),
        };
        last = Some((name, keep));
        if keep {
            if samples.len() >= SAMPLES_MOST {
                return Err(ExporterError::NotMetrics(format!("more than {SAMPLES_MOST} samples of what is asked")));
            }
            samples.push(Sample { name: name.to_owned(), labels, value });
        }
    }
    Ok(samples)
}

/// Parses a line: `name{label="value",…} value [time] [# exemplar]`.
fn read(line: &str) -> Option<(&str, Labels, f64)> {
    let end = line.find(|c: char| !is_name(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (labels, rest) = match rest.trim_start().strip_prefix('{') {
        Some(inside) => read_labels(inside)?,
        None => (Labels::new(), rest),
    };
    let rest = rest.split_once(" # ").map_or(rest, |(sample, _)| sample);
    let mut words = rest.split_ascii_whitespace();
    let value = number(words.next()?)?;
    match (words.next(), words.next()) {
        (Some(time), None) => number(time).map(|_| (name, labels, value)),
        (None, _) => Some((name, labels, value)),
        (Some(_), Some(_)) => None,
    }
}

/// Parses the labels up to the closing brace; also returns the rest of the line.
fn read_labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once('=')?;
        let name = name.trim();
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        let mut value = String::new();
        let inside = after.trim_start().strip_prefix('"')?;
        let mut letters = inside.char_indices();
        loop {
            match letters.next()? {
                (at, '"') => {
                    rest = &inside[at + 1..];
                    break;
                }
                (_, '\\') => match letters.next()?.1 {
                    'n' => value.push('\n'),
                    escaped => value.push(escaped),
                },
                (_, letter) => value.push(letter),
            }
        }
        labels.insert(name.to_owned(), value);
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// Parses a number as Go and Python write it: `1e+06`, `+Inf`, `NaN`.
fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Sample> {
        parse(text, |_| true).unwrap()
    }

    #[test]
    fn names_labels_and_values_are_read_as_exporters_write_them() {
        let page = "# HELP x y\n# TYPE vllm:x counter\nvllm:x_total{a=\"b,c\",d=\"}\\\"\\\\\\n\",} 1.5e+06 1700000000000\n\
                    up 1\nempty{} NaN\nb_bucket{le=\"+Inf\"} 17 # {trace_id=\"a\"} 0.67\n# EOF\n";
        let samples = all(page);
        let names: Vec<&str> = samples.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["vllm:x_total", "up", "empty", "b_bucket"]);
        assert_eq!((samples[0].value, samples[1].value, samples[3].value), (1.5e6, 1.0, 17.0));
        assert_eq!((samples[0].labels["a"].as_str(), samples[0].labels["d"].as_str()), ("b,c", "}\"\\\n"));
        assert!(samples[2].value.is_nan() && samples[3].labels["le"] == "+Inf");
    }

    #[test]
    fn what_is_no_metrics_page_is_an_error_that_shows_where() {
        for (page, said) in [
            ("<html><body>login</body></html>\n", "line 1 is no sample: `<html>"),
            ("up 1\nup one\n", "line 2 is no sample: `up one`"),
            ("x{a=\"b} 1\n", "line 1"),
            ("x{a=b} 1\n", "line 1"),
            ("x{\n", "line 1"),
            ("x 1 2 3\n", "line 1"),
            ("9x 1\n", "line 1"),
            ("x\n", "line 1"),
            ("x 1\ny 0.9", "breaks off"),
        ] {
            let error = parse(page, |_| true).unwrap_err().to_string();
            assert!(error.contains(said), "{page}: {error}");
        }
    }

    #[test]
    fn only_what_is_wanted_is_kept_and_that_is_bounded() {
        assert_eq!(parse("a 1\nb 2\na 3\n", |name| name == "b").unwrap().len(), 1);
        let many = "a 1\n".repeat(SAMPLES_MOST + 1);
        assert!(parse(&many, |_| true).unwrap_err().to_string().contains("more than 50000 samples"));
        assert_eq!(parse(&many, |_| false).unwrap(), []);
    }
}
