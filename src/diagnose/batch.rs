//! Packs questions of one moment into few queries: most of a small query's time is spent around it, not in it.
//!
//! Each question's rows are marked with a label and the answers are told apart by it. A pack that Prometheus refuses
//! is asked again one by one, so that one bad query costs only itself.

use std::sync::Arc;
use std::time::Instant;

use futures::future::join_all;
use jiff::Timestamp;

use super::plan::{Ask, Plan};
use crate::prom::{PromError, Prometheus, Range, Row, Series};

/// The marking label; no exporter has it.
const MARK: &str = "llm_diagnose_ask";
/// Histogram queries read many series: few of them share a query, so that a slow one delays few others.
const HEAVY_MOST: usize = 3;
/// Light queries in one pack.
const LIGHT_MOST: usize = 14;

/// The rows, or why there are none.
pub type Answer = Result<Arc<Vec<Row>>, Arc<PromError>>;

/// The questions that are asked together, as indices into the plan.
pub(super) fn pack(asks: &[Ask]) -> Vec<Vec<usize>> {
    let mut packs: Vec<(bool, Vec<usize>)> = Vec::new();
    for (i, ask) in asks.iter().enumerate() {
        let heavy = ask.query.contains("_bucket");
        let most = if heavy { HEAVY_MOST } else { LIGHT_MOST };
        let fits = |(kind, pack): &&mut (bool, Vec<usize>)| {
            *kind == heavy && pack.len() < most && pack.first().is_some_and(|&first| asks[first].at == ask.at)
        };
        match packs.iter_mut().find(fits) {
            Some((_, pack)) => pack.push(i),
            None => packs.push((heavy, vec![i])),
        }
    }
    packs.into_iter().map(|(_, pack)| pack).collect()
}

/// The queries that a plan becomes, each with its evaluation time.
pub fn queries(plan: &Plan) -> Vec<(String, Timestamp)> {
    let text = |pack: Vec<usize>| {
        let at = plan.asks[pack[0]].at;
        (if pack.len() == 1 { plan.asks[pack[0]].query.clone() } else { together(&plan.asks, &pack) }, at)
    };
    pack(&plan.asks).into_iter().map(text).collect()
}

fn together(asks: &[Ask], pack: &[usize]) -> String {
    pack.iter()
        .map(|&i| format!("label_replace({}, \"{MARK}\", \"{i}\", \"\", \"\")", asks[i].query))
        .collect::<Vec<_>>()
        .join("\nor\n")
}

/// Asks a pack; one answer per question, in the pack's order.
pub(super) async fn ask(prometheus: &Prometheus, asks: &[Ask], pack: &[usize], deadline: Instant) -> Vec<Answer> {
    let [first, .., _] = pack else {
        return join_all(pack.iter().map(|&i| prometheus.query(&asks[i].query, asks[i].at, deadline))).await;
    };
    match prometheus.query(&together(asks, pack), asks[*first].at, deadline).await {
        Ok(rows) => split(pack, &rows),
        Err(error) if matches!(*error, PromError::Refused { .. }) && !error.is_unavailable() => {
            join_all(pack.iter().map(|&i| prometheus.query(&asks[i].query, asks[i].at, deadline))).await
        }
        Err(error) => pack.iter().map(|_| Err(Arc::clone(&error))).collect(),
    }
}

/// Asks everything in packs; one answer per question, in order.
pub(super) async fn ask_all(prometheus: &Prometheus, asks: &[Ask], deadline: Instant) -> Vec<Answer> {
    let packs = pack(asks);
    let answered = join_all(packs.iter().map(|pack| ask(prometheus, asks, pack, deadline))).await;
    let mut answers: Vec<(usize, Answer)> = packs.into_iter().flatten().zip(answered.into_iter().flatten()).collect();
    answers.sort_by_key(|(i, _)| *i);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Asks a pack over a range; what is not answered in time is left out.
pub(super) async fn ask_range(
    prometheus: &Prometheus,
    asks: &[Ask],
    pack: &[usize],
    range: Range,
    deadline: Instant,
) -> Vec<Option<Arc<Vec<Series>>>> {
    let query = if let [one] = pack { asks[*one].query.clone() } else { together(asks, pack) };
    match prometheus.query_range(&query, range, deadline).await {
        Ok(series) if pack.len() > 1 => pack.iter().map(|i| Some(Arc::new(own(&series, *i)))).collect(),
        Ok(series) => vec![Some(series)],
        Err(error) => {
            tracing::debug!(error = %error, "a range was not answered");
            pack.iter().map(|_| None).collect()
        }
    }
}

fn own(series: &[Series], i: usize) -> Vec<Series> {
    let mark = i.to_string();
    let own = series.iter().filter(|s| s.labels.get(MARK) == Some(&mark)).map(|s| {
        let mut s = s.clone();
        s.labels.remove(MARK);
        s
    });
    own.collect()
}

fn split(pack: &[usize], rows: &[Row]) -> Vec<Answer> {
    pack.iter()
        .map(|i| {
            let mark = i.to_string();
            let own = rows.iter().filter(|row| row.labels.get(MARK) == Some(&mark)).map(|row| {
                let mut row = row.clone();
                row.labels.remove(MARK);
                row
            });
            Ok(Arc::new(own.collect()))
        })
        .collect()
}
