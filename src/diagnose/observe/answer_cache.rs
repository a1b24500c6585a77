//! A cache of the answers of one diagnosis, so that no query is sent twice.
//!
//! Queries are split into parts ([`Formula`]), so that common parts are sent once as well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

use crate::observe::batch::{PlannedPart, QueryAnswer, finest, pack, parts, query_all};
use crate::observe::read_pages::ReadPages;
use detect::{DetectionResult, PlannedQuery};
use prom::{Answer, Formula, MissingPart, PartAnswer, PromError, Prometheus, QueryPart, Row};

/// The values of a part, or the reason why there are none.
type Answered = Result<Arc<PartAnswer>, Arc<PromError>>;

/// Signal to its values for the pool, by Unix milliseconds.
pub(crate) type Hours = BTreeMap<String, BTreeMap<i64, f64>>;

/// The answers that a diagnosis already has.
#[derive(Debug, Clone, Default)]
pub(crate) struct AnswerCache {
    /// The detection result, once it is known.
    pub(crate) detection: Option<DetectionResult>,
    /// The hours before the incident, by the signals that they were queried for.
    pub(crate) hours: BTreeMap<Vec<String>, Hours>,
    /// Answers by query and time.
    answers: BTreeMap<(String, Timestamp), QueryAnswer>,
    /// Prometheus' values for each part, by time.
    values: BTreeMap<Timestamp, BTreeMap<QueryPart, Answered>>,
    /// The pages that were read where Prometheus has no data.
    pub(crate) pages: Option<Arc<ReadPages>>,
    /// The part of the data that one of the answers lacks.
    pub(crate) missing: Option<MissingPart>,
    /// Number of queries sent.
    pub(crate) queries: usize,
}

impl AnswerCache {
    /// Creates an empty cache, after so many queries.
    pub(crate) fn after(queries: usize) -> Self {
        Self { queries, ..Self::default() }
    }

    /// Remembers the part of the data that an answer lacks; the first one is kept.
    pub(crate) fn note_missing(&mut self, answer: &Answer<Row>) {
        if self.missing.is_none() {
            self.missing = answer.missing().cloned();
        }
    }

    fn of(&self, ask: &PlannedQuery) -> Option<&QueryAnswer> {
        self.answers.get(&(ask.query.clone(), ask.at))
    }

    /// Sends the queries that are not cached; returns one answer per query, in order.
    pub(crate) async fn query(
        &mut self,
        prometheus: &Prometheus,
        asks: &[PlannedQuery],
        deadline: Instant,
    ) -> Vec<QueryAnswer> {
        let mut once = BTreeSet::new();
        let is_cached =
            |ask: &PlannedQuery| self.of(ask).is_some_and(|answer| !answer.as_ref().is_err_and(|e| e.is_unavailable()));
        let new = asks.iter().filter(|ask| !is_cached(ask) && once.insert((&ask.query, ask.at)));
        let names = self.detection.as_ref().map(|found| found.names.clone()).unwrap_or_default();
        let new: Vec<(&PlannedQuery, Formula)> = new.map(|ask| (ask, Formula::of(&ask.query, &names))).collect();
        let parts: Vec<PlannedPart<'_>> =
            parts(&new).into_iter().filter(|(at, part, _)| !self.has_answer(*at, part)).collect();
        let parts = finest(&parts);
        let part_queries: Vec<PlannedQuery> =
            parts.iter().map(|(at, part, purpose)| PlannedQuery::about_pool("", *purpose, part.query(), *at)).collect();
        let replicas = self.detection.as_ref().map_or(0, |found| found.replicas);
        self.queries += pack(&part_queries, replicas).len();
        let answers = query_all(prometheus, &part_queries, replicas, deadline).await;
        for ((at, part, _), answer) in parts.into_iter().zip(answers) {
            let part_answer = answer.map(|rows| {
                self.note_missing(&rows);
                Arc::new(part.read(&rows))
            });
            self.values.entry(at).or_default().insert(part.clone(), part_answer);
        }
        for (ask, formula) in new {
            let answer = formula.rows(&|part: &QueryPart| self.cached_answer(ask.at, part));
            self.answers.insert((ask.query.clone(), ask.at), answer);
        }
        asks.iter().map(|ask| self.of(ask).cloned().unwrap_or_else(|| Err(PromError::Late.into()))).collect()
    }

    /// Returns true if a part at this time is cached.
    fn has_answer(&self, at: Timestamp, part: &QueryPart) -> bool {
        self.finer(at, part).any(|(_, part_answer)| !part_answer.as_ref().is_err_and(|e| e.is_unavailable()))
    }

    /// Returns the cached values that contain a part: its own, or a finer sum.
    fn finer(&self, at: Timestamp, part: &QueryPart) -> impl Iterator<Item = (&QueryPart, &Answered)> {
        let all = self.values.get(&at).into_iter().flatten();
        all.filter(move |(finer, _)| part.is_in(finer))
    }

    fn cached_answer(&self, at: Timestamp, part: &QueryPart) -> Answered {
        let mut last = Err(PromError::Late.into());
        for (finer, part_answer) in self.finer(at, part) {
            match part_answer {
                Ok(part_answer) if finer == part => return Ok(Arc::clone(part_answer)),
                Ok(part_answer) => last = Ok(Arc::new(part.summed(part_answer))),
                Err(error) if last.is_err() => last = Err(Arc::clone(error)),
                Err(_) => {}
            }
        }
        last
    }
}
