//! The distributions of prompt and answer lengths, from the engines' histograms.

use std::time::Duration;

use jiff::Timestamp;

use super::context::{FactQueryContext, why};
use super::end_and_length;
use detect::EngineSeen;
use diagnose::{Pool, QueryAnswer};
use findings::facts::Distribution;
use knowledge::clock;
use knowledge::gap::{Gap, GapReason, missing_part};
use knowledge::signal::{Engine, Length, prometheus_duration};
use prom::Row;

/// Offset of the preferred baseline: the same time of day.
const DAY: Duration = Duration::from_secs(86_400);
/// Minimum number of requests for a baseline.
const MIN_REQUESTS: f64 = 1.0;

/// Both distributions, with the reasons for a missing one.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    pub(super) input: Option<Distribution>,
    pub(super) output: Option<Distribution>,
    pub(super) missing: Vec<Gap>,
}

/// An engine's histogram of one length.
struct HistogramSource<'a> {
    length: Length,
    engine: &'a Engine,
    engine_seen: &'a EngineSeen,
    names: &'a [String],
}

/// Queries the engines' histograms of lengths; a gateway's is used only if no serving engine has one.
pub(super) async fn lengths(context: FactQueryContext<'_>, pool: &Pool<'_>) -> Lengths {
    let (at, window) = end_and_length(context.windows.during);
    let moments = [(at, window), (clock::before(at, DAY), window), end_and_length(context.windows.before)];
    let of = |(engine, engine_seen)| of_engine(engine, engine_seen);
    let mut sources: Vec<HistogramSource<'_>> = pool.engines().flat_map(of).collect();
    sources.sort_by_key(|source| (source.engine.kind, source.engine.stand_in));
    let queries = sources.iter().flat_map(|source| moments.iter().flat_map(|moment| queries(pool, source, *moment)));
    let answers = pool.query(context.prometheus, queries.collect(), context.deadline).await;
    let distributions: Vec<(&HistogramSource<'_>, Result<Option<Distribution>, GapReason>)> = sources
        .iter()
        .zip(answers.chunks(2 * moments.len()))
        .map(|(source, own)| (source, read(source, own)))
        .collect();
    let mut missing = Vec::new();
    let mut of = |length: Length, what: &str| {
        let own = || distributions.iter().filter(|(source, _)| source.length == length);
        let first = own().find_map(|(_, answer)| answer.as_ref().ok()?.clone());
        if first.is_none() {
            let names: Vec<&str> = own().flat_map(|(source, _)| source.names).map(String::as_str).collect();
            let failed = own().find_map(|(_, answer)| answer.as_ref().err().cloned());
            let absent = || match names.as_slice() {
                [] => "no engine of this pool has a histogram of it; a mean may stand among the numbers".to_owned(),
                names => format!("no request ended in the window, or `{}` is not kept", names.join("`, `")),
            };
            missing.push(Gap::new(what, failed.unwrap_or_else(|| GapReason::Absent(absent()))));
        }
        first
    };
    let input = of(Length::InputTokens, "prompt tokens per request");
    let output = of(Length::OutputTokens, "generated tokens per request");
    Lengths { input, output, missing }
}

fn of_engine<'a>(engine: &'a Engine, engine_seen: &'a EngineSeen) -> impl Iterator<Item = HistogramSource<'a>> {
    engine.histograms.iter().map(move |(length, names)| HistogramSource { length: *length, engine, engine_seen, names })
}

/// Returns the queries of the buckets' and the sum's increase.
fn queries(
    pool: &Pool<'_>,
    source: &HistogramSource<'_>,
    (at, window): (Timestamp, Duration),
) -> [(String, Timestamp); 2] {
    // An endpoint may expose the old name beside the new one.
    let increase = |suffix: &str| {
        let of = |name: &String| format!("increase({name}_{suffix}{{$scope}}[{}])", prometheus_duration(window));
        source.names.iter().map(of).collect::<Vec<_>>().join(" or on ($target) ")
    };
    let bound = |query: String| (pool.bound(source.engine, source.engine_seen, &query), at);
    [bound(format!("sum by (le) ({})", increase("bucket"))), bound(format!("sum({})", increase("sum")))]
}

/// Returns the window's distribution with the first baseline that has requests; `None` if nothing was counted.
fn read(source: &HistogramSource<'_>, answers: &[QueryAnswer]) -> Result<Option<Distribution>, GapReason> {
    let mut moments = answers.chunks(2).map(|both| match both {
        [Ok(buckets), Ok(sum)] => match buckets.incomplete().or(sum.incomplete()) {
            Some(said) => Err(GapReason::Failed(missing_part(said))),
            None => Ok(sum.first().and_then(|sum| summary(&cumulative(buckets), sum.value))),
        },
        [Err(error), _] | [_, Err(error)] => Err(why(error)),
        _ => Ok(None),
    });
    let Some(now) = moments.next().transpose()?.flatten() else { return Ok(None) };
    let earlier = moments.filter_map(|past| past.ok().flatten()).find(|past| past.count >= MIN_REQUESTS);
    let metric = source.names.first().cloned().unwrap_or_default();
    Ok(Some(Distribution { earlier: earlier.map(|past| (past.mean, past.p50)), metric, ..now }))
}

/// Returns the sorted buckets with counts that never decrease, as they may when replicas have different bounds.
fn cumulative(rows: &[Row]) -> Vec<(f64, f64)> {
    let bound = |row: &Row| row.labels.get("le")?.parse::<f64>().ok().filter(|le| !le.is_nan());
    let mut all: Vec<(f64, f64)> = rows.iter().filter_map(|row| Some((bound(row)?, row.value))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut most = 0.0_f64;
    for (_, count) in &mut all {
        most = most.max(*count);
        *count = most;
    }
    all
}

/// Summarises the buckets; `None` if nothing was counted or the `+Inf` bucket is missing.
fn summary(buckets: &[(f64, f64)], sum: f64) -> Option<Distribution> {
    let (last, count) = *buckets.last()?;
    if last.is_finite() || count <= 0.0 {
        return None;
    }
    let quantile = |q| quantile(q, buckets);
    let mut below = 0.0;
    let shares = buckets.iter().map(|(bound, upto)| {
        let share = (upto - below) / count;
        below = *upto;
        (Some(*bound).filter(|bound| bound.is_finite()), share)
    });
    Some(Distribution {
        count,
        mean: sum / count,
        p50: quantile(0.5)?,
        p90: quantile(0.9)?,
        p99: quantile(0.99)?,
        buckets: shares.collect(),
        earlier: None,
        metric: String::new(),
    })
}

/// Interpolates a quantile within its bucket, as `histogram_quantile` does; above the last bound, returns that bound.
/// Source: <https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile>.
fn quantile(q: f64, buckets: &[(f64, f64)]) -> Option<f64> {
    let rank = q * buckets.last()?.1;
    let i = buckets.iter().position(|(_, upto)| *upto >= rank)?;
    let (bound, upto) = buckets[i];
    if bound.is_infinite() {
        return buckets.iter().rev().map(|(bound, _)| *bound).find(|bound| bound.is_finite());
    }
    let (low, below) = if i == 0 { (bound.min(0.0), 0.0) } else { buckets[i - 1] };
    let inside = upto - below;
    Some(if inside <= 0.0 { bound } else { low + (bound - low) * (rank - below) / inside })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated_within_a_bucket_and_never_beyond_the_last_bound() {
        let buckets = [(100.0, 10.0), (200.0, 30.0), (f64::INFINITY, 40.0)];
        assert_eq!(quantile(0.5, &buckets), Some(150.0));
        assert_eq!(quantile(0.1, &buckets), Some(40.0));
        assert_eq!(quantile(0.99, &buckets), Some(200.0));
        let distribution = summary(&buckets, 6_000.0).unwrap();
        assert_eq!((distribution.count, distribution.mean), (40.0, 150.0));
        assert_eq!(distribution.buckets, [(Some(100.0), 0.25), (Some(200.0), 0.5), (None, 0.25)]);
    }

    #[test]
    fn buckets_of_nothing_or_without_an_end_say_nothing() {
        assert_eq!(summary(&[(100.0, 0.0), (f64::INFINITY, 0.0)], 0.0), None);
        assert_eq!(summary(&[(100.0, 4.0)], 10.0), None);
        assert_eq!(summary(&[], 0.0), None);
    }
}
