//! The whole chain of a request: detect, plan, observe, judge; the pool's other symptoms if that explains nothing.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, join};
use futures::stream::{self, StreamExt};
use tracing::{Instrument, debug_span};

use crate::detect::visible_pools::meant;
use crate::direct::{self, Exporters};
use crate::judge::screen::{self, Screened, Screening};
use crate::judge::{affected_replicas, assemble, onset, rule};
use crate::observe::NAMES_WAIT;
use crate::observe::answer_cache::AnswerCache;
use crate::observe::error_budget::error_budget;
use crate::observe::log_sources::LogSources;
use crate::observe::observe_result::{ObserveResult, RESERVE};
use crate::observe::plan::{needs, pool_first};
use crate::scope::{Scope, data_span};
use crate::{Diagnosis, FleetPool, Judged, Outcome, Request, SymptomVerdict, fleet, judge, places};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use sources::prom::Prometheus;

/// The time that an error budget is said to be spent in where the start of the incident is unknown.
const UNKNOWN_START: Duration = Duration::from_secs(3_600);

/// Maximum number of pools that are diagnosed for an alert that names none.
const MAX_POOLS: usize = 6;
/// Pools that are asked at the same time.
const POOLS_AT_ONCE: usize = 2;

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

/// Compares two pools by the check that confirmed their symptom, worse first, if it is the same one; else by the certainty
/// of their causes.
fn worst_first(library: &Library, a: &Diagnosis, b: &Diagnosis) -> Ordering {
    let met = |d: &Diagnosis| {
        let met = d.symptom.evidence.iter().find(|e| e.outcome == Outcome::Met)?;
        Some((met.signal.clone(), met.value?))
    };
    let sure = |d: &Diagnosis| d.root().map_or(0.0, |root| root.probability);
    match (met(a), met(b)) {
        (Some((one, x)), Some((other, y))) if one == other => {
            library.signals.get(&one).map_or(Ordering::Equal, |signal| signal.bad.worst_first(x, y))
        }
        _ => sure(b).total_cmp(&sure(a)),
    }
}

/// Runs [`diagnose_with`]; a diagnosis of several pools contains one of each.
fn boxed<'a>(
    library: &'a Library,
    prometheus: &'a Prometheus,
    request: &'a Request,
    beside: ExtraSources<'a>,
) -> BoxFuture<'a, Diagnosis> {
    Box::pin(diagnose_with(library, prometheus, request, beside))
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
    if pending.requested.scope.is_of_a_cluster() {
        pending.pools = pending.pools_of_cluster().await;
        if pending.pools.len() > 1 {
            return pending;
        }
    }
    if library.playbooks.contains_key(&pending.requested.playbook) {
        let request = screen::with_time_left(&pending.requested, started, 1);
        let needs = pool_first(needs(library, &request.playbook));
        let observing = direct::observe_needs_with_exporters(
            library,
            prometheus,
            &request,
            &needs,
            beside.exporters,
            AnswerCache::default(),
        );
        pending.observed = Box::pin(observing).instrument(debug_span!("observe")).await;
        pending.observed.queries += queries;
        pending.judge().await;
        pending.own = pending.judged.as_ref().map(|judged| judged.symptom);
        let of_pool = |pool: &Labels| Scope { dimensions: pool.clone(), ..Scope::default() };
        pending.pools = pending.observed.detection.pools.iter().map(of_pool).collect();
        if !pending.pools.is_empty() {
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
    Box::pin(pending.screened()).instrument(debug_span!("screen")).await
}

impl PendingDiagnosis<'_> {
    /// Judges the observations, and queries the replicas that met evidence is about.
    async fn judge(&mut self) {
        self.judged = judge(self.library, &self.request.playbook, &self.observed.observations);
        let Some(judged) = &self.judged else { return };
        let deadline = self.started + self.request.deadline.saturating_sub(RESERVE).max(RESERVE);
        let replica_query = affected_replicas::query_replicas(
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
        let (library, prometheus, exporters) = (self.library, self.prometheus, self.beside.exporters);
        let uncached_queries = self.observed.queries.saturating_sub(self.observed.cache.queries);
        // Exporters may be read twice, for the symptoms and for their causes.
        let request = screen::with_time_left(&self.requested, self.started, 2);
        let cache = self.observed.cache.clone();
        let (screened, observed) =
            Box::pin(screen::screen(library, prometheus, &request, &screen::entries(library), exporters, cache)).await;
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
                        self.request.playbook = playbook;
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
        let judged = self.judged.as_ref().filter(|judged| !judged.chains.is_empty() && !judged.is_tied())?;
        let (observed, judged) = (self.observed.clone(), Some(judged.clone()));
        let is_complete = !observed.degraded;
        let screening = self.screening();
        is_complete.then(|| {
            assemble::assemble(self.library, &self.request, observed, judged, screening, self.started.elapsed())
        })
    }

    /// Returns the pools of the scope's cluster; none if they could not be asked for.
    async fn pools_of_cluster(&mut self) -> Vec<Scope> {
        self.observed.queries += 1;
        let deadline = Instant::now() + self.requested.deadline / NAMES_WAIT;
        let Ok(rows) = self.prometheus.query(&fleet(self.library), self.requested.at, deadline).await else {
            return Vec::new();
        };
        let rows: Vec<Labels> = rows.iter().map(|row| row.labels.clone()).collect();
        let (_, pools_meant) = meant(self.library, &self.requested.scope, &rows);
        let is_meant = |place: &FleetPool| pools_meant.is_empty() || pools_meant.contains(&place.dimensions);
        let places = places(self.library, &rows).into_iter().filter(|place| place.is_in(&self.requested.scope));
        places.filter(is_meant).map(|place| place.scope(None)).filter(Scope::names_pool).collect()
    }

    /// Diagnoses each pool by itself, where the alert names none: one verdict on all of them would be nobody's.
    async fn of_each_pool(self) -> Diagnosis {
        let Self { library, prometheus, beside, started, .. } = self;
        let mut queries = self.observed.queries;
        let request = |scope: &Scope, part: u32| {
            let request = screen::with_time_left(&self.requested, started, part);
            Request { scope: scope.clone(), screen: true, ..request }
        };
        let mut pools = self.pools;
        let entered = library.playbooks.get(&self.requested.playbook).map(|playbook| vec![playbook]);
        let entries = entered.unwrap_or_else(|| screen::entries(library));
        if pools.len() > MAX_POOLS {
            let requests: Vec<Request> = pools.iter().map(|pool| request(pool, 2)).collect();
            let screened =
                |request| screen::screen(library, prometheus, request, &entries, None, AnswerCache::default()).boxed();
            let asked: Vec<BoxFuture<'_, (Screened, ObserveResult)>> = requests.iter().map(screened).collect();
            let answers: Vec<_> = stream::iter(asked).buffered(POOLS_AT_ONCE).collect().await;
            queries += answers.iter().map(|(_, observed)| observed.queries).sum::<usize>();
            let mut in_trouble = answers.iter().map(|(one, _)| !one.confirmed.is_empty() || !one.slight.is_empty());
            pools.retain(|_| in_trouble.next().unwrap_or_default());
        }
        let left_out = pools.len().saturating_sub(MAX_POOLS);
        let requests: Vec<Request> = pools.iter().take(MAX_POOLS).map(|pool| request(pool, 1)).collect();
        let asked = requests.iter().map(|request| boxed(library, prometheus, request, beside));
        let asked: Vec<BoxFuture<'_, Diagnosis>> = asked.collect();
        let mut found: Vec<Diagnosis> = stream::iter(asked).buffered(POOLS_AT_ONCE).collect().await;
        queries += found.iter().map(|diagnosis| diagnosis.queries).sum::<usize>();
        let looked_at = found.first().and_then(|diagnosis| diagnosis.screening.clone());
        found.retain(|diagnosis| diagnosis.symptom.verdict == SymptomVerdict::Confirmed);
        // Worst first: the alert's own symptom, where it is strongest.
        let own = |diagnosis: &Diagnosis| diagnosis.symptom.playbook == self.requested.playbook;
        found.sort_by(|a, b| own(b).cmp(&own(a)).then_with(|| worst_first(library, a, b)));
        let pools = found.iter().map(Diagnosis::in_short).collect();
        let mut worst = match found.into_iter().next() {
            Some(worst) => worst,
            None => {
                let observed = ObserveResult { queries, ..self.observed };
                let nowhere = Request { playbook: String::new(), ..self.requested };
                assemble::assemble(library, &nowhere, observed, None, looked_at, started.elapsed())
            }
        };
        worst.scope.notes.insert(0, match left_out {
            0 => "the alert names no pool: each pool was checked by itself".to_owned(),
            more => format!("the alert names no pool: each pool was checked by itself, and {more} more in trouble were not diagnosed"),
        });
        Diagnosis { pools, queries, took_seconds: started.elapsed().as_secs_f64(), ..worst }
    }

    fn screening(&self) -> Option<Screening> {
        let screened = self.screened.as_ref()?;
        Some(screened.screening(self.library, &self.requested, self.own, &self.request.playbook, self.judged.as_ref()))
    }

    /// Reads the logs, queries the onsets and the other symptoms, and assembles the diagnosis.
    pub async fn finish(mut self) -> Diagnosis {
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
            let entries = screen::entries(library);
            let screen = screen::screen(library, prometheus, &glance_request, &entries, None, cache?);
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
        }
        // Of a symptom that does not hold it would only take time.
        let holds = self.judged.as_ref().is_some_and(|judged| judged.symptom == SymptomVerdict::Confirmed);
        if !away && holds {
            let onset = self.judged.as_ref().and_then(|judged| Some(judge::onset(&judged.evidence)?.0));
            let since = onset.into_iter().chain(request.since).min().unwrap_or(request.at - UNKNOWN_START);
            let asked = error_budget(library, prometheus, request, &self.observed.detection, since, deadline);
            let (budget, queries) = Box::pin(asked).instrument(debug_span!("budget")).await;
            self.observed.error_budget = budget;
            self.observed.queries += queries;
        }
        if let Some((screened, observed)) = glanced {
            self.observed.queries += observed.cache.queries.saturating_sub(self.observed.cache.queries);
            self.observed.cache.missing = self.observed.cache.missing.take().or(observed.cache.missing);
            self.screened = Some(screened);
        }
        if is_blind(self.own, self.screened.as_ref(), &self.observed) {
            let (data, queries) = data_span::data(library, prometheus, &request.scope, request.at, deadline).await;
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
