//! The parts of a user's data that are not there when they are needed; the service starts without them, and says so.

use std::path::Path;

use knowledge::playbook::{Library, Problem};

use super::{lint, phrases, unread};

/// The rules of problems by which something that a user wrote takes no part in a diagnosis or a message. The others are
/// about how well it is written and tested.
const UNUSED: [&str; 16] = [
    "alert/condition",
    "evidence/shape",
    "evidence/unit",
    "files/unread",
    "health/unknown-playbook",
    "health/unknown-signal",
    "phrase/shape",
    "phrase/unknown",
    "phrase/variable",
    "playbook/cycle",
    "playbook/entry",
    "playbook/explains",
    "playbook/unknown-cause",
    "playbook/unknown-playbook",
    "playbook/unknown-signal",
    "signal/unknown",
];

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
    let mut problems = library.left_out.clone();
    let others = all(library, Some(dir)).into_iter().filter(|problem| UNUSED.contains(&problem.rule));
    problems.extend(others);
    problems
}
