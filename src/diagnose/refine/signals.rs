//! The values of a list of signals for a scope, without a playbook.

use std::time::Duration;

use jiff::Timestamp;

use crate::ObserveResult;
use crate::judge::evidence::check;
use crate::observe::answer_cache::AnswerCache;
use crate::observe::observe_needs;
use crate::observe::plan::{Needs, SignalNeed};
use findings::{EvidenceResult, Request, Scope};
use knowledge::playbook::{Condition, Library};
use prom::Prometheus;

/// Queries the signals' values at one time, without a past; names that the catalog lacks are left out of the answer.
///
/// Answers before the deadline count, as in a diagnosis.
pub async fn observe_signals(
    library: &Library,
    prometheus: &Prometheus,
    scope: &Scope,
    signals: &[&str],
    at: Timestamp,
    window: Duration,
    deadline: Duration,
) -> ObserveResult {
    let request = Request::without_past(scope.clone(), at, window, deadline);
    let needs: Needs<'_> = signals.iter().map(|&signal| (signal, Default::default())).collect();
    observe_needs(library, prometheus, &request, &needs, AnswerCache::default()).await
}

/// Evaluates conditions on signals at the request's time, with shared queries and the past that the request allows; the
/// request's playbook is ignored. Returns the results in their order, and the errors.
pub async fn verify_all(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    checks: &[(&str, &Condition)],
) -> (Vec<EvidenceResult>, Vec<String>) {
    let mut needs = Needs::new();
    for (signal, when) in checks {
        needs.entry(signal).or_insert_with(|| SignalNeed::of(when)).add(SignalNeed::of(when));
    }
    let request = Request { screen: false, ..request.clone() };
    let observed = observe_needs(library, prometheus, &request, &needs, AnswerCache::default()).await;
    let results = checks.iter().map(|(signal, when)| check(library, signal, when, &observed.observations)).collect();
    (results, observed.problems)
}
