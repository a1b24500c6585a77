//! Parses the answer of `query_range`, and merges streams into logs.
//!
//! Source of the format:
//! <https://grafana.com/docs/loki/latest/reference/loki-http-api/#query-logs-within-a-range-of-time>

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::LokiError;
use logs::Log;

/// Labels with the container's name, as common log agents set them; the first existing one is used.
const CONTAINER: [&str; 3] = ["container", "container_name", "k8s_container_name"];

/// One log line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// Nanoseconds since 1970.
    pub(super) at: i64,
    /// The text as written.
    pub(super) line: String,
}

/// The lines with one set of labels; newest first, as Loki returns them.
#[derive(Debug)]
pub(super) struct LogStream {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) entries: Vec<Entry>,
}

/// Parses an answer.
pub(super) fn read(body: &[u8]) -> Result<Vec<LogStream>, LokiError> {
    #[derive(Deserialize)]
    struct Answer {
        data: Data,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Data {
        result_type: String,
        result: Vec<StreamAnswer>,
    }
    #[derive(Deserialize)]
    struct StreamAnswer {
        stream: BTreeMap<String, String>,
        values: Vec<Line>,
    }
    // Time, line, and perhaps structured metadata.
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "the metadata only has to be passed over")]
    struct Line(String, String, #[serde(default)] Option<IgnoredAny>);

    let answer: Answer = serde_json::from_slice(body).map_err(|e| LokiError::NotLoki(e.to_string()))?;
    if answer.data.result_type != "streams" {
        return Err(LokiError::NotLoki(format!("it has `{}` instead of streams", answer.data.result_type)));
    }
    let stream = |answer: StreamAnswer| {
        let entry = |line: Line| match line.0.parse() {
            Ok(at) => Ok(Entry { at, line: line.1 }),
            Err(_) => Err(LokiError::NotLoki(format!("`{}` is no time in nanoseconds", line.0))),
        };
        let entries = answer.values.into_iter().map(entry).collect::<Result<_, _>>()?;
        Ok(LogStream { labels: answer.stream, entries })
    };
    answer.data.result.into_iter().map(stream).collect()
}

/// The lines of one query, by pod and container.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    lines: BTreeMap<(Option<String>, Option<String>), Vec<Entry>>,
    bytes: u64,
}

impl Gathered {
    /// Returns the number of bytes of all lines so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a page without the `known` lines, which the page before contained too.
    pub(super) fn add(&mut self, page: Vec<LogStream>, pod: &str, already_read: &BTreeSet<Entry>) {
        for stream in page {
            let pod = stream.labels.get(pod).cloned();
            let container = CONTAINER.iter().find_map(|label| stream.labels.get(*label)).cloned();
            let lines = self.lines.entry((pod, container)).or_default();
            for entry in stream.entries.into_iter().filter(|entry| !already_read.contains(entry)) {
                self.bytes += entry.line.len() as u64 + 1;
                lines.push(entry);
            }
        }
    }

    /// Builds one log for each pod and container, oldest line first. Each line gets its timestamp as prefix: engines
    /// omit the year and the zone, and lines of a traceback have no time at all. Above `bytes`, only the newest lines
    /// stay.
    pub(super) fn logs(self, bytes: u64, mut cut: bool) -> Vec<Log> {
        let mut over = self.bytes.saturating_sub(bytes);
        let mut all: Vec<_> = self.lines.into_iter().filter(|(_, lines)| !lines.is_empty()).collect();
        for (_, lines) in &mut all {
            // Lines of the same timestamp came newest first.
            lines.reverse();
            lines.sort_by_key(|entry| entry.at);
        }
        if over > 0 {
            // The same start for all logs, so that they cover the same time.
            let mut sizes: Vec<(i64, u64)> =
                all.iter().flat_map(|(_, lines)| lines).map(|e| (e.at, e.line.len() as u64 + 1)).collect();
            sizes.sort_unstable();
            let mut from = i64::MIN;
            for (at, size) in sizes {
                if over == 0 {
                    break;
                }
                over = over.saturating_sub(size);
                from = at.saturating_add(1);
            }
            all.iter_mut().for_each(|(_, lines)| lines.retain(|entry| entry.at >= from));
            cut = true;
        }
        let log = |((pod, container), lines): ((Option<String>, Option<String>), Vec<Entry>)| {
            let mut text = String::with_capacity(lines.iter().map(|entry| entry.line.len() + 32).sum());
            for Entry { at, line } in lines {
                if let Ok(at) = Timestamp::from_nanosecond(i128::from(at)) {
                    text.push_str(&at.to_string());
                    text.push(' ');
                }
                text.push_str(line.trim_end_matches(['\n', '\r']));
                text.push('\n');
            }
            Log { source: "loki".to_owned(), pod, container, previous: false, text, cut }
        };
        all.into_iter().filter(|(_, lines)| !lines.is_empty()).map(log).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_metadata_are_read_and_anything_else_is_not_loki() {
        let body = br#"{"status":"success","data":{"resultType":"streams","result":[{"stream":{"pod":"a"},
            "values":[["2","y",{"level":"info"}],["1","x"]]}],"stats":{}}}"#;
        let streams = read(body).unwrap();
        assert_eq!(streams[0].entries, [Entry { at: 2, line: "y".into() }, Entry { at: 1, line: "x".into() }]);
        for odd in [
            &b"<html>"[..],
            b"{}",
            br#"{"data":{"resultType":"matrix","result":[]}}"#,
            br#"{"data":{"resultType":"streams","result":[{"stream":{},"values":[["soon","x"]]}]}}"#,
            br#"{"data":{"resultType":"streams","result":[{"stream":{},"values":[["1"]]}]}}"#,
            b"\xff\xfe",
        ] {
            assert!(matches!(read(odd), Err(LokiError::NotLoki(_))), "{}", String::from_utf8_lossy(odd));
        }
    }
}
