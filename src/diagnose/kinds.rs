//! The kinds of a pool: declared in the configuration, else inferred from its data.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::ObserveResult;
use crate::direct::{Exporters, observe_needs_with_exporters};
use crate::judge::symptom;
use crate::observe::answer_cache::AnswerCache;
use crate::observe::plan::Needs;
use findings::{EvidenceResult, Observations, Outcome, PastKind, Request, SymptomVerdict};
use knowledge::playbook::{Evidence, Library, Playbook, PlaybookKind, PoolKind, Severity};
use prom::Prometheus;

/// Observes a pool, learns its kinds, and observes what the limits of these kinds need as well. Returns the library with these
/// limits too.
pub(crate) async fn observe_by_kind<'a>(
    library: &'a Library,
    prometheus: &Prometheus,
    request: &Request,
    needs: impl Fn(&'a Library) -> Needs<'a>,
    exporters: Option<&Exporters>,
    cache: AnswerCache,
) -> (&'a Library, ObserveResult) {
    let started = Instant::now();
    let wanted = with_kinds(library, needs(library));
    let mut observed =
        Box::pin(observe_needs_with_exporters(library, prometheus, request, &wanted, exporters, cache)).await;
    let kinds = kinds_of(library, &request.scope.dimensions, &observed.observations);
    let own = library.of_kinds(&kinds);
    if !std::ptr::eq(own, library) {
        let wanted = with_kinds(own, needs(own));
        let cache = observed.cache.clone();
        let left = request.deadline.saturating_sub(started.elapsed());
        let request = Request { deadline: left, ..request.clone() };
        observed = Box::pin(observe_needs_with_exporters(own, prometheus, &request, &wanted, exporters, cache)).await;
    }
    let is_young = observed.detection.past.is_some_and(|past| past.kind == PastKind::SinceStart);
    if is_young && was_hurt_as_now(own, &observed.observations) {
        observed.detection.past = None;
        observed.observations.forget_past();
        let why = "since the pool started its users are hurt as now: that is no past to compare with";
        observed.detection.notes.push(why.to_owned());
    }
    let found = || kinds.iter().filter_map(|place| library.kinds.kinds.get(*place));
    observed.kinds = found().map(|kind| kind.kind.clone()).collect();
    let is_declared = library.declared_kind(&request.scope.dimensions).is_some();
    let judged_as = |kind: &PoolKind| match is_declared {
        true => format!("judged as a pool of the kind `{}`, as `pools:` of the configuration says", kind.kind),
        false => format!(
            "judged as a pool of the kind `{}`: {}. If that is wrong, name its kind under `pools:` of the configuration",
            kind.kind, kind.title
        ),
    };
    observed.detection.notes.extend(found().filter(|kind| kind.moves_limits()).map(judged_as));
    (own, observed)
}

/// Returns true if the past confirms a symptom that pages, by a value that is no more than doubled now.
fn was_hurt_as_now(library: &Library, seen: &Observations) -> bool {
    let past = seen.of_past();
    let pages = |playbook: &&Playbook| playbook.alerts.iter().any(|alert| alert.severity == Severity::Critical);
    let is_alike = |check: &EvidenceResult| {
        let now = seen.signals.get(&check.signal).and_then(|now| now.value);
        check.outcome == Outcome::Met && check.value.zip(now).is_some_and(|(then, now)| now <= 2.0 * then)
    };
    library.of_kind(PlaybookKind::Symptom).filter(pages).any(|playbook| {
        let (checks, verdict) = symptom(library, &playbook.symptom, &past);
        verdict == SymptomVerdict::Confirmed && checks.iter().any(is_alike)
    })
}

/// Returns the needs extended by the signals that tell kinds; none of them needs a past.
fn with_kinds<'a>(library: &'a Library, mut needs: Needs<'a>) -> Needs<'a> {
    let checks = library.kinds.kinds.iter().flat_map(|kind| &kind.when).flat_map(Evidence::checks);
    checks.for_each(|(signal, _)| _ = needs.entry(signal).or_default());
    needs
}

/// Returns the kinds of a pool by their places in `kinds.yaml`; a declared kind needs no data.
fn kinds_of(library: &Library, pool: &BTreeMap<String, String>, observations: &Observations) -> Vec<usize> {
    let declared = library.declared_kind(pool);
    let holds = |kind: &PoolKind| match declared {
        Some(name) => name == kind.kind,
        None => symptom(library, &kind.when, observations).1 == SymptomVerdict::Confirmed,
    };
    let kinds = library.kinds.kinds.iter().enumerate();
    kinds.filter(|(_, kind)| holds(kind)).map(|(place, _)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use findings::Observation;

    fn kinds(library: &Library, values: &[(&str, f64)]) -> Vec<String> {
        let mut seen = Observations::default();
        for (name, value) in values {
            let observation = Observation { value: Some(*value), answered: true, ..Observation::default() };
            seen.signals.insert((*name).to_owned(), observation);
        }
        let found = kinds_of(library, &BTreeMap::new(), &seen);
        found.into_iter().map(|place| library.kinds.kinds[place].kind.clone()).collect()
    }

    #[test]
    fn data_tells_the_kinds_and_nothing_is_guessed_without() {
        let library = knowledge::playbook::load(None).unwrap();
        let of = |values: &[(&str, f64)]| kinds(&library, values);
        let (prompt, answer) = ("prompt_tokens_usual", "generation_tokens_usual");
        assert!(of(&[]).is_empty());
        assert_eq!(of(&[(prompt, 900.0), (answer, 300.0)]), ["chat"]);
        assert_eq!(of(&[(prompt, 900.0), (answer, 0.0)]), ["embedding"]);
        assert_eq!(of(&[(prompt, 900.0), (answer, 5_000.0)]), ["long reasoning"]);
        assert_eq!(of(&[(prompt, 50_000.0), (answer, 2_000.0)]), ["reasoning", "very long context"]);
        assert_eq!(of(&[(prompt, 900.0), (answer, 300.0), ("backlog_of_day", 4.0)]), ["batch", "chat"]);
        assert_eq!(of(&[("engines_awake", 0.0)]), ["asleep"]);
        assert_eq!(of(&[("prefill_pool_waiting", 2.0), ("decode_pool_waiting", 0.0)]), ["prefill and decode"]);
    }
}
