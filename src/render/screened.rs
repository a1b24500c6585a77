//! What a message says of a pool that was screened, because the alert's own playbook is unknown or explains nothing.

use jiff::Timestamp;

use super::facts::missing;
use super::{Line, Part, Words};
use crate::diagnose::{DataSpan, Diagnosis, SymptomVerdict};

/// Titles of other symptoms that are said at once.
const FEW: usize = 3;

/// What is said of the diagnosed symptom, with how the diagnosis came to it before that.
pub(super) fn before(diagnosis: &Diagnosis, symptom: Line, words: &Words) -> Line {
    if let Some(line) = nowhere(diagnosis, words) {
        return line;
    }
    match entered(diagnosis, words) {
        // Without a symptom there is nothing more to say.
        Some(line) if diagnosis.symptom.playbook.is_empty() => line,
        Some(line) => line.plain(" ").then(symptom),
        None => symptom,
    }
}

/// That no pool has the alert's labels, or none had data at the judged moment: then nobody can tell anything.
fn nowhere(diagnosis: &Diagnosis, words: &Words) -> Option<Line> {
    if diagnosis.symptom.verdict != SymptomVerdict::NoData {
        return None;
    }
    let unknown = match then(diagnosis, "nowhere-then", words) {
        Some(line) => return Some(line),
        None => diagnosis.scope.unknown.as_ref()?,
    };
    let what = ("what", unknown.dimension.as_str().into());
    let value = ("value", Line::default().code(unknown.value.as_str()).into());
    let mut near = Line::default();
    for (i, value) in unknown.nearest.iter().enumerate() {
        near = near.plain(if i == 0 { "" } else { ", " }).code(value.as_str());
    }
    if unknown.more > 0 {
        near = words.line("nowhere-more", &[("near", near.into()), ("n", unknown.more.into())]);
    }
    Some(words.line("nowhere", &[what, value, ("near", near.into())]))
}

/// When there is data of a pool that tells nothing at the judged moment, though others tell of it.
pub(super) fn data(diagnosis: &Diagnosis, words: &Words) -> Option<Line> {
    then(diagnosis, "data-then", words).filter(|_| diagnosis.symptom.verdict != SymptomVerdict::NoData)
}

fn then(diagnosis: &Diagnosis, key: &str, words: &Words) -> Option<Line> {
    let DataSpan { from, to } = diagnosis.scope.data?;
    let [from, to] = [from, to].map(|at| moment(at).into());
    Some(words.line(key, &[("at", moment(diagnosis.at).into()), ("from", from), ("to", to)]))
}

/// A moment with its day, for it may be long ago.
fn moment(at: Timestamp) -> Line {
    Line::default().time(at).plain(format!(" ({})", at.strftime("%Y-%m-%d %H:%M UTC")))
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

/// What else is abnormal in the pool, and what is close beyond a limit.
pub(super) fn also(diagnosis: &Diagnosis, words: &Words) -> Option<Part> {
    let screening = diagnosis.screening.as_ref()?;
    let also = few(&screening.also, words).map(|also| words.line("screened-also", &[("also", also.into())]));
    let slight =
        few(&screening.slight, words).map(|slight| words.line("screened-slight", &[("slight", slight.into())]));
    let line = match (also, slight) {
        (Some(also), Some(slight)) => also.plain(" ").then(slight),
        (one, other) => one.or(other)?,
    };
    Some(Part::Note(line))
}

/// The first of these titles, and how many more there are; none of none.
fn few(titles: &[String], words: &Words) -> Option<String> {
    let shown = titles.get(..FEW.min(titles.len()))?.join(", ");
    match titles.len().saturating_sub(FEW) {
        _ if titles.is_empty() => None,
        0 => Some(shown),
        more => Some(words.text("screened-more", &[("also", shown.into()), ("n", more.into())])),
    }
}
