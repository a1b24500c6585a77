//! Each example of each shipped rule, encoded in the ways that logs have: what goes from a text as it is goes then too.

use knowledge::playbook::{self, Redaction};
use serde_json::{Value, json};

use redact::Redactor;

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

/// The texts around an example.
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
