//! The state of an incident, its symptom and its pool, each in a few words; together they are the headline.

use super::facts::{chain_summary, join_non_empty};
use super::{IncidentView, Phrases};
use findings::scope::pool_name;
use findings::{Scope, SymptomFound, SymptomVerdict};
use knowledge::alert::{Alert, Labels, active};
use knowledge::clip::clip;
use knowledge::clock;
use message::Tone;

/// Builds the headline, shown in the notification: state, symptom, pool and cause.
pub(super) fn line(view: &IncidentView<'_>, words: &Phrases) -> String {
    let why = view.diagnosis.map(|diagnosis| chain_summary(diagnosis, words)).unwrap_or_default();
    join_non_empty(&[state(view, words), symptom_or_alert_name(view), affected_pool(view), why])
}

/// Returns the severity of an incident.
pub(super) fn tone(view: &IncidentView<'_>) -> Tone {
    if view.resolved_at.is_some() {
        return Tone::Good;
    }
    match view.diagnosis.map(|d| d.symptom.verdict) {
        Some(SymptomVerdict::Absent) => Tone::Unknown,
        _ if is_critical(view) => Tone::Critical,
        _ if is_warning(view) => Tone::Warning,
        _ => Tone::Firing,
    }
}

/// Returns true if an active alert has the severity `warning`. A severity of `info`, an unknown one or none does not
/// count.
pub(super) fn is_warning(view: &IncidentView<'_>) -> bool {
    let warns = |alert: &&Alert| matches!(alert.labels.get("severity").map(String::as_str), Some("warning" | "warn"));
    active(view.alerts).iter().any(warns)
}

/// Returns true if an active alert is critical.
pub(super) fn is_critical(view: &IncidentView<'_>) -> bool {
    active(view.alerts).iter().any(|alert| alert.is_critical())
}

/// Returns the word for the state: resolved after a duration, critical, warning, or firing.
pub(super) fn state(view: &IncidentView<'_>, words: &Phrases) -> String {
    match (view.resolved_at, tone(view)) {
        (Some(at), _) => {
            let duration = clock::human_duration(clock::between(view.started_at, at)).into();
            words.text("state-resolved", &[("duration", duration)])
        }
        (None, Tone::Critical) => words.text("state-critical", &[]),
        (None, Tone::Warning) => words.text("state-warning", &[]),
        (None, Tone::Firing | Tone::Good | Tone::Unknown) => words.text("state-firing", &[]),
    }
}

/// Returns the title of the symptom; the alert's name if the symptom is unknown or absent.
pub(super) fn symptom_or_alert_name(view: &IncidentView<'_>) -> String {
    let there = |symptom: &&SymptomFound| symptom.verdict != SymptomVerdict::Absent && !symptom.playbook.is_empty();
    match view.diagnosis.map(|diagnosis| &diagnosis.symptom).filter(there) {
        Some(symptom) => symptom.title.clone(),
        None => active(view.alerts).first().map(|a| clip(a.name(), 80)).unwrap_or_default(),
    }
}

/// Returns the name of the affected pool.
pub(super) fn affected_pool(view: &IncidentView<'_>) -> String {
    clip(&pool_name(&pool_labels(view)), 120)
}

/// Returns the labels of the affected pool.
pub(super) fn pool_labels(view: &IncidentView<'_>) -> Labels {
    match view.diagnosis {
        Some(diagnosis) => diagnosis.scope.labels.clone(),
        None => Scope::of_alerts(view.alerts).dimensions,
    }
}
