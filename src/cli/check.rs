//! `check` and `test`.

use std::process::ExitCode;

use super::args::DataArgs;
use super::library;
use crate::check;
use crate::cli::output::outln;
use crate::clip::format_count;

/// Runs the lints; fails if there are findings.
pub(super) fn check(args: DataArgs) -> anyhow::Result<ExitCode> {
    let library = match library(args.dir.as_deref()) {
        Ok(library) => library,
        Err(code) => return Ok(code),
    };
    let mut problems = check::lint(&library);
    problems.extend(check::phrases(args.dir.as_deref()));
    for problem in &problems {
        outln!("{problem}\n");
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

/// Runs the verdict tests; fails if one fails or there is none.
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
    let failed = results.iter().filter(|r| !r.failures.is_empty()).count();
    for failure in results.iter().flat_map(|r| &r.failures) {
        outln!("{failure}\n");
    }
    outln!("{} passed, {failed} failed", results.len() - failed);
    if !unable.is_empty() {
        outln!("{} that cannot tell whether it worked", format_count(unable.len(), "step"));
    }
    Ok(ExitCode::from(u8::from(failed > 0 || results.is_empty() || !unable.is_empty())))
}
