//! Series as OpenMetrics text, within a size limit.
//!
//! A series' name and labels are written once and copied for each sample; values are copied from Prometheus' answer
//! as text. Metrics have no `# TYPE` line, which makes them `unknown`. Source: OpenMetrics 1.0, "Text format".

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::ops::ControlFlow;

use prom::Raw;
use redact::Redactor;

/// The terminator of an OpenMetrics file.
const END: &[u8] = b"# EOF\n";
/// Buffered bytes that trigger a write.
const FLUSH: usize = 64 << 10;

/// A writer of OpenMetrics text.
#[derive(Debug)]
pub(super) struct OpenMetricsWriter<W> {
    out: W,
    redactor: Redactor,
    place: &'static str,
    /// Maximum bytes of the text, including the terminator.
    most: u64,
    /// Bytes already passed to `out`.
    written: u64,
    buffer: Vec<u8>,
    prefix: Vec<u8>,
    /// Hashes of the current metric's series, with the source that returned each.
    source_by_series: HashMap<u64, usize>,
    /// Series written so far.
    pub(super) series: u64,
    pub(super) samples: u64,
    /// Series that cannot be written: names that the format does not allow, native histograms.
    pub(super) unwritable: u64,
    /// The reason why writing ended early.
    pub(super) end: Option<SeriesEnd>,
}

/// The reason why a file ends early.
#[derive(Debug)]
pub(super) enum SeriesEnd {
    /// The size limit was reached.
    Full,
    /// The receiving end of `out` is gone.
    Broken(io::Error),
}

impl<W: Write> OpenMetricsWriter<W> {
    pub(super) fn new(out: W, place: &'static str, redactor: &Redactor, most: u64) -> Self {
        Self {
            out,
            redactor: redactor.numbering_all(),
            place,
            most,
            written: 0,
            buffer: Vec::with_capacity(FLUSH * 2),
            prefix: Vec::new(),
            source_by_series: HashMap::new(),
            series: 0,
            samples: 0,
            unwritable: 0,
            end: None,
        }
    }

    /// Returns the bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Starts the next metric.
    pub(super) fn metric(&mut self) {
        self.source_by_series.clear();
    }

    /// Writes the samples later than `after` and not later than `to`, in unix milliseconds. Skips a series that
    /// another source has already returned: a duplicate sample would make the file invalid.
    pub(super) fn take(&mut self, raw: &Raw, source: usize, after: i64, to: i64) -> ControlFlow<()> {
        if self.end.is_some() {
            return ControlFlow::Break(());
        }
        if !self.begin(raw) || raw.histograms > 0 {
            self.unwritable += 1;
        }
        if self.prefix.is_empty() {
            return ControlFlow::Continue(());
        }
        let mut hasher = DefaultHasher::new();
        self.prefix.hash(&mut hasher);
        match self.source_by_series.insert(hasher.finish(), source) {
            Some(other) if other != source => {
                self.source_by_series.insert(hasher.finish(), other);
                return ControlFlow::Continue(());
            }
            Some(_) => {}
            None => self.series += 1,
        }
        let mut last = after;
        for (at, value) in raw.samples() {
            if at <= last || at > to || !is_number(value) {
                continue;
            }
            last = at;
            let line = self.prefix.len() + value.len() + 24;
            if self.bytes() + (line + END.len()) as u64 > self.most {
                self.end = Some(SeriesEnd::Full);
                return ControlFlow::Break(());
            }
            self.buffer.extend_from_slice(&self.prefix);
            self.buffer.extend_from_slice(value);
            push_time(&mut self.buffer, at);
            self.samples += 1;
            if self.buffer.len() >= FLUSH {
                self.hand_on()?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Writes the terminator and flushes the buffer.
    pub(super) fn finish(&mut self) {
        if self.end.as_ref().is_none_or(|end| matches!(end, SeriesEnd::Full)) {
            self.buffer.extend_from_slice(END);
            if self.hand_on().is_continue()
                && let Err(error) = self.out.flush()
            {
                self.end = Some(SeriesEnd::Broken(error));
            }
        }
    }

    fn hand_on(&mut self) -> ControlFlow<()> {
        if let Err(error) = self.out.write_all(&self.buffer) {
            self.end = Some(SeriesEnd::Broken(error));
            return ControlFlow::Break(());
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        ControlFlow::Continue(())
    }

    /// Sets the prefix `name{label="value"} `; returns false if a name is not allowed.
    fn begin(&mut self, raw: &Raw) -> bool {
        self.prefix.clear();
        let Some(name) = raw.labels.get("__name__").filter(|name| is_name(name, true)) else { return false };
        self.prefix.extend_from_slice(name.as_bytes());
        self.prefix.push(b'{');
        let labels = raw.labels.iter().filter(|(label, value)| *label != "__name__" && !value.is_empty());
        for (i, (label, value)) in labels.enumerate() {
            if !is_name(label, false) {
                self.prefix.clear();
                return false;
            }
            if i > 0 {
                self.prefix.push(b',');
            }
            self.prefix.extend_from_slice(label.as_bytes());
            self.prefix.extend_from_slice(b"=\"");
            for c in self.redactor.label(self.place, label, value).bytes() {
                match c {
                    b'"' => self.prefix.extend_from_slice(b"\\\""),
                    b'\\' => self.prefix.extend_from_slice(b"\\\\"),
                    b'\n' => self.prefix.extend_from_slice(b"\\n"),
                    c => self.prefix.push(c),
                }
            }
            self.prefix.push(b'"');
        }
        self.prefix.extend_from_slice(b"} ");
        true
    }
}

/// Returns true if the format allows this name for a metric or a label.
fn is_name(name: &str, metric: bool) -> bool {
    let fine = |(i, c): (usize, u8)| {
        c == b'_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit()) || (metric && c == b':')
    };
    !name.is_empty() && name.bytes().enumerate().all(fine)
}

/// Returns true if both Go and Rust parse the text as a number.
fn is_number(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok())
}

/// Appends ` 1700000000.123` and the end of the line.
///
/// It is written by hand: `write!` takes three times as long, and a bundle has millions of samples.
fn push_time(buffer: &mut Vec<u8>, ms: i64) {
    buffer.push(b' ');
    if ms < 0 {
        buffer.push(b'-');
    }
    let ms = ms.unsigned_abs();
    let mut digits = [0; 20];
    let mut seconds = ms / 1_000;
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (seconds % 10) as u8;
        seconds /= 10;
        if seconds == 0 {
            break;
        }
    }
    buffer.extend_from_slice(&digits[first..]);
    let part = (ms % 1_000) as u16;
    if part > 0 {
        let digit = |of: u16| b'0' + (part / of % 10) as u8;
        buffer.extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
    }
    buffer.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bodies: &[(&str, usize)], most: u64) -> (String, OpenMetricsWriter<Vec<u8>>) {
        let mut text = OpenMetricsWriter::new(Vec::new(), "series.om", &Redactor::off(), most);
        for (body, source) in bodies {
            let _ = prom::read_matrix(body.as_bytes(), |raw| text.take(raw, *source, 1_000, 10_000));
        }
        text.finish();
        (String::from_utf8(text.out.clone()).unwrap(), text)
    }

    fn answer(series: &str) -> String {
        format!(r#"{{"status":"success","data":{{"result":[{series}]}}}}"#)
    }

    #[test]
    fn labels_are_escaped_and_only_what_belongs_to_the_piece_of_time_is_written() {
        let body = answer(
            r#"{"metric":{"__name__":"a:b","x":"q\"\\\nz","empty":""},
            "values":[[1,"0"],[1.5,"1e+06"],[2,"NaN"],[2,"7"],[3,"evil\n# EOF"],[4.007,"-Inf"],[11,"9"]]},
            {"metric":{"__name__":"a:b","é":"1"},"values":[[2,"1"]]},{"metric":{},"values":[[2,"1"]]}"#,
        );
        let (text, end) = written(&[(&body, 0)], 1 << 20);
        let prefix = "a:b{x=\"q\\\"\\\\\\nz\"}";
        assert_eq!(text, format!("{prefix} 1e+06 1.500\n{prefix} NaN 2\n{prefix} -Inf 4.007\n# EOF\n"));
        assert_eq!((end.series, end.samples, end.unwritable, end.bytes()), (1, 3, 2, text.len() as u64));
    }

    #[test]
    fn the_bound_is_kept_and_the_file_still_ends_as_it_must() {
        let body = answer(r#"{"metric":{"__name__":"a"},"values":[[2,"1"],[3,"1"],[4,"1"],[5,"1"],[6,"1"],[7,"1"]]}"#);
        let (text, end) = written(&[(&body, 0)], 51);
        assert!(matches!(end.end, Some(SeriesEnd::Full)));
        assert!(text.len() <= 51 && text.starts_with("a{} 1 2\n") && text.ends_with("1 4\n# EOF\n"), "{text}");
    }

    #[test]
    fn series_that_differ_only_in_what_is_redacted_stay_apart() {
        let rules = knowledge::playbook::load(None).unwrap().redaction;
        let redactor = Redactor::new(&rules, false).unwrap();
        let mut text = OpenMetricsWriter::new(Vec::new(), "series.om", &redactor, 1 << 20);
        let series = |mail: &str| format!(r#"{{"metric":{{"__name__":"a","alias":"{mail}"}},"values":[[2,"1"]]}}"#);
        let body = answer(&[series("a@x.org"), series("b@x.org")].join(","));
        prom::read_matrix(body.as_bytes(), |raw| text.take(raw, 0, 1_000, 10_000)).unwrap();
        text.finish();
        let written = String::from_utf8(text.out).unwrap();
        let expected = "a{alias=\"[redacted: e-mail-1]\"} 1 2\na{alias=\"[redacted: e-mail-2]\"} 1 2\n# EOF\n";
        assert_eq!(written, expected);
    }

    #[test]
    fn a_series_that_two_sources_tell_is_written_once() {
        let body = answer(r#"{"metric":{"__name__":"a"},"values":[[2,"1"]]}"#);
        assert_eq!(written(&[(&body, 0), (&body, 1)], 1 << 20).0, "a{} 1 2\n# EOF\n");
    }
}
