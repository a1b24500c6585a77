//! The observations of a pool for one playbook, and the verdict; each stage of the chain returns new ones.

use std::time::{Duration, Instant};

use tracing::{Instrument, debug_span};

use super::Sources;
use crate::judge;
use crate::judge::{assemble, is_tied};
use crate::kinds::observe_by_kind;
use crate::observe::answer_cache::AnswerCache;
use crate::observe::batch::MANY_REPLICAS;
use crate::observe::observe_needs;
use crate::observe::observe_result::{ObserveResult, RESERVE};
use crate::observe::plan::{keep_where_too_short, needs, pool_first};
use crate::refine::onset::{self, Traced, trace};
use crate::refine::replica_values;
use crate::refine::screen::{Screened, clarity, enter, explains, screen, with_time_left};
use findings::request::SHORTEST_WINDOW;
use findings::scope::Scope;
use findings::{Diagnosis, Judged, Request, Screening, SymptomVerdict};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use prom::Prometheus;

/// Maximum number of traces of an incident: after a first one another chain may be the best.
const MAX_TRACES: usize = 2;

/// The observations for the request's playbook, and the verdict.
pub(super) struct Seen<'a> {
    /// The playbooks with the limits of the pool's kinds.
    pub(super) library: &'a Library,
    /// The request with the playbook that was entered, and the window of the observations.
    pub(super) request: Request,
    pub(super) observed: ObserveResult,
    /// The verdict; `None` without a playbook.
    pub(super) judged: Option<Judged>,
}

impl<'a> Seen<'a> {
    /// Returns what is seen before anything is observed.
    pub(super) fn nothing(library: &'a Library, request: &Request, queries: usize) -> Self {
        let observed = ObserveResult { queries, cache: AnswerCache::after(queries), ..ObserveResult::default() };
        Self { library, request: request.clone(), observed, judged: None }
    }

    /// Observes and judges the request's playbook; in a short window too where the incident is young and nothing holds.
    pub(super) async fn of_playbook(
        library: &'a Library,
        sources: Sources<'_>,
        requested: &Request,
        queries: usize,
    ) -> Self {
        let request = with_time_left(requested, sources.started, 1);
        let playbook = request.playbook.as_str();
        let needs = |library: &'a Library| pool_first(needs(library, playbook));
        let exporters = sources.beside.exporters;
        let cache = AnswerCache::default();
        let observing = observe_by_kind(library, sources.prometheus, &request, needs, exporters, cache);
        let (library, mut observed) = Box::pin(observing).instrument(debug_span!("observe")).await;
        observed.queries += queries;
        let seen = Self { library, request: requested.clone(), observed, judged: None }.judged(sources).await;
        match seen.verdict() == Some(SymptomVerdict::Absent) && onset::is_young(&request) {
            true => seen.young(sources, SHORTEST_WINDOW).await,
            false => seen,
        }
    }

    /// Judges the observations, and queries the replicas that met evidence is about.
    async fn judged(mut self, sources: Sources<'_>) -> Self {
        let Sources { prometheus, started, .. } = sources;
        self.judged = self.verdicts();
        let Some(judged) = &self.judged else { return self };
        let deadline = started + self.request.deadline.saturating_sub(RESERVE).max(RESERVE);
        let (library, request) = (self.library, &self.request);
        let asked = replica_values::query_replicas(library, prometheus, request, &mut self.observed, judged, deadline);
        if Box::pin(asked).instrument(debug_span!("who")).await {
            self.judged = self.verdicts();
        }
        self
    }

    fn verdicts(&self) -> Option<Judged> {
        judge(self.library, &self.request.playbook, &self.observed.observations)
    }

    /// Returns the verdict on the symptom of the playbook that was entered.
    pub(super) fn verdict(&self) -> Option<SymptomVerdict> {
        self.judged.as_ref().map(|judged| judged.symptom)
    }

    /// Returns true if the playbook needs no screening: its symptom is confirmed, with a cause.
    pub(super) fn explains(&self) -> bool {
        self.judged.as_ref().is_some_and(|judged| explains(self.library, &self.request.playbook, judged))
    }

    /// Returns the pools that were found where several are there and none is meant; none if the request does not split.
    pub(super) fn pools(&self, splits: bool) -> Vec<Scope> {
        let of_pool = |pool: &Labels| Scope { dimensions: pool.clone(), ..Scope::default() };
        self.observed.detection.pools.iter().filter(|_| splits).map(of_pool).collect()
    }

    /// Reads the logs and judges again; a second time only if some logs could not be read.
    pub(super) async fn with_logs(mut self, sources: Sources<'_>, deadline: Instant) -> Self {
        let has_logs = self.observed.logs.as_ref().is_some_and(|read| read.missing.is_empty());
        let Some(logs) = sources.beside.logs.filter(|_| self.judged.is_some() && !has_logs) else { return self };
        let judged = self.judged.as_ref();
        let fetch = logs.fetch_logs(self.library, &self.request, judged, &mut self.observed, deadline);
        match Box::pin(fetch).instrument(debug_span!("logs")).await {
            true => self.judged(sources).await,
            false => self,
        }
    }

    /// Screens the pool for a symptom that explains more than the playbook. Without symptoms, the alert is about another
    /// program than the pool's.
    pub(super) async fn screened(self, sources: Sources<'_>, requested: &Request) -> (Self, Option<Screened>) {
        let Sources { prometheus, beside, started } = sources;
        let uncached_queries = self.observed.queries.saturating_sub(self.observed.cache.queries);
        // The causes need time too.
        let request = with_time_left(requested, started, 2);
        let cache = self.observed.cache.clone();
        let screening = screen(self.library, prometheus, &request, None, beside.exporters, cache);
        let (library, screened, mut before) = Box::pin(screening).await;
        let mut seen = Self { library, ..self };
        let mut cache = before.cache.clone();
        let is_complete = !before.degraded && before.incomplete().is_none();
        let is_related = !(is_complete && before.detection.is_of_another_job(library, &requested.scope));
        if is_related {
            let own = seen.judged.as_ref().map(|judged| clarity(library, &seen.request.playbook, judged));
            let request = with_time_left(requested, started, 1);
            let entering = enter(library, prometheus, &request, beside.exporters, &screened, own, cache.clone());
            if let Some((observed, best)) = Box::pin(entering).await {
                cache = observed.cache.clone();
                match best {
                    Some((playbook, judged)) => {
                        before.add_trouble(&seen.observed);
                        // Its values are of the usual window.
                        let request = Request { playbook, ..requested.clone() };
                        seen = Self { library, request, observed, judged: Some(judged) };
                    }
                    None => before.add_trouble(&observed),
                }
            }
            match seen.judged {
                Some(_) => seen.observed.add_trouble(&before),
                None => seen.observed = before,
            }
        } else {
            seen.observed.detection.unknown = before.detection.unknown;
        }
        seen.observed.queries = uncached_queries + cache.queries;
        seen.observed.cache = cache;
        if seen.judged.is_some() {
            seen = seen.judged(sources).await;
        }
        (seen, is_related.then_some(screened))
    }

    /// Returns the diagnosis without onsets; `None` if there is no cause, if data is missing, or if causes are so close that
    /// onsets decide. Onsets may also show that a cause was there before, which makes it less sure.
    pub(super) fn so_far(&self, screening: Option<Screening>, started: Instant) -> Option<Diagnosis> {
        let judged = self.judged.as_ref().filter(|judged| !judged.chains.is_empty() && !is_tied(judged))?;
        let (observed, judged) = (self.observed.clone(), Some(judged.clone()));
        let is_complete = !observed.degraded;
        is_complete
            .then(|| assemble::assemble(self.library, &self.request, observed, judged, screening, started.elapsed()))
    }

    /// Queries the onsets of the evidence and judges again; not of a Prometheus that is away.
    pub(super) async fn traced(mut self, prometheus: &Prometheus, deadline: Instant, away: bool) -> Self {
        let mut traced = Traced::default();
        for _ in 0..MAX_TRACES {
            let Some(judged) = self.judged.as_ref().filter(|_| !away) else { break };
            let (library, request) = (self.library, &self.request);
            let tracing = trace(library, prometheus, request, &mut self.observed, judged, &mut traced, deadline);
            if !Box::pin(tracing).instrument(debug_span!("trace")).await {
                break;
            }
            self.judged = self.verdicts();
            // Only then may a chain be the best that was not traced.
            if self.observed.observations.as_before.is_empty() {
                break;
            }
        }
        self
    }

    /// Returns the window of a confirmed incident that is younger than the usual one; `None` for every other.
    pub(super) fn young_window(&self) -> Option<Duration> {
        let judged = self.judged.as_ref().filter(|judged| judged.symptom == SymptomVerdict::Confirmed)?;
        onset::young_window(&self.request, judge::onset(&judged.evidence)?.0)
    }

    /// Observes a young incident once more in a window of its own: the time before it dilutes every rate. The new values
    /// count if they confirm the symptom, and explain it where the former ones did. Nothing is asked twice, of a pool
    /// whose queries are costly, of a Prometheus that was late, or where pages were read, which have one window.
    pub(super) async fn young(mut self, sources: Sources<'_>, window: Duration) -> Self {
        let ObserveResult { degraded, direct, members, .. } = &self.observed;
        if self.request.is_young || *degraded || direct.is_some() || members.replicas() > MANY_REPLICAS {
            return self;
        }
        let young = Request { window, is_young: true, ..self.request.clone() };
        let request = with_time_left(&young, sources.started, 1);
        let needs = pool_first(needs(self.library, &request.playbook));
        let asked = observe_needs(self.library, sources.prometheus, &request, &needs, self.observed.cache.clone());
        let mut young = Box::pin(asked).instrument(debug_span!("young")).await;
        self.observed.queries += young.cache.queries.saturating_sub(self.observed.cache.queries);
        self.observed.cache.queries = young.cache.queries;
        young.observations.held_since = self.observed.observations.held_since.clone();
        young.observations.as_before = self.observed.observations.as_before.clone();
        young.observations.held_step_seconds = self.observed.observations.held_step_seconds;
        keep_where_too_short(self.library, &self.observed.observations, &mut young.observations);
        let Some(judged) = judge(self.library, &request.playbook, &young.observations) else { return self };
        let was_explained = self.judged.as_ref().is_some_and(|before| !before.chains.is_empty());
        let explains = !judged.chains.is_empty() || !was_explained;
        if young.degraded || judged.symptom != SymptomVerdict::Confirmed || !explains {
            return self;
        }
        (self.request.window, self.request.is_young) = (window, true);
        self.observed.add_trouble(&young);
        self.observed.cache.missing = self.observed.cache.missing.take().or(young.cache.missing);
        (self.observed.observations, self.observed.members) = (young.observations, young.members);
        // The findings of the logs are not among the new values.
        self.observed.logs = None;
        self.judged(sources).await
    }
}
