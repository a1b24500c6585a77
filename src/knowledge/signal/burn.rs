//! Burn rates: the share of requests that violated an objective, within both the rate window and the last hour.
//!
//! The value is the smaller of the two shares: the hour suppresses short bursts, the window ends an alert with its
//! cause. With too few requests or failures in the hour it is 0. After a busy hour the share of the hour rises slowly
//! in an outage, so a share above [`OUTAGE`] of at least [`LEAST_OF_OUTAGE`] requests within the window counts alone. A
//! window without requests is not a recovery: if the hour has failures, the value is NaN, which is no data. Source:
//! Google, The Site Reliability Workbook, chapter 5, "Multiwindow, Multi-Burn-Rate Alerts".
//!
//! The requests of a histogram above a limit are those above the nearest bucket bound at or above it. The bounds differ
//! by engine and version, so for each target the smallest bound that is not below the limit is taken.
//!
//! An engine with a summary or only a mean does not export the share. While the mean is above the limit, [`SLOW`] of the
//! requests count as late: enough for a warning and too few for a page, because one long request moves a mean.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longer of the two windows.
const LONG: &str = "1h";
/// Minimum failures in the hour; with fewer the burn rate is 0.
const LEAST_FAILURES: u32 = 5;
/// Minimum requests in the hour for a share of errors.
const LEAST_REQUESTS: u32 = 10;
/// Minimum requests in the hour for a latency, where one slow request in a few is normal.
const LEAST_TIMED: u32 = 30;

/// The share of failures within the window that alone means an outage.
const OUTAGE: f64 = 0.5;
/// Minimum requests within the window for an outage.
const LEAST_OF_OUTAGE: u32 = 20;
/// The share that counts as late while the mean is above the limit: above the limits of the warnings, below those of pages.
const SLOW: f64 = 0.13;
/// The number from which exporters write bounds with an exponent.
const WITH_EXPONENT: f64 = 1e6;

/// A service level indicator for which an objective can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// The time to the first token.
    Ttft,
    /// The time between two tokens.
    InterToken,
    /// The time of a whole request.
    Request,
    /// The share of requests that fail.
    Errors,
}

/// A signal that is derived from another one: how fast an error budget burns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Burn {
    /// The signal: a share, or a quantile of a histogram.
    pub of: String,
    /// For a quantile: the mean of the same quantity, for engines without a histogram.
    pub mean: Option<String>,
    /// For a quantile: the seconds that a request may take if no objective is configured.
    pub limit: Option<f64>,
    /// The objective of `slo:` that sets its limit.
    pub term: Option<Term>,
}

/// The queries that a burn rate is combined from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BurnParts {
    /// The share of failures within the rate window.
    pub window: String,
    /// The share of failures within the hour.
    pub hour: String,
    /// The requests of the hour.
    pub requests: String,
    /// The requests of the rate window.
    pub recent: String,
    /// Minimum of `requests`; with fewer the burn rate is 0.
    least: u32,
}

/// The queries that an error budget is counted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestCounts {
    /// The number of requests that failed or were late.
    pub failures: String,
    /// The number of all requests.
    pub requests: String,
}

impl Burn {
    /// Builds the query from the queries of the signal and of its mean; `None` if the signal is neither a histogram
    /// quantile nor a share of counters, and has no mean.
    pub fn query(&self, of: Option<&str>, mean: Option<&str>) -> Option<String> {
        let parts = self.parts(of, mean)?;
        let of = |query: &str| format!("({query})");
        Some(parts.over(&of(&parts.window), &of(&parts.hour), &of(&parts.requests), &of(&parts.recent)))
    }

    /// Returns the queries for the number of failures and of requests within the rate window, from the query of the
    /// signal; `None` if the signal counts no requests: a mean tells of none that was late.
    pub fn counts(&self, of: &str) -> Option<RequestCounts> {
        let (failures, requests) = match self.limit {
            Some(limit) => {
                let (within, all) = Buckets::of(of)?.counts(limit)?;
                (format!("clamp_min({all} - {within}, 0)"), all)
            }
            None => {
                let at = *divisions(of).last()?;
                (of[..at].trim().to_owned(), of[at + 1..].trim().to_owned())
            }
        };
        let counted = |query: String| query.replace("rate(", "increase(");
        Some(RequestCounts { failures: counted(failures), requests: counted(requests) })
    }

    /// Returns the parts of the query; `None` as for [`Burn::query`].
    pub fn parts(&self, of: Option<&str>, mean: Option<&str>) -> Option<BurnParts> {
        let (window, requests, least) = match self.limit {
            Some(limit) => {
                let buckets = of.and_then(Buckets::of);
                let late = buckets.and_then(|buckets| buckets.late(limit));
                // A histogram is more precise than a mean; a query with an alternative to it needs both.
                let takes_mean = late.is_none() || buckets.is_some_and(|buckets| buckets.or_else);
                let slow = mean.filter(|_| takes_mean).and_then(|mean| slow(mean, limit));
                let (share, timed) = match (late, slow) {
                    (Some((share, timed)), Some((slow, counted))) => {
                        (format!("({share} or {slow})"), format!("({timed} or {counted})"))
                    }
                    (late, slow) => late.or(slow)?,
                };
                (share, timed, LEAST_TIMED)
            }
            None => {
                let share = of?;
                (share.trim().to_owned(), all(share)?.to_owned(), LEAST_REQUESTS)
            }
        };
        let long = |text: &str| text.replace("$window", LONG);
        // An increase is the number of events, a rate the mean number per second.
        let recent = requests.replace("rate(", "increase(");
        Some(BurnParts { hour: long(&window), window, requests: long(&recent), recent, least })
    }
}

impl BurnParts {
    /// Builds the query over series that were recorded from the parts.
    pub fn over(&self, window: &str, hour: &str, requests: &str, recent: &str) -> String {
        let least = self.least;
        format!(
            "({window} > {OUTAGE} and {recent} >= {LEAST_OF_OUTAGE})\n  \
             or ({window} <= {hour} or {hour} < {window} or {window})\n  and {requests} >= {least}\n  \
             and {hour} * {requests} >= {LEAST_FAILURES}\n  or 0 * {requests}"
        )
    }
}

/// The histogram of a quantile's query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Buckets<'a> {
    /// The rate of its series, by replica and bound.
    pub rate: &'a str,
    /// Units per second: 1,000 for milliseconds.
    pub scale: f64,
    /// True if the query has an alternative to the histogram.
    or_else: bool,
}

impl<'a> Buckets<'a> {
    /// Returns the histogram that a query reads first; `None` without a histogram.
    pub fn of(quantile: &'a str) -> Option<Self> {
        let inner = quantile.trim().strip_prefix("histogram_quantile(")?;
        let end = closing(inner)?;
        let (_, sum) = inner[..end].split_once(", ")?;
        let buckets = sum.trim().strip_prefix("sum by (le, $by) (")?;
        let rest = inner[end + 1..].trim();
        let scale = rest.strip_prefix('/').and_then(|scale| scale.trim().parse::<f64>().ok());
        let or_else = scale.is_none() && !rest.is_empty();
        Some(Self { rate: &buckets[..closing(buckets)?], scale: scale.unwrap_or(1.0), or_else })
    }

    /// Returns the queries for the share of requests above the limit in seconds, and for the rate of all requests.
    fn late(&self, limit: f64) -> Option<(String, String)> {
        let (within, all) = self.counts(limit)?;
        Some((format!("1 - {within} / {all}"), all))
    }

    /// Returns the queries for the rate of requests within the limit in seconds, and for that of all requests.
    fn counts(&self, limit: f64) -> Option<(String, String)> {
        let limit = Some(limit * self.scale).filter(|limit| *limit < WITH_EXPONENT)?;
        let of = |bounds: &str| self.rate.replace("_bucket{", &format!("_bucket{{le=~\"{bounds}\", "));
        let all = format!("sum by ($by) ({})", of("[+]Inf"));
        let within = format!("sum by ($by) (min without (le) ({}))", of(&at_least(limit)));
        Some((within, all))
    }
}

/// Builds the share that counts as late by a mean's query, and the rate of all requests; `None` unless the mean is a sum
/// over a count. Without requests the share is NaN, as the mean is.
fn slow(mean: &str, limit: f64) -> Option<(String, String)> {
    let mean = mean.trim();
    // `sum / count`, with an optional second divisor that converts to seconds; other forms have no known count.
    let operators: String = outside(mean).map(|(_, c)| c).collect();
    let other = |word: &str| matches!(word, "or" | "and" | "unless" | "+" | "-") || word.contains('*');
    if operators.split_whitespace().any(other) {
        return None;
    }
    let divisions = divisions(mean);
    let (first, end) = (*divisions.first()?, divisions.get(1).copied().unwrap_or(mean.len()));
    let counted = mean[first + 1..end].trim().to_owned();
    Some((format!("({SLOW} * (({mean}) > bool {limit}) + 0 * ({mean}))"), counted))
}

/// Returns the denominator of a share: the text after its last `/` outside of parentheses.
fn all(share: &str) -> Option<&str> {
    divisions(share).last().map(|at| share[at + 1..].trim())
}

/// Returns the positions of divisions outside of parentheses.
fn divisions(query: &str) -> Vec<usize> {
    outside(query).filter(|(_, c)| *c == '/').map(|(i, _)| i).collect()
}

/// Returns the characters outside of parentheses and quotes, with their positions.
fn outside(query: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut depth, mut quoted) = (0_i32, false);
    query.char_indices().filter(move |(_, c)| {
        match *c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            _ => return depth == 0,
        }
        false
    })
}

/// Returns the index of the parenthesis that closes the one opened before the text.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quoted) = (0, false);
    for (i, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted && depth == 0 => return Some(i),
            ')' if !quoted => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Builds a regular expression of the bounds, as exporters write them, at or above a number below [`WITH_EXPONENT`].
fn at_least(number: f64) -> String {
    let written = format!("{number:.6}");
    let (integer_part, part) = written.split_once('.').unwrap_or((&written, ""));
    let part = part.trim_end_matches('0');
    let digits = "[0-9]".repeat(integer_part.len());
    let longer = if integer_part == "0" { "[1-9][0-9]*".to_owned() } else { format!("[1-9]{digits}+") };
    let mut bounds = vec!["[+]Inf".to_owned(), "[0-9.]+e[+][0-9]+".to_owned(), format!("{longer}([.].*)?")];
    let above = |digit: char| digit.to_digit(10).filter(|d| *d < 9).map(|d| format!("[{}-9]", d + 1));
    if integer_part != "0" {
        for (i, digit) in integer_part.char_indices() {
            let rest = "[0-9]".repeat(integer_part.len() - i - 1);
            bounds.extend(above(digit).map(|above| format!("{}{above}{rest}([.].*)?", &integer_part[..i])));
        }
    }
    if part.is_empty() {
        bounds.push(format!("{integer_part}([.].*)?"));
    } else {
        for (i, digit) in part.char_indices() {
            bounds.extend(above(digit).map(|above| format!("{integer_part}[.]{}{above}[0-9]*", &part[..i])));
        }
        bounds.push(format!("{integer_part}[.]{part}[0-9]*"));
    }
    bounds.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_at_or_above_a_limit_are_known_by_how_they_are_written() {
        let bounds =
            ["0.001", "0.05", "0.1", "0.15", "0.25", "0.5", "1", "1.0", "2.0", "2.5", "10.0", "30", "99.5", "640.0"];
        for limit in [0.05, 0.1, 0.15, 0.2, 1.0, 2.0, 2.2, 9.0, 30.0, 99.9, 100.0] {
            let pattern = regex::Regex::new(&format!("^(?:{})$", at_least(limit))).unwrap();
            for bound in bounds {
                let above = bound.parse::<f64>().unwrap() >= limit;
                assert_eq!(pattern.is_match(bound), above, "{bound} of {limit}: {pattern}");
            }
            assert!(pattern.is_match("+Inf") && pattern.is_match("1e+06") && !pattern.is_match("5e-05"), "{pattern}");
        }
    }

    #[test]
    fn a_quantile_of_milliseconds_has_its_limit_in_milliseconds() {
        let of = "histogram_quantile(0.99, sum by (le, $by) (rate(x_ms_bucket{a=\")\", $scope}[$window]))) / 1000";
        let late = |of, limit| Buckets::of(of)?.late(limit);
        let (share, all) = late(of, 2.0).unwrap();
        assert_eq!(all, "sum by ($by) (rate(x_ms_bucket{le=~\"[+]Inf\", a=\")\", $scope}[$window]))");
        assert!(share.contains("|2000([.].*)?\", a=\")\""), "{share}");
        assert_eq!(late(of, 1_000.0), None, "a bound of a million is written 1e+06");
        assert_eq!(late("max by ($by) (x{quantile=\"0.99\", $scope})", 2.0), None);
    }

    #[test]
    fn the_requests_of_a_share_stand_behind_its_line() {
        assert_eq!(
            all("(sum(rate(a{r=\"/v1/.*\"}[5m])) or 0 * b / c)\n  / sum(rate(d{r=\"/\"}[5m]))"),
            Some("sum(rate(d{r=\"/\"}[5m]))")
        );
        assert_eq!(all("sum(a / b)"), None);
        let burn = Burn { of: "x".to_owned(), mean: None, limit: None, term: None };
        let counted = burn.query(Some("sum(increase(a[$window])) / sum(increase(b[$window]))"), None).unwrap();
        assert!(counted.contains("(sum(increase(b[1h]))) >= 10") && counted.contains("[$window]"), "{counted}");
        let rated = burn.query(Some("sum(rate(a[$window])) / sum(rate(b[$window]))"), None).unwrap();
        assert!(rated.contains("(sum(increase(b[1h]))) >= 10"), "{rated}");
    }

    #[test]
    fn an_outage_counts_by_its_window_alone_and_an_empty_window_is_not_well() {
        let burn = Burn { of: "x".to_owned(), mean: None, limit: None, term: None };
        let query = burn.query(Some("sum(rate(a[$window])) / sum(rate(b[$window]))"), None).unwrap();
        let window = "(sum(rate(a[$window])) / sum(rate(b[$window])))";
        assert!(query.starts_with(&format!("({window} > 0.5 and (sum(increase(b[$window]))) >= 20)")), "{query}");
        // A NaN fails both comparisons; the third alternative returns it.
        assert!(query.contains(&format!(" or {window})\n  and ")), "{query}");
    }

    #[test]
    fn without_a_histogram_the_mean_tells_and_beside_one_it_is_not_asked() {
        let burn = Burn { of: "x".to_owned(), mean: Some("m".to_owned()), limit: Some(30.0), term: None };
        let mean = Some("sum(rate(d_us[$window])) / sum(rate(n[$window])) / 1e6");
        let summary = burn.parts(Some("max by ($by) (x{quantile=\"0.99\", $scope})"), mean).unwrap();
        let slow = "(0.13 * ((sum(rate(d_us[$window])) / sum(rate(n[$window])) / 1e6) > bool 30) \
                    + 0 * (sum(rate(d_us[$window])) / sum(rate(n[$window])) / 1e6))";
        assert_eq!(summary.window, slow);
        assert_eq!(
            (summary.requests.as_str(), summary.recent.as_str()),
            ("sum(increase(n[1h]))", "sum(increase(n[$window]))")
        );
        assert_eq!(burn.parts(None, mean), Some(summary));
        assert_eq!(burn.parts(None, None), None);
        let histogram = "histogram_quantile(0.99, sum by (le, $by) (rate(x_bucket{$scope}[$window])))";
        assert_eq!(burn.parts(Some(histogram), mean), burn.parts(Some(histogram), None));
        let either = burn.parts(Some(&format!("{histogram}\n or max by ($by) (x{{$scope}})")), mean).unwrap();
        assert!(either.window.starts_with("(1 - ") && either.window.ends_with(&format!(" or {slow})")), "{either:?}");
        assert!(either.recent.ends_with(" or sum(increase(n[$window])))"), "{either:?}");
        // A bound of a million is written in many ways, so the mean has to tell there too.
        let of_ms = format!("{histogram} / 1000");
        let long = Burn { limit: Some(1_000.0), ..burn };
        assert_eq!(long.parts(Some(&of_ms), mean), long.parts(None, mean));
    }

    #[test]
    fn an_error_budget_is_counted_in_requests_and_never_estimated_from_a_mean() {
        let late = Burn { of: "x".to_owned(), mean: Some("m".to_owned()), limit: Some(2.0), term: None };
        let histogram = "histogram_quantile(0.99, sum by (le, $by) (rate(x_bucket{$scope}[$window])))";
        let counts = late.counts(histogram).unwrap();
        assert_eq!(counts.requests, "sum by ($by) (increase(x_bucket{le=~\"[+]Inf\", $scope}[$window]))");
        assert!(
            counts.failures.starts_with(&format!("clamp_min({} - sum by ($by) (min", counts.requests)),
            "{counts:?}"
        );
        assert_eq!(late.counts("max by ($by) (x{quantile=\"0.99\", $scope})"), None);
        let failed = Burn { of: "x".to_owned(), mean: None, limit: None, term: None };
        let counts =
            failed.counts("(sum(rate(a[$window])) or 0 * sum(rate(b[$window]))) / sum(rate(b[$window]))").unwrap();
        assert_eq!(counts.failures, "(sum(increase(a[$window])) or 0 * sum(increase(b[$window])))");
        assert_eq!(counts.requests, "sum(increase(b[$window]))");
        assert_eq!(failed.counts("max(a)"), None);
    }

    #[test]
    fn only_of_a_sum_over_a_count_the_requests_are_known() {
        assert_eq!(
            slow("a / b", 3.0).unwrap(),
            ("(0.13 * ((a / b) > bool 3) + 0 * (a / b))".to_owned(), "b".to_owned())
        );
        assert_eq!(slow("sum(a or b) / sum(c * d) / 1e-3", 3.0).unwrap().1, "sum(c * d)");
        for other in ["a / b or c / d", "a / b * 1e-3", "a / b*1e-3", "a / b + c / d", "a / b - c", "a / b and c", "a"]
        {
            assert_eq!(slow(other, 3.0), None, "{other}");
        }
    }
}
