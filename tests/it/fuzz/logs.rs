//! Logs: any bytes are read, in chunks of any size, and what is found stands where it says.

use std::sync::LazyLock;

use logs::{LogReader, Patterns, stream};
use proptest::prelude::*;

use super::mutation::mutated;
use super::{Slowly, of_costly};
use crate::harness::library;

/// The examples of what engines write, several to a text.
fn examples() -> Vec<Vec<u8>> {
    let findings = library().logs.values().flat_map(|log| &log.findings);
    let lines: Vec<&str> = findings.flat_map(|finding| &finding.examples).map(String::as_str).collect();
    lines.chunks(7).map(|lines| (lines.join("\n") + "\n").into_bytes()).collect()
}

#[test]
fn a_log_is_read_the_same_in_chunks_of_any_size_and_every_finding_stands_in_it() {
    static PATTERNS: LazyLock<Patterns<'static>> = LazyLock::new(|| Patterns::new(library().logs.values()));
    let tokens = &[
        "\n",
        "\r\n",
        "\0",
        "\u{1b}[31m",
        "\u{feff}",
        "ERROR",
        "11-20 03:00:00",
        "99-99 99:99:99",
        "9e999",
        "tokens/s",
        "2026-11-20T03:00:00.999999999+99:99",
        "é",
        "%",
        "*",
        "18446744073709551616",
    ];
    of_costly(4, (mutated(examples(), tokens), 1..100_usize), |(bytes, most)| {
        let whole = stream::read(&PATTERNS, bytes.as_slice()).unwrap();
        prop_assert_eq!(&stream::read(&PATTERNS, Slowly(&bytes, most)).unwrap(), &whole);
        let text = String::from_utf8_lossy(&bytes);
        if !text.contains('\r') {
            prop_assert_eq!(&LogReader::new(&PATTERNS).text(&text), &whole);
        }
        let lines = text.split_inclusive('\n').count() as u64;
        prop_assert_eq!(whole.lines, lines);
        for finding in &whole.findings {
            prop_assert!((1..=lines).contains(&finding.line) && (1..=lines).contains(&finding.count), "{:?}", finding);
        }
        prop_assert!(whole.first_root.iter().all(|root| whole.findings.iter().any(|finding| finding.id == *root)));
        for numbers in whole.statistics.iter().chain(&whole.startup) {
            prop_assert!(numbers.min <= numbers.max && numbers.max.is_finite(), "{:?}", numbers);
        }
        serde_json::to_string(&whole).unwrap();
        Ok(())
    });
}
