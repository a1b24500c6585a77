//! Pseudonyms: the same name becomes the same `pod-1` in every file of one bundle.
//!
//! Replaced in free text: known names as whole words, the workload names in pod names, names in the places that the patterns
//! of `named_in_text` find them (`pod-0.svc.ns.svc.cluster.local`), and every IP address except loopback. Not replaced:
//! names of models, and names that are common technical words, unless a field that holds names is before them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use regex::Regex;

use super::Kind;
use super::pattern::compile;
use super::rules::{MARK, RedactionRuleError, marks};
use knowledge::playbook::Redaction;

/// Words in a setting's name that mark a secret.
const SECRET_WORDS: [&str; 8] = ["key", "apikey", "token", "secret", "password", "passwd", "credential", "credentials"];
/// Maximum length of a DNS name, and so of any Kubernetes name.
const LONGEST: usize = 253;
/// Minimum length; shorter names occur everywhere.
const SHORTEST: usize = 3;

/// The groups of the patterns of `named_in_text`.
const IN_TEXT: [(&str, Kind); 5] = [
    ("pod", Kind::Pod),
    ("workload", Kind::Workload),
    ("node", Kind::Node),
    ("namespace", Kind::Namespace),
    ("host", Kind::Host),
];

#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownName {
    /// The pseudonym; `None` if the name is not replaced.
    instead: Option<String>,
    /// True if it must not follow `-` or `_`: `llama` is not a part of `meta-llama`.
    alone: bool,
}

/// The known names and their pseudonyms.
#[derive(Default)]
pub(super) struct Names {
    fields: HashMap<String, Kind>,
    models: HashSet<String>,
    common: HashSet<String>,
    in_text: Vec<Regex>,
    /// Names that are replaced anywhere in a text.
    known: HashMap<String, KnownName>,
    /// The first words of the names in `known`, with which a search begins.
    first: HashSet<String>,
    /// Names that are replaced only in fields.
    in_fields: HashMap<String, String>,
    issued: HashSet<String>,
    counts: BTreeMap<Kind, usize>,
}

impl Names {
    /// # Errors
    /// If a pattern of `named_in_text` is invalid.
    pub(super) fn new(data: &Redaction) -> Result<Self, RedactionRuleError> {
        let wrong =
            |error: regex::Error| RedactionRuleError { rule: "named_in_text".to_owned(), why: error.to_string() };
        let fields = data.named_by.iter().flat_map(|(kind, fields)| fields.iter().map(|f| (f.clone(), *kind)));
        // A namespace may be called `namespace`, which is the name of a field too.
        let common = data.common.iter().chain(data.named_by.values().flatten());
        Ok(Self {
            fields: fields.collect(),
            models: data.models.iter().cloned().collect(),
            common: common.map(|word| word.to_lowercase()).collect(),
            in_text: data.named_in_text.iter().map(|text| compile(text)).collect::<Result<_, _>>().map_err(wrong)?,
            ..Self::default()
        })
    }

    /// Learns a name; ignores text that cannot be a name.
    pub(super) fn learn(&mut self, kind: Kind, name: &str) {
        let name = if kind == Kind::Host { host(name) } else { name.trim() };
        let fits = name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.ends_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        let address = name.parse::<IpAddr>().is_ok();
        if address || !fits || name.len() > LONGEST || name.bytes().all(|b| b.is_ascii_digit()) {
            return;
        }
        if self.issued.contains(name) || self.in_fields.contains_key(name) {
            return;
        }
        if self.known.get(name).is_some_and(|known| known.instead.is_some() || kind == Kind::Workload) {
            return;
        }
        let instead = self.pseudonym(kind);
        if name.len() < SHORTEST || self.common.contains(&name.to_lowercase()) {
            self.in_fields.insert(name.to_owned(), instead);
            return;
        }
        self.know(name, KnownName { instead: Some(instead.clone()), alone: kind == Kind::Workload });
        match kind {
            Kind::Pod => stems(name).into_iter().for_each(|stem| self.learn(Kind::Workload, stem)),
            Kind::Node | Kind::Host => {
                // The same machine by the first label of its name.
                if let Some((short, _)) = name.split_once('.').filter(|(short, _)| {
                    short.len() >= SHORTEST
                        && !short.bytes().all(|b| b.is_ascii_digit())
                        && !self.common.contains(*short)
                }) {
                    let short = short.to_owned();
                    if !self.known.contains_key(&short) {
                        self.know(&short, KnownName { instead: Some(instead), alone: false });
                    }
                }
            }
            _ => {}
        }
    }

    /// Learns the value of a field that holds names.
    pub(super) fn field_tells(&mut self, field: &str, value: &str) {
        if let Some(kind) = self.fields.get(field).copied() {
            self.learn(kind, value);
        } else if self.models.contains(field) && value.len() >= SHORTEST && !self.known.contains_key(value) {
            self.know(value, KnownName { instead: None, alone: false });
        }
    }

    /// Learns and replaces the value of a field that holds a name; `None` if the field holds none.
    pub(super) fn field(&mut self, field: &str, value: &str) -> Option<String> {
        self.field_tells(field, value);
        if self.models.contains(field) {
            return Some(value.to_owned());
        }
        let _ = self.fields.get(field)?;
        if let Some(instead) = self.in_fields.get(value) {
            return Some(instead.clone());
        }
        // host:port, the host being a common technical word
        if let Some((name, port)) = value.rsplit_once(':')
            && let Some(instead) = self.in_fields.get(name)
        {
            return Some(format!("{instead}:{port}"));
        }
        Some(self.renamed(value).map_or_else(|| value.to_owned(), |(text, _)| text))
    }

    /// Learns the names that the patterns of `named_in_text` find.
    fn text_tells(&mut self, text: &str) {
        for pattern in std::mem::take(&mut self.in_text) {
            for found in pattern.captures_iter(text) {
                for (group, kind) in IN_TEXT {
                    if let Some(name) = found.name(group) {
                        self.learn(kind, name.as_str());
                    }
                }
            }
            self.in_text.push(pattern);
        }
    }

    /// Replaces all known names in a text and counts them; `None` if there are none.
    pub(super) fn renamed(&mut self, text: &str) -> Option<(String, u64)> {
        self.text_tells(text);
        let bytes = text.as_bytes();
        let marks = if text.contains(MARK) { marks(text) } else { Vec::new() };
        let mut marks = marks.into_iter().peekable();
        let (mut out, mut copied, mut count) = (String::new(), 0, 0);
        let mut at = 0;
        while at < bytes.len() {
            if let Some(mark) = marks.next_if(|mark| mark.start <= at) {
                at = at.max(mark.end);
                continue;
            }
            let before = at.checked_sub(1).map(|i| bytes[i]);
            let starts = word(bytes[at]) && !before.is_some_and(word);
            let colons =
                bytes[at] == b':' && bytes.get(at + 1) == Some(&b':') && !before.is_some_and(|b| word(b) || b == b':');
            if !starts && !colons {
                at += 1;
                continue;
            }
            let found = if starts { self.name_at(text, at).or_else(|| self.value_at(text, at)) } else { None };
            let found = found.or_else(|| self.address_at(text, at));
            match found {
                Some((end, Some(instead))) => {
                    out.push_str(&text[copied..at]);
                    out.push_str(&instead);
                    count += 1;
                    (copied, at) = (end, end);
                }
                Some((end, None)) => at = end,
                None => at = bytes[at..].iter().position(|b| !word(*b)).map_or(bytes.len(), |n| at + n.max(1)),
            }
        }
        if count == 0 {
            return None;
        }
        out.push_str(&text[copied..]);
        Some((out, count))
    }

    /// Finds the longest known name that begins here and ends at a word boundary.
    fn name_at(&self, text: &str, start: usize) -> Option<(usize, Option<String>)> {
        let bytes = text.as_bytes();
        let end_of_word = |from: usize| bytes[from..].iter().position(|b| !word(*b)).map_or(bytes.len(), |n| from + n);
        let mut end = end_of_word(start);
        if !self.first.contains(text.get(start..end)?) {
            return None;
        }
        let mut ends = vec![end];
        while end - start <= LONGEST
            && bytes.get(end).is_some_and(|b| b"-._/".contains(b))
            && bytes.get(end + 1).is_some_and(|b| word(*b))
        {
            end = end_of_word(end + 1);
            ends.push(end);
        }
        let goes_on = start.checked_sub(1).is_some_and(|i| b"-_".contains(&bytes[i]));
        ends.into_iter().rev().find_map(|end| {
            let known = self.known.get(text.get(start..end)?)?;
            (!(known.alone && goes_on)).then(|| (end, known.instead.clone()))
        })
    }

    /// Finds a common word that is a name here, because a field that holds names is before it: `namespace="prod"`.
    fn value_at(&self, text: &str, start: usize) -> Option<(usize, Option<String>)> {
        if self.in_fields.is_empty() || !text.as_bytes().get(start.checked_sub(1)?).is_some_and(|b| b"=\"'".contains(b))
        {
            return None;
        }
        let behind = text.get(..start)?.trim_end_matches(['"', '\'', '\\']);
        let behind = behind.strip_suffix('~').unwrap_or(behind).strip_suffix('=')?;
        let field = behind.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(0, |i| i + 1);
        self.fields.get(behind.get(field..)?)?;
        let value = text.get(start..)?;
        let end = value.find(|c: char| !(c.is_ascii_alphanumeric() || "-._".contains(c))).unwrap_or(value.len());
        let instead = self.in_fields.get(value.get(..end)?)?;
        Some((start + end, Some(instead.clone())))
    }

    /// Finds an IP address that begins here.
    fn address_at(&mut self, text: &str, start: usize) -> Option<(usize, Option<String>)> {
        let bytes = text.as_bytes();
        let run = bytes[start..].iter().position(|b| !(b.is_ascii_hexdigit() || *b == b'.' || *b == b':'));
        let mut end = run.map_or(bytes.len(), |n| start + n).min(start + 64);
        // Not inside a longer word.
        if bytes.get(end).is_some_and(|b| word(*b)) {
            return None;
        }
        // A port (10.0.0.7:8000) or the end of a sentence may follow.
        let address = loop {
            let candidate = text.get(start..end)?;
            match candidate.parse::<IpAddr>() {
                Ok(address) => break address,
                Err(_) => end = start + candidate.rfind([':', '.'])?,
            }
        };
        // vllm==1.2.3.4 and v1.2.3.4 are versions.
        let version = text[..start].ends_with("==")
            || address.is_ipv4() && bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
        let plain = address.is_loopback() || address.is_unspecified() || address.to_string() == "255.255.255.255";
        if version || plain || end - start < 4 {
            return None;
        }
        let name = format!("ip {address}");
        if let Some(instead) = self.in_fields.get(&name) {
            return Some((end, Some(instead.clone())));
        }
        let instead = self.pseudonym(Kind::Host);
        self.in_fields.insert(name, instead.clone());
        Some((end, Some(instead)))
    }

    fn know(&mut self, name: &str, known: KnownName) {
        let first = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        self.first.insert(first.to_owned());
        self.known.insert(name.to_owned(), known);
    }

    /// Returns the next pseudonym that is not a known name.
    fn pseudonym(&mut self, kind: Kind) -> String {
        let count = self.counts.entry(kind).or_default();
        loop {
            *count += 1;
            let name = format!("{}-{count}", kind.word());
            if !self.known.contains_key(&name) {
                self.issued.insert(name.clone());
                return name;
            }
        }
    }
}

fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// Returns the host of `host:port` or of a URL.
fn host(text: &str) -> &str {
    let text = text.trim();
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let text = text.split(['/', '?', '#']).next().unwrap_or_default();
    let text = text.rsplit_once('@').map_or(text, |(_, host)| host);
    match text.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) && !host.contains(':') => {
            host
        }
        _ => text,
    }
}

/// Returns the names of a pod's owners, from its own name: `llama-7c9f8d6b5-x2x9k` gives `llama-7c9f8d6b5` and `llama`,
/// `llama-0` gives `llama`.
fn stems(pod: &str) -> Vec<&str> {
    let Some((rest, last)) = pod.rsplit_once('-') else { return Vec::new() };
    let hash = |part: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    if last.bytes().all(|b| b.is_ascii_digit()) {
        // The worker of a group: llama-0-1.
        return match rest.rsplit_once('-') {
            Some((stem, number)) if number.bytes().all(|b| b.is_ascii_digit()) => vec![rest, stem],
            _ => vec![rest],
        };
    }
    if !hash(last, 5..=5) {
        return Vec::new();
    }
    match rest.rsplit_once('-') {
        Some((stem, template)) if hash(template, 6..=10) && template.bytes().any(|b| b.is_ascii_digit()) => {
            vec![rest, stem]
        }
        _ => vec![rest],
    }
}

/// Returns true if a setting's name marks a secret.
pub fn is_secret(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    last.split(['_', '-']).any(|word| SECRET_WORDS.contains(&word))
}
