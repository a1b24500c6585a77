//! The recorded series `llm:<signal>` of a pool: with the generated rules loaded, the series of all its replicas need
//! not be read again.
//!
//! They are used only if they are about this pool alone, are fresh, have the request's rate window, and reach back as
//! far as the diagnosis. A recorded value is as old as the last evaluation of its rule: usually a minute, at most
//! [`MAX_SAMPLE_AGE`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::observe::batch::{pack, query_all};
use crate::observe::incident_range::incident_range;
use detect::{DetectionResult, EngineSeen, PlannedQuery, PoolSeries, QueryPurpose, RecordedSeries};
use findings::Request;
use knowledge::alert::Labels;
use knowledge::clock;
use knowledge::playbook::Library;
use knowledge::signal::{
    Engine, Matcher, RECORDED_POOL, RECORDED_WINDOW, matchers, prometheus_duration, recorded_name,
};
use prom::{MetricNames, Prometheus, Row};

/// Maximum age of a recorded sample: rules are usually evaluated every minute, an older one is no longer recorded.
const MAX_SAMPLE_AGE: Duration = Duration::from_secs(150);

/// The signal that represents all that are recorded by replica: each of them has as many series as there are replicas,
/// and the rules of one file record all of an engine's or none.
const SAMPLE: &str = "requests_running";

/// Finds the recorded series of the detected pool, and returns the number of queries as well; none if their window is
/// not the request's.
pub(crate) async fn find_recorded(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    detection: &DetectionResult,
    deadline: Instant,
) -> (RecordedSeries, usize) {
    let scopes =
        detection.pool(library).filter_map(|(engine, engine_seen)| Some((engine, scope(engine, engine_seen)?)));
    let scopes: Vec<(&Engine, Vec<Matcher>)> = scopes.collect();
    let past = detection.past.iter().flat_map(|past| [past.begins(), past.at]);
    let moments: Vec<Timestamp> = [request.at, incident_range(request).from].into_iter().chain(past).collect();
    let ask = |engine: &Engine, query: String| {
        PlannedQuery::about_pool(&engine.engine, QueryPurpose::Pool, query, request.at)
    };
    // Replicas are read now and over the range of onsets, never in the past.
    let looked_at = moments.iter().map(|at| (false, at)).chain(moments.iter().take(2).map(|at| (true, at)));
    let looked_at: Vec<(bool, Duration)> =
        looked_at.map(|(by_replica, at)| (by_replica, clock::between(*at, request.at))).collect();
    let asks = scopes.iter().flat_map(|(engine, scope)| {
        let has_sample = !replica_names(library, engine, &detection.names).is_empty();
        let signal = |by_replica| if by_replica && has_sample { SAMPLE } else { "[a-z0-9_]+" };
        let window = format!("max({RECORDED_WINDOW}{{engine=\"{}\"}})", engine.engine);
        let presence_queries = looked_at
            .iter()
            .map(|(by_replica, ago)| presence_query(engine, scope, signal(*by_replica), *by_replica, *ago));
        presence_queries.chain([window]).map(|query| ask(engine, query)).collect::<Vec<_>>()
    });
    let asks: Vec<PlannedQuery> = asks.collect();
    if asks.is_empty() {
        return (RecordedSeries::default(), 0);
    }
    let answers = query_all(prometheus, &asks, 0, deadline).await;
    let mut recorded = RecordedSeries { window: request.window, ..RecordedSeries::default() };
    for ((engine, _), answers) in scopes.iter().zip(answers.chunks(looked_at.len() + 1)) {
        let answers = answers.iter().map(|answer| answer.as_deref().map_or(&[][..], |rows| &rows[..]));
        let answers: Vec<&[Row]> = answers.collect();
        let [presence @ .., replicas, replicas_before, window] = answers.as_slice() else { continue };
        if window.first().is_none_or(|row| row.value != request.window.as_secs_f64()) {
            continue;
        }
        let presence: Vec<_> = presence.iter().map(|rows| by_name(rows)).collect();
        let names = replica_names(library, engine, &detection.names);
        let replicas = expand(by_name(replicas), &names);
        let replicas_before = expand(by_name(replicas_before), &names);
        // The rules of replicas are in the group of the pool's: if those are not fresh, neither are these.
        if presence[0].is_empty() {
            continue;
        }
        for (name, rows) in presence[0].iter().chain(&replicas) {
            // Quantiles of several pools cannot be combined.
            let [pool] = rows.as_slice() else { continue };
            let is_there = |moments: &[BTreeMap<&str, Vec<&Labels>>]| moments.iter().all(|m| m.get(name) == Some(rows));
            let was_there = match replicas.contains_key(name) {
                true => replicas_before.get(name) == Some(rows),
                false => is_there(&presence[1..2]),
            };
            if is_burn(library, name) || !was_there {
                continue;
            }
            let own = RECORDED_POOL.iter().map(|(_, label)| (*label, pool.get(*label).map_or("", String::as_str)));
            let own = own.chain([("engine", engine.engine.as_str())]);
            let matchers = own.map(|(label, value)| Matcher::one(label, value)).collect();
            let has_past = presence.len() > 2 && is_there(&presence[2..]);
            recorded.series.insert((engine.engine.clone(), (*name).to_owned()), PoolSeries { matchers, has_past });
        }
    }
    (recorded, pack(&asks, 0).len())
}

/// Groups the pools by recorded series.
fn by_name(rows: &[Row]) -> BTreeMap<&str, Vec<&Labels>> {
    let mut by_name: BTreeMap<&str, Vec<&Labels>> = BTreeMap::new();
    for row in rows {
        by_name.entry(row.labels.get("__name__").map_or("", String::as_str)).or_default().push(&row.labels);
    }
    by_name
}

/// Returns the recorded series of an engine's replicas that Prometheus has; empty if its metrics are not known, or if
/// the sample is not among them.
fn replica_names(library: &Library, engine: &Engine, names: &MetricNames) -> Vec<String> {
    let sample = recorded_name(SAMPLE, true);
    let has_query = |signal: &str| engine.signals.get(signal).is_some_and(|entry| entry.query.is_some());
    let by_replica = library.signals.iter().filter(|(name, signal)| signal.by_replica && has_query(name));
    let recorded = by_replica.map(|(signal, _)| recorded_name(signal, true)).filter(|name| names.has(name));
    let recorded: Vec<String> = recorded.collect();
    if recorded.contains(&sample) { recorded } else { Vec::new() }
}

/// Returns the pools of the sample under each of the names that it stands for; without names, the series as they are.
fn expand<'a>(sample: BTreeMap<&'a str, Vec<&'a Labels>>, names: &'a [String]) -> BTreeMap<&'a str, Vec<&'a Labels>> {
    if names.is_empty() {
        return sample;
    }
    let pools = sample.into_values().next().unwrap_or_default();
    names.iter().map(|name| (name.as_str(), pools.clone())).collect()
}

/// Returns an engine's scope on the labels of recorded series; `None` if they lack one of its labels.
pub(crate) fn scope(engine: &Engine, engine_seen: &EngineSeen) -> Option<Vec<Matcher>> {
    let own_matchers: BTreeSet<Matcher> = engine.own_series().collect();
    let named = |matcher: &Matcher| {
        let is = |dimension: &str| engine.scope.get(dimension).is_some_and(|labels| labels.contains(&matcher.label));
        let (_, label) = RECORDED_POOL.iter().find(|(dimension, _)| is(dimension))?;
        Some(Matcher { label: (*label).to_owned(), ..matcher.clone() })
    };
    engine_seen.matchers.iter().filter(|matcher| !own_matchers.contains(matcher)).map(named).collect()
}

/// Returns true for burn rates: they are recorded for the thresholds that the rules were generated with.
fn is_burn(library: &Library, name: &str) -> bool {
    let signal = library.signals.iter().find(|(signal, _)| recorded_name(signal, false) == name);
    signal.is_some_and(|(_, signal)| signal.burn.is_some())
}

/// Builds the query for a signal's series of a pool, or of its replicas, that were recorded so long ago; `signal` may be a
/// regular expression.
fn presence_query(engine: &Engine, scope: &[Matcher], signal: &str, by_replica: bool, ago: Duration) -> String {
    let of: Vec<&str> = RECORDED_POOL.iter().map(|(_, label)| *label).collect();
    let scope = matchers(&[&[Matcher::one("engine", &engine.engine)], scope].concat());
    let offset = if ago.is_zero() { String::new() } else { format!(" offset {}s", ago.as_secs()) };
    let selector = format!("{{__name__=~\"{}\", {scope}}}", recorded_name(signal, by_replica));
    // Replicas have many series; they are recorded with the pool's, whose freshness is checked.
    let selector = match by_replica {
        true => format!("{selector}{offset}"),
        false => format!("last_over_time({selector}[{}]{offset})", prometheus_duration(MAX_SAMPLE_AGE)),
    };
    format!("count by (__name__, {}) ({selector})", of.join(", "))
}
