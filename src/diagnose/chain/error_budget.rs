//! The error budget of a symptom's objective, from the series that `generate rules --config` records.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::{Instrument, debug_span};

use super::seen::Seen;
use crate::judge;
use crate::observe::batch::{pack, query_all};
use crate::observe::recorded::scope;
use detect::{DetectionResult, PlannedQuery, QueryPurpose};
use findings::{ErrorBudget, Request};
use knowledge::clock;
use knowledge::playbook::{Library, Promise};
use knowledge::signal::{Matcher, budget, matchers};
use prom::Prometheus;

/// The time that an error budget is said to be spent in where the start of the incident is unknown.
const UNKNOWN_START: Duration = Duration::from_secs(3_600);
/// Maximum wait: a month of samples may be slow to read, and the message must not be delayed for it.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Minimum time that the recorded data cover: of less, the share of one late request says nothing.
const LEAST_REACH: Duration = Duration::from_secs(3_600);
/// Share of the requests by which a count of violations may be off.
const TOLERANCE: f64 = 0.01;
/// Minimum time that is called spent: one sample's.
const SHORTEST: Duration = budget::STEP;
/// The time up to which samples are added up each minute; they overlap then, and the sum is exact to a minute.
const BY_MINUTE: Duration = Duration::from_secs(86_400);

/// Adds the error budget of the request's playbook, since the onset of the symptom.
pub(super) async fn add_error_budget(seen: &mut Seen<'_>, pool: &Library, prometheus: &Prometheus, deadline: Instant) {
    let onset = seen.judged.as_ref().and_then(|judged| Some(judge::onset(&judged.evidence)?.0));
    let since = onset.into_iter().chain(seen.request.since).min().unwrap_or(seen.request.at - UNKNOWN_START);
    let asked = error_budget(pool, prometheus, &seen.request, &seen.observed.detection, since, deadline);
    let (budget, queries) = Box::pin(asked).instrument(debug_span!("budget")).await;
    seen.observed.error_budget = budget;
    seen.observed.queries += queries;
}

/// Queries the error budget of the request's playbook, and returns the number of requests to Prometheus as well; `None`
/// without an objective or without data.
async fn error_budget(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    detection: &DetectionResult,
    since: Timestamp,
    deadline: Instant,
) -> (Option<ErrorBudget>, usize) {
    let Some((signal, promise)) = library.promised_signal(&request.playbook) else { return (None, 0) };
    let Some(pool) = pool(library, detection, signal) else { return (None, 0) };
    let own = [Matcher::one(budget::SLI, budget::sli(signal)), Matcher::one(budget::SLO, &promise.text())];
    let asks = queries(&matchers(&[&pool[..], &own].concat()), clock::between(since, request.at));
    let asks = asks.map(|query| PlannedQuery::about_pool("", QueryPurpose::Pool, query, request.at));
    let answers = query_all(prometheus, &asks, 0, deadline.min(Instant::now() + PATIENCE)).await;
    // Sums of a part of the data are no budget.
    let complete = |i: usize| answers.get(i)?.as_ref().ok().filter(|rows| rows.incomplete().is_none());
    let number = |i: usize| complete(i)?.first().map(|row| row.value).filter(|n| n.is_finite());
    let numbers = || Some([number(0)?, number(1)?, number(2)?, number(3)?]);
    (numbers().and_then(|numbers| of_numbers(&promise, numbers, since, request.at)), pack(&asks, 0).len())
}

/// Returns the pool as matchers on recorded series, from the first engine that tells the signal; `None` if its series
/// cannot be named so.
fn pool(library: &Library, detection: &DetectionResult, signal: &str) -> Option<Vec<Matcher>> {
    let engines = detection.engines.iter().filter_map(|seen| Some((library.engines.get(&seen.engine)?, seen)));
    let tells = engines.filter(|(engine, _)| engine.signals.get(signal).is_some_and(|entry| entry.query.is_some()));
    tells.filter_map(|(engine, seen)| scope(engine, seen)).next()
}

/// Builds the queries: requests and violations of the budget's time, violations of the incident, the first sample.
fn queries(own: &str, took: Duration) -> [String; 4] {
    let sum = |series: &str, window: Duration, step: u64| {
        let samples = budget::STEP.as_secs() / step;
        format!("sum(sum_over_time({series}{{{own}}}[{}s:{step}s])) / {samples}", window.as_secs())
    };
    let took = took.clamp(SHORTEST, budget::WINDOW);
    let step = if took <= BY_MINUTE { 60 } else { budget::STEP.as_secs() };
    let (all, whole) = (budget::WINDOW, budget::STEP.as_secs());
    [
        sum(budget::REQUESTS, all, whole),
        sum(budget::VIOLATIONS, all, whole),
        sum(budget::VIOLATIONS, took, step),
        format!("min(min_over_time(timestamp({}{{{own}}})[{}s:{whole}s]))", budget::REQUESTS, all.as_secs()),
    ]
}

/// Computes the budget from the answers; `None` without requests.
fn of_numbers(promise: &Promise, numbers: [f64; 4], since: Timestamp, at: Timestamp) -> Option<ErrorBudget> {
    let [requests, violations, of_incident, first] = numbers;
    let allowed = requests * promise.allowed();
    // The subquery's first step is up to a step after the window's start.
    let reach = (at.as_second() as f64 - first).max(0.0) + budget::STEP.as_secs_f64();
    // Violations and requests are sums of different extrapolated series: where all requests fail, either may be larger.
    let tolerance = requests * TOLERANCE + 1.0;
    // A site's own query may count what is no request.
    let is_counted = violations >= -1.0 && of_incident >= -1.0 && violations <= requests + tolerance;
    let violations = violations.clamp(0.0, requests.max(0.0));
    let of_incident = of_incident.max(0.0);
    let begin = Timestamp::from_second(first as i64).unwrap_or(since);
    (allowed > 0.0 && requests >= 1.0 && is_counted && reach >= LEAST_REACH.as_secs_f64()).then(|| ErrorBudget {
        // Added up in other steps, it may exceed the whole by a sample.
        spent: of_incident.min(violations) / allowed,
        since: since.max(begin).min(at),
        left: 1.0 - violations / allowed,
        covers_seconds: (reach.min(budget::WINDOW.as_secs_f64())) as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use knowledge::signal::Term;

    #[test]
    fn a_budget_is_a_share_of_the_requests_that_were_there() {
        let promise = Promise { term: Term::Ttft, share: 0.99, within_seconds: Some(1.0) };
        let at: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
        let since: Timestamp = "2026-02-28T23:20:00Z".parse().unwrap();
        let first = at.as_second() as f64 - 3.0 * 86_400.0;
        let budget = |numbers| of_numbers(&promise, numbers, since, at);
        let own = budget([100_000.0, 280.0, 80.0, first]).unwrap();
        assert!((own.spent - 0.08).abs() < 1e-9 && (own.left - 0.72).abs() < 1e-9, "{own:?}");
        assert_eq!((own.since, own.covers_seconds), (since, 3 * 86_400 + 300));
        let spent = budget([100_000.0, 1_400.0, 900.0, 0.0]).unwrap();
        assert!((spent.left + 0.4).abs() < 1e-9 && spent.covers_seconds == 30 * 86_400, "{spent:?}");
        assert_eq!(budget([0.0, 0.0, 0.0, first]), None);
        let now = at.as_second() as f64;
        assert_eq!(budget([1_000.0, 500.0, 500.0, now - 600.0]), None, "ten minutes of data");
        assert_eq!(budget([1_000.0, -500.0, 0.0, first]), None, "no count of requests");
        assert_eq!(budget([1_000.0, 1_500.0, 0.0, first]), None);
        let outage = budget([1_000.0, 1_000.000_1, 1_000.0, first]).unwrap();
        assert_eq!((outage.spent, outage.left), (100.0, -99.0), "all requests failed");
        assert_eq!(budget([1_000.0, -1e-9, -1e-9, first]).map(|own| (own.spent, own.left)), Some((0.0, 1.0)));
    }

    #[test]
    fn a_long_incident_is_added_up_in_coarser_steps_and_a_short_one_has_a_sample() {
        let of_incident = |took| queries("slo=\"x\"", Duration::from_secs(took))[2].clone();
        let query = |window, step, samples| {
            format!("sum(sum_over_time(llm:slo_violations:increase5m{{slo=\"x\"}}[{window}s:{step}s])) / {samples}")
        };
        assert_eq!(of_incident(20), query(300, 60, 5));
        assert_eq!(of_incident(2_400), query(2_400, 60, 5));
        assert_eq!(of_incident(200_000), query(200_000, 300, 1));
    }
}
