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
    "\\u001b[31m",
    "\\u0022",
    "%22",
    "%5Cn",
    "&quot;",
    "{\"a\": \"",
    "\"}",
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

/// The ways in which a text may be encoded.
const WAYS: [fn(&str) -> String; 5] = [
    |text| text.to_owned(),
    |text| json!({ "log": text }).to_string(),
    |text| json!({ "log": json!({ "m": text, "level": "INFO" }).to_string() }).to_string(),
    |text| {
        text.bytes()
            .map(|b| if b.is_ascii_alphanumeric() { char::from(b).into() } else { format!("%{b:02X}") })
            .collect()
    },
    |text| {
        text.replace('&', "&amp;")
            .replace('"', "&quot;")
            .replace('\'', "&#39;")
            .replace('<', "&lt;")
            .replace('\n', "&#10;")
    },
];

#[test]
fn a_planted_secret_goes_however_it_is_encoded() {
    let secret = proptest::sample::select(planted());
    let way = || proptest::sample::select(&WAYS[..]);
    let border = proptest::sample::select(&["\n", "\t\n", "\u{1b}[31m\n\u{1b}[0m"][..]);
    let line = || prop_oneof![Just(String::new()), mixed()];
    holds((line(), secret, line(), border, way(), way()), |(before, planted, after, border, inner, outer)| {
        let all = outer(&inner(&format!("{before}{border}{}{border}{after}", planted.text)));
        let clean = redactor(false).text("a", &all).into_owned();
        prop_assert!(!clean.contains(&planted.secret), "{} in {:?}\n{:?}", planted.name, all, clean);
        prop_assert!(!is_json(&all) || is_json(&clean), "{:?}\n{:?}", all, clean);
        Ok(())
    });
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

#[test]
fn a_line_of_json_stays_one_whatever_stands_in_it() {
    let text = || prop_oneof![mixed(), proptest::sample::select(planted()).prop_map(|planted| planted.text)];
    const NAMES: [&str; 6] = ["log", "password", "env", "prompt", "args", "x"];
    let object = prop::collection::btree_map(proptest::sample::select(&NAMES[..]), text(), 1..4);
    holds((object, 0..99_u32), |(fields, number)| {
        let inner = json!(fields).to_string();
        let line = json!({ "token": number, "a": fields, "input_ids": [number, number], "log": inner }).to_string();
        let clean = redactor(false).text("a", &line).into_owned();
        prop_assert!(is_json(&clean), "{:?}\n{:?}", line, clean);
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
