//! `explain`: a playbook's whole tree, or one thing that a person came upon: a code, an Xid, a flag, a line of a log.

use std::process::ExitCode;

use super::args::ExplainArgs;
use super::{USAGE, explain_tables as tables, library};
use crate::playbook::{Evidence, Library, Node, Step, suggestion};

/// What can be explained by kind, with what must follow.
const KINDS: [(&str, &str); 6] = [
    ("engine", "NAME"),
    ("flag", "--FLAG"),
    ("litellm", "STATUS"),
    ("log", "\"LINE\""),
    ("signal", "NAME"),
    ("xid", "NUMBER"),
];

pub(super) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let library = match library(args.playbooks.as_deref()) {
        Ok(library) => library,
        Err(code) => return Ok(code),
    };
    let answer = match (args.id.as_str(), args.name.as_deref()) {
        (id, None) if library.playbooks.contains_key(id) || leaf(&library, id).is_some() => {
            playbook(&library, id);
            return Ok(ExitCode::SUCCESS);
        }
        // What has a name of its own needs no kind before it.
        (id, None) if library.signals.contains_key(id) => tables::signal(&library, id),
        (id, None) if library.engines.contains_key(id) => tables::engine(&library, id),
        (id, None) => Err(unknown(&library, id)),
        ("xid", Some(name)) => tables::xid(&library, name),
        ("litellm", Some(name)) => tables::litellm(&library, name),
        ("flag", Some(name)) => tables::flag(&library, name),
        ("log", Some(name)) => tables::log(&library, name),
        ("signal", Some(name)) => tables::signal(&library, name),
        ("engine", Some(name)) => tables::engine(&library, name),
        (kind, Some(_)) => {
            let hint = suggestion(kind, KINDS.map(|(kind, _)| kind));
            Err(said(format!("`{kind}` is nothing that can be explained by kind"), hint))
        }
    };
    match answer {
        Ok(text) => {
            anstream::print!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        Err(problem) => {
            anstream::eprintln!("error: {problem}");
            Ok(ExitCode::from(USAGE))
        }
    }
}

/// A problem with a way out, as it is printed.
pub(super) fn said(message: String, hint: Option<String>) -> String {
    hint.map_or(message.clone(), |hint| format!("{message}\n  hint: {hint}"))
}

fn unknown(library: &Library, id: &str) -> String {
    if let Some((kind, value)) = KINDS.iter().find(|(kind, _)| *kind == id) {
        return format!("`explain {kind}` of what? Write `explain {kind} {value}`");
    }
    let causes = library.playbooks.values().flat_map(|p| &p.causes).map(|entry| entry.target());
    let names = library.signals.keys().chain(library.engines.keys()).map(String::as_str);
    let known = library.playbooks.keys().map(String::as_str).chain(causes).chain(names);
    let hint = suggestion(id, known.chain(KINDS.map(|(kind, _)| kind)));
    let playbooks: Vec<&str> = library.playbooks.keys().map(String::as_str).collect();
    let kinds = KINDS.map(|(kind, value)| format!("{kind} {value}")).join(", ");
    let message = said(format!("there is no playbook or cause `{id}`"), hint);
    format!("{message}\n  playbooks: {}\n  by kind: {kinds}", playbooks.join(", "))
}

fn leaf<'a>(library: &'a Library, id: &str) -> Option<Node<'a>> {
    library.node(library.playbooks.values().flat_map(|p| &p.causes).find(|entry| entry.target() == id)?)
}

fn playbook(library: &Library, id: &str) {
    let Some(node) = library.playbook_node(id).or_else(|| leaf(library, id)) else { return };
    let bold = anstyle::Style::new().bold();
    anstream::println!("{bold}{}{bold:#} ({})\n\n{}", node.title, node.id, node.meaning.trim());
    if let Some(playbook) = library.playbooks.get(node.id) {
        anstream::println!("\n{bold}Impact{bold:#}\n{}", playbook.impact.trim());
        let alerts: Vec<String> =
            playbook.alerts.iter().map(|a| format!("{} ({}, for {})", a.alert, a.severity, a.hold)).collect();
        if !alerts.is_empty() {
            anstream::println!("\n{bold}Alerts{bold:#}\n{}", alerts.join(", "));
        }
        for table in library.tables.used_by(node.id) {
            anstream::println!("\n{bold}Table{bold:#}\n{}: {}", table.title, tables::how_to_ask(table.name));
        }
    }
    anstream::println!("\n{bold}Diagnosis{bold:#}");
    tree(library, node, 0, &mut Vec::new());
}

fn tree<'a>(library: &'a Library, node: Node<'a>, depth: usize, path: &mut Vec<&'a str>) {
    let indent = "    ".repeat(depth);
    let bold = anstyle::Style::new().bold();
    let arrow = if depth == 0 { "" } else { "← " };
    anstream::println!("{indent}{arrow}{bold}{}{bold:#} [{}]", node.title, node.id);
    for evidence in node.evidence {
        anstream::println!("{indent}    {}", check(library, evidence));
    }
    steps(&indent, "now", node.now);
    steps(&indent, "lasting", node.lasting);
    if path.contains(&node.id) {
        return;
    }
    path.push(node.id);
    for entry in node.causes {
        match library.node(entry) {
            Some(child) => tree(library, child, depth + 1, path),
            None => anstream::println!("{indent}    ← {} (unknown: run `llm-diagnose check`)", entry.target()),
        }
    }
    path.pop();
}

fn check(library: &Library, evidence: &Evidence) -> String {
    let must = if evidence.required { "must: " } else { "      " };
    let checks: Vec<String> = evidence
        .checks()
        .iter()
        .map(|(signal, when)| {
            let title = library.signals.get(*signal).map_or(*signal, |s| s.title.as_str());
            format!("{title} {when}")
        })
        .collect();
    format!("{must}{}", checks.join("  or  "))
}

fn steps(indent: &str, when: &str, steps: &[Step]) {
    for step in steps {
        let engine = step.engine.as_ref().map(|e| format!(" ({e})")).unwrap_or_default();
        anstream::println!("{indent}    fix {when}{engine}: {}", step.action.trim().replace('\n', " "));
    }
}
