//! `check` and `test`.

use std::process::ExitCode;

use super::args::DataArgs;
use super::library;
use crate::check;
use crate::cli::output::outln;
use crate::clip::format_count;
use crate::playbook::Replacement;

/// Runs the lints; fails if there are findings.
pub(super) fn check(args: DataArgs) -> anyhow::Result<ExitCode> {
    let library = match library(args.dir.as_deref()) {
        Ok(library) => library,
        Err(code) => return Ok(code),
    };
    let mut problems = check::lint(&library);
    problems.extend(check::phrases(args.dir.as_deref()));
    problems.extend(args.dir.as_deref().map(check::unread).unwrap_or_default());
    for problem in &problems {
        outln!("{problem}\n");
    }
    let mut replacements = library.replacements.clone();
    replacements.extend(check::replaced_phrases(args.dir.as_deref()));
    if !replacements.is_empty() {
        outln!("your files change what is shipped:");
        replacements.iter().for_each(|Replacement { file, what }| outln!("  {file}: {what}"));
        outln!("");
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

/// Runs the verdict tests; fails if one of the user's fails, or without own files any, or there is none.
pub(super) fn test(args: DataArgs) -> anyhow::Result<ExitCode> {
    let library = match library(args.dir.as_deref()) {
        Ok(library) => library,
        Err(code) => return Ok(code),
    };
    let results = match check::run(&library) {
        Ok(results) => results,
        Err(problems) => {
            problems.iter().for_each(|p| outln!("{p}\n"));
            return Ok(ExitCode::FAILURE);
        }
    };
    let unable = check::verifies(&library);
    unable.iter().for_each(|problem| outln!("{problem}\n"));
    // A shipped case is about the shipped data: a user's files may mean to change what comes of it.
    let has_own = library.files.values().any(|file| file.own);
    let (counted, others): (Vec<_>, Vec<_>) = results.iter().partition(|result| result.own || !has_own);
    let failed = counted.iter().filter(|result| !result.failures.is_empty()).count();
    for failure in counted.iter().flat_map(|result| &result.failures) {
        outln!("{failure}\n");
    }
    let changed: Vec<_> = others.iter().filter(|result| !result.failures.is_empty()).collect();
    if !changed.is_empty() {
        outln!(
            "with your files, {} come out differently; see that you mean it:",
            format_count(changed.len(), "shipped case")
        );
        for failure in changed.iter().flat_map(|result| &result.failures) {
            outln!("  {}:{}: {}", failure.file, failure.line, failure.message);
        }
        outln!("");
    }
    outln!("{} passed, {failed} failed", results.len() - failed - changed.len());
    if !unable.is_empty() {
        outln!("{} that cannot tell whether it worked", format_count(unable.len(), "step"));
    }
    Ok(ExitCode::from(u8::from(failed > 0 || results.is_empty() || !unable.is_empty())))
}
