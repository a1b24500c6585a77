//! Analysis of a log of any length, with only one line in memory.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};

use super::utf16::{Utf16, byte_order};
use super::{LINE_BYTES, LogAnalysis, LogReader, Patterns};

/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// Bytes at the start that are checked for being text.
const SNIFFED_BYTES: usize = 8 << 10;

/// Analyses a log of any length.
///
/// Needs less than 32 MiB of memory whatever the length: 64 KiB and one line of text, the compiled patterns (16 MiB
/// at most), and for each known finding and number its count, first line and 4096 times or readings.
///
/// # Errors
/// If the source cannot be read to its end.
pub fn read(patterns: &Patterns<'_>, source: impl Read) -> Result<LogAnalysis> {
    let mut reader = LogReader::new(patterns);
    lines(source, |line| reader.line(line))?;
    Ok(reader.finish())
}

/// Analyses a file, which must be text.
///
/// # Errors
/// As [`read`]; [`ErrorKind::Unsupported`] if it is not text.
pub fn read_text(patterns: &Patterns<'_>, source: impl Read) -> Result<LogAnalysis> {
    let mut source = BufReader::with_capacity(CHUNK, source);
    let start = source.fill_buf()?;
    if byte_order(start).is_none() && start.iter().take(SNIFFED_BYTES).any(|byte| *byte == 0) {
        return Err(Error::from(ErrorKind::Unsupported));
    }
    read(patterns, source)
}

fn lines(source: impl Read, each: impl FnMut(&str)) -> Result<()> {
    let mut source = BufReader::with_capacity(CHUNK, source);
    match byte_order(source.fill_buf()?) {
        Some(order) => each_line(BufReader::new(Utf16 { source, order, text: VecDeque::new() }), each),
        None => each_line(source, each),
    }
}

fn each_line(mut source: impl BufRead, mut each: impl FnMut(&str)) -> Result<()> {
    let mut line = Vec::with_capacity(LINE_BYTES);
    while next(&mut source, &mut line)? {
        each(&String::from_utf8_lossy(&line));
    }
    Ok(())
}

/// Reads the next line without its terminator, truncated to [`LINE_BYTES`]; false at the end of the log.
fn next(source: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let buffer = match source.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            buffer => buffer?,
        };
        if buffer.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = LINE_BYTES.saturating_sub(line.len()).min(part.len());
        line.extend_from_slice(&part[..room]);
        let used = end.map_or(buffer.len(), |end| end + 1);
        source.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::READINGS;
    use knowledge::playbook::load;

    /// A source of generated lines.
    struct Endless<F> {
        make: F,
        next: u64,
        lines: u64,
        unread: Vec<u8>,
        most: usize,
    }

    impl<F: Fn(u64) -> String> Read for Endless<F> {
        fn read(&mut self, into: &mut [u8]) -> Result<usize> {
            self.most = self.most.max(into.len());
            if self.unread.is_empty() && self.next < self.lines {
                self.unread = (self.make)(self.next).into_bytes();
                self.next += 1;
            }
            let count = into.len().min(self.unread.len());
            into[..count].copy_from_slice(&self.unread[..count]);
            self.unread.drain(..count);
            Ok(count)
        }
    }

    #[test]
    fn however_long_a_log_is_what_is_kept_of_it_stays_the_same() {
        let library = load(None).unwrap();
        let patterns = Patterns::new(library.logs.values());
        let make = |n: u64| match n % 4 {
            0 => format!(
                "(APIServer pid=12) INFO 11-20 03:00:00 [loggers.py:123] Engine 000: Avg generation throughput: {n}.5 tokens/s, Running: 9 reqs\n"
            ),
            1 => format!("ERROR torch.OutOfMemoryError: CUDA out of memory. Tried {n}\n"),
            2 => format!("ERROR some{} words\n", "x".repeat(usize::try_from(n % 900).unwrap())),
            // A very long line.
            _ => "y".repeat(if n == 4_003 { 1 << 20 } else { 7 }) + "\n",
        };
        let mut source = Endless { make, next: 0, lines: 24_000, unread: Vec::new(), most: 0 };
        let mut reader = LogReader::new(&patterns);
        let mut longest = 0;
        lines(&mut source, |line| {
            longest = longest.max(line.len());
            reader.line(line);
        })
        .unwrap();
        assert_eq!((reader.lines, longest, source.most), (24_000, LINE_BYTES, CHUNK));
        assert!(reader.tallies.values().all(|tally| tally.lately.len() <= READINGS), "times of repetitions");
        assert!(reader.numbers.values().all(|series| series.readings.len() <= READINGS), "readings");
        let report = reader.finish();
        assert_eq!((report.findings[0].count, report.findings[0].line), (6_000, 2));
        assert!(report.unknown.count == 6_000 && report.unknown.lines.len() <= 4, "{:?}", report.unknown);
        assert_eq!(report.statistics[0].count, 6_000);
    }
}
