//! `check` and `test`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::args::DataArgs;
use super::{FINDINGS, printed, whole_library};
use crate::cli::output::outln;
use authoring::check::CaseResult;
use authoring::generate::RuleOptions;
use authoring::{check, generate};
use knowledge::clip::format_count;
use knowledge::playbook::{Library, Replacement, load};

/// The rate window of the rules that are compared; any would do.
const WINDOW: Duration = Duration::from_secs(300);

/// Runs the lints; fails if there are findings.
pub(super) fn check(args: DataArgs) -> anyhow::Result<ExitCode> {
    let dir = args.dir.as_deref();
    let library = load(dir).map_err(|problems| printed(&problems, Some(FINDINGS)))?;
    let problems = check::all(&library, dir);
    for problem in &problems {
        outln!("{problem}\n");
    }
    let mut replacements = library.replacements.clone();
    replacements.extend(check::replaced_phrases(dir));
    if !replacements.is_empty() {
        outln!("your changes to the shipped data:");
        replacements.iter().for_each(|Replacement { file, what }| outln!("  {file}: {what}"));
        outln!("");
    }
    if let Some(dir) = dir.filter(|_| changes_rules(&library)) {
        let dir = dir.display();
        outln!(
            "the alert rules differ from the shipped ones: load those of `llm-diagnose generate rules --playbooks {dir}` into Prometheus\n"
        );
    }
    outln!(
        "{} playbooks, {} causes, {} signals, {} engines: {}",
        library.playbooks.len(),
        library.causes.len(),
        library.signals.len(),
        library.engines.len(),
        format_count(problems.len(), "problem"),
    );
    Ok(ExitCode::from(u8::from(!problems.is_empty())))
}

/// Returns true if Prometheus needs other rules than the shipped ones.
fn changes_rules(library: &Library) -> bool {
    let options = RuleOptions { window: WINDOW, hold: None, runbook_base: String::new() };
    let rules = |library: &Library| generate::rules(library, &options).ok();
    load(None).is_ok_and(|shipped| rules(&shipped) != rules(library))
}

/// Runs the verdict tests; fails if one of the user's fails, or without own files any, or there is none.
pub(super) fn test(args: DataArgs) -> anyhow::Result<ExitCode> {
    let library = whole_library(args.dir.as_deref())?;
    let results = match check::run(&library) {
        Ok(results) => results,
        Err(problems) => {
            problems.iter().for_each(|p| outln!("{p}\n"));
            return Ok(ExitCode::FAILURE);
        }
    };
    let unable = check::verifies(&library);
    unable.iter().for_each(|problem| outln!("{problem}\n"));
    // A shipped case is about the shipped data: a user's files may mean to change what comes of it. But a playbook that a
    // user's file replaces is the user's, whoever wrote the case.
    let has_own = library.files.values().any(|file| file.own);
    let is_own = |result: &&CaseResult| {
        let playbook = library.files.get(&format!("{}.yaml", result.playbook));
        result.own || playbook.is_some_and(|file| file.own)
    };
    let (counted, others): (Vec<_>, Vec<_>) = results.iter().partition(|result| is_own(result) || !has_own);
    let failed = counted.iter().filter(|result| !result.failures.is_empty()).count();
    for failure in counted.iter().flat_map(|result| &result.failures) {
        outln!("{failure}\n");
    }
    let changed: Vec<_> = others.iter().filter(|result| !result.failures.is_empty()).collect();
    if !changed.is_empty() {
        let come = if changed.len() == 1 { "comes" } else { "come" };
        outln!(
            "with your files, {} {come} out differently; see that you mean it:",
            format_count(changed.len(), "shipped case")
        );
        for failure in changed.iter().flat_map(|result| &result.failures) {
            outln!("  {}:{}: {}", failure.file, failure.line, failure.message);
        }
        outln!("");
    }
    outln!("{} passed, {failed} failed", results.len() - failed - changed.len());
    if let Some(dir) = args.dir.as_deref().filter(|_| has_own && counted.is_empty()) {
        outln!("none of them is yours: write cases into {}", ours(dir));
    }
    if !unable.is_empty() {
        outln!("{} that cannot tell whether it worked", format_count(unable.len(), "step"));
    }
    Ok(ExitCode::from(u8::from(failed > 0 || results.is_empty() || !unable.is_empty())))
}

/// Returns a place for a user's own verdict tests.
fn ours(dir: &Path) -> String {
    dir.join("symptoms/ours-<playbook>.test.yaml").display().to_string()
}
