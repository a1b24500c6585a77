//! Fills the placeholders of a signal's PromQL: `$scope`, `$workload`, `$window`, `$by`, `$target`, `$remote`.
//!
//! Values are inserted as escaped label matchers only: an alert's labels are untrusted input.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One label matcher, already bound to a label name of the series.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Matcher {
    /// A label name that is a PromQL identifier.
    pub label: String,
    /// The literal values, one of which must match; `""` matches a series without the label.
    pub values: Vec<String>,
    /// True to match series that lack the label too: another exporter may not have the dimension.
    #[serde(default)]
    pub or_absent: bool,
}

/// Formats matchers: `namespace="llm",model_name="llama"`; empty for an empty list.
///
/// A label name that is not a PromQL identifier (any UTF-8 is possible in newer Alertmanagers) is left out,
/// because Prometheus 2 cannot match on it.
pub fn matchers(list: &[Matcher]) -> String {
    list.iter()
        .filter(|m| is_identifier(&m.label))
        .map(|m| match (m.values.as_slice(), m.or_absent) {
            ([one], false) => format!("{}={}", m.label, quoted(one)),
            (values, or_absent) => {
                let mut choices: Vec<String> = values.iter().map(|value| escape_regex(value)).collect();
                choices.extend(or_absent.then(String::new));
                format!("{}=~{}", m.label, quoted(&choices.join("|")))
            }
        })
        .collect::<Vec<_>>()
        .join(",")
}

/// Builds a matcher of any of the literal values: `pod="a"`, `pod=~"a|b"`; `None` without values or a valid label.
///
/// PromQL and LogQL share the syntax.
pub fn any_of(label: &str, values: &[String]) -> Option<String> {
    match values {
        _ if !is_identifier(label) => None,
        [] => None,
        [one] => Some(format!("{label}={}", quoted(one))),
        several => Some(format!("{label}=~{}", choice(several))),
    }
}

/// Builds a quoted regular expression that matches one of the literal values.
pub fn choice(values: &[String]) -> String {
    let choices: Vec<String> = values.iter().map(|value| escape_regex(value)).collect();
    quoted(&choices.join("|"))
}

impl Matcher {
    /// Builds a matcher of one value.
    pub fn one(label: &str, value: &str) -> Self {
        Self { label: label.to_owned(), values: vec![value.to_owned()], or_absent: false }
    }

    /// Returns true if a series' label value satisfies it; `value` is `None` if the series lacks the label.
    pub fn accepts(&self, value: Option<&str>) -> bool {
        let value = value.unwrap_or_default();
        (self.or_absent && value.is_empty()) || self.values.iter().any(|own| own == value)
    }
}

/// Selects targets whose address means one machine, whoever scrapes it: no loopback and no unspecified address.
const REMOTE: &str = r#"instance!~"(localhost|127[.].*|0[.]0[.]0[.]0|.?::1?.?)(:[0-9]+)?""#;

/// The values of the placeholders in one diagnosis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fill<'a> {
    /// Matchers in the engine's labels.
    pub scope: &'a str,
    /// Matchers in the orchestrator's labels.
    pub workload: &'a str,
    /// The rate window.
    pub window: Duration,
    /// Labels to keep in aggregations; empty for the whole pool.
    pub by: &'a [String],
    /// The labels that identify a target, as in `on (…)`.
    pub target: &'a str,
    /// The prefix of the query's metric names, and the prefixes that Prometheus has.
    pub prefix: Option<(&'a str, &'a [String])>,
}

/// Replaces the placeholders of `query`, and the prefix of its metric names by those in use.
pub fn fill(query: &str, with: &Fill<'_>) -> String {
    let spelt = match with.prefix {
        Some((written, held)) if held.iter().any(|p| p != written) => respell(query, written, held),
        _ => query.to_owned(),
    };
    let window = prometheus_duration(with.window);
    let by = with.by.join(", ");
    let values: BTreeMap<&str, &str> = BTreeMap::from([
        ("scope", with.scope),
        ("workload", with.workload),
        ("window", window.as_str()),
        ("by", by.as_str()),
        ("target", with.target),
        ("remote", REMOTE),
    ]);
    let mut out = String::with_capacity(query.len() + 64);
    let mut rest = spelt.as_str();
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        let end = tail.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(tail.len());
        match values.get(&tail[..end]) {
            // An empty `$by` leaves `by (le, )`, which parses but reads badly in links.
            Some(&"") if tail[end..].starts_with(')') && out.ends_with(", ") => out.truncate(out.len() - 2),
            Some(value) => out.push_str(value),
            None => out.push_str(&rest[at..=at + end]),
        }
        rest = &tail[end..];
    }
    out.push_str(rest);
    out.trim().to_owned()
}

/// Replaces the prefix of every metric name that is followed by `{` or `[`: renamed for one prefix in use, matched by
/// `__name__` for several. Labels and their values that begin alike stay.
fn respell(query: &str, written: &str, held: &[String]) -> String {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut out = String::with_capacity(query.len() * 2);
    let (mut from, mut quoted) = (0, false);
    for (at, _) in query.match_indices(written) {
        let Some(between) = query.get(from..at) else { continue };
        out.push_str(between);
        quoted ^= quotes(between);
        let tail = &query[at + written.len()..];
        let end = tail.find(|c: char| !of_a_name(c)).unwrap_or(tail.len());
        let begins = !query[..at].ends_with(of_a_name);
        from = at;
        if quoted || !begins || !tail[end..].starts_with(['{', '[']) {
            continue;
        }
        let names: Vec<String> = held.iter().map(|prefix| format!("{prefix}{}", &tail[..end])).collect();
        from = at + written.len() + end;
        match (names.as_slice(), tail[end..].starts_with('{')) {
            ([one], _) => out.push_str(one),
            (several, true) => {
                out.push_str(&format!("{{__name__=~\"{}\", ", several.join("|")));
                from += 1;
            }
            (several, false) => out.push_str(&format!("{{__name__=~\"{}\"}}", several.join("|"))),
        }
    }
    out.push_str(&query[from..]);
    out
}

/// Returns true if a piece of a query has an odd number of quotes.
fn quotes(piece: &str) -> bool {
    let (mut in_string, mut escaped) = (false, false);
    for c in piece.chars() {
        in_string ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
    }
    in_string
}

/// Returns the classic histograms that a query reads, by their names without `_bucket`.
pub fn histograms(query: &str) -> impl Iterator<Item = &str> {
    // A label's value may contain `_bucket` too; several spellings of a name are the value of `__name__`.
    let of_a_label = |at: usize| {
        let (mut quoted, mut escaped, mut began) = (false, false, 0);
        for (i, c) in query[..at].char_indices() {
            if c == '"' && !escaped {
                (quoted, began) = (!quoted, i);
            }
            escaped = c == '\\' && !escaped;
        }
        quoted && !query[..began].trim_end_matches(['=', '~']).ends_with("__name__")
    };
    query.match_indices("_bucket").filter(move |(at, _)| !of_a_label(*at)).map(|(at, _)| {
        let own = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        &query[query[..at].rfind(|c| !own(c)).map_or(0, |i| i + 1)..at]
    })
}

/// Formats a duration for PromQL, in whole seconds where it has no fraction of one: `300s`, `1500ms`. Nothing is `1s`.
pub fn prometheus_duration(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{}s", duration.as_secs().max(1)),
        _ => format!("{}ms", duration.as_millis()),
    }
}

fn quoted(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Prometheus takes the character itself for broken UTF-8, and refuses the query.
            // Source: https://github.com/prometheus/prometheus/blob/main/promql/parser/lex.go, `lexString`
            '\u{fffd}' => out.push_str("\\ufffd"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn escape_regex(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if "\\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Returns true if the text is a label name that PromQL accepts.
pub(super) fn is_identifier(label: &str) -> bool {
    label.chars().enumerate().all(|(i, c)| c == '_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit()))
        && !label.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_keeps_its_fraction_of_a_second() {
        for (millis, written) in [(300_000, "300s"), (1_500, "1500ms"), (250, "250ms"), (0, "1s")] {
            assert_eq!(prometheus_duration(Duration::from_millis(millis)), written);
        }
    }

    #[test]
    fn a_replacement_character_is_escaped_because_prometheus_takes_it_for_broken_utf_8() {
        assert_eq!(matchers(&[Matcher::one("model", "a\u{fffd}b")]), r#"model="a\ufffdb""#);
        assert_eq!(choice(&["a\u{fffd}".to_owned(), "b".to_owned()]), r#""a\ufffd|b""#);
    }

    #[test]
    fn a_label_value_stays_as_it_is_whatever_it_looks_like() {
        let scope = matchers(&[Matcher::one("model", "f(a, ) $window $by , )")]);
        let query = fill("sum by (le, $by) (x{$scope})", &Fill { scope: &scope, ..Fill::default() });
        assert_eq!(query, r#"sum by (le) (x{model="f(a, ) $window $by , )"})"#);
    }

    #[test]
    fn a_renamed_prefix_is_found_and_two_spellings_are_matched_together() {
        let spell = |held: &[&str]| {
            let held: Vec<String> = held.iter().map(|&p| p.to_owned()).collect();
            fill("max(vllm:x{$scope})", &Fill { prefix: Some(("vllm:", &held)), ..Fill::default() })
        };
        assert_eq!(spell(&["vllm:"]), "max(vllm:x{})");
        assert_eq!(spell(&["vllm_"]), "max(vllm_x{})");
        assert_eq!(spell(&["vllm:", "vllm_"]), r#"max({__name__=~"vllm:x|vllm_x", })"#);
    }

    #[test]
    fn labels_and_values_that_begin_like_the_series_keep_their_names() {
        let spell = |held: &[&str]| {
            let held: Vec<String> = held.iter().map(|&p| p.to_owned()).collect();
            let query =
                "sum by (gpu_id) (gpu_power{gpu_type=\"gpu_x{\"} and on (gpu_id) amd_gpu_load{} + rate(gpu_load[5m]))";
            fill(query, &Fill { prefix: Some(("gpu_", &held)), ..Fill::default() })
        };
        assert_eq!(
            spell(&["my_gpu_"]),
            "sum by (gpu_id) (my_gpu_power{gpu_type=\"gpu_x{\"} and on (gpu_id) amd_gpu_load{} + rate(my_gpu_load[5m]))"
        );
        assert_eq!(
            spell(&["gpu_", "amd_gpu_"]),
            "sum by (gpu_id) ({__name__=~\"gpu_power|amd_gpu_power\", gpu_type=\"gpu_x{\"} and on (gpu_id) amd_gpu_load{} \
             + rate({__name__=~\"gpu_load|amd_gpu_load\"}[5m]))"
        );
    }

    #[test]
    fn placeholders_are_filled_and_unknown_ones_are_left_for_the_linter() {
        let by = ["pod".to_owned()];
        let with = Fill {
            scope: r#"a="b""#,
            window: Duration::from_secs(300),
            by: &by,
            target: "job, instance",
            ..Fill::default()
        };
        assert_eq!(
            fill("sum by (le, $by) (rate(x{$scope}[$window]) and on ($target) y) $other", &with),
            r#"sum by (le, pod) (rate(x{a="b"}[300s]) and on (job, instance) y) $other"#
        );
    }

    #[test]
    fn a_histogram_is_named_by_a_metric_and_not_by_a_label() {
        let of = |query| histograms(query).collect::<Vec<_>>();
        assert_eq!(of("sum by (le) (rate(a:b_seconds_bucket{m=\"x\"}[5m]))"), ["a:b_seconds"]);
        assert_eq!(of(r#"sum(rate(a{m="x_bucket"}[5m]))"#), [""; 0]);
        assert_eq!(of(r#"rate({__name__=~"a:b_bucket|a_b_bucket", m="x_bucket"}[5m])"#), ["a:b", "a_b"]);
        assert_eq!(of(r#"sum(rate(a{m="\\\"x_bucket"}[5m])) / sum(b_bucket)"#), ["b"]);
    }
}
