//! `generate runbooks`: one page per playbook, with the usual headings of runbooks.

use std::collections::BTreeSet;

use crate::explain::only;
use knowledge::playbook::{Evidence, Library, Node, NodeKind, Playbook, Step, StepChange};

/// Renders the page of a playbook, in Markdown.
pub fn runbook(library: &Library, playbook: &Playbook) -> String {
    let mut out = format!(
        "# {}\n\n`{}`, made by `llm-diagnose generate runbooks`; change the playbook instead.\n\n## Meaning\n\n{}\n\n## Impact\n\n{}\n",
        playbook.title,
        playbook.playbook,
        flat(&playbook.meaning),
        flat(&playbook.impact)
    );
    if !playbook.alerts.is_empty() {
        out.push_str("\nAlerts: ");
        let alerts: Vec<String> =
            playbook.alerts.iter().map(|a| format!("`{}` ({}, for {})", a.alert, a.severity, a.hold)).collect();
        out.push_str(&format!("{}.\n", alerts.join(", ")));
    }
    out.push_str("\n## Diagnosis\n\nIt is true when:\n\n");
    checks(&mut out, library, &playbook.symptom);
    if !playbook.causes.is_empty() {
        out.push_str("\nPossible causes, and their checks:\n");
    }
    for node in playbook.causes.iter().filter_map(|entry| library.node(entry)) {
        out.push_str(&format!("\n### {}\n\n{}\n\n", heading(node), flat(node.meaning)));
        checks(&mut out, library, node.evidence);
        if node.kind == NodeKind::Leaf {
            steps(&mut out, "Now", node.now);
            steps(&mut out, "Lasting", node.lasting);
        }
    }
    if !playbook.now.is_empty() || !playbook.lasting.is_empty() {
        out.push_str("\n## Mitigation\n");
        steps(&mut out, "Now", &playbook.now);
        steps(&mut out, "Lasting", &playbook.lasting);
    }
    if let Some(escalate) = &playbook.escalate {
        out.push_str(&format!("\nEscalate to: {}\n", flat(escalate)));
    }
    let tables: Vec<String> = library
        .tables
        .used_by(&playbook.playbook)
        .map(|table| format!("[{}]({})", table.title, super::table::file(table.name)))
        .collect();
    list(&mut out, "Tables", &tables);
    list(&mut out, "Known gaps", &playbook.known_gaps);
    list(&mut out, "References", &playbook.references);
    out
}

fn heading(node: Node<'_>) -> String {
    match node.kind {
        NodeKind::Leaf => format!("{} (`{}`)", node.title, node.id),
        NodeKind::Symptom | NodeKind::Mechanism => format!("[{}]({}.md)", node.title, node.id),
    }
}

fn checks(out: &mut String, library: &Library, evidence: &[Evidence]) {
    for e in evidence {
        let either: Vec<String> = e
            .alternatives()
            .iter()
            .map(|(signal, when, without_past)| {
                let title = library.signals.get(*signal).map_or(*signal, |s| s.title.as_str());
                format!("{title} `{when}`{}", only(*without_past))
            })
            .collect();
        let must = if e.required { "required: " } else { "" };
        out.push_str(&format!("- {must}{}\n", either.join(" or ")));
    }
}

fn steps(out: &mut String, when: &str, steps: &[Step]) {
    if steps.is_empty() {
        return;
    }
    out.push_str(&format!("\n{when}:\n\n"));
    for step in steps {
        let only = step.holds_for().map(|only| format!(" ({only})")).unwrap_or_default();
        let source = step.source.as_ref().map(|url| format!(" ([source]({url}))")).unwrap_or_default();
        out.push_str(&format!("- {}{only}{source}\n", flat(&step.action)));
    }
    let changes: BTreeSet<StepChange> = steps.iter().filter_map(|step| step.changes).collect();
    for change in changes {
        out.push_str(&format!("- *{}*: {}\n", change.title(), change.note(false, 0, None, None)));
    }
}

fn list(out: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    out.push_str(&format!("\n## {title}\n\n"));
    items.iter().for_each(|item| out.push_str(&format!("- {}\n", flat(item))));
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
