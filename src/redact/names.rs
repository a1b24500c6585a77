//! Pseudonyms: the same name becomes the same `pod-1` in every file of one bundle.
//!
//! Replaced in free text: known names of pods, nodes, namespaces, clusters and hosts as whole words, the stems of pods,
//! and every IP address but loopback. Kept: names of models, and names that are words of the trade where no field of names
//! stands before them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use super::Kind;
use super::rules::{MARK, marks};
use crate::playbook::Redaction;

/// Longest name of the DNS, and so of anything in a cluster.
const LONGEST: usize = 253;
/// Shorter ones are met everywhere.
const SHORTEST: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    /// What stands in its place; none keeps it.
    instead: Option<String>,
    /// Only where no `-` or `_` stands before it: `llama` is no part of `meta-llama`.
    alone: bool,
}

/// What is known of names.
#[derive(Default)]
pub(super) struct Names {
    fields: HashMap<String, Kind>,
    models: HashSet<String>,
    common: HashSet<String>,
    /// Found anywhere.
    known: HashMap<String, Known>,
    /// The first words of those, with which a search begins.
    first: HashSet<String>,
    /// Replaced in fields alone.
    in_fields: HashMap<String, String>,
    issued: HashSet<String>,
    counts: BTreeMap<Kind, usize>,
}

impl Names {
    pub(super) fn new(data: &Redaction) -> Self {
        let fields = data.named_by.iter().flat_map(|(kind, fields)| fields.iter().map(|f| (f.clone(), *kind)));
        Self {
            fields: fields.collect(),
            models: data.models.iter().cloned().collect(),
            common: data.common.iter().map(|word| word.to_lowercase()).collect(),
            ..Self::default()
        }
    }

    /// Makes a name known; whatever cannot be one is passed over.
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
        self.know(name, Known { instead: Some(instead.clone()), alone: kind == Kind::Workload });
        match kind {
            Kind::Pod => stems(name).into_iter().for_each(|stem| self.learn(Kind::Workload, stem)),
            Kind::Node | Kind::Host => {
                // The same machine, called by its first label.
                if let Some((short, _)) = name.split_once('.').filter(|(short, _)| {
                    short.len() >= SHORTEST
                        && !short.bytes().all(|b| b.is_ascii_digit())
                        && !self.common.contains(*short)
                }) {
                    let short = short.to_owned();
                    if !self.known.contains_key(&short) {
                        self.know(&short, Known { instead: Some(instead), alone: false });
                    }
                }
            }
            Kind::Workload | Kind::Namespace | Kind::Cluster => {}
        }
    }

    /// Learns from a field that holds names.
    pub(super) fn field_tells(&mut self, field: &str, value: &str) {
        if let Some(kind) = self.fields.get(field).copied() {
            self.learn(kind, value);
        } else if self.models.contains(field) && value.len() >= SHORTEST && !self.known.contains_key(value) {
            self.know(value, Known { instead: None, alone: false });
        }
    }

    /// The value of a field that holds a name, learnt on the way; none when the field holds none.
    pub(super) fn field(&mut self, field: &str, value: &str) -> Option<String> {
        self.field_tells(field, value);
        if self.models.contains(field) {
            return Some(value.to_owned());
        }
        let _ = self.fields.get(field)?;
        if let Some(instead) = self.in_fields.get(value) {
            return Some(instead.clone());
        }
        // host:port of a name that is a word of the trade
        if let Some((name, port)) = value.rsplit_once(':')
            && let Some(instead) = self.in_fields.get(name)
        {
            return Some(format!("{instead}:{port}"));
        }
        Some(self.renamed(value).map_or_else(|| value.to_owned(), |(text, _)| text))
    }

    /// The text with all known names replaced, and how many; none when there are none.
    pub(super) fn renamed(&mut self, text: &str) -> Option<(String, u64)> {
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

    /// The longest known name that begins here and ends with a word.
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

    /// A word of the trade that is a name here, because a field of names stands before it: `namespace="prod"`.
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

    /// An IP address that begins here.
    fn address_at(&mut self, text: &str, start: usize) -> Option<(usize, Option<String>)> {
        let bytes = text.as_bytes();
        let run = bytes[start..].iter().position(|b| !(b.is_ascii_hexdigit() || *b == b'.' || *b == b':'));
        let mut end = run.map_or(bytes.len(), |n| start + n).min(start + 64);
        // Not inside of a longer word.
        if bytes.get(end).is_some_and(|b| word(*b)) {
            return None;
        }
        // 10.0.0.7:8000 and a sentence's end.
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

    fn know(&mut self, name: &str, known: Known) {
        let first = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        self.first.insert(first.to_owned());
        self.known.insert(name.to_owned(), known);
    }

    /// The next pseudonym that is nobody's name.
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

/// The host of `host:port` or of an address.
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

/// What made a pod, by its name: `llama-7c9f8d6b5-x2x9k` is of `llama-7c9f8d6b5` and `llama`, `llama-0` of `llama`.
fn stems(pod: &str) -> Vec<&str> {
    let Some((rest, last)) = pod.rsplit_once('-') else { return Vec::new() };
    let hash = |part: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    if last.bytes().all(|b| b.is_ascii_digit()) {
        // A group's worker: llama-0-1.
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
