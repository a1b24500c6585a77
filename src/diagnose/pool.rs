//! The pool that Prometheus shows for a scope, for whoever asks more of it than signals: its engines, and whose rows count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

use super::answer_cache::AnswerCache;
use super::batch::Answer;
use super::detection::detection;
use super::gather::{Members, name};
use super::plan::{Ask, Side};
use super::plan::{Needs, filled, plan_for};
use super::scope::{EngineSeen, Found, read_detection};
use super::{Request, batch};
use crate::alert::Labels;
use crate::playbook::Library;
use crate::prom::{PromError, Prometheus};
use crate::signal::{Engine, EngineKind};

/// A pool that was looked for; it has no engines when none serves the scope.
#[derive(Debug, Clone)]
pub struct Pool<'a> {
    library: &'a Library,
    request: &'a Request,
    found: Found,
    members: Members,
}

/// How sure it is that rows are the pool's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// They name its pods, its nodes or its workloads.
    Known,
    /// They name nobody.
    Open,
}

impl<'a> Pool<'a> {
    /// Looks for the pool at the request's moment, with two queries.
    ///
    /// # Errors
    /// When Prometheus does not answer the first of them by `deadline`.
    pub async fn find(
        library: &'a Library,
        prometheus: &Prometheus,
        request: &'a Request,
        deadline: Instant,
    ) -> Result<Self, Arc<PromError>> {
        let rows = prometheus.query(&detection(library), request.at, deadline).await?;
        let rows: Vec<Labels> = rows.iter().map(|row| row.labels.clone()).collect();
        let found = read_detection(library, &request.scope, &rows);
        let asks = plan_for(library, request, &found, &Needs::new()).asks;
        let answers = batch::ask_all(prometheus, &asks, deadline).await;
        let members = Members::of(library, &asks, &answers);
        Ok(Self { library, request, found, members })
    }

    /// The engines and exporters that tell of it.
    pub fn engines(&self) -> impl Iterator<Item = (&'a Engine, &EngineSeen)> {
        self.found.engines.iter().filter_map(|seen| Some((self.library.engines.get(&seen.engine)?, seen)))
    }

    /// The engines whose replicas are the pool.
    pub fn serving(&self) -> impl Iterator<Item = (&Engine, &EngineSeen)> {
        self.found.pool(self.library)
    }

    /// The names of its replicas within the last hour.
    pub fn replicas(&self) -> Vec<String> {
        self.members.pool()
    }

    /// The node of each pod, where an orchestrator tells.
    pub fn nodes(&self) -> BTreeMap<String, String> {
        self.members.places().into_iter().filter_map(|(pod, nodes)| Some((pod, nodes.into_iter().next()?))).collect()
    }

    /// The same with pods that are known otherwise.
    #[must_use]
    pub fn with_pods(mut self, pods: impl Iterator<Item = String>) -> Self {
        self.members = self.members.with_pods(pods);
        self
    }

    /// A query of an engine's file, bound to the pool; `$by` is a replica's labels.
    pub fn bound(&self, engine: &Engine, seen: &EngineSeen, query: &str) -> String {
        filled(query, engine, seen, self.request.window, &engine.replica)
    }

    /// Asks queries at moments, what they have in common once and those of one moment in packs; one answer for each, in order.
    pub async fn ask(
        &self,
        prometheus: &Prometheus,
        queries: Vec<(String, Timestamp)>,
        deadline: Instant,
    ) -> Vec<Answer> {
        let ask = |(query, at)| Ask { signal: String::new(), engine: String::new(), side: Side::Pool, query, at };
        let asks: Vec<Ask> = queries.into_iter().map(ask).collect();
        AnswerCache::default().ask(prometheus, &asks, deadline).await
    }

    /// Whether a row names the pool; none when it names somebody else.
    pub fn owns(&self, row: &Labels) -> Option<Own> {
        self.members.owns(row)
    }

    /// Of rows that an exporter tells, those of the pool: the ones that name it, else those that name nobody.
    pub fn own<'r, T>(&self, engine: &Engine, rows: &'r [T], labels: impl Fn(&T) -> &Labels) -> (Own, Vec<&'r T>) {
        let of = |wanted: Own| rows.iter().filter(|row| self.owns(labels(row)) == Some(wanted)).collect();
        let known: Vec<&T> = of(Own::Known);
        if !known.is_empty() {
            return (Own::Known, known);
        }
        // What a serving engine tells is bound to the pool by the query.
        let sure = if engine.kind == EngineKind::Serving { Own::Known } else { Own::Open };
        (sure, of(Own::Open))
    }

    /// The row's replica.
    pub fn replica(&self, engine: &Engine, row: &Labels) -> Option<String> {
        name(engine, row)
    }
}
