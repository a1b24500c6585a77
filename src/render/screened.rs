//! What a message says of a pool that was screened, because the alert's own playbook is unknown or explains nothing.

use super::facts::missing;
use super::{Line, Part, Words};
use crate::diagnose::{Diagnosis, SymptomVerdict};

/// Titles of other symptoms that are said at once.
const FEW: usize = 3;

/// What is said of the diagnosed symptom, with how the diagnosis came to it before that.
pub(super) fn before(diagnosis: &Diagnosis, symptom: Line, words: &Words) -> Line {
    match entered(diagnosis, words) {
        // Without a symptom there is nothing more to say.
        Some(line) if diagnosis.symptom.playbook.is_empty() => line,
        Some(line) => line.plain(" ").then(symptom),
        None => symptom,
    }
}

/// How the diagnosis came to its symptom, where that is not the alert's own; what was looked at, where nothing is abnormal.
fn entered(diagnosis: &Diagnosis, words: &Words) -> Option<Line> {
    let symptom = &diagnosis.symptom;
    let Some(screening) = &diagnosis.screening else {
        // An alert that names no pool.
        return symptom.playbook.is_empty().then(|| words.line("no-playbook-why", &[]));
    };
    if screening.asked.as_ref() == Some(&symptom.playbook) && symptom.verdict == SymptomVerdict::Confirmed {
        return None;
    }
    if symptom.verdict != SymptomVerdict::Confirmed {
        let why = missing(diagnosis).or(diagnosis.scope.notes.first().map(String::as_str));
        let because = |key: &str| why.map(|why| words.line(key, &[("why", Line::of(why).into())]));
        return match screening.looked_at.len() {
            0 => because("screened-blind-why").or_else(|| Some(words.line("screened-blind", &[]))),
            // What was not looked at may be what is wrong.
            _ if diagnosis.degraded => because("screened-part-why").filter(|_| symptom.playbook.is_empty()),
            n if screening.also.is_empty() => Some(words.line("screened-quiet", &[("n", n.into())])),
            _ => None,
        };
    }
    let title = ("title", symptom.title.as_str().into());
    let asked = ("asked", screening.asked_title.as_deref().unwrap_or_default().into());
    Some(match screening.asked_verdict {
        None => words.line("screened-unknown", &[title]),
        Some(SymptomVerdict::Absent) => words.line("screened-absent", &[asked, title]),
        Some(SymptomVerdict::NoData) => words.line("screened-no-data", &[asked, title]),
        Some(SymptomVerdict::Confirmed) => words.line("screened-unexplained", &[asked, title]),
    })
}

/// What else is abnormal in the pool.
pub(super) fn also(diagnosis: &Diagnosis, words: &Words) -> Option<Part> {
    let also = &diagnosis.screening.as_ref()?.also;
    let shown: Vec<&str> = also.iter().take(FEW).map(String::as_str).collect();
    let also = match also.len().saturating_sub(shown.len()) {
        _ if shown.is_empty() => return None,
        0 => shown.join(", "),
        more => words.text("screened-more", &[("also", shown.join(", ").into()), ("n", more.into())]),
    };
    Some(Part::Note(words.line("screened-also", &[("also", also.into())])))
}
