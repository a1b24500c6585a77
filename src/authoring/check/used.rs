//! The parts of a user's data that are not there when they are needed; the service starts without them, and says so.

use std::path::Path;

use knowledge::playbook::{Library, LintEffect, Problem};

use super::{lint, phrases, unread};

/// Returns all problems of the data, of the phrases and of files that are not read.
pub fn all(library: &Library, dir: Option<&Path>) -> Vec<Problem> {
    let mut problems = lint(library);
    problems.extend(phrases(dir));
    problems.extend(dir.map(|dir| unread(library, dir)).unwrap_or_default());
    problems
}

/// Returns the problems by which something in the user's directory is not used: what was left out when the data were
/// loaded, what names something that is not there, what is not read.
pub fn unused(library: &Library, dir: &Path) -> Vec<Problem> {
    let is_unused = |problem: &Problem| match problem.lint.effect() {
        LintEffect::Used => false,
        LintEffect::Unused => true,
        LintEffect::UnusedIfOwn => Path::new(&problem.file).starts_with(dir),
    };
    let others = all(library, Some(dir)).into_iter().filter(is_unused);
    library.left_out.iter().cloned().chain(others).collect()
}
