//! A signal relative to its driver: the time between tokens now, divided by what a batch of this size cost in the
//! hours before the incident.
//!
//! A decoding step produces one token for each running request and takes longer with more of them: about linearly
//! within the batches that a pool sees. A line through the pool's own hours gives the expected cost of today's batch;
//! the excess has another cause.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::observe::answer_cache::Hours;
use crate::observe::batch::{ask_range, pack};
use crate::observe::plan::{Needs, engines_reporting, filled, pruned};
use detect::{DetectionResult, MARGIN, PlannedQuery, QueryPurpose};
use findings::observation::{Observation, Observations};
use findings::trend::expected;
use findings::{Baseline, Request};
use knowledge::clock;
use knowledge::clock::Range;
use knowledge::playbook::Library;
use knowledge::signal::Against;
use prom::{Answer, Prometheus, Series};

/// The length of the time range before the incident.
const HOURS: Duration = Duration::from_secs(6 * 3_600);
/// Time between two points; load changes slowly.
const STEP: Duration = Duration::from_secs(900);
/// The reason for a missing value though Prometheus answered.
const TOO_LITTLE: &str =
    "the hours before the incident have too few points, or batches that are too different from now";
/// The reason for a missing value if Prometheus did not answer.
const NOT_ANSWERED: &str = "the hours before the incident were not answered in time, or not completely";

/// Returns the needed signals that have a driver, by name.
pub(crate) fn signals_with_driver<'a>(library: &'a Library, needs: &Needs<'a>) -> Vec<(&'a str, &'a Against)> {
    let against = |name: &&'a str| library.signals.get(*name).and_then(|signal| signal.against.as_ref());
    needs.keys().filter_map(|name| Some((*name, against(name)?))).collect()
}

/// Returns the needs extended by the signals that those with a driver are computed from.
pub(crate) fn with_sources<'a>(needs: &Needs<'a>, signals: &[(&'a str, &'a Against)]) -> Needs<'a> {
    let mut all = needs.clone();
    let sources = signals.iter().flat_map(|(_, against)| [&against.signal, &against.driver]);
    sources.for_each(|signal| _ = all.entry(signal).or_default());
    all
}

/// Builds the queries for the hours before, for the whole pool, each once.
fn plan_queries(
    library: &Library,
    request: &Request,
    detection: &DetectionResult,
    signals: &[(&str, &Against)],
) -> Vec<PlannedQuery> {
    let mut asks: Vec<PlannedQuery> = Vec::new();
    for signal in signals.iter().flat_map(|(_, against)| [&against.signal, &against.driver]) {
        for engine in engines_reporting(library, signal) {
            let query = engine.signals.get(signal).and_then(|entry| entry.query.as_deref());
            let engine_seen = detection.engines.iter().find(|engine_seen| engine_seen.engine == engine.engine);
            let (Some(query), Some(engine_seen)) = (query, engine_seen) else { continue };
            let ask = PlannedQuery {
                signal: signal.clone(),
                engine: engine.engine.clone(),
                purpose: QueryPurpose::Pool,
                query: filled(query, engine, engine_seen, request.window, &[]),
                at: request.at,
            };
            if !asks.contains(&ask) {
                asks.push(ask);
            }
        }
    }
    pruned(detection, asks)
}

/// Returns the range of hours before the incident.
fn range(request: &Request) -> Range {
    let start = request.since.unwrap_or(request.at).min(request.at);
    let to = clock::before(start, request.window.max(MARGIN));
    let step_seconds = i64::try_from(STEP.as_secs()).unwrap_or(i64::MAX);
    Range { from: clock::before(to, HOURS), to, step_seconds }
}

/// Queries the hours before, in one batch, and returns the number of queries as well. `None` if one of them was not
/// answered, or not completely: the line of a part of the pool is not the pool's. A signal that several engines report has no values: each engine has its own line.
pub(crate) async fn hours(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    detection: &DetectionResult,
    signals: &[(&str, &Against)],
    deadline: Instant,
) -> (Option<Hours>, usize) {
    let asks = match request.baseline {
        Baseline::Earlier(_) => plan_queries(library, request, detection, signals),
        Baseline::Off => Vec::new(),
    };
    let packs = pack(&asks, detection.replicas);
    let range = range(request);
    let answered = join_all(packs.iter().map(|pack| ask_range(prometheus, &asks, pack, range, deadline))).await;
    let mut hours = Hours::new();
    let mut engines_with_data: BTreeMap<&str, usize> = BTreeMap::new();
    let query_count = packs.len();
    let answered: Option<Vec<Arc<Answer<Series>>>> = answered.into_iter().flatten().collect();
    let complete = |all: &Vec<Arc<Answer<Series>>>| all.iter().all(|series| series.incomplete().is_none());
    let Some(answered) = answered.filter(complete) else { return (None, query_count) };
    for (i, series) in packs.into_iter().flatten().zip(answered) {
        let ask = &asks[i];
        let values = points(&series);
        if !values.is_empty() {
            *engines_with_data.entry(&ask.signal).or_default() += 1;
            hours.insert(ask.signal.clone(), values);
        }
    }
    hours.retain(|signal, _| engines_with_data.get(signal.as_str()) == Some(&1));
    (Some(hours), query_count)
}

fn points(series: &Arc<Answer<Series>>) -> BTreeMap<i64, f64> {
    series.iter().take(1).flat_map(|s| s.samples.iter().copied()).filter(|(_, value)| value.is_finite()).collect()
}

/// Adds the values of the signals with a driver; the hours are `None` if they were not answered.
pub(crate) fn add_ratios(signals: &[(&str, &Against)], hours: Option<&Hours>, observations: &mut Observations) {
    for (name, against) in signals {
        let now = |signal: &str| observations.signals.get(signal).and_then(|o| o.value);
        let past = |signal: &str| hours.and_then(|hours| hours.get(signal)).cloned().unwrap_or_default();
        let (of, by) = (past(&against.signal), past(&against.driver));
        let points: Vec<(f64, f64)> = by.iter().filter_map(|(at, x)| Some((*x, *of.get(at)?))).collect();
        let value = now(&against.signal).zip(now(&against.driver)).and_then(|(y, x)| Some(y / expected(&points, x)?));
        let query = observations.signals.get(&against.signal).and_then(|o| o.query.clone());
        let why = value.is_none().then(|| if hours.is_some() { TOO_LITTLE } else { NOT_ANSWERED }.to_owned());
        let answered = hours.is_some_and(|hours| !hours.is_empty());
        let sources = [&against.signal, &against.driver];
        let incomplete = sources.iter().find_map(|signal| observations.signals.get(*signal)?.incomplete.clone());
        let ratio = Observation { value, answered, incomplete, why, query, ..Observation::default() };
        observations.signals.insert((*name).to_owned(), ratio);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool whose steps take 10 ms and 1 ms for each running request.
    fn day() -> Vec<(f64, f64)> {
        (0..24).map(|i| 8.0 + f64::from(i)).map(|n| (n, 0.010 + 0.001 * n)).collect()
    }

    fn near(value: Option<f64>, expected: f64) {
        assert!(value.is_some_and(|value| (value / expected - 1.0).abs() < 0.05), "{value:?}, expected {expected}");
    }

    #[test]
    fn the_time_between_tokens_is_told_as_a_multiple_of_what_the_batch_costs() {
        let against = Against { signal: "itl_mean".to_owned(), driver: "running_per_replica".to_owned() };
        let series = |of: fn(&(f64, f64)) -> f64| day().iter().zip(0..).map(|(point, at)| (at, of(point))).collect();
        let hours: Hours =
            [("itl_mean".to_owned(), series(|p| p.1)), ("running_per_replica".to_owned(), series(|p| p.0))].into();
        let told = |itl: f64, batch: f64, hours: Option<&Hours>| {
            let mut seen = Observations::default();
            for (name, value) in [("itl_mean", itl), ("running_per_replica", batch)] {
                seen.signals.insert(name.to_owned(), Observation { value: Some(value), ..Observation::default() });
            }
            add_ratios(&[("itl_against_batch", &against)], hours, &mut seen);
            seen.signals["itl_against_batch"].clone()
        };
        near(told(0.040, 30.0, Some(&hours)).value, 1.0);
        near(told(0.080, 30.0, Some(&hours)).value, 2.0);
        for (hours, why) in [(Some(&Hours::new()), TOO_LITTLE), (None, NOT_ANSWERED)] {
            let nothing = told(0.040, 30.0, hours);
            assert_eq!((nothing.value, nothing.why.as_deref()), (None, Some(why)));
        }
    }
}
