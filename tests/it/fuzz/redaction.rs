//! Redaction: a planted secret goes whatever stands around it, what was clean stays, and the time is bounded.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

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
    "ALTER USER llm PASSWORD '",
    "prompt: ",
    "--api-key ",
    "[redacted: e-mail]",
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

/// Asserts that a redactor that knows nothing finds nothing more in a text.
fn assert_done(once: &str) -> Result<(), TestCaseError> {
    let again = redactor(false).text("a", once).into_owned();
    prop_assert_eq!(&again, once);
    Ok(())
}

#[test]
fn a_redacted_text_is_not_changed_by_a_second_redaction() {
    let secret = proptest::sample::select(planted());
    holds((mixed(), secret, mixed(), any::<bool>()), |(before, Planted { text, .. }, after, lines)| {
        let all = if lines { format!("{before}\n{text}\n{after}") } else { format!("{before}{text}{after}") };
        assert_done(&redactor(false).text("a", &all))
    });
}

#[test]
fn a_redacted_key_behind_a_word_for_a_password_is_not_changed_again() {
    let key = "ALTER USER llm PASSWORD '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nabcd harbour";
    for text in [key, &key.replace('\n', " "), &key.replace('\n', "\\n"), "+49 30 901820-1234 +49 30 901820-1235 +49"] {
        assert_done(&redactor(false).text("a", text)).unwrap();
    }
}

#[test]
fn a_redacted_document_is_not_changed_by_a_second_redaction() {
    let text = || prop_oneof![mixed(), proptest::sample::select(planted()).prop_map(|planted| planted.text)];
    const NAMES: [&str; 8] = ["name", "value", "password", "user", "env", "args", "prompt", "x"];
    let object = prop::collection::btree_map(proptest::sample::select(&NAMES[..]), text(), 0..5);
    holds((object, prop::collection::vec(text(), 0..4), text()), |(fields, items, alone)| {
        let parsed: Value = serde_json::from_str(&alone).unwrap_or_default();
        let mut once =
            json!({ "a": fields, "items": items, "args": alone.split(' ').collect::<Vec<_>>(), "b": parsed });
        let first = redactor(false);
        first.learn_from(&once);
        first.json("a", &mut once);
        let mut again = once.clone();
        redactor(false).json("a", &mut again);
        prop_assert_eq!(again, once);
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
