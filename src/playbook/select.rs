//! select: which playbook an alert group enters.

use std::collections::BTreeMap;

use super::{Kind, Library};
use crate::alert::{Alert, active};

/// The chosen playbook and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The playbook's id.
    pub playbook: String,
    /// A clause: `label playbook`, `alert LLMHighTTFT`, `name matches *ttft*`.
    pub because: String,
}

/// Chooses the playbook for a group: a `playbook` label, then an exact alert name, then a pattern.
///
/// A group with several alert names takes the worst severity's, then the most frequent.
/// None when nothing matches; the message then says so.
pub fn select(library: &Library, alerts: &[Alert]) -> Option<Selection> {
    let mut votes: BTreeMap<String, (usize, usize, String)> = BTreeMap::new();
    for alert in active(alerts) {
        let Some(selection) = select_one(library, alert) else { continue };
        let severity = match alert.labels.get("severity").map(String::as_str) {
            Some("critical" | "page") => 2,
            Some("warning") => 1,
            _ => 0,
        };
        let vote = votes.entry(selection.playbook).or_insert((0, 0, selection.because));
        vote.0 = vote.0.max(severity);
        vote.1 += 1;
    }
    votes
        .into_iter()
        .max_by(|a, b| (a.1.0, a.1.1, &b.0).cmp(&(b.1.0, b.1.1, &a.0)))
        .map(|(playbook, (_, _, because))| Selection { playbook, because })
}

fn select_one(library: &Library, alert: &Alert) -> Option<Selection> {
    let chosen = |id: &str, because: String| {
        library.playbooks.contains_key(id).then(|| Selection { playbook: id.to_owned(), because })
    };
    if let Some(selection) = alert.labels.get("playbook").and_then(|id| chosen(id, "label playbook".into())) {
        return Some(selection);
    }
    let name = alert.labels.get("alertname")?;
    let exact = library
        .playbooks
        .values()
        .find(|p| p.alerts.iter().any(|rule| &rule.alert == name) || p.matches.iter().any(|m| m == name));
    if let Some(playbook) = exact {
        return chosen(&playbook.playbook, format!("alert {name}"));
    }
    // Symptoms first: a foreign name speaks of what hurts more often than of the mechanism.
    library
        .of_kind(Kind::Symptom)
        .chain(library.of_kind(Kind::Mechanism))
        .flat_map(|p| p.matches.iter().map(move |pattern| (p, pattern)))
        .filter(|(_, pattern)| glob(&pattern.to_lowercase(), &name.to_lowercase()))
        // The longest pattern says most.
        .max_by_key(|(p, pattern)| (pattern.len(), std::cmp::Reverse(&p.playbook)))
        .and_then(|(p, pattern)| chosen(&p.playbook, format!("name matches {pattern}")))
}

/// Whether `text` matches `pattern`, in which `*` stands for any text.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(previous) = last.replace(part) {
            let Some(at) = rest.find(previous) else { return false };
            rest = &rest[at + previous.len()..];
        }
    }
    match last {
        None => rest.is_empty(),
        Some(last) => rest.len() >= last.len() && rest.ends_with(last),
    }
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("*ttft*", "vllmhighttftp99", true),
            ("llm*ttft", "llmhighttft", true),
            ("llm*ttft", "llmttfthigh", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*b*b", "ab", false),
            ("*", "", true),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
