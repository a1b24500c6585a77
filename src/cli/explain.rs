//! `explain`: a playbook's whole tree in one screenful after another.

use std::process::ExitCode;

use super::args::ExplainArgs;
use super::{USAGE, library};
use crate::playbook::{Evidence, Library, Node, Step, suggestion};

pub(super) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let library = match library(args.playbooks.as_deref()) {
        Ok(library) => library,
        Err(code) => return Ok(code),
    };
    let leaf = || library.playbooks.values().flat_map(|p| &p.causes).find(|e| e.target() == args.id);
    let Some(node) = library.playbook_node(&args.id).or_else(|| library.node(leaf()?)) else {
        let known = library.playbooks.keys().chain(library.causes.keys()).map(String::as_str);
        anstream::eprintln!("error: there is no playbook or cause `{}`", args.id);
        if let Some(hint) = suggestion(&args.id, known) {
            anstream::eprintln!("  hint: {hint}");
        }
        anstream::eprintln!("  playbooks: {}", library.playbooks.keys().cloned().collect::<Vec<_>>().join(", "));
        return Ok(ExitCode::from(USAGE));
    };
    let bold = anstyle::Style::new().bold();
    anstream::println!("{bold}{}{bold:#} ({})\n\n{}", node.title, node.id, node.meaning.trim());
    if let Some(playbook) = library.playbooks.get(node.id) {
        anstream::println!("\n{bold}Impact{bold:#}\n{}", playbook.impact.trim());
        let alerts: Vec<String> =
            playbook.alerts.iter().map(|a| format!("{} ({}, for {})", a.alert, a.severity, a.hold)).collect();
        if !alerts.is_empty() {
            anstream::println!("\n{bold}Alerts{bold:#}\n{}", alerts.join(", "));
        }
    }
    anstream::println!("\n{bold}Diagnosis{bold:#}");
    tree(&library, node, 0, &mut Vec::new());
    Ok(ExitCode::SUCCESS)
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
