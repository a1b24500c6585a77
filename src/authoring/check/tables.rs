//! Lints of the reference tables: sources and references exist, and each key occurs once.

use std::collections::BTreeSet;

use super::file_lint::FileLint;
use knowledge::playbook::{Library, Lint, Problem, TableHeading, XidCounts, suggestion};
use knowledge::signal::VersionReq;

/// The buckets of NVIDIA's catalog, without the workflows of single codes.
const BUCKETS: [&str; 14] = [
    "IGNORE",
    "RESTART_APP",
    "RESET_GPU",
    "RESTART_BM",
    "RESTART_VM",
    "RESTART_FM",
    "CONTACT_SUPPORT",
    "CHECK_APP",
    "INVESTIGATE_SW",
    "REPORT_ISSUE",
    "NONE",
    "CHECK_MECHANICALS",
    "CHECK_UVM",
    "UPDATE_SWFW",
];

pub(super) fn tables(library: &Library, problems: &mut Vec<Problem>) {
    for heading in library.tables.headings() {
        with_file(library, heading, problems, |lint| lint.heading(heading));
    }
    let tables = &library.tables;
    with_file(library, tables.litellm_codes.heading(), problems, |lint| {
        for row in &tables.litellm_codes.rows {
            lint.engine(&row.class, &row.engine);
            lint.source(&row.class, &row.source);
            if !(400..600).contains(&row.code) {
                lint.say(Lint::TableCode, &row.class, format!("`{}` is no HTTP status of a failure", row.code), None);
            }
            if let Some(id) = &row.playbook {
                lint.playbook(&row.class, id);
            }
        }
    });
    with_file(library, tables.xid.heading(), problems, |lint| {
        let mut codes = BTreeSet::new();
        for row in &tables.xid.rows {
            let xid = row.xid.to_string();
            if row.codes().is_empty() || row.codes().any(|xid| !codes.insert(xid)) {
                lint.say(Lint::TableTwice, &xid, format!("Xid {} is empty or listed twice", row.shown()), None);
            }
            for bucket in [Some(&row.immediate), row.investigate.as_ref()].into_iter().flatten() {
                if !BUCKETS.contains(&bucket.as_str()) && !bucket.starts_with("WORKFLOW_") {
                    let hint = suggestion(bucket, BUCKETS);
                    lint.say(Lint::TableBucket, bucket, format!("`{bucket}` is no bucket of NVIDIA's catalog"), hint);
                }
            }
            if row.workload && row.counts == XidCounts::Critical {
                let message = format!("Xid {} cannot be the workload's and count as critical", row.shown());
                lint.say(Lint::TableCounts, &xid, message, None);
            }
            lint.source(&xid, &row.source);
        }
    });
    with_file(library, tables.memory_flags.heading(), problems, |lint| {
        for row in &tables.memory_flags.rows {
            lint.engine(&row.engine, &row.engine);
            lint.source(&row.engine, &row.source);
            if !library.logs.contains_key(&row.engine) {
                let message = format!("no log of `{}` is known", row.engine);
                let hint = suggestion(&row.engine, library.logs.keys().map(String::as_str));
                lint.say(Lint::TableEngine, &row.engine, message, hint);
            }
            if !row.flag.starts_with("--") {
                lint.say(Lint::TableFlag, &row.flag, format!("`{}` is no flag", row.flag), None);
            }
        }
    });
    with_file(library, tables.engine_flags.heading(), problems, |lint| {
        let mut flags = BTreeSet::new();
        for row in &tables.engine_flags.rows {
            lint.engine(&row.flag, &row.engine);
            lint.source(&row.flag, &row.source);
            if row.gone.is_some() != row.instead.is_some() {
                let message = format!("`{}`: `gone` and `instead` stand together", row.flag);
                let hint = Some("write `instead: nothing` where nothing takes its place".to_owned());
                lint.say(Lint::TableGone, &row.flag, message, hint);
            }
            if !flags.insert((&row.engine, &row.flag)) {
                let message = format!("`{}` of {} is listed twice", row.flag, row.engine);
                lint.say(Lint::TableTwice, &row.flag, message, None);
            }
        }
    });
    with_file(library, tables.incident_studies.heading(), problems, |lint| {
        for row in &tables.incident_studies.rows {
            lint.source(&row.class, &row.source);
            let nodes: Vec<_> = row.causes.iter().map(|id| (id, library.node_by_id(id))).collect();
            for (id, _) in nodes.iter().filter(|(_, node)| node.is_none()) {
                let hint = Some(library.similar_ids(id));
                lint.say(Lint::TableUnknownCause, id, format!("`{}` names no cause `{id}`", row.class), hint);
            }
            let checks = || nodes.iter().flat_map(|(_, node)| node).flat_map(|(node, _)| node.evidence);
            let is_read = |signal: &String| checks().any(|check| check.checks().iter().any(|(read, _)| read == signal));
            for signal in row.signals.iter().filter(|signal| !is_read(signal)) {
                let message = format!("no check of the causes of `{}` reads `{signal}`", row.class);
                lint.say(Lint::TableUnknownCause, signal, message, None);
            }
            if row.causes.is_empty() && row.note.is_none() {
                let message = format!("`{}` has neither causes nor the reason why nothing names it", row.class);
                lint.say(Lint::TableUnknownCause, &row.class, message, None);
            }
        }
    });
}

/// Runs the lint on a table's file.
fn with_file(
    library: &Library,
    heading: TableHeading<'_>,
    problems: &mut Vec<Problem>,
    run: impl FnOnce(&mut FileLint<'_>),
) {
    run(&mut FileLint { library, path: &format!("tables/{}.yaml", heading.name), problems });
}

impl FileLint<'_> {
    fn heading(&mut self, heading: TableHeading<'_>) {
        heading.playbooks.iter().for_each(|id| self.playbook(id, id));
        if heading.references.is_empty() {
            self.say(Lint::TableSource, "references", "it names no source".into(), None);
        }
    }

    fn playbook(&mut self, needle: &str, id: &str) {
        self.known(Lint::TableUnknownPlaybook, needle, ("playbook", id), &self.library.playbooks);
    }

    fn engine(&mut self, needle: &str, engine: &str) {
        match engine.parse::<VersionReq>() {
            Err(error) => self.say(Lint::TableEngine, needle, error, Some("write `vllm >= 0.8`".into())),
            Ok(req) => self.known(Lint::TableEngine, needle, ("engine", &req.engine), &self.library.engines),
        }
    }

    fn source(&mut self, needle: &str, source: &str) {
        if !source.starts_with("https://") {
            self.say(Lint::TableSource, needle, format!("`{source}` is no https address"), None);
        }
    }
}
