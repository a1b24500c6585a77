//! Updates in an incident's thread: the changes that a reader of the message needs to know.

use serde::{Deserialize, Serialize};

use super::headline::is_critical;
use super::symptom::{FLAPS, hit};
use super::{IncidentView, Phrases};
use findings::{SymptomVerdict, Verdict};
use knowledge::alert::AlertStatus;
use knowledge::clock;
use message::Line;

/// The state of an incident at its last update; stored with its delivery.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadState {
    /// The verdict on the symptom; `None` before a diagnosis.
    symptom: Option<SymptomVerdict>,
    /// The root cause: id, title and verdict.
    cause: Option<(String, String, Verdict)>,
    /// Number of affected replicas.
    hit: usize,
    /// Number of all replicas.
    total: usize,
    /// Number of firing alerts.
    firing: usize,
    /// True if a critical alert is firing, or, with no alert firing, if one was critical.
    critical: bool,
    /// The duration until it was resolved.
    resolved_after: Option<String>,
    /// Number of re-fires.
    refired: u32,
}

impl ThreadState {
    /// Builds the state that the message of this view shows.
    pub fn of(view: &IncidentView<'_>) -> Self {
        let root = view.diagnosis.and_then(|diagnosis| diagnosis.root());
        let (hit, total) = view.diagnosis.map(hit).unwrap_or_default();
        Self {
            symptom: view.diagnosis.map(|diagnosis| diagnosis.symptom.verdict),
            cause: root.map(|root| (root.id.clone(), root.title.clone(), root.verdict)),
            hit,
            total,
            firing: view.alerts.iter().filter(|alert| alert.status == AlertStatus::Firing).count(),
            critical: is_critical(view),
            resolved_after: view.resolved_at.map(|at| clock::human_duration(clock::between(view.started_at, at))),
            refired: view.refired,
        }
    }
}

/// Describes the changes in one line; `None` if there is none of interest.
pub fn changes(before: &ThreadState, now: &ThreadState, words: &Phrases) -> Option<Line> {
    let mut clauses = Vec::new();
    let flaps = now.refired >= FLAPS;
    let back = now.refired > before.refired;
    if back && flaps && before.refired < FLAPS {
        clauses.push(words.line("thread-flaps", &[("n", now.refired.into())]));
    } else if back && !flaps {
        clauses.push(words.line("thread-refired", &[]));
    }
    if let (None, Some(after)) = (&before.resolved_after, &now.resolved_after)
        && !flaps
    {
        clauses.push(words.line("thread-resolved", &[("duration", after.as_str().into())]));
    }
    if now.resolved_after.is_none() {
        clauses.extend(critical(before, now, words));
    }
    if now.resolved_after.is_none() && !back {
        clauses.extend(alerts(before, now, words));
    }
    // While an incident ends its evidence fades, and before the first diagnosis there is nothing to compare with.
    if now.resolved_after.is_none() && before.symptom.is_some() && now.symptom.is_some() {
        clauses.extend(symptom(before, now, words));
        clauses.extend(replicas(before, now, words));
        clauses.extend(cause(before, now, words));
    }
    let mut clauses = clauses.into_iter();
    let first = clauses.next()?;
    Some(clauses.fold(first, |line, clause| line.plain(", ").then(clause)).joined())
}

fn critical(before: &ThreadState, now: &ThreadState, words: &Phrases) -> Option<Line> {
    match (before.critical, now.critical) {
        (false, true) => Some(words.line("thread-critical", &[])),
        (true, false) => Some(words.line("thread-critical-over", &[])),
        _ => None,
    }
}

fn alerts(before: &ThreadState, now: &ThreadState, words: &Phrases) -> Option<Line> {
    let all = ("all", now.firing.into());
    match (before.firing, now.firing) {
        (was, is) if is > was => Some(words.line("thread-alerts-more", &[("n", (is - was).into()), all])),
        (was, is) if is < was => Some(words.line("thread-alerts-fewer", &[("n", (was - is).into()), all])),
        _ => None,
    }
}

fn symptom(before: &ThreadState, now: &ThreadState, words: &Phrases) -> Option<Line> {
    if before.symptom == now.symptom {
        return None;
    }
    let key = match now.symptom? {
        SymptomVerdict::Confirmed => "thread-confirmed",
        SymptomVerdict::Absent => "thread-absent",
        SymptomVerdict::NoData => "thread-no-data",
    };
    Some(words.line(key, &[]))
}

fn replicas(before: &ThreadState, now: &ThreadState, words: &Phrases) -> Option<Line> {
    // Without evidence, the affected replicas are unknown.
    if now.symptom != Some(SymptomVerdict::Confirmed) {
        return None;
    }
    let now_hit = [("hit", now.hit.into()), ("total", now.total.into())];
    let [hit, total] = now_hit;
    match (before.hit, now.hit) {
        (was, is) if is > was => Some(words.line("thread-replicas-more", &[("n", (is - was).into()), hit, total])),
        (was, is) if is < was => Some(words.line("thread-replicas-fewer", &[("n", (was - is).into()), hit, total])),
        _ => None,
    }
}

fn cause(before: &ThreadState, now: &ThreadState, words: &Phrases) -> Option<Line> {
    match (&before.cause, &now.cause) {
        (Some((was, _, sure)), Some((is, title, surer))) if was == is => {
            let grew = surer > sure && *surer == Verdict::Likely;
            grew.then(|| words.line("thread-cause-likely", &[("title", title.as_str().into())]))
        }
        (Some(_), Some((_, title, _))) => Some(words.line("thread-cause-now", &[("title", title.as_str().into())])),
        (None, Some((_, title, _))) => Some(words.line("thread-cause-found", &[("title", title.as_str().into())])),
        (Some(_), None) => Some(words.line("thread-cause-gone", &[])),
        (None, None) => None,
    }
}
