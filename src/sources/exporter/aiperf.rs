//! AIPerf's record of a server's pages during a benchmark, `server_metrics_export.jsonl`: one line a read of one address.
//!
//! Source of the shape: <https://docs.nvidia.com/aiperf/server-metrics/server-metrics-collection>, "Time-Series".

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Sample;
use knowledge::alert::Labels;

/// One read of one address.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedPage {
    /// The address of the page.
    pub url: String,
    /// The time of the read, in unix milliseconds.
    pub at: i64,
    /// The samples that are needed, as the page had them.
    pub samples: Vec<Sample>,
}

/// The reason why a benchmark's file has no pages of its server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BenchmarkError {
    /// AIPerf's statistics of a run, or its columns.
    #[error(
        "these are AIPerf's statistics, which leave out how the server's metrics moved: run it with \
         `--server-metrics-formats jsonl`, and pass `server_metrics_export.jsonl`"
    )]
    Statistics,
    /// The report of GuideLLM.
    #[error(
        "this is GuideLLM's report, which has what clients saw and no metrics of the server: save the server's \
         `/metrics` twice during the run, a minute apart, and pass both files"
    )]
    GuideLlm,
    /// A line of another shape.
    #[error("line {number} is no read of a page (expected `endpoint_url`, `timestamp_ns` and `metrics`): {why}")]
    Line {
        /// Its number, from 1.
        number: usize,
        /// The words of the parser.
        why: String,
    },
}

#[derive(Deserialize)]
struct Read<'l> {
    endpoint_url: String,
    timestamp_ns: i64,
    #[serde(borrow)]
    metrics: &'l RawValue,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    labels: Option<Labels>,
    value: Option<f64>,
    /// By the upper bound; called `histogram` before 0.5.
    #[serde(default, alias = "histogram")]
    buckets: Option<BTreeMap<String, Option<f64>>>,
    sum: Option<f64>,
    count: Option<f64>,
}

/// Returns the kind of a benchmark's file that has no pages, by its first bytes.
pub fn no_pages(head: &[u8]) -> Option<BenchmarkError> {
    let has = |text: &str| head.windows(text.len()).any(|window| window == text.as_bytes());
    let is_json = head.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| b"{[".contains(byte));
    match head {
        _ if head.starts_with(b"PAR1") => Some(BenchmarkError::Statistics),
        _ if !is_json => None,
        _ if has("\"aiperf_version\"") || has("\"endpoints_configured\"") => Some(BenchmarkError::Statistics),
        _ if has("\"guidellm_version\"") || has("\"benchmarks\"") => Some(BenchmarkError::GuideLlm),
        _ => None,
    }
}

/// Reads a line of `server_metrics_export.jsonl`; `number` is its own, for the error. `None` if a read of this address is not
/// due at this time: its samples, and those that are not needed, are not parsed.
///
/// # Errors
/// If it is of another shape.
pub fn read_line(
    line: &str,
    number: usize,
    is_due: impl FnOnce(&str, i64) -> bool,
    is_needed: impl Fn(&str) -> bool,
) -> Result<Option<RecordedPage>, BenchmarkError> {
    let refused = |error: serde_json::Error| BenchmarkError::Line { number, why: error.to_string() };
    let read: Read<'_> = serde_json::from_str(line).map_err(refused)?;
    let (url, at) = (read.endpoint_url, read.timestamp_ns / 1_000_000);
    if !is_due(&url, at) {
        return Ok(None);
    }
    let mut samples = Vec::new();
    let families: BTreeMap<String, &RawValue> = serde_json::from_str(read.metrics.get()).map_err(refused)?;
    for (family, entries) in families {
        // A counter's family has lost its `_total`.
        let names = ["", "_total", "_sum", "_count", "_bucket"].map(|end| format!("{family}{end}"));
        let names = names.map(|name| Some(name).filter(|name| is_needed(name)));
        let entries: Vec<Entry> = match names.iter().any(Option::is_some) {
            true => serde_json::from_str(entries.get()).map_err(refused)?,
            false => continue,
        };
        let [own, total, sum_name, count_name, bucket] = &names;
        let mut add = |name: &Option<String>, labels: &Labels, value: Option<f64>| {
            let named = name.clone().zip(value);
            samples.extend(named.map(|(name, value)| Sample { name, labels: labels.clone(), value }));
        };
        for Entry { labels, value, buckets, sum, count } in entries {
            let mut labels = labels.unwrap_or_default();
            add(own, &labels, value);
            add(total, &labels, value);
            add(sum_name, &labels, sum);
            add(count_name, &labels, count);
            for (bound, counted) in buckets.filter(|_| bucket.is_some()).unwrap_or_default() {
                labels.insert("le".to_owned(), bound);
                add(bucket, &labels, counted);
            }
        }
    }
    Ok(Some(RecordedPage { url, at, samples }))
}
