//! Queries over a range of time, and the observations at its steps.

use std::sync::Arc;
use std::time::Instant;

use futures::future::join_all;
use jiff::Timestamp;

use crate::observe::batch::{self, QueryAnswer};
use crate::observe::gather::{Members, gather};
use detect::PlannedQuery;
use findings::Observations;
use knowledge::clock::Range;
use knowledge::playbook::Library;
use prom::{Answer, Prometheus, Row, Series};

/// Queries and the series of their answers.
pub(crate) type AnsweredRanges = (Vec<PlannedQuery>, Vec<Arc<Answer<Series>>>);

/// Sends queries over a range, in packs; the ones without an answer, or with one about a part of the data, are left out:
/// a part that is missing for a while looks like a change.
pub(crate) async fn query_ranges(
    prometheus: &Prometheus,
    asks: &[PlannedQuery],
    range: Range,
    deadline: Instant,
) -> AnsweredRanges {
    let packs = batch::pack(asks, 0);
    let answered = packs.iter().map(|pack| batch::ask_range(prometheus, asks, pack, range, deadline));
    answered_ranges(asks, &packs, join_all(answered).await)
}

/// Returns the complete answers of packs, in the order of the queries.
pub(crate) fn answered_ranges(
    asks: &[PlannedQuery],
    packs: &[Vec<usize>],
    answered: Vec<Vec<Option<Arc<Answer<Series>>>>>,
) -> AnsweredRanges {
    let answered = packs.iter().flatten().zip(answered.into_iter().flatten());
    let mut answered: Vec<(usize, Arc<Answer<Series>>)> =
        answered.filter_map(|(i, series)| Some((*i, series?))).collect();
    answered.retain(|(_, series)| series.incomplete().is_none());
    answered.sort_by_key(|(i, _)| *i);
    answered.into_iter().map(|(i, series)| (asks[i].clone(), series)).unzip()
}

/// Returns the observations at one step.
pub(crate) fn observations_at(
    library: &Library,
    members: &Members,
    (asks, series): &AnsweredRanges,
    at: Timestamp,
) -> Observations {
    let rows = |series: &Arc<Answer<Series>>| -> QueryAnswer { Ok(Arc::new(rows_at(series, at.as_millisecond()))) };
    let answers: Vec<QueryAnswer> = series.iter().map(rows).collect();
    gather(library, members, asks, &answers).observations()
}

fn rows_at(series: &Answer<Series>, at_ms: i64) -> Answer<Row> {
    let value = |s: &Series| s.samples.binary_search_by_key(&at_ms, |(at, _)| *at).ok().map(|i| s.samples[i].1);
    let rows = series.iter().filter_map(|s| Some(Row { labels: s.labels.clone(), value: value(s)? }));
    rows.collect::<Answer<Row>>().with_missing(series.missing().cloned())
}
