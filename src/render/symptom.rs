//! The symptom of an incident: confirmed or not, on which replicas, its cost to users, and how often it returned.

use super::facts::{FEW, affected_replicas_line, facts, join_limited, no_data, radius};
use super::promise::{burnt, promise};
use super::{IncidentView, PhraseArgument, Phrases, screened};
use findings::{CauseFound, Diagnosis, Outcome, SymptomVerdict};
use knowledge::incident::Impact;
use knowledge::signal::{Unit, format_value};
use message::Line;

/// Minimum number of earlier incidents in a day to call it flapping.
const SEEN_OFTEN: u32 = 3;
/// Minimum number of re-fires to call it flapping.
pub(super) const FLAPS: u32 = 2;

/// Says if the symptom is confirmed, its impact on users, and on which replicas: a line for each number.
pub(super) fn lines(diagnosis: &Diagnosis, impact: &str, resolved: bool, words: &Phrases) -> Vec<Line> {
    let symptom = &diagnosis.symptom;
    let of = |outcome| facts(&symptom.evidence, outcome, words);
    let lines = match symptom.verdict {
        SymptomVerdict::Confirmed => {
            // The cause names the affected replicas more precisely.
            let affected = diagnosis.root().and_then(|root| affected_replicas_line(&shortened(root), words));
            let radius = if affected.is_some() { String::new() } else { radius(&diagnosis.replicas, words) };
            let key = if resolved { "symptom-was" } else { "symptom-confirmed" };
            let mut met = of(Outcome::Met).into_iter().take(FEW);
            let first = format!("{}{radius}", met.next().unwrap_or_default());
            let mut lines = vec![words.line(key, &[("facts", first.into())])];
            lines.extend(met.map(|fact| Line::default().plain(fact)));
            lines.extend((!impact.is_empty()).then(|| Line::default().plain(impact)));
            lines.extend(promise(diagnosis, words));
            lines.extend(affected);
            lines
        }
        SymptomVerdict::Absent => {
            let facts = join_limited(&of(Outcome::NotMet), FEW, ", ", words);
            let mut lines = vec![absent(diagnosis, facts, words)];
            lines.extend(burnt(diagnosis, words));
            lines
        }
        SymptomVerdict::NoData => vec![no_data(diagnosis, words)],
    };
    let condition = screened::condition(diagnosis, words).filter(|_| !resolved);
    screened::before(diagnosis, lines, words).into_iter().chain(condition).collect()
}

/// Says that the symptom is not there; where nothing is known of the alert's own expression, why the alert may fire.
pub(super) fn absent(diagnosis: &Diagnosis, facts: String, words: &Phrases) -> Line {
    let key = if diagnosis.condition.is_some() { "symptom-absent-only" } else { "symptom-absent" };
    words.line(key, &[("facts", facts.into())])
}

/// Returns the first sentence of a text.
pub(super) fn first_sentence(text: &str) -> String {
    let text = text.trim();
    text.split_once(". ").map_or(text.to_owned(), |(first, _)| format!("{first}."))
}

/// Shortens the UUIDs of GPUs: beside the node's name, the first part is enough.
fn shortened(root: &CauseFound) -> CauseFound {
    let mut root = root.clone();
    for place in root.replicas.places.values_mut().flatten().filter(|place| place.starts_with("GPU-")) {
        *place = place.split('-').take(2).collect::<Vec<_>>().join("-");
    }
    root
}

/// Summarises the impact: failed and slow requests.
pub(super) fn meanwhile(impact: &Impact, words: &Phrases) -> Option<Line> {
    let count = |n: f64| PhraseArgument::from(format_value(n.round(), Unit::Requests));
    let Some(requests) = impact.requests.filter(|n| n.round() >= 1.0) else {
        let failed = impact.failed.filter(|n| n.round() >= 1.0)?;
        return Some(words.line("meanwhile-failures", &[("n", count(failed))]));
    };
    let bad = |key, n: Option<f64>| {
        let n = n.filter(|n| n.round() >= 1.0)?;
        let share = format_value((n / requests).min(1.0), Unit::Ratio).into();
        Some(words.text(key, &[("n", count(n)), ("share", share)]))
    };
    let shares: String =
        bad("meanwhile-failed", impact.failed).into_iter().chain(bad("meanwhile-slow", impact.slow)).collect();
    Some(words.line("meanwhile", &[("requests", count(requests)), ("bad", shares.into())]))
}

/// Says that the incident is flapping; `None` if it is not.
pub(super) fn flapping(view: &IncidentView<'_>, words: &Phrases) -> Option<Line> {
    let refired = (view.refired > 0).then(|| words.text("flapping-refired", &[("n", view.refired.into())]));
    let seen = (view.seen_before >= SEEN_OFTEN).then(|| {
        // The text counts the current incident too.
        words.text("flapping-seen", &[("n", view.seen_before.saturating_add(1).into())])
    });
    if view.refired < FLAPS && view.seen_before < SEEN_OFTEN {
        return None;
    }
    let what = refired.into_iter().chain(seen).collect::<Vec<_>>().join(", ");
    Some(words.line("flapping", &[("what", what.into())]))
}

/// Returns the number of affected replicas and of all, as the thread and the digest show them.
pub(super) fn hit(diagnosis: &Diagnosis) -> (usize, usize) {
    let of = diagnosis.root().map_or(&diagnosis.replicas, |root| &root.replicas);
    match (of.affected.len(), diagnosis.replicas.affected.len()) {
        (0, n) => (n, diagnosis.replicas.total),
        (n, _) => (n, of.total),
    }
}
