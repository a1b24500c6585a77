//! The `explain` command: a playbook or cause with its causes by name, or a single item (a lint, a code, an Xid, a flag,
//! a log line). Pure.

mod lint;
mod queries;
mod tables;

pub use lint::lints;
pub use queries::{queries_about, queries_of};

use strum::VariantNames;

use knowledge::playbook::{Evidence, Library, Lint, Node, Step, suggestion};

/// The kinds of items, each with its argument.
const KINDS: [(&str, &str); 6] = [
    ("engine", "NAME"),
    ("flag", "--FLAG"),
    ("litellm", "STATUS"),
    ("log", "\"LINE\""),
    ("signal", "NAME"),
    ("xid", "NUMBER"),
];

/// Returns an explanation as terminal text with ANSI styles.
///
/// # Errors
/// If the item is unknown: a sentence, with suggestions.
pub fn explain(library: &Library, id: &str, name: Option<&str>) -> Result<String, String> {
    match (id, name) {
        (id, None) if node(library, id).is_some() => Ok(playbook(library, id)),
        // A signal or an engine needs no kind before its name.
        (id, None) if library.signals.contains_key(id) => tables::signal(library, id),
        (id, None) if library.engines.contains_key(id) => tables::engine(library, id),
        (id, None) => id.parse().map_or_else(|_| Err(unknown(library, id)), lint::named),
        ("xid", Some(name)) => tables::xid(library, name),
        ("litellm", Some(name)) => tables::litellm(library, name),
        ("flag", Some(name)) => tables::flag(library, name),
        ("log", Some(name)) => tables::log(library, name),
        ("signal", Some(name)) => tables::signal(library, name),
        ("engine", Some(name)) => tables::engine(library, name),
        (kind, Some(_)) => {
            let hint = suggestion(kind, KINDS.map(|(kind, _)| kind));
            Err(format_error(format!("`{kind}` is nothing that can be explained by kind"), hint))
        }
    }
}

/// Returns the playbook or cause with an id.
pub fn node<'a>(library: &'a Library, id: &str) -> Option<Node<'a>> {
    library.node_by_id(id).map(|(node, _)| node)
}

/// Formats an error with an optional hint.
fn format_error(message: String, hint: Option<String>) -> String {
    hint.map_or(message.clone(), |hint| format!("{message}\n  hint: {hint}"))
}

fn unknown(library: &Library, id: &str) -> String {
    if let Some((kind, value)) = KINDS.iter().find(|(kind, _)| *kind == id) {
        return format!("`explain {kind}` needs a value: write `explain {kind} {value}`");
    }
    let causes = library.playbooks.values().flat_map(|p| &p.causes).map(|entry| entry.target());
    let names = library.signals.keys().chain(library.engines.keys()).map(String::as_str);
    let ids = library.playbooks.keys().map(String::as_str).chain(causes).chain(names);
    let ids = ids.chain(Lint::VARIANTS.iter().copied().filter(|_| id.contains('/')));
    let hint = suggestion(id, ids.chain(KINDS.map(|(kind, _)| kind)));
    let playbooks: Vec<&str> = library.playbooks.keys().map(String::as_str).collect();
    let kinds = KINDS.map(|(kind, value)| format!("{kind} {value}")).join(", ");
    let message = format_error(format!("there is no playbook or cause `{id}`"), hint);
    format!("{message}\n  playbooks: {}\n  by kind: {kinds}", playbooks.join(", "))
}

fn playbook(library: &Library, id: &str) -> String {
    let mut out = String::new();
    let Some(node) = node(library, id) else { return out };
    let bold = anstyle::Style::new().bold();
    out.push_str(&format!("{bold}{}{bold:#} ({})\n\n{}\n", node.title, node.id, node.meaning.trim()));
    if let Some(playbook) = library.playbooks.get(node.id) {
        out.push_str(&format!("\n{bold}Impact{bold:#}\n{}\n", playbook.impact.trim()));
        let alerts: Vec<String> =
            playbook.alerts.iter().map(|a| format!("{} ({}, for {})", a.alert, a.severity, a.hold)).collect();
        if !alerts.is_empty() {
            out.push_str(&format!("\n{bold}Alerts{bold:#}\n{}\n", alerts.join(", ")));
        }
        for table in library.tables.used_by(node.id) {
            out.push_str(&format!("\n{bold}Table{bold:#}\n{}: {}\n", table.title, tables::how_to_ask(table.name)));
        }
    }
    out.push_str(&format!("\n{bold}Diagnosis{bold:#}{}\n", changed(library, node.id)));
    diagnosis(&mut out, library, node);
    out
}

/// Prints the checks and steps of a playbook or cause, and its causes by name.
fn diagnosis(out: &mut String, library: &Library, node: Node<'_>) {
    for evidence in node.evidence {
        out.push_str(&format!("{}\n", check(library, evidence)));
    }
    steps(out, "now", node.now);
    steps(out, "lasting", node.lasting);
    if node.causes.is_empty() {
        return;
    }
    let bold = anstyle::Style::new().bold();
    out.push_str(&format!("\n{bold}Causes{bold:#} (`explain ID` has the checks and steps of each)\n"));
    for entry in node.causes {
        let Some(child) = library.node(entry) else {
            out.push_str(&format!("← {} (unknown: run `llm-diagnose check`)\n", entry.target()));
            continue;
        };
        out.push_str(&format!("← {bold}{}{bold:#} [{}]{}\n", child.title, child.id, changed(library, child.id)));
        let named = |id: &str| format!("{id}{}", changed(library, id));
        let further: Vec<String> = child.causes.iter().map(|entry| named(entry.target())).collect();
        if !further.is_empty() {
            out.push_str(&format!("    ← {}\n", further.join(", ")));
        }
    }
}

/// Returns the note for what a user's file changed; empty for the rest.
fn changed(library: &Library, id: &str) -> String {
    library.changed_by(id).map(|file| format!(", changed by {}", file.path)).unwrap_or_default()
}

/// Returns the note for an alternative that is used only without a baseline; empty for any other alternative.
pub fn only(without_past: bool) -> &'static str {
    if without_past { " (only where there is no past)" } else { "" }
}

fn check(library: &Library, evidence: &Evidence) -> String {
    let must = if evidence.required { "must: " } else { "      " };
    let checks: Vec<String> = evidence
        .alternatives()
        .iter()
        .map(|(signal, when, without_past)| {
            let title = library.signals.get(*signal).map_or(*signal, |s| s.title.as_str());
            format!("{title} {when}{}", only(*without_past))
        })
        .collect();
    format!("{must}{}", checks.join("  or  "))
}

fn steps(out: &mut String, when: &str, steps: &[Step]) {
    for step in steps {
        let only = step.holds_for().map(|only| format!(" ({only})")).unwrap_or_default();
        out.push_str(&format!("fix {when}{only}: {}\n", step.action.trim().replace('\n', " ")));
    }
}
