//! Reads a text exposition page, so that a page captured from a real server becomes history.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>

use anyhow::Context;

use super::backfill::Series;

/// Every sample of a page, stamped with a unix time in seconds and a target's labels (`job`, `instance`, …).
///
/// As in a scrape, a page's own label with a target label's name becomes `exported_…`. Times and exemplars on the page
/// are ignored. Fails on the first line that is no sample.
pub fn stamp_exposition(page: &str, target_labels: &[(&str, &str)], time: i64) -> anyhow::Result<Vec<Series>> {
    let is_sample = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    page.lines()
        .filter(is_sample)
        .map(|line| {
            let (name, own, value) = sample(line).with_context(|| format!("no sample: {line}"))?;
            let mut series = Series::new(name, target_labels).at(time, value);
            for (name, value) in own {
                let is_taken = target_labels.iter().any(|(taken, _)| *taken == name);
                let name = if is_taken { format!("exported_{name}") } else { name.to_owned() };
                series.labels.push((name, value));
            }
            Ok(series)
        })
        .collect()
}

type Sample<'a> = (&'a str, Vec<(&'a str, String)>, f64);

/// A line's name, labels and value.
fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' ', '\t'])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        (labels, rest) = self::labels(inside)?;
    }
    let value = rest.split_whitespace().next()?;
    // Rust reads `+Inf` and `NaN` as Prometheus writes them.
    (!name.is_empty()).then_some((name, labels, value.parse().ok()?))
}

/// The labels up to the closing brace, and what follows it.
fn labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once('=')?;
        let (value, after) = quoted(after.trim_start().strip_prefix('"')?)?;
        labels.push((name.trim(), value));
        rest = after;
    }
}

/// A quoted text after its opening quote, and what follows its closing one.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[index + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::backfill::openmetrics;

    #[test]
    fn a_page_becomes_samples_with_the_targets_labels() {
        let page = r#"# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.97
vllm:request_success_total{engine="0",finished_reason="stop",} 1.5e+01 1700000000000
vllm:time_to_first_token_seconds_bucket{le="+Inf", path="C:\\a \"b\"\nc, }"} 3 # {trace_id="x"} 0.5
http_up{instance="inner"} +Inf

process_cpu_seconds_total 14.79
"#;
        let target = [("instance", "10.0.0.1:8000"), ("job", "vllm")];
        let text = openmetrics(stamp_exposition(page, &target, 60).unwrap());
        let expected = r#"http_up{exported_instance="inner",instance="10.0.0.1:8000",job="vllm"} +Inf 60
process_cpu_seconds_total{instance="10.0.0.1:8000",job="vllm"} 14.79 60
vllm:kv_cache_usage_perc{engine="0",instance="10.0.0.1:8000",job="vllm",model_name="tiny"} 0.97 60
vllm:request_success_total{engine="0",finished_reason="stop",instance="10.0.0.1:8000",job="vllm"} 15 60
vllm:time_to_first_token_seconds_bucket{instance="10.0.0.1:8000",job="vllm",le="+Inf",path="C:\\a \"b\"\nc, }"} 3 60
# EOF
"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn a_line_that_is_no_sample_is_named() {
        let error = stamp_exposition("up 1\nup{job=\"x} 1", &[], 0).unwrap_err();
        assert_eq!(error.to_string(), "no sample: up{job=\"x} 1");
    }
}
