//! Queries for the time at which a scope without data had data.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::detection::served_by_scope;
use findings::DataSpan;
use findings::scope::Scope;
use knowledge::alert::Labels;
use knowledge::clock;
use knowledge::clock::Range;
use knowledge::playbook::Library;
use knowledge::signal::{Engine, Matcher, matchers};
use prom::{Prometheus, Series};

/// Maximum duration of the search for data.
const PATIENCE: Duration = Duration::from_secs(3);
const MINUTE: Duration = Duration::from_secs(60);

const fn days(n: u64) -> Duration {
    Duration::from_secs(n * 86_400)
}

/// Ranges before and after the time of the evaluation, with their steps: finely nearby, coarsely further away.
const SEARCH_RANGES: [(Duration, Duration); 3] =
    [(days(1), Duration::from_secs(600)), (days(30), Duration::from_secs(6 * 3_600)), (days(400), days(4))];
/// Maximum number of series that are queried for their first and last sample.
const MAX_SERIES: usize = 4;
/// Points within a step at which the first and last sample are searched.
const EDGE_POINTS: u64 = 240;

/// Returns the nearest time span in which the scope's pool had data, and the number of queries; `None` if it has data at
/// `at`, or it is not known.
pub async fn data(
    library: &Library,
    prometheus: &Prometheus,
    scope: &Scope,
    at: Timestamp,
    deadline: Instant,
) -> (Option<DataSpan>, usize) {
    let deadline = deadline.min(Instant::now() + PATIENCE);
    let mut queries = 1;
    match prometheus.query(&serving(library, scope, ""), at, deadline).await {
        Ok(rows) if rows.incomplete().is_none() && !rows.iter().any(|row| fits(library, scope, &row.labels)) => {}
        // A pool with data at that time needs no hint, and one that may be in a missing part has perhaps some.
        Ok(_) | Err(_) => return (None, queries),
    }
    for (around, step) in SEARCH_RANGES {
        let range = Range {
            from: clock::before(at, around),
            to: clock::after(at, around).min(clock::now()).max(at),
            step_seconds: i64::try_from(step.as_secs()).unwrap_or(i64::MAX),
        };
        queries += 1;
        let presence_query = serving(library, scope, &format!("[{}s]", step.as_secs()));
        // The end of a missing part's data would be told as the pool's.
        let series = match prometheus.query_range(&presence_query, range, deadline).await {
            Ok(series) if series.incomplete().is_none() => series,
            Ok(_) | Err(_) => return (None, queries),
        };
        let own: Vec<&Series> = series.iter().filter(|series| fits(library, scope, &series.labels)).collect();
        let Some((first, last)) = nearest_run(&own, at, step) else { continue };
        // The value at a step covers the time since the step before.
        let begun = clock::before(first, step);
        queries += 2;
        let exact = |edge: &'static str, at: Timestamp| {
            let has_sample = |series: &&&Series| series.samples.iter().any(|(ms, _)| *ms == at.as_millisecond());
            let query = edges(&own.iter().filter(has_sample).copied().collect::<Vec<_>>(), edge, step);
            async move { prometheus.query(&query, at, deadline).await.ok()?.first().map(|row| row.value) }
        };
        let (from, to) = futures::future::join(exact("min", first), exact("max", last)).await;
        let moment = |seconds: Option<f64>, or: Timestamp| {
            seconds.and_then(|s| Timestamp::from_second(s as i64).ok()).unwrap_or(or)
        };
        return (Some(DataSpan { from: moment(from, begun), to: moment(to, last) }), queries);
    }
    (None, queries)
}

/// Builds the query for what serves in a scope, with the names of the series, at one time or within a range. It
/// selects by the first of its dimensions that any engine's series carry, because a whole fleet has many series.
fn serving(library: &Library, scope: &Scope, range: &str) -> String {
    let pools = || library.engines.values().filter(|engine| engine.kind.is_pool());
    let narrowing = ["model", "namespace", "cluster", "job"].into_iter().find_map(|dimension| {
        let value = scope.dimensions.get(dimension)?;
        let labels: BTreeSet<&String> = pools().filter_map(|engine| engine.scope.get(dimension)).flatten().collect();
        (!labels.is_empty()).then_some((labels, value))
    });
    let Some((labels, value)) = narrowing else { return served_by_scope(library, "", "__name__, ", range) };
    let of = |label: &&String| served_by_scope(library, &matchers(&[Matcher::one(label, value)]), "__name__, ", range);
    labels.iter().map(of).collect::<Vec<_>>().join(" or ")
}

/// Returns true if a series may belong to a scope: it has one of its values and contradicts none.
fn fits(library: &Library, scope: &Scope, series: &Labels) -> bool {
    let Some(name) = series.get("__name__") else { return false };
    // A job label of the rule that fired is often another exporter's.
    let telling = |dimension: &str| dimension != "job" || scope.dimensions.len() == 1;
    let dimensions = || scope.dimensions.iter().filter(|(dimension, _)| telling(dimension));
    let fits = |engine: &Engine| {
        let matches_dimension =
            |(dimension, value): (&String, &String)| Some(engine.dimension_value(dimension, series)? == value);
        let own: Vec<bool> = dimensions().filter_map(matches_dimension).collect();
        scope.dimensions.is_empty() || (!own.is_empty() && own.into_iter().all(|same| same))
    };
    let mut engines = library.engines.values().filter(|engine| engine.kind.is_pool());
    engines.any(|engine| engine.detected_by().contains(name) && fits(engine))
}

/// Returns the first and the last step of the run of data that is nearest to a time.
fn nearest_run(series: &[&Series], at: Timestamp, step: Duration) -> Option<(Timestamp, Timestamp)> {
    let mut moments: Vec<i64> = series.iter().flat_map(|series| series.samples.iter().map(|(ms, _)| *ms)).collect();
    moments.sort_unstable();
    moments.dedup();
    let gap = i64::try_from(step.as_millis()).unwrap_or(i64::MAX);
    let (mut first, mut last) = (*moments.first()?, *moments.first()?);
    let mut best: Option<(i64, i64, i64)> = None;
    let mut keep = |first: i64, last: i64| {
        let at = at.as_millisecond();
        let away = if at < first { first - at } else { (at - last).max(0) };
        if best.is_none_or(|(nearest, ..)| away < nearest) {
            best = Some((away, first, last));
        }
    };
    for &moment in &moments[1..] {
        if moment - last > gap {
            keep(first, last);
            first = moment;
        }
        last = moment;
    }
    keep(first, last);
    best.map(|(_, first, last)| (clock::from_unix_ms(first), clock::from_unix_ms(last)))
}

/// Builds the query for the first or last sample's time within a step; a few of the series suffice.
fn edges(series: &[&Series], edge: &str, step: Duration) -> String {
    let selectors = series.iter().take(MAX_SERIES).map(|series| {
        let own = series.labels.iter().map(|(label, value)| Matcher::one(label, value)).collect::<Vec<_>>();
        let resolution = (step.as_secs() / EDGE_POINTS).max(MINUTE.as_secs());
        format!("{edge}_over_time(timestamp({{{}}})[{}s:{resolution}s])", matchers(&own), step.as_secs())
    });
    format!("{edge}({})", selectors.collect::<Vec<_>>().join(" or "))
}
