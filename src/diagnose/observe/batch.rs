//! Packs queries of the same time into few requests: most of a small query's time is overhead.
//!
//! The rows of each query get a marker label, by which the answer is split. A pack that Prometheus refuses, or whose
//! answer is too large, is repeated query by query, so that one bad query costs only itself. Packs of replicas' values are
//! small in a large pool: Prometheus compares the rows of a pack with each other, on one core. Queries on histograms are sent alone,
//! a few at a time, when all but the last pack of the others have answered: a slow one costs only itself as well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use futures::future::{join, join_all};
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use tokio::sync::Semaphore;

use crate::observe::plan::Plan;
use detect::{PlannedQuery, QueryPurpose};
use knowledge::clock::Range;
use knowledge::signal::histograms;
use prom::{Answer, Formula, MetricNames, PromError, Prometheus, QueryPart, Row, Series};

/// The marker label; no exporter has it.
const MARK: &str = "llm_diagnose_ask";
/// Number of replicas above which queries are costly.
pub(crate) const MANY_REPLICAS: usize = 250;
/// Maximum number of light queries in one pack.
const MAX_LIGHT: usize = 14;
/// The same for a pool of many replicas: of queries for the pool's value, and of those for the values of its replicas.
const MAX_LIGHT_OF_MANY: [usize; 2] = [10, 4];
/// Heavy queries that run at the same time.
const HEAVY_AT_ONCE: usize = 2;
/// Light packs without an answer beside which heavy queries run: Prometheus evaluates the last one on a single core.
const LAST_LIGHT: usize = 1;
/// Divisor of the remaining time: heavy queries wait for the light ones at most this part of it.
const LIGHT_FIRST: u32 = 4;

/// The rows, or why there are none.
pub type QueryAnswer = Result<Arc<Answer<Row>>, Arc<PromError>>;

/// Returns true if the query reads histograms, which have many series.
pub(crate) fn is_heavy(ask: &PlannedQuery) -> bool {
    histograms(&ask.query).next().is_some()
}

/// Groups queries about a pool of so many replicas that are sent together, as indices into the plan; the light ones first.
pub(crate) fn pack(asks: &[PlannedQuery], replicas: usize) -> Vec<Vec<usize>> {
    let mut packs: Vec<Vec<usize>> = Vec::new();
    let is_large = replicas > MANY_REPLICAS;
    let kind = |ask: &PlannedQuery| (ask.at, is_large && ask.purpose.is_by_replica());
    let most = |ask: &PlannedQuery| match is_large {
        true => MAX_LIGHT_OF_MANY[usize::from(ask.purpose.is_by_replica())],
        false => MAX_LIGHT,
    };
    for (i, ask) in asks.iter().enumerate().filter(|(_, ask)| !is_heavy(ask)) {
        match packs.iter_mut().find(|pack| pack.len() < most(ask) && kind(&asks[pack[0]]) == kind(ask)) {
            Some(pack) => pack.push(i),
            None => packs.push(vec![i]),
        }
    }
    packs.extend((0..asks.len()).filter(|i| is_heavy(&asks[*i])).map(|i| vec![i]));
    packs
}

/// A part of a formula, with the time and the purpose of the formula's query.
pub(crate) type PlannedPart<'a> = (Timestamp, &'a QueryPart, QueryPurpose);

/// Returns each part once, without those that another part contains.
pub(crate) fn finest<'a>(parts: &[PlannedPart<'a>]) -> Vec<PlannedPart<'a>> {
    let once: BTreeSet<(Timestamp, &QueryPart)> = parts.iter().map(|(at, part, _)| (*at, *part)).collect();
    let in_another =
        |at: Timestamp, part: &QueryPart| once.iter().any(|(t, other)| *t == at && part != *other && part.is_in(other));
    let mut distinct = BTreeSet::new();
    parts.iter().copied().filter(|(at, part, _)| !in_another(*at, part) && distinct.insert((*at, *part))).collect()
}

/// Returns the queries that a plan sends for a small pool if all its metrics exist, each with its evaluation time.
pub fn queries(plan: &Plan) -> Vec<(String, Timestamp)> {
    let formulas = plan.queries.iter().map(|ask| (ask, Formula::of(&ask.query, &MetricNames::default())));
    let formulas: Vec<(&PlannedQuery, Formula)> = formulas.collect();
    let asks: Vec<PlannedQuery> = finest(&parts(&formulas))
        .into_iter()
        .map(|(at, part, purpose)| PlannedQuery::about_pool("", purpose, part.query(), at))
        .collect();
    let text = |pack: Vec<usize>| {
        let at = asks[pack[0]].at;
        (if pack.len() == 1 { asks[pack[0]].query.clone() } else { together(&asks, &pack) }, at)
    };
    pack(&asks, 0).into_iter().map(text).collect()
}

/// Returns the parts of formulas in order.
pub(crate) fn parts<'a>(formulas: &'a [(&PlannedQuery, Formula)]) -> Vec<PlannedPart<'a>> {
    let of = |(ask, formula): &'a (&PlannedQuery, Formula)| {
        let (at, purpose) = (ask.at, ask.purpose);
        formula.parts().into_iter().map(move |part| (at, part, purpose))
    };
    formulas.iter().flat_map(of).collect()
}

fn together(asks: &[PlannedQuery], pack: &[usize]) -> String {
    let marked = |&i: &usize| format!("label_replace({}, \"{MARK}\", \"{i}\", \"\", \"\")", asks[i].query);
    let mut queries: Vec<String> = pack.iter().map(marked).collect();
    // `or` inspects all rows of both sides: a balanced tree inspects them less often than a chain.
    while queries.len() > 1 {
        queries = queries.chunks(2).map(|pair| pair.join("\nor\n")).map(|pair| format!("({pair})")).collect();
    }
    queries.concat()
}

/// Sends a pack; returns one answer per query, in the pack's order.
pub(crate) async fn query_pack(
    prometheus: &Prometheus,
    asks: &[PlannedQuery],
    pack: &[usize],
    deadline: Instant,
) -> Vec<QueryAnswer> {
    let [first, .., _] = pack else {
        return join_all(pack.iter().map(|&i| prometheus.query(&asks[i].query, asks[i].at, deadline))).await;
    };
    match prometheus.query(&together(asks, pack), asks[*first].at, deadline).await {
        Ok(rows) => split(pack, &rows),
        Err(error) if error.is_about_query() => {
            join_all(pack.iter().map(|&i| prometheus.query(&asks[i].query, asks[i].at, deadline))).await
        }
        Err(error) => pack.iter().map(|_| Err(Arc::clone(&error))).collect(),
    }
}

/// Sends all queries about a pool of so many replicas in packs; returns one answer per query, in order.
pub(crate) async fn query_all(
    prometheus: &Prometheus,
    asks: &[PlannedQuery],
    replicas: usize,
    deadline: Instant,
) -> Vec<QueryAnswer> {
    let packs = pack(asks, replicas);
    let asking = packs.iter().map(|pack| query_pack(prometheus, asks, pack, deadline)).collect();
    let answered = light_first(asks, &packs, asking, deadline).await;
    let mut answers: Vec<(usize, QueryAnswer)> =
        packs.into_iter().flatten().zip(answered.into_iter().flatten()).collect();
    answers.sort_by_key(|(i, _)| *i);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Returns the answers of the packs in order: light packs run at once, heavy ones when all light ones but one have answered.
pub(crate) async fn light_first<F: Future>(
    asks: &[PlannedQuery],
    packs: &[Vec<usize>],
    mut asking: Vec<F>,
    deadline: Instant,
) -> Vec<F::Output> {
    let heavy = asking.split_off(packs.partition_point(|pack| !is_heavy(&asks[pack[0]])));
    let patience = deadline.saturating_duration_since(Instant::now()) / LIGHT_FIRST;
    let answered = &Semaphore::new(0);
    let awaited = asking.len().saturating_sub(LAST_LIGHT);
    let light = join_all(asking.into_iter().map(|asked| async move {
        let answer = asked.await;
        answered.add_permits(1);
        answer
    }));
    let heavy = async {
        let enough = answered.acquire_many(u32::try_from(awaited).unwrap_or(u32::MAX));
        let _ = tokio::time::timeout(patience, enough).await;
        let numbered = heavy.into_iter().enumerate().map(|(i, asking)| async move { (i, asking.await) });
        // Unordered, so that a slow query does not hold back those behind it.
        let mut answers = stream::iter(numbered).buffer_unordered(HEAVY_AT_ONCE).collect::<Vec<_>>().await;
        answers.sort_by_key(|(i, _)| *i);
        answers.into_iter().map(|(_, answer)| answer)
    };
    let (mut answers, heavy) = join(light, heavy).await;
    answers.extend(heavy);
    answers
}

/// Sends a pack as a range query; a missing answer is `None`.
pub(crate) async fn ask_range(
    prometheus: &Prometheus,
    asks: &[PlannedQuery],
    pack: &[usize],
    range: Range,
    deadline: Instant,
) -> Vec<Option<Arc<Answer<Series>>>> {
    let query = if let [one] = pack { asks[*one].query.clone() } else { together(asks, pack) };
    match prometheus.query_range(&query, range, deadline).await {
        Ok(series) if pack.len() > 1 => pack.iter().map(|i| Some(Arc::new(own(&series, *i)))).collect(),
        Ok(series) => vec![Some(series)],
        Err(error) if pack.len() > 1 && error.is_about_query() => {
            let one = |&i: &usize| async move {
                let answer = prometheus.query_range(&asks[i].query, range, deadline).await;
                answer.inspect_err(|error| tracing::debug!(%error, "a range was not answered")).ok()
            };
            join_all(pack.iter().map(one)).await
        }
        Err(error) => {
            tracing::debug!(error = %error, "a range was not answered");
            pack.iter().map(|_| None).collect()
        }
    }
}

fn own(series: &Answer<Series>, i: usize) -> Answer<Series> {
    let mark = i.to_string();
    let own = series.iter().filter(|s| s.labels.get(MARK) == Some(&mark)).map(|s| {
        let mut s = s.clone();
        s.labels.remove(MARK);
        s
    });
    own.collect::<Answer<Series>>().with_missing(series.missing().cloned())
}

/// Splits the rows by query and removes the marker.
fn split(pack: &[usize], answered: &Answer<Row>) -> Vec<QueryAnswer> {
    let mut own: BTreeMap<usize, Vec<Row>> = pack.iter().map(|i| (*i, Vec::new())).collect();
    for row in answered.iter() {
        let mut row = row.clone();
        let marked = row.labels.remove(MARK).and_then(|mark| own.get_mut(&mark.parse().ok()?));
        if let Some(own) = marked {
            own.push(row);
        }
    }
    // A warning does not say which query it is about.
    let answer = |rows: Vec<Row>| Answer::from(rows).with_missing(answered.missing().cloned());
    pack.iter().map(|i| Ok(Arc::new(answer(own.remove(i).unwrap_or_default())))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use knowledge::clock;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Notify;
    use tokio::sync::oneshot;

    fn ask(query: &str, at: Timestamp) -> PlannedQuery {
        PlannedQuery::about_pool("", QueryPurpose::Pool, query.to_owned(), at)
    }

    #[tokio::test]
    async fn a_histogram_waits_for_all_light_packs_but_the_last_one() {
        let now = clock::now();
        let earlier = |seconds| clock::before(now, Duration::from_secs(seconds));
        // Queries of different times are not sent together.
        let asks = [ask("a", now), ask("a", earlier(60)), ask("a", earlier(120)), ask("b_bucket", now)];
        let packs = pack(&asks, 0);
        assert_eq!(packs, [[0], [1], [2], [3]]);
        let (answered, heavy) = (&AtomicUsize::new(0), &Notify::new());
        let asking = (0..packs.len()).map(|i| async move {
            match i {
                0 => {}
                1 => tokio::task::yield_now().await,
                // The last light pack answers once the histogram has.
                2 => heavy.notified().await,
                _ => {
                    assert_eq!(answered.load(Ordering::Relaxed), 2);
                    heavy.notify_one();
                }
            }
            answered.fetch_add(1, Ordering::Relaxed);
            i
        });
        let answers = light_first(&asks, &packs, asking.collect(), Instant::now() + Duration::from_secs(120));
        assert_eq!(tokio::time::timeout(Duration::from_secs(10), answers).await.unwrap(), [0, 1, 2, 3]);
    }

    #[tokio::test]
    async fn a_late_histogram_holds_back_none_of_those_after_it() {
        let now = clock::now();
        let asks = ["a", "b_bucket", "c_bucket", "d_bucket", "e_bucket"].map(|query| ask(query, now));
        let packs = pack(&asks, 0);
        assert_eq!(packs.len(), 5);
        // The first histogram answers only once the last one has.
        let (last, late) = oneshot::channel();
        let (mut last, mut late) = (Some(last), Some(late));
        let asking = (0..packs.len()).map(|i| {
            let wait = late.take_if(|_| i == 1);
            let ended = last.take_if(|_| i == 4);
            async move {
                if let Some(wait) = wait {
                    wait.await.unwrap();
                }
                if let Some(ended) = ended {
                    ended.send(()).unwrap();
                }
                i
            }
        });
        let deadline = Instant::now() + Duration::from_secs(20);
        let answers = light_first(&asks, &packs, asking.collect(), deadline);
        assert_eq!(tokio::time::timeout(Duration::from_secs(10), answers).await.unwrap(), [0, 1, 2, 3, 4]);
    }
}
