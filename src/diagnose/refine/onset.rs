//! onset: the start of each piece of evidence, from the same queries over a range of time.
//!
//! The evidence's own condition is evaluated at each step, so that an onset has the same meaning as the evidence.
//! Evidence that held all along has no onset. Onsets break ties, for a cause does not begin after its effect, and
//! date the timeline. What held before the symptom began, with the value that it has now, did not begin it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::judge::evidence::{check, tells_of_change};
use crate::observe::batch;
use crate::observe::batch::{MANY_REPLICAS, ask_range};
use crate::observe::incident_range::{FINEST, incident_range};
use crate::observe::observe_result::ObserveResult;
use crate::observe::plan::{Needs, TRAFFIC, plan_for, pruned, reduced};
use crate::refine::ranges::{answered_ranges, observations_at};
use detect::{DetectionResult, PlannedQuery, QueryPurpose};
use findings::request::SHORTEST_WINDOW;
use findings::{Course, CourseStep, EvidenceResult, Judged, Observations, Outcome, Request};
use knowledge::clock;
use knowledge::clock::Range;
use knowledge::playbook::{Condition, Library};
use knowledge::signal::WorseDirection;
use prom::Prometheus;

/// The number of steps of which one is queried in a large pool.
const STEPS_OF_MANY: i64 = 4;
/// Number of the best chains that are traced.
const CHAINS: usize = 2;
/// Maximum wait for onsets: the message must not be delayed longer.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// The results of earlier traces of an incident.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    /// The conditions that were traced, by [`Observations::held_key`].
    keys: BTreeSet<String>,
    /// The moment at which the symptom began, if it was quiet before and the load stayed the same.
    began: Option<Timestamp>,
}

/// Finds the onsets of the evidence of the best chains that was not traced yet, and what was as it is now before the
/// symptom began; returns true if anything was found.
pub(crate) async fn trace(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    observed: &mut ObserveResult,
    judged: &Judged,
    traced: &mut Traced,
    deadline: Instant,
) -> bool {
    let mut checks = checks_to_trace(library, judged);
    checks.retain(|e| traced.keys.insert(held_key(e)));
    if checks.is_empty() {
        return false;
    }
    let load = check(library, TRAFFIC, &Condition::Present, &observed.observations);
    checks.extend(traced.keys.insert(held_key(&load)).then(|| load.clone()));
    // A shorter window blurs less; all share it, so that their order stays. Recorded series have their own.
    let recorded = checks.iter().any(|e| observed.detection.recorded.has(&e.signal));
    let window = if recorded { request.window } else { request.window.min(SHORTEST_WINDOW) };
    let sharp = Request { window, ..request.clone() };
    let asks = plan_queries(library, &sharp, &observed.detection, &checks);
    if asks.is_empty() {
        return false;
    }
    let is_large = observed.members.replicas() > MANY_REPLICAS;
    let range = if is_large { coarser(incident_range(request), STEPS_OF_MANY) } else { incident_range(request) };
    let deadline = deadline.min(Instant::now() + PATIENCE);
    let packs = batch::pack(&asks, observed.members.replicas());
    observed.queries += packs.len();
    let asking = packs.iter().map(|pack| ask_range(prometheus, &asks, pack, range, deadline)).collect();
    let answered = batch::light_first(&asks, &packs, asking, deadline).await;
    let answered = answered_ranges(&asks, &packs, answered);
    let moments: Vec<(Timestamp, Observations)> = range
        .steps()
        .map(|at| {
            let mut observations = observations_at(library, &observed.members, &answered, at);
            for (signal, o) in &mut observations.signals {
                o.baseline = observed.observations.signals.get(signal).and_then(|now| now.baseline);
            }
            (at, observations)
        })
        .collect();
    let mut courses: BTreeMap<String, Course> = BTreeMap::new();
    for e in checks {
        let Ok(when) = e.when.parse::<Condition>() else { continue };
        let step = |(at, observations): &(Timestamp, Observations)| {
            let e = check(library, &e.signal, &when, observations);
            CourseStep { at: *at, outcome: e.outcome, value: e.value }
        };
        let course = Course(moments.iter().map(step).collect());
        if let Some(since) = course.began() {
            let entries = observed.detection.pool(library).filter_map(|(engine, _)| engine.signals.get(&e.signal));
            let own = entries.filter_map(|entry| entry.own_window()).max().unwrap_or(window);
            let since = began(library, &e.signal, since, own);
            observed.observations.held_since.insert(held_key(&e), since);
        }
        courses.insert(held_key(&e), course);
    }
    observed.observations.held_step_seconds = range.step_seconds;
    let of_symptom = |key: &str| judged.evidence.iter().any(|e| held_key(e) == key);
    if let Some(load) = courses.get(&held_key(&load)) {
        let falls = |signal: &str| library.signals.get(signal).is_some_and(|signal| signal.bad == WorseDirection::Low);
        let symptom = judged.evidence.iter().filter_map(|e| courses.get(&held_key(e))?.quiet_until(falls(&e.signal)));
        // An old incident may get worse later, and more load may reveal an older fault: then the symptom did not begin there.
        let is_beginning = |at: &Timestamp| request.since.is_none_or(|since| *at <= since) && load.is_flat(*at);
        traced.began = symptom.into_iter().find(is_beginning);
    }
    if let Some(began) = traced.began {
        let as_before = courses.iter().filter(|(key, course)| !of_symptom(key) && course.is_as_before(began));
        observed.observations.as_before.extend(as_before.map(|(key, _)| key.clone()));
    }
    !observed.observations.held_since.is_empty() || !observed.observations.as_before.is_empty()
}

fn held_key(e: &EvidenceResult) -> String {
    Observations::held_key(&e.signal, &e.when)
}

/// Returns the moment at which a signal's condition began that is seen since `since`: a standstill is seen only after a
/// whole window of its query in which nothing moved.
fn began(library: &Library, signal: &str, since: Timestamp, window: Duration) -> Timestamp {
    let is_standstill = library.signals.get(signal).is_some_and(|signal| signal.standstill);
    if is_standstill { clock::before(since, window) } else { since }
}

/// Returns true if the incident began within the request's window, as far as its alert tells.
pub(crate) fn is_young(request: &Request) -> bool {
    request.window > SHORTEST_WINDOW
        && request.since.is_some_and(|since| clock::between(since, request.at) < request.window)
}

/// Returns the window of an incident that began within the request's window, no shorter than that of a step; `None` for
/// an older one.
pub(crate) fn young_window(request: &Request, began: Timestamp) -> Option<Duration> {
    let age = clock::between(began, request.at);
    let window = Duration::from_secs(age.as_secs().next_multiple_of(FINEST)).max(SHORTEST_WINDOW);
    (window < request.window).then_some(window)
}

/// Builds the queries; by replica only if replicas are compared with each other.
fn plan_queries(
    library: &Library,
    request: &Request,
    detection: &DetectionResult,
    checks: &[EvidenceResult],
) -> Vec<PlannedQuery> {
    let mut needs = Needs::new();
    for (signal, when) in checks.iter().filter_map(|e| Some((e.signal.as_str(), e.when.parse::<Condition>().ok()?))) {
        needs.entry(signal).or_default().replicas |= when.needs_peers();
    }
    let mut asks = plan_for(library, request, detection, &needs).queries;
    asks.retain(|ask| !ask.signal.is_empty() && matches!(ask.purpose, QueryPurpose::Replicas | QueryPurpose::Pool));
    let planned: Vec<(String, QueryPurpose)> = asks.iter().map(|ask| (ask.signal.clone(), ask.purpose)).collect();
    for ask in
        asks.iter_mut().filter(|ask| ask.purpose == QueryPurpose::Replicas && !needs[ask.signal.as_str()].replicas)
    {
        // Values of several engines are combined by replica, and rows of other pools are excluded by it.
        let alone = planned.iter().filter(|(signal, _)| *signal == ask.signal).count() == 1;
        let own = library.engines.get(&ask.engine).is_some_and(|engine| engine.kind.is_pool());
        let signal = library.signals.get(&ask.signal).filter(|_| alone && own);
        let engine = library.engines.get(&ask.engine);
        let recorded = || detection.recorded.query(engine?, &ask.signal, QueryPurpose::Pool, request.window);
        let query = signal.and_then(|signal| recorded().or_else(|| reduced(signal.fleet, &ask.query)));
        if let Some(query) = query {
            (ask.purpose, ask.query) = (QueryPurpose::Pool, query);
        }
    }
    pruned(detection, asks)
}

/// Returns the met evidence along the best chains; checks for mere presence or absence have no onset.
fn checks_to_trace(library: &Library, judged: &Judged) -> Vec<EvidenceResult> {
    let along = judged.chains.iter().take(CHAINS).flatten().filter_map(|id| judged.causes.get(id));
    let all = judged.evidence.iter().chain(along.flat_map(|judgement| &judgement.evidence));
    let telling = all.filter(|e| e.outcome == Outcome::Met && e.value.is_some() && tells_of_change(library, e));
    let by_key: BTreeMap<String, &EvidenceResult> = telling.map(|e| (held_key(e), e)).collect();
    by_key.into_values().cloned().collect()
}

/// Returns the range with one of so many of its steps; the last one stays.
fn coarser(range: Range, of: i64) -> Range {
    let step_seconds = of * range.step_seconds.max(1);
    let steps = (range.to.as_second() - range.from.as_second()) / step_seconds;
    let before = Duration::from_secs(u64::try_from(steps * step_seconds).unwrap_or_default());
    Range { from: clock::before(range.to, before), step_seconds, ..range }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::incident_range::STEPS;

    #[test]
    fn a_standstill_began_a_window_before_it_is_seen() {
        let library = knowledge::playbook::load(None).unwrap();
        let (since, window) = (Timestamp::from_second(10_000).unwrap(), Duration::from_secs(180));
        let earlier = |signal| since.as_second() - began(&library, signal, since, window).as_second();
        assert_eq!(["stalled_requests", "replicas_idle"].map(earlier), [180, 180]);
        assert_eq!(earlier("requests_waiting"), 0, "other signals show a change at once");
    }

    #[test]
    fn a_young_incident_has_the_window_since_its_onset_and_no_shorter_one_than_a_step() {
        let request = Request { window: Duration::from_secs(300), ..crate::judge::steps::tests::request(&[]) };
        let of = |ago: u64| {
            let began = clock::before(request.at, Duration::from_secs(ago));
            young_window(&request, began).map(|window| window.as_secs())
        };
        assert_eq!([of(40), of(200), of(280), of(900)], [Some(120), Some(210), None, None]);
    }

    #[test]
    fn a_range_ends_at_the_judged_moment_and_has_few_steps() {
        let at = Timestamp::from_second(1_790_000_000).unwrap();
        let (window, deadline) = (Duration::from_secs(300), Duration::from_secs(5));
        let mut request = Request::without_past(findings::Scope::default(), at, window, deadline);
        for ago in [0, 600, 86_400] {
            request.since = Some(clock::before(at, Duration::from_secs(ago)));
            let range = incident_range(&request);
            let moments: Vec<Timestamp> = range.steps().collect();
            assert_eq!(moments.last(), Some(&at));
            assert!(moments.len() as u64 <= STEPS + 1, "{}", moments.len());
            let fewer: Vec<Timestamp> = coarser(range, 4).steps().collect();
            assert_eq!(fewer.last(), Some(&at));
            assert_eq!(fewer.len(), moments.len().div_ceil(4));
        }
    }
}
