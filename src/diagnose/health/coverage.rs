//! Coverage: the signals that a Prometheus has, and the playbooks that are limited without the others.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use crate::{ObserveResult, observe_signals};
use findings::health::{Coverage, CoverageLimit, PlaybookCoverage, SignalAvailability, SignalCoverage};
use findings::{EngineFound, Observation, Scope};
use knowledge::playbook::{Condition, Evidence, Library, Playbook};
use prom::Prometheus;

/// Queries every signal of the catalog that comes from metrics, over the whole fleet.
pub async fn coverage(
    library: &Library,
    prometheus: &Prometheus,
    at: Timestamp,
    window: Duration,
    deadline: Duration,
) -> Coverage {
    let metrics = library.signals.iter().filter(|(_, signal)| !signal.is_extra());
    let all: Vec<&str> = metrics.map(|(name, _)| name.as_str()).collect();
    let observed = observe_signals(library, prometheus, &Scope::default(), &all, at, window, deadline).await;
    let signals: Vec<SignalCoverage> = all.iter().map(|signal| covered(library, &observed, signal)).collect();
    let missing: BTreeSet<&str> =
        signals.iter().filter(|s| s.answer == SignalAvailability::Missing).map(|s| s.signal.as_str()).collect();
    let mut playbooks: Vec<PlaybookCoverage> =
        library.playbooks.values().filter_map(|p| sight(library, p, &missing)).collect();
    playbooks.sort_by(|a, b| (a.eyes, &a.playbook).cmp(&(b.eyes, &b.playbook)));
    let engines = observed.detection.engines.into_iter();
    Coverage {
        prometheus: prometheus.name.clone(),
        engines: engines
            .map(|e| EngineFound { engine: e.engine, at_least: e.version.map(|v| v.to_string()) })
            .collect(),
        signals,
        playbooks,
        problems: observed.problems,
        degraded: observed.degraded,
    }
}

fn covered(library: &Library, observed: &ObserveResult, signal: &str) -> SignalCoverage {
    let nothing = Observation::default();
    let o = observed.observations.signals.get(signal).unwrap_or(&nothing);
    let has_value = o.value.is_some() || !o.replicas.is_empty();
    let entries = observed.detection.engines.iter().filter_map(|e| library.engines.get(&e.engine)?.signals.get(signal));
    let feature = entries.filter_map(|entry| entry.feature.as_deref()).next();
    // What is not seen may be in the part that is missing: then nothing is known of it, nor is anything to be turned on.
    let is_known = o.incomplete.is_none();
    let answer = match (has_value, feature.filter(|_| o.answered && is_known)) {
        (true, _) => SignalAvailability::Answers,
        (false, Some(_)) => SignalAvailability::Unused,
        (false, None) => SignalAvailability::Missing,
    };
    let why = match (answer, feature) {
        (SignalAvailability::Answers, _) => None,
        (SignalAvailability::Unused, Some(feature)) => Some(format!("only with {feature}")),
        (SignalAvailability::Missing, _) if o.answered && o.enable.is_none() && is_known => {
            Some("no series: nothing of the kind happened within the window, or this version lacks it".to_owned())
        }
        (SignalAvailability::Unused | SignalAvailability::Missing, _) => {
            Some(o.why.clone().unwrap_or_else(|| "it was not asked".to_owned()))
        }
    };
    let title = library.signals.get(signal).map_or(signal, |s| s.title.as_str()).to_owned();
    let enable = o.enable.clone().filter(|_| !has_value && is_known);
    SignalCoverage { signal: signal.to_owned(), title, answer, why, enable }
}

/// Returns the signals that a playbook lacks for its symptom and for its own causes; referenced playbooks are covered
/// by themselves.
fn sight(library: &Library, playbook: &Playbook, missing: &BTreeSet<&str>) -> Option<PlaybookCoverage> {
    let own = playbook.causes.iter().filter(|entry| entry.playbook.is_none());
    let below = own.filter_map(|entry| library.node(entry)).flat_map(|node| node.evidence);
    let lacking = |evidence: &Evidence| -> Vec<String> {
        let checks = evidence.checks().into_iter().filter(|(signal, _)| missing.contains(signal));
        checks.map(|(signal, _)| signal.to_owned()).collect()
    };
    // An entry is blind if all of its metrics are missing and it does not hold without them. Extra signals, such as those
    // of logs, do not count: a diagnosis may have them. An entry of these alone is never blind.
    let blind = |evidence: &Evidence| {
        let extra = |signal: &str| library.signals.get(signal).is_some_and(|signal| signal.is_extra());
        let mut metrics = evidence.checks().into_iter().filter(|(signal, _)| !extra(signal)).peekable();
        metrics.peek().is_some() && metrics.all(|(signal, when)| missing.contains(signal) && *when != Condition::NoData)
    };
    let symptom = &playbook.symptom;
    let must = symptom.iter().any(|evidence| evidence.required && blind(evidence));
    let lacks: BTreeSet<String> = symptom.iter().chain(below).flat_map(lacking).collect();
    let eyes = if must || symptom.iter().all(blind) { CoverageLimit::Blind } else { CoverageLimit::HalfBlind };
    (!lacks.is_empty()).then(|| PlaybookCoverage {
        playbook: playbook.playbook.clone(),
        title: playbook.title.clone(),
        eyes,
        missing: lacks.into_iter().collect(),
    })
}
