//! Each example of each shipped rule, encoded in the ways that logs have: what goes from the text as it is goes then too.

use std::time::{Duration, Instant};

use knowledge::playbook::{self, Redaction};
use serde_json::{Value, json};

use super::Redactor;

fn rules() -> Redaction {
    playbook::load(None).unwrap().redaction
}

fn each(text: &str, encoded: impl Fn(char) -> String) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_string() } else { encoded(c) }).collect()
}

fn json_string(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn percent(text: &str) -> String {
    each(text, |c| c.to_string().bytes().map(|b| format!("%{b:02X}")).collect())
}

fn html(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('"', "&quot;").replace('\'', "&#39;");
    text.replace('<', "&lt;").replace('>', "&gt;").replace('\n', "&#10;")
}

type Way = fn(&str) -> String;

/// The ways in which a text may be encoded, by name.
const WAYS: [(&str, Way); 10] = [
    ("as it is", str::to_owned),
    ("JSON", json_string),
    ("JSON in JSON", |text| json_string(&json_string(text))),
    ("JSON's numbers", |text| each(text, |c| format!("\\u{:04x}", c as u32))),
    ("Python and C", |text| each(text, |c| format!("\\x{:02x}", c as u32))),
    ("Rust", |text| each(text, |c| format!("\\u{{{:x}}}", c as u32))),
    ("an address", percent),
    ("an address in an address", |text| percent(&percent(text))),
    ("HTML", html),
    ("HTML's numbers", |text| each(text, |c| format!("&#x{:x};", c as u32))),
];

/// What stands before and behind an example.
const BORDERS: [&str; 5] = ["\n", "\t", "\"", "\u{1b}[31m", "é"];

/// The words of the marked secrets of an example, which must not be left.
fn read(example: &str) -> (String, Vec<String>) {
    let secrets = example.split(['⟦', '⟧']).skip(1).step_by(2);
    let words = secrets.flat_map(|secret| secret.split(|c: char| !c.is_ascii_alphanumeric()));
    let words = words.filter(|word| word.len() > 2).map(str::to_owned).collect();
    (example.replace(['⟦', '⟧'], ""), words)
}

#[test]
fn what_goes_from_a_text_goes_from_it_encoded_and_json_stays_json() {
    let data = rules();
    let redactor = Redactor::new(&data, false).unwrap();
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for example in data.rules.iter().flat_map(|rule| &rule.examples) {
        let (text, words) = read(example);
        let gone = |clean: &str| !words.iter().any(|word| clean.contains(word));
        for border in BORDERS {
            for (before, behind) in [("", " it was"), ("so it is", " it was"), ("so it is", "")] {
                let plain = format!("{before}{border}{text}{border}{behind}");
                if !gone(&redactor.text("a", &plain)) {
                    continue;
                }
                // What begins a string stands behind a quote.
                let in_json = gone(&redactor.text("a", &format!("\"{plain}")));
                for (way, encoded) in WAYS {
                    let line = encoded(&plain);
                    let object = json!({ "log": line, "n": 1 }).to_string();
                    let coloured = format!("\u{1b}[1m{line}\u{1b}[0m");
                    for line in [line, coloured].into_iter().chain(in_json.then_some(object)) {
                        tried += 1;
                        let clean = redactor.text("a", &line);
                        if !gone(&clean)
                            || is_json(&line) && !is_json(&clean)
                            || is_encoded(&line) && !is_encoded(&clean)
                        {
                            wrong.push(format!("{way}: {line}\n    {clean}"));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

fn is_json(text: &str) -> bool {
    text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok())
}

/// Returns true if every `%` begins an encoded byte.
fn is_encoded(text: &str) -> bool {
    let hex = |digits: &str| digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    text.split('%').skip(1).all(|part| part.get(..2).is_some_and(hex))
}

#[test]
fn a_line_of_json_stays_json_whatever_goes_from_it() {
    let redactor = Redactor::new(&rules(), false).unwrap();
    let random = "aX9fQ2LmZ7pRt4VbN8sKcD3wYh6JgE1u";
    for (line, wanted) in [
        (
            json!({ "m": format!("a\n{random}\tb\\{random}") }).to_string(),
            r#"{"m":"a\n[redacted: random]\tb\\[redacted: random]"}"#,
        ),
        (r#"{"m": "api_key=abc\"", "n": 1}"#.to_owned(), r#"{"m": "api_key=[redacted: secret-field]\"", "n": 1}"#),
        (r#"{"a": 4111111111111111, "n": 1}"#.to_owned(), r#"{"a": "[redacted: card]", "n": 1}"#),
        (r#"{"master_key": 12345}"#.to_owned(), r#"{"master_key": "[redacted: secret-field]"}"#),
        (r#"{"input_ids": [1, [2, 3]], "n": 1}"#.to_owned(), r#"{"input_ids": ["[redacted: token-ids]"], "n": 1}"#),
        (r#"{"m":"x","texts":["a","b, c"]}"#.to_owned(), r#"{"m":"x","texts":["[redacted: prompt]"]}"#),
        (
            r#"{"inputs":[["a","b"],["c"]],"n":1}"#.to_owned(),
            r#"{"inputs":[["[redacted: prompt]","[redacted: prompt]"],["[redacted: prompt]"]],"n":1}"#,
        ),
        (
            r#"{"m":"Authorization: Digest a=b, c=d","level":"INFO"}"#.to_owned(),
            r#"{"m":"Authorization: [redacted: authorization]","level":"INFO"}"#,
        ),
        (
            r#"["-----BEGIN PRIVATE KEY-----","MIIEvQIBADANBgkqhk","-----END PRIVATE KEY-----"]"#.to_owned(),
            r#"["[redacted: private-key]","[redacted: private-key]","[redacted: private-key]"]"#,
        ),
    ] {
        let text = format!("before\n{line}\nbehind");
        assert!(is_json(wanted) && is_json(&line), "{line}");
        assert_eq!(redactor.text("a", &text), format!("before\n{wanted}\nbehind"));
    }
}

#[test]
fn an_escape_is_no_part_of_the_word_behind_it() {
    let redactor = Redactor::new(&rules(), false).unwrap();
    for (before, behind) in [
        ("a\\n", "\\n"),
        ("\\ud83d\\ude00", "\\\\n"),
        ("a\\\\\\n", "."),
        ("a=%22", "%22&b=%C3%A9"),
        ("%2522", ""),
        ("\u{1b}[1;31m", "\u{1b}[0m"),
        ("\\u001b[31m", "\\u001b[0m"),
        ("\\x1b[38;5;9m", ""),
        ("\\033[31m", "\\033[0m"),
        ("#033[31m", "#033[0m"),
        ("^[[31m", "^[[0m"),
        ("[31m", "[0m"),
        ("%1B%5B31m", "%1B%5B0m"),
        ("\u{1b}]8;;http://x\u{7}", "\u{1b}]8;;\u{7}"),
        ("&quot;", "&amp;quot;"),
        ("&amp;#34;", ""),
        ("\\u{22}", "\\'"),
    ] {
        for secret in ["nvapi-NotARealKey_NotARealKey-00", "AKIANOTAREALKEY00000", "4111 1111 1111 1111"] {
            let clean = redactor.text("a", &format!("{before}{secret}{behind}")).into_owned();
            let middle = clean.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
            assert!(middle.is_some_and(|mark| mark.starts_with("[redacted: ")), "{clean}");
        }
    }
    for whole in
        ["sk%2Dproj%2DNotARealKeyNotARealKey", "sk-proj-NotA\u{1b}[0mRealKeyNotARealKey", "jane%40example%2Ecom"]
    {
        let clean = redactor.text("a", &format!("x={whole} y")).into_owned();
        assert!(clean.starts_with("x=[redacted: ") && clean.ends_with("] y"), "{clean}");
    }
}

#[test]
fn long_runs_of_escapes_take_time_in_proportion() {
    let redactor = Redactor::new(&rules(), false).unwrap();
    for part in ["\\", "%25", "&amp;", "\u{1b}[", "\u{1b}]", "\\u001b[0", "\\n\n\n\n\n\n", "{\"a\":\"sk-12345\"}\n"] {
        let text = part.repeat((256 << 10) / part.len());
        let started = Instant::now();
        redactor.text("a", &text);
        assert!(started.elapsed() < Duration::from_secs(20), "{part:?}: {:?}", started.elapsed());
    }
}
