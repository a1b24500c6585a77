//! The parts of a user's data that are not there when they are needed; the service starts without them, and says so.

use std::path::Path;

use knowledge::playbook::{Library, Lint, Problem};

use super::{lint, phrases, unread};

/// The lints by which something that a user wrote takes no part in a diagnosis, a message or a report. The
/// others are about how well it is written and tested.
const UNUSED: [Lint; 45] = [
    Lint::AlertCondition,
    Lint::AlertFor,
    Lint::AlertLogSignal,
    Lint::CauseUnused,
    Lint::EndpointForbidden,
    Lint::EndpointPointer,
    Lint::EvidenceShape,
    Lint::EvidenceUnit,
    Lint::FilesUnread,
    Lint::HealthLogSignal,
    Lint::HealthNoThreshold,
    Lint::HealthUnknownPlaybook,
    Lint::HealthUnknownSignal,
    Lint::KindsFactor,
    Lint::KindsNoCondition,
    Lint::KindsTwice,
    Lint::KindsUnknownPlaybook,
    Lint::KindsUnknownSignal,
    Lint::LogCause,
    Lint::LogDirection,
    Lint::LogEngine,
    Lint::LogTells,
    Lint::PhraseRead,
    Lint::PhraseShape,
    Lint::PhraseUnknown,
    Lint::PhraseVariable,
    Lint::PlaybookCycle,
    Lint::PlaybookEntry,
    Lint::PlaybookExplains,
    Lint::PlaybookNoSymptom,
    Lint::PlaybookUnknownCause,
    Lint::PlaybookUnknownPlaybook,
    Lint::PlaybookUnknownSignal,
    Lint::ReportUnknownSignal,
    Lint::SignalKind,
    Lint::SignalPlaceholder,
    Lint::SignalPromql,
    Lint::SignalShape,
    Lint::SignalUnknown,
    Lint::SignalUntold,
    Lint::StepEngine,
    Lint::TableEngine,
    Lint::TableUnknownPlaybook,
    Lint::TicketCause,
    Lint::TicketEngine,
];

/// The lints that count for the user's own files alone.
const OF_OWN_FILES: [Lint; 4] = [Lint::CauseUnused, Lint::LogCause, Lint::TicketCause, Lint::SignalUntold];

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
        |problem: &Problem| !OF_OWN_FILES.contains(&problem.lint) || Path::new(&problem.file).starts_with(dir);
    let others = all(library, Some(dir)).into_iter();
    let others = others.filter(|problem| UNUSED.contains(&problem.lint) && is_theirs(problem));
    library.left_out.iter().cloned().chain(others).collect()
}
