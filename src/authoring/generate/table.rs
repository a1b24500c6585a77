//! `generate runbooks`: one page per reference table, beside the playbooks' pages.

use knowledge::playbook::IncidentClass;
use knowledge::playbook::{CodeRow, EngineFlag, FlagRow, Library, LogFile, MemoryLine, TableHeading, XidRow};

/// Renders the pages of the tables: file name and Markdown.
pub fn tables(library: &Library) -> Vec<(String, String)> {
    let tables = &library.tables;
    let page = |heading: TableHeading<'_>| -> Option<(String, String)> {
        let rows = match heading.name {
            "litellm-codes" => codes(library, &tables.litellm_codes.rows),
            "xid" => xids(&tables.xid.rows),
            "memory-flags" => logs(library),
            "engine-flags" => flags(&tables.engine_flags.rows),
            "incident-studies" => incidents(&tables.incident_studies.rows),
            _ => return None,
        };
        let made = "made by `llm-diagnose generate runbooks`; change the table instead.";
        let mut out = format!("# {}\n\n`tables/{}.yaml`, {made}\n\n", heading.title, heading.name);
        out.push_str(&format!("{}\n\n{rows}", heading.meaning.trim()));
        let opened = library
            .playbooks
            .values()
            .filter(|playbook| library.tables.used_by(&playbook.playbook).any(|used| used.name == heading.name));
        let links: Vec<String> = opened.map(|p| format!("[{}]({}.md)", p.title, p.playbook)).collect();
        if !links.is_empty() {
            out.push_str(&format!("\nUsed by: {}\n", links.join(", ")));
        }
        out.push_str("\n## References\n\n");
        heading.references.iter().for_each(|url| out.push_str(&format!("- {url}\n")));
        Some((file(heading.name), out))
    };
    tables.headings().filter_map(page).collect()
}

/// Returns the file name of a table's page.
pub(super) fn file(table: &str) -> String {
    format!("table-{table}.md")
}

fn codes(library: &Library, rows: &[CodeRow]) -> String {
    let mut out = head(&["Status", "Class", "When", "What it means", "What to do"]);
    for CodeRow { code, class, engine, situation, means, action, playbook, source } in rows {
        let title = playbook.as_ref().and_then(|id| Some((id, &library.playbooks.get(id)?.title)));
        let open = title.map_or_else(String::new, |(id, title)| format!(" Open [{title}]({id}.md)."));
        let class = format!("`{class}`, {engine}");
        let todo = format!("{}.{open} ([source]({source}))", action.trim_end_matches('.'));
        row(&mut out, &[&code.to_string(), &class, situation, means, &todo]);
    }
    out
}

fn xids(rows: &[XidRow]) -> String {
    let mut out = head(&["Xid", "What it is", "At once", "Then", "Whose", "What to do"]);
    for r in rows {
        let XidRow { title, immediate, investigate, workload, action, note, source, .. } = r;
        let whose = if *workload { "mostly the workload's" } else { "the machine's" };
        let note = note.as_ref().map(|note| format!(" {note}")).unwrap_or_default();
        let todo = format!("{}.{note} ([source]({source}))", action.trim_end_matches('.'));
        row(&mut out, &[&r.shown(), title, immediate, investigate.as_deref().unwrap_or("–"), whose, &todo]);
    }
    out
}

/// Renders the log lines about memory of every engine whose flag the table names.
fn logs(library: &Library) -> String {
    let mut out = head(&["Line of the log", "Engine", "The flag", "Why", "What to do"]);
    for FlagRow { engine: of, flag, .. } in &library.tables.memory_flags.rows {
        for MemoryLine { lines, engine, direction, why, action, source } in
            library.logs.get(of).into_iter().flat_map(LogFile::memory)
        {
            let lines: Vec<String> = lines.into_iter().map(|line| format!("`{line}`")).collect();
            let flag = format!("{} `{flag}`", direction.word());
            let todo = format!("{}. ([source]({source}))", action.trim_end_matches('.'));
            row(&mut out, &[&lines.join("<br>"), engine, &flag, why, &todo]);
        }
    }
    out
}

fn incidents(rows: &[IncidentClass]) -> String {
    let mut out = head(&["Study", "Class", "Incidents", "Named by"]);
    for IncidentClass { study, class, count, causes, note, source, .. } in rows {
        let named = match (causes.is_empty(), note) {
            (false, _) => causes.iter().map(|cause| format!("`{cause}`")).collect::<Vec<_>>().join(", "),
            (true, note) => format!("nothing: {}", note.as_deref().unwrap_or("–")),
        };
        row(&mut out, &[study, class, &format!("{count} ([source]({source}))"), &named]);
    }
    out
}

fn flags(rows: &[EngineFlag]) -> String {
    let mut out = head(&["Flag or setting", "Engine", "Since", "Default", "Mind"]);
    for flag in rows {
        let EngineFlag { engine, flag: name, since, default, note, source, .. } = flag;
        let since = since.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string);
        let remarks: Vec<String> = flag.end().into_iter().chain(note.clone()).collect();
        let mind = format!("{} ([source]({source}))", remarks.join("; "));
        row(&mut out, &[&format!("`{name}`"), engine, &since, default.as_deref().unwrap_or("–"), &mind]);
    }
    out
}

fn head(names: &[&str]) -> String {
    format!("| {} |\n|{}\n", names.join(" | "), "---|".repeat(names.len()))
}

fn row(out: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.trim().replace('\n', " ").replace('|', "\\|")).collect();
    out.push_str(&format!("| {} |\n", cells.join(" | ")));
}
