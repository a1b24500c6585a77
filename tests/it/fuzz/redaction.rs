//! Redaction: a planted secret goes whatever stands around it, what was clean stays, and the time is bounded.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::holds;
use super::mutation::mutated_text;
use crate::harness::{Planted, fixture, planted, redactor};

const TOKENS: &[&str] = &[
    "\"",
    "'",
    "`",
    "=",
    ": ",
    "\\",
    "\\n",
    "{",
    "}",
    "[",
    ",",
    "&",
    "@",
    "://",
    "--",
    "-----BEGIN PRIVATE KEY-----\n",
    "Bearer ",
    "password",
    "api_key=",
    "token",
    "sk-",
    "hf_",
    "\u{1b}[0m",
    "\0",
    "é",
    "\u{200b}",
    "%3D",
    "[redacted: ",
    "]",
    "⟦",
];

/// The lines of a corpus without headings and marks.
fn lines(name: &str) -> Vec<String> {
    let text = fixture(&format!("redaction/{name}.txt"));
    let lines = text.lines().filter(|line| !line.starts_with("==") && !line.is_empty());
    lines.map(|line| line.replace('⏎', "\n").replace(['⟦', '⟧'], "")).collect()
}

fn mixed() -> impl Strategy<Value = String> {
    let corpus: Vec<Vec<u8>> = ["planted", "benign"].into_iter().flat_map(lines).map(String::into_bytes).collect();
    mutated_text(corpus, TOKENS)
}

#[test]
fn a_planted_secret_goes_whatever_stands_on_the_lines_around_it() {
    let secret = proptest::sample::select(planted());
    holds((mixed(), secret, mixed()), |(before, Planted { name, text, secret }, after)| {
        let all = format!("{before}\n{text}\n{after}");
        let clean = redactor(false).text("a", &all).into_owned();
        prop_assert!(!clean.contains(&secret), "{} in {:?}\n{:?}", name, all, clean);
        Ok(())
    });
}

#[test]
fn lines_without_a_secret_stay_as_they_are_in_any_order() {
    let lines = prop::collection::vec(proptest::sample::select(lines("benign")), 0..12);
    holds(lines, |lines| {
        let text = lines.join("\n");
        let redactor = redactor(false);
        let clean = redactor.text("a", &text);
        prop_assert_eq!(&clean, &text);
        prop_assert!(matches!(clean, Cow::Borrowed(_)));
        Ok(())
    });
}

#[test]
fn no_text_takes_more_than_twenty_microseconds_a_byte() {
    // A time that grew with the square of the length would be far above, whatever else runs on the machine.
    const BYTES: usize = 128 << 10;
    let most = Duration::from_micros(20) * BYTES as u32;
    super::of_costly(20, mixed(), |text| {
        let part = format!("{text}{}", text.trim());
        let mut long: String = part.repeat(1 + BYTES / part.len().max(1));
        long.truncate(long.floor_char_boundary(BYTES));
        let began = Instant::now();
        redactor(false).text("a", &long);
        prop_assert!(began.elapsed() < most, "{:?}: {:?}", began.elapsed(), text);
        Ok(())
    });
}
