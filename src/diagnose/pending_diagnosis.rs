//! The whole chain of a request: detect, plan, observe, judge; the pool's other symptoms if that explains nothing.

mod several_pools;

use std::time::{Duration, Instant};

use futures::future::join;
use tracing::{Instrument, debug_span};

use crate::direct::Exporters;
use crate::judge;
use crate::judge::{assemble, is_tied};
use crate::kinds::observe_by_kind;
use crate::observe::answer_cache::AnswerCache;
use crate::observe::error_budget::error_budget;
use crate::observe::log_sources::LogSources;
use crate::observe::observe_needs;
use crate::observe::observe_result::{ObserveResult, RESERVE};
use crate::observe::plan::{keep_where_too_short, needs, pool_first};
use crate::refine::screen::Screened;
use crate::refine::{onset, replica_values, rule, screen};
use detect::data;
use findings::request::SHORTEST_WINDOW;
use findings::scope::Scope;
use findings::{Diagnosis, Judged, Request, Screening, SymptomVerdict};
use knowledge::playbook::Library;
use prom::Prometheus;

/// The time that an error budget is said to be spent in where the start of the incident is unknown.
const UNKNOWN_START: Duration = Duration::from_secs(3_600);

/// The sources beside Prometheus.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExtraSources<'a> {
    /// Direct reads of exporters, where Prometheus has no data.
    pub exporters: Option<&'a Exporters>,
    /// The replicas' logs.
    pub logs: Option<&'a LogSources>,
}

/// Runs a request: detect, plan, observe, judge.
pub async fn diagnose(library: &Library, prometheus: &Prometheus, request: &Request) -> Diagnosis {
    diagnose_with(library, prometheus, request, ExtraSources::default()).await
}

/// Runs [`diagnose`] with more sources than Prometheus.
pub async fn diagnose_with(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    beside: ExtraSources<'_>,
) -> Diagnosis {
    Box::pin(Box::pin(begin(library, prometheus, request, beside)).await.finish()).await
}

/// An almost complete diagnosis: queried and judged, but without logs and without onsets.
#[derive(Debug)]
pub struct PendingDiagnosis<'a> {
    library: &'a Library,
    prometheus: &'a Prometheus,
    /// The request with its playbook resolved; `screen` is cleared if the alert is about another program.
    requested: Request,
    /// The request with the playbook that was entered.
    request: Request,
    beside: ExtraSources<'a>,
    observed: ObserveResult,
    judged: Option<Judged>,
    /// The verdict on the requested request's playbook; `None` if it has none.
    own: Option<SymptomVerdict>,
    screened: Option<Screened>,
    /// True if all logs were read for this playbook.
    has_logs: bool,
    /// The pools that are there, if they are several and the alert names none.
    pools: Vec<Scope>,
    started: Instant,
}

/// Runs [`diagnose_with`] up to the verdict.
///
/// If the request names no playbook, the rules of its alerts are looked up. If it may be screened and its playbook
/// explains nothing, not even with the logs, the clearest symptom of the pool is entered instead.
pub async fn begin<'a>(
    library: &'a Library,
    prometheus: &'a Prometheus,
    request: &Request,
    beside: ExtraSources<'a>,
) -> PendingDiagnosis<'a> {
    begin_with(library, prometheus, request, beside, true).await
}

/// Runs [`begin`]; `splits` is false for one of several pools, which is never split again.
async fn begin_with<'a>(
    library: &'a Library,
    prometheus: &'a Prometheus,
    request: &Request,
    beside: ExtraSources<'a>,
    splits: bool,
) -> PendingDiagnosis<'a> {
    let started = Instant::now();
    let library = library.for_pool(&request.scope.dimensions);
    let (requested, queries) = rule::with_playbook(library, prometheus, request, started).await;
    let mut pending = PendingDiagnosis {
        library,
        prometheus,
        request: requested.clone(),
        requested,
        beside,
        observed: ObserveResult { queries, cache: AnswerCache::after(queries), ..ObserveResult::default() },
        judged: None,
        own: None,
        screened: None,
        has_logs: false,
        pools: Vec::new(),
        started,
    };
    if splits && pending.requested.scope.is_of_a_cluster() {
        let pools = pending.pools_of_cluster().await;
        if pools.len() > 1 {
            pending.pools = pools;
            return pending;
        }
    }
    if library.playbooks.contains_key(&pending.requested.playbook) {
        let request = screen::with_time_left(&pending.requested, started, 1);
        let playbook = request.playbook.as_str();
        let needs = |library: &'a Library| pool_first(needs(library, playbook));
        let observing = observe_by_kind(library, prometheus, &request, needs, beside.exporters, AnswerCache::default());
        (pending.library, pending.observed) = Box::pin(observing).instrument(debug_span!("observe")).await;
        pending.observed.queries += queries;
        pending.judge().await;
        if pending.verdict() == Some(SymptomVerdict::Absent) && onset::is_young(&request) {
            pending.observe_young(SHORTEST_WINDOW).await;
        }
        pending.own = pending.verdict();
        pending.pools = pending.several(&pending.observed.detection, splits);
        if !pending.pools.is_empty() {
            // Each pool has its own kinds.
            pending.library = library;
            return pending;
        }
    }
    if !pending.requested.screen || pending.observed.degraded || pending.explains() {
        return pending;
    }
    if pending.own == Some(SymptomVerdict::Confirmed) {
        // Half of the time is left for the screening.
        pending.read_logs(started + pending.requested.deadline / 2).await;
        if pending.explains() {
            return pending;
        }
    }
    let mut pending = Box::pin(pending.screened()).instrument(debug_span!("screen")).await;
    pending.pools = pending.several(&pending.observed.detection, splits);
    if !pending.pools.is_empty() {
        pending.library = library;
    }
    pending
}

impl PendingDiagnosis<'_> {
    /// Judges the observations, and queries the replicas that met evidence is about.
    async fn judge(&mut self) {
        self.judged = judge(self.library, &self.request.playbook, &self.observed.observations);
        let Some(judged) = &self.judged else { return };
        let deadline = self.started + self.request.deadline.saturating_sub(RESERVE).max(RESERVE);
        let replica_query = replica_values::query_replicas(
            self.library,
            self.prometheus,
            &self.request,
            &mut self.observed,
            judged,
            deadline,
        );
        if Box::pin(replica_query).instrument(debug_span!("who")).await {
            self.judged = judge(self.library, &self.request.playbook, &self.observed.observations);
        }
    }

    /// Returns the verdict on the symptom of the playbook that was entered.
    fn verdict(&self) -> Option<SymptomVerdict> {
        self.judged.as_ref().map(|judged| judged.symptom)
    }

    fn explains(&self) -> bool {
        self.judged.as_ref().is_some_and(|judged| screen::explains(self.library, &self.request.playbook, judged))
    }

    /// Reads the logs and judges again; a second time only if some logs could not be read.
    async fn read_logs(&mut self, deadline: Instant) {
        let Some(logs) = self.beside.logs.filter(|_| self.judged.is_some() && !self.has_logs) else { return };
        let fetch = logs.fetch_logs(self.library, &self.request, self.judged.as_ref(), &mut self.observed, deadline);
        if Box::pin(fetch).instrument(debug_span!("logs")).await {
            self.judge().await;
            self.has_logs = self.observed.logs.as_ref().is_some_and(|read| read.missing.is_empty());
        }
    }

    /// Screens the pool for a symptom that explains more.
    async fn screened(mut self) -> Self {
        let (prometheus, exporters) = (self.prometheus, self.beside.exporters);
        let uncached_queries = self.observed.queries.saturating_sub(self.observed.cache.queries);
        // The causes need time too.
        let request = screen::with_time_left(&self.requested, self.started, 2);
        let cache = self.observed.cache.clone();
        let (library, screened, observed) =
            Box::pin(screen::screen(self.library, prometheus, &request, None, exporters, cache)).await;
        self.library = library;
        let mut cache = observed.cache.clone();
        let is_complete = !observed.degraded && observed.incomplete().is_none();
        if is_complete && observed.detection.is_of_another_job(library, &self.requested.scope) {
            // The alert is about another program: other symptoms here are not related to it.
            self.requested.screen = false;
            self.observed.detection.unknown = observed.detection.unknown;
        } else {
            let own = self.judged.as_ref().map(|judged| screen::clarity(library, &self.request.playbook, judged));
            let request = screen::with_time_left(&self.requested, self.started, 1);
            let enter = screen::enter(library, prometheus, &request, exporters, &screened, own, cache.clone());
            let mut before = observed;
            if let Some((observed, best)) = Box::pin(enter).await {
                cache = observed.cache.clone();
                match best {
                    Some((playbook, judged)) => {
                        before.add_trouble(&self.observed);
                        // Its values are of the usual window.
                        self.request = Request { playbook, ..self.requested.clone() };
                        self.observed = observed;
                        self.judged = Some(judged);
                        self.has_logs = false;
                    }
                    None => before.add_trouble(&observed),
                }
            }
            match self.judged {
                Some(_) => self.observed.add_trouble(&before),
                None => self.observed = before,
            }
            self.screened = Some(screened);
        }
        self.observed.queries = uncached_queries + cache.queries;
        self.observed.cache = cache;
        if self.judged.is_some() {
            self.judge().await;
        }
        self
    }

    /// Returns the diagnosis without onsets; `None` if there is no cause, if data is missing, or if onsets may select
    /// another cause.
    pub fn so_far(&self) -> Option<Diagnosis> {
        let judged = self.judged.as_ref().filter(|_| self.pools.is_empty());
        let judged = judged.filter(|judged| !judged.chains.is_empty() && !is_tied(judged))?;
        let (observed, judged) = (self.observed.clone(), Some(judged.clone()));
        let is_complete = !observed.degraded;
        let screening = self.screening();
        is_complete.then(|| {
            assemble::assemble(self.library, &self.request, observed, judged, screening, self.started.elapsed())
        })
    }

    /// Returns the window of a confirmed incident that is younger than the usual one; `None` for every other.
    fn young_window(&self) -> Option<Duration> {
        let judged = self.judged.as_ref().filter(|judged| judged.symptom == SymptomVerdict::Confirmed)?;
        onset::young_window(&self.request, judge::onset(&judged.evidence)?.0)
    }

    /// Observes a young incident once more in a window of its own: the time before it dilutes every rate. The new values
    /// count if they confirm the symptom, and explain it where the former ones did; returns true then. Nothing is asked
    /// twice, of a pool whose queries are costly, of a Prometheus that was late, or where pages were read, which have one
    /// window.
    async fn observe_young(&mut self, window: Duration) -> bool {
        let ObserveResult { degraded, direct, members, .. } = &self.observed;
        if self.request.is_young || *degraded || direct.is_some() || members.replicas() > onset::MANY_REPLICAS {
            return false;
        }
        let young = Request { window, is_young: true, ..self.request.clone() };
        let request = screen::with_time_left(&young, self.started, 1);
        let needs = pool_first(needs(self.library, &request.playbook));
        let asked = observe_needs(self.library, self.prometheus, &request, &needs, self.observed.cache.clone());
        let mut young = Box::pin(asked).instrument(debug_span!("young")).await;
        self.observed.queries += young.cache.queries.saturating_sub(self.observed.cache.queries);
        self.observed.cache.queries = young.cache.queries;
        young.observations.held_since = self.observed.observations.held_since.clone();
        keep_where_too_short(self.library, &self.observed.observations, &mut young.observations);
        let Some(judged) = judge(self.library, &request.playbook, &young.observations) else { return false };
        let was_explained = self.judged.as_ref().is_some_and(|before| !before.chains.is_empty());
        let explains = !judged.chains.is_empty() || !was_explained;
        if young.degraded || judged.symptom != SymptomVerdict::Confirmed || !explains {
            return false;
        }
        (self.request.window, self.request.is_young) = (window, true);
        self.observed.add_trouble(&young);
        self.observed.cache.missing = self.observed.cache.missing.take().or(young.cache.missing);
        (self.observed.observations, self.observed.members) = (young.observations, young.members);
        self.judge().await;
        true
    }

    fn screening(&self) -> Option<Screening> {
        let screened = self.screened.as_ref()?;
        Some(screened.screening(self.library, &self.requested, self.own, &self.request.playbook, self.judged.as_ref()))
    }

    /// Finishes the diagnosis. Where nothing is left of an alert's symptom, the start of the incident is diagnosed too,
    /// and counts if it is explained: an alert that waited, for Prometheus or for us, may come when all is over.
    pub async fn finish(self) -> Diagnosis {
        let (library, prometheus, requested, beside) =
            (self.library, self.prometheus, self.requested.clone(), self.beside);
        let started = self.started;
        let now = Box::pin(self.finish_at()).await;
        let is_over = now.symptom.verdict != SymptomVerdict::Confirmed && now.causes.is_empty() && !now.degraded;
        let Some(request) = onset::at_start(&requested).filter(|_| is_over) else { return now };
        let request = screen::with_time_left(&request, started, 1);
        let pending = Box::pin(begin_with(library, prometheus, &request, beside, false)).await;
        let (then, queries) = (Box::pin(pending.finish_at()).await, now.queries);
        let is_explained = then.symptom.verdict == SymptomVerdict::Confirmed && !then.causes.is_empty();
        let (queries, took_seconds) = (queries + then.queries, started.elapsed().as_secs_f64());
        match is_explained {
            true => Diagnosis { over_at: Some(now.at), queries, took_seconds, ..then },
            false => Diagnosis { queries, took_seconds, ..now },
        }
    }

    /// Reads the logs, queries the onsets and the other symptoms, and assembles the diagnosis of the request's time.
    async fn finish_at(mut self) -> Diagnosis {
        if !self.pools.is_empty() {
            return Box::pin(self.of_each_pool()).await;
        }
        let (library, prometheus, started) = (self.library, self.prometheus, self.started);
        let deadline = started + self.request.deadline.saturating_sub(RESERVE).max(RESERVE);
        self.read_logs(deadline).await;
        let request = &self.request;
        let away = self.observed.direct.as_ref().is_some_and(|direct| direct.because.is_without_prometheus());
        let unscreened = self.requested.screen && self.screened.is_none() && !self.observed.degraded;
        let cache = unscreened.then(|| self.observed.cache.clone());
        let glance = async {
            let glance_request = screen::glance(&self.requested, started);
            let screen = screen::screen(library, prometheus, &glance_request, None, None, cache?);
            Some(Box::pin(screen).instrument(debug_span!("screen")).await)
        };
        let (observed, first) = (&mut self.observed, self.judged.as_ref().filter(|_| !away));
        let trace = async {
            let Some(first) = first else { return false };
            let traced = onset::trace(library, prometheus, request, observed, first, deadline);
            Box::pin(traced).instrument(debug_span!("trace")).await
        };
        let (traced, glanced) = join(trace, glance).await;
        if traced {
            self.judged = judge(library, &request.playbook, &self.observed.observations);
            if let Some(window) = self.young_window()
                && self.observe_young(window).await
            {
                self.has_logs = false;
                self.read_logs(deadline).await;
            }
        }
        let request = &self.request;
        // Of a symptom that does not hold it would only take time.
        let holds = self.verdict() == Some(SymptomVerdict::Confirmed);
        if !away && holds {
            let onset = self.judged.as_ref().and_then(|judged| Some(judge::onset(&judged.evidence)?.0));
            let since = onset.into_iter().chain(request.since).min().unwrap_or(request.at - UNKNOWN_START);
            let asked = error_budget(library, prometheus, request, &self.observed.detection, since, deadline);
            let (budget, queries) = Box::pin(asked).instrument(debug_span!("budget")).await;
            self.observed.error_budget = budget;
            self.observed.queries += queries;
        }
        if let Some((_, screened, observed)) = glanced {
            self.observed.queries += observed.cache.queries.saturating_sub(self.observed.cache.queries);
            self.observed.cache.missing = self.observed.cache.missing.take().or(observed.cache.missing);
            self.screened = Some(screened);
        }
        if is_blind(self.own, self.screened.as_ref(), &self.observed) {
            let (data, queries) = data(library, prometheus, &request.scope, request.at, deadline).await;
            self.observed.queries += queries;
            self.observed.elsewhere = data;
        }
        let screening = self.screening();
        assemble::assemble(library, &self.request, self.observed, self.judged, screening, started.elapsed())
    }
}

/// Returns true if the alert's own symptom, else every symptom, could not be judged although Prometheus answered.
fn is_blind(own: Option<SymptomVerdict>, screened: Option<&Screened>, observed: &ObserveResult) -> bool {
    let blind = match own {
        Some(own) => own == SymptomVerdict::NoData,
        None => screened.is_some_and(|screened| screened.looked_at.is_empty()),
    };
    // A pool in the missing part has not gone.
    blind && !observed.degraded && observed.incomplete().is_none()
}
