//! Queries as plain PromQL, ready to paste into Prometheus.

use std::collections::BTreeSet;
use std::time::Duration;

use super::node;
use findings::{Diagnosis, checked_queries};
use knowledge::playbook::{Library, Node};
use knowledge::signal::{Engine, Fill, Matcher, SignalQuery, fill, matchers};

/// The default rate window.
const WINDOW: Duration = Duration::from_secs(300);

/// Returns the queries for the signals of a playbook, cause or signal, per engine. `labels` narrow every query and
/// are named as in the series. `None` if the id is unknown.
pub fn queries_about(library: &Library, id: &str, labels: &[(String, String)]) -> Option<String> {
    let mut signals = Vec::new();
    match node(library, id) {
        Some(node) => collect(library, node, &mut signals, &mut BTreeSet::new()),
        None => signals.push(library.signals.get_key_value(id)?.0.as_str()),
    }
    let labels: Vec<Matcher> = labels.iter().map(|(name, value)| Matcher::one(name, value)).collect();
    let scope = matchers(&labels);
    let filled = |engine: &Engine, entry: &SignalQuery, query: &str| {
        let target = engine.target();
        let window = entry.own_window().unwrap_or(WINDOW);
        fill(query, &Fill { scope: &scope, workload: &scope, window, target: &target, ..Fill::default() })
    };
    let mut out = String::new();
    for signal in signals {
        let title = library.signals.get(signal).map_or(signal, |definition| definition.title.as_str());
        for engine in library.engines.values() {
            let entry = engine.signals.get(signal).and_then(|entry| Some((entry, entry.query.as_ref()?)));
            if let Some((entry, query)) = entry {
                out.push_str(&one(&format!("{title} ({})", engine.engine), &filled(engine, entry, query)));
            }
        }
    }
    Some(out)
}

/// Returns the queries of a diagnosis for the symptom and the most likely chain.
pub fn queries_of(diagnosis: &Diagnosis) -> String {
    checked_queries(diagnosis).map(|(title, query)| one(title, query)).collect()
}

/// Formats a query on one line, with its title as a PromQL comment above it.
fn one(title: &str, query: &str) -> String {
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    // On one line a comment would hide what follows it.
    let code: Vec<&str> = query.lines().map(without_comment).collect();
    format!("# {}\n{}\n", line(title), line(&code.join(" ")))
}

/// Returns a line of PromQL without its comment.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in line.char_indices() {
        match quote {
            None if c == '#' => return &line[..at],
            None if matches!(c, '"' | '\'' | '`') => quote = Some(c),
            Some(open) if c == open && !escaped => quote = None,
            _ => {}
        }
        escaped = c == '\\' && !escaped && quote != Some('`');
    }
    line
}

/// Collects the signals of a tree, each once, in the tree's order.
fn collect<'a>(library: &'a Library, node: Node<'a>, signals: &mut Vec<&'a str>, met: &mut BTreeSet<&'a str>) {
    if !met.insert(node.id) {
        return;
    }
    for (signal, _) in node.evidence.iter().flat_map(|evidence| evidence.checks()) {
        if !signals.contains(&signal) {
            signals.push(signal);
        }
    }
    for child in node.causes.iter().filter_map(|entry| library.node(entry)) {
        collect(library, child, signals, met);
    }
}
