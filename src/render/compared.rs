//! The past period with which a diagnosis compared its values.

use super::Phrases;
use findings::{Diagnosis, EvidenceResult, PastKind};
use knowledge::clock;
use knowledge::playbook::Condition;
use message::Line;

/// Names the past period with which these checks were compared, or says that there is none; `None` if no check needs
/// one.
fn compared<'a>(
    diagnosis: &Diagnosis,
    evidence: impl IntoIterator<Item = &'a EvidenceResult>,
    words: &Phrases,
) -> Option<Line> {
    let with = diagnosis.compared_with?;
    let (mut past, mut lacking) = (false, false);
    for e in evidence {
        past |= e.baseline.is_some() && e.when.parse::<Condition>().is_ok_and(|when| when.needs_baseline());
        lacking |= e.lacks_past();
    }
    match with.kind {
        PastKind::SameTime | PastKind::HoursBefore | PastKind::SinceStart if !past => None,
        PastKind::SameTime => {
            let ago = with.at.map(|at| clock::human_duration(clock::between(at, diagnosis.at))).unwrap_or_default();
            Some(words.line("compared-same-time", &[("ago", ago.into())]))
        }
        PastKind::HoursBefore => Some(words.line("compared-hours-before", &[])),
        PastKind::SinceStart => Some(words.line("compared-since-start", &[])),
        PastKind::Peers | PastKind::Nothing if !lacking => None,
        PastKind::Peers => Some(words.line("compared-peers", &[])),
        PastKind::Nothing => Some(words.line("compared-nothing", &[])),
    }
}

/// Returns [`compared`] for the checks of the symptom and of the best chain.
pub(super) fn of_chain(diagnosis: &Diagnosis, words: &Phrases) -> Option<Line> {
    let root = diagnosis.root();
    let chain = root.into_iter().flat_map(|root| root.via.iter().flat_map(|link| &link.evidence).chain(&root.evidence));
    compared(diagnosis, diagnosis.symptom.evidence.iter().chain(chain), words)
}

/// Returns [`of_chain`], else [`compared`] for the checks of the other causes.
pub(super) fn of_all(diagnosis: &Diagnosis, words: &Phrases) -> Option<Line> {
    let others = diagnosis.causes.iter().skip(1).flat_map(|cause| &cause.evidence);
    of_chain(diagnosis, words).or_else(|| compared(diagnosis, others, words))
}
