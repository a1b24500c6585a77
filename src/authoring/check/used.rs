//! The parts of a user's data that are not there when they are needed; the service starts without them, and says so.

use std::path::Path;

use knowledge::playbook::{Library, Problem};

use super::{lint, phrases, unread};

/// The rules of problems by which something that a user wrote takes no part in a diagnosis, a message or a report. The
/// others are about how well it is written and tested.
const UNUSED: [&str; 45] = [
    "alert/condition",
    "alert/for",
    "alert/log-signal",
    "cause/unused",
    "endpoint/forbidden",
    "endpoint/pointer",
    "evidence/shape",
    "evidence/unit",
    "files/unread",
    "health/log-signal",
    "health/no-threshold",
    "health/unknown-playbook",
    "health/unknown-signal",
    "kinds/factor",
    "kinds/no-condition",
    "kinds/twice",
    "kinds/unknown-playbook",
    "kinds/unknown-signal",
    "log/cause",
    "log/direction",
    "log/engine",
    "log/tells",
    "phrase/read",
    "phrase/shape",
    "phrase/unknown",
    "phrase/variable",
    "playbook/cycle",
    "playbook/entry",
    "playbook/explains",
    "playbook/no-symptom",
    "playbook/unknown-cause",
    "playbook/unknown-playbook",
    "playbook/unknown-signal",
    "report/unknown-signal",
    "signal/kind",
    "signal/placeholder",
    "signal/promql",
    "signal/shape",
    "signal/unknown",
    "signal/untold",
    "step/engine",
    "table/engine",
    "table/unknown-playbook",
    "ticket/cause",
    "ticket/engine",
];

/// The rules that count for the user's own files alone.
const OF_OWN_FILES: [&str; 4] = ["cause/unused", "log/cause", "ticket/cause", "signal/untold"];

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
    // What a user's whole file leaves out may leave a shipped file without its use; nobody can change that one.
    let is_theirs =
        |problem: &Problem| !OF_OWN_FILES.contains(&problem.rule) || Path::new(&problem.file).starts_with(dir);
    let others = all(library, Some(dir)).into_iter();
    let others = others.filter(|problem| UNUSED.contains(&problem.rule) && is_theirs(problem));
    library.left_out.iter().cloned().chain(others).collect()
}
