//! Lints of the redaction rules: patterns compile and remove their examples completely, near misses stay unchanged.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use knowledge::playbook::{Library, Lint, Problem, REDACTION, Redaction, RedactionRule, SourceFile};
use redact::Redactor;

/// The marks around the part of an example that must be redacted.
const BEGIN: char = '⟦';
const END: char = '⟧';

pub(super) fn redaction(library: &Library, problems: &mut Vec<Problem>) {
    // The shipped patterns are looked at as if they were a site's own.
    let data = &Redaction { has_own: true, ..library.redaction.clone() };
    let own = library.joined(REDACTION);
    let Some(shipped) = library.files.get(REDACTION) else { return };
    let file = |id: &str| own.filter(|own| own.text.contains(&format!("id: {id}\n"))).unwrap_or(shipped);
    let all = match Redactor::new(data, false) {
        Ok(all) => all,
        Err(error) => {
            let at = file(&error.rule);
            let hint =
                "patterns are those of https://docs.rs/regex, without look-around and back-references".to_owned();
            problems.push(Problem::at(Lint::RedactionPattern, at, &error.rule, error.to_string(), Some(hint)));
            return;
        }
    };
    let mut ids = BTreeSet::new();
    for rule in &data.rules {
        let mut check = Check { rule, file: file(&rule.id), problems };
        check.shape(&mut ids);
        let alone = Redaction { rules: vec![rule.clone()], has_own: false, ..data.clone() };
        // All rules compile together, so each one does.
        if let Ok(alone) = Redactor::new(&alone, false) {
            check.examples(&alone, &all);
        }
    }
}

struct Check<'a> {
    rule: &'a RedactionRule,
    file: &'a SourceFile,
    problems: &'a mut Vec<Problem>,
}

impl Check<'_> {
    fn say(&mut self, lint: Lint, message: String) {
        let id = format!("id: {}", self.rule.id);
        self.problems.push(Problem::at(lint, self.file, &id, message, None));
    }

    fn shape(&mut self, ids: &mut BTreeSet<String>) {
        let rule = self.rule;
        let id = &rule.id;
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
            self.say(Lint::RedactionId, format!("`{id}` is no id: small letters, digits and `-`"));
        }
        if !ids.insert(id.clone()) {
            self.say(Lint::RedactionTwice, format!("`{id}` is listed twice"));
        }
        if rule.text.is_empty() && rule.keys.is_empty() {
            self.say(Lint::RedactionEmpty, format!("`{id}` finds nothing: it needs `text` or `keys`"));
        }
        if !rule.text.is_empty() && rule.examples.is_empty() {
            self.say(Lint::RedactionExample, format!("`{id}` needs an example with {BEGIN}{END} around the secret"));
        }
        if !rule.keys.is_empty() && rule.key_examples.is_empty() && rule.beside.is_empty() {
            self.say(Lint::RedactionExample, format!("`{id}` needs `key_examples`"));
        }
    }

    fn examples(&mut self, alone: &Redactor, all: &Redactor) {
        let rule = self.rule;
        for example in &rule.examples {
            let (plain, secrets, expected) = read(example, rule);
            // Numbers begin anew.
            let got = alone.another(&Redaction::default(), false).text("", &plain).into_owned();
            if got != expected || secrets.is_empty() {
                self.say(Lint::RedactionExample, format!("`{}` makes `{got}` of the example `{example}`", rule.id));
            }
            let got = all.text("", &plain);
            if let Some(left) = secrets.iter().find(|secret| got.contains(secret.as_str())) {
                self.say(Lint::RedactionExample, format!("`{left}` is left in `{got}`"));
            }
        }
        for near in &rule.near_misses {
            let got = all.text("", near);
            if got != near.as_str() {
                self.say(Lint::RedactionNearMiss, format!("`{near}` becomes `{got}`"));
            }
        }
        let goes = |redactor: &Redactor, key: &str| {
            // Documentation's own address: public, but nobody's (RFC 5737).
            let plain = if rule.valid.is_some() { "203.0.113.9" } else { "plain" };
            let variables = Value::Object(Map::from_iter([(key.to_owned(), Value::from(plain))]));
            let before = match (rule.environment, key.starts_with('-')) {
                (true, _) => serde_json::json!({ "env": variables }),
                (false, true) => serde_json::json!([key, plain]),
                (false, false) => variables,
            };
            let mut after = before.clone();
            redactor.json("", &mut after);
            after != before
        };
        for key in rule.key_examples.iter().filter(|key| !goes(alone, key)) {
            self.say(Lint::RedactionKey, format!("the value of `{key}` stays"));
        }
        for key in rule.key_near_misses.iter().filter(|key| goes(all, key)) {
            self.say(Lint::RedactionKey, format!("the value of `{key}` goes"));
        }
    }
}

/// Returns an example without its marks, the marked secrets, and the expected result.
fn read(example: &str, rule: &RedactionRule) -> (String, Vec<String>, String) {
    let (mut plain, mut secrets, mut expected) = (String::new(), Vec::new(), String::new());
    for (index, part) in example.split([BEGIN, END]).enumerate() {
        plain.push_str(part);
        if index % 2 == 1 {
            let number = secrets.iter().position(|secret| secret == part).unwrap_or(secrets.len()) + 1;
            let number = if rule.numbered { format!("-{number}") } else { String::new() };
            secrets.push(part.to_owned());
            expected.push_str(&format!("[redacted: {}{number}]", rule.id));
        } else {
            expected.push_str(part);
        }
    }
    (plain, secrets, expected)
}
