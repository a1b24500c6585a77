//! The pool of a scope for callers that query more than signals: its engines, and the rows that belong to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

use crate::observe::answer_cache::AnswerCache;
use crate::observe::batch;
use crate::observe::batch::QueryAnswer;
use crate::observe::gather::{Members, RowOwnership, name};
use crate::observe::plan::{Needs, filled, plan_for};
use detect::{DetectionResult, EngineSeen, PlannedQuery, QueryPurpose, detection, read_detection};
use findings::Request;
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use knowledge::signal::{Engine, EngineKind};
use prom::{PromError, Prometheus};

/// The result of a search for a pool; it has no engines if none serves the scope.
#[derive(Debug, Clone)]
pub struct Pool<'a> {
    library: &'a Library,
    request: &'a Request,
    detection: DetectionResult,
    members: Members,
}

impl<'a> Pool<'a> {
    /// Finds the pool at the request's time, with two queries.
    ///
    /// # Errors
    /// If Prometheus does not answer the first of them by `deadline`.
    pub async fn find(
        library: &'a Library,
        prometheus: &Prometheus,
        request: &'a Request,
        deadline: Instant,
    ) -> Result<Self, Arc<PromError>> {
        let answer = prometheus.query(&detection(library), request.at, deadline).await?;
        let rows: Vec<Labels> = answer.iter().map(|row| row.labels.clone()).collect();
        let mut detection = read_detection(library, &request.scope, &rows);
        detection.incomplete = answer.incomplete().map(str::to_owned);
        let asks = plan_for(library, request, &detection, &Needs::new()).queries;
        let answers = batch::query_all(prometheus, &asks, 0, deadline).await;
        let members = Members::of(library, &asks, &answers);
        Ok(Self { library, request, detection, members })
    }

    /// Returns the server's words about a part of the data in which more of the pool may be.
    pub fn incomplete(&self) -> Option<&str> {
        self.detection.incomplete.as_deref().or(self.members.incomplete())
    }

    /// Returns the engines and exporters that report on it.
    pub fn engines(&self) -> impl Iterator<Item = (&'a Engine, &EngineSeen)> {
        self.detection
            .engines
            .iter()
            .filter_map(|engine_seen| Some((self.library.engines.get(&engine_seen.engine)?, engine_seen)))
    }

    /// Returns the engines whose replicas are the pool.
    pub fn serving(&self) -> impl Iterator<Item = (&Engine, &EngineSeen)> {
        self.detection.pool(self.library)
    }

    /// Returns the names of its replicas within the last hour.
    pub fn replicas(&self) -> Vec<String> {
        self.members.pool()
    }

    /// Returns the node of each pod, if an orchestrator reports it.
    pub fn nodes(&self) -> BTreeMap<String, String> {
        self.members.places().into_iter().filter_map(|(pod, nodes)| Some((pod, nodes.into_iter().next()?))).collect()
    }

    /// Adds pods that are known from another source.
    #[must_use]
    pub fn with_pods(mut self, pods: impl Iterator<Item = String>) -> Self {
        self.members = self.members.with_pods(pods);
        self
    }

    /// Fills an engine's query for the pool; `$by` becomes a replica's labels.
    pub fn bound(&self, engine: &Engine, engine_seen: &EngineSeen, query: &str) -> String {
        filled(query, engine, engine_seen, self.request.window, &engine.replica)
    }

    /// Sends queries with their evaluation times, common parts once and packed by time; returns one answer per query,
    /// in order.
    pub async fn query(
        &self,
        prometheus: &Prometheus,
        queries: Vec<(String, Timestamp)>,
        deadline: Instant,
    ) -> Vec<QueryAnswer> {
        let ask = |(query, at)| PlannedQuery::about_pool("", QueryPurpose::Pool, query, at);
        let asks: Vec<PlannedQuery> = queries.into_iter().map(ask).collect();
        AnswerCache::default().query(prometheus, &asks, deadline).await
    }

    /// Returns the certainty that a row is the pool's; `None` if it names another owner.
    pub fn owns(&self, row: &Labels) -> Option<RowOwnership> {
        self.members.owns(row)
    }

    /// Returns the pool's rows among those of an exporter: those that name it, else those that name no owner.
    pub fn own<'r, T>(
        &self,
        engine: &Engine,
        rows: &'r [T],
        labels: impl Fn(&T) -> &Labels,
    ) -> (RowOwnership, Vec<&'r T>) {
        let of =
            |ownership: RowOwnership| rows.iter().filter(|row| self.owns(labels(row)) == Some(ownership)).collect();
        let of_pool: Vec<&T> = of(RowOwnership::Known);
        if !of_pool.is_empty() {
            return (RowOwnership::Known, of_pool);
        }
        // The query binds a serving engine's rows to the pool.
        let sure = if engine.kind == EngineKind::Serving { RowOwnership::Known } else { RowOwnership::Open };
        (sure, of(RowOwnership::Open))
    }

    /// Returns the row's replica.
    pub fn replica(&self, engine: &Engine, row: &Labels) -> Option<String> {
        name(engine, row)
    }
}
