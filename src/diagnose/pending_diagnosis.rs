//! The whole chain of a request: detect, plan, observe, judge; the pool's other symptoms if that explains nothing.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, join};
use futures::stream::{self, StreamExt};
use tracing::{Instrument, debug_span};

use crate::detect::detection_result::DetectionResult;
use crate::detect::visible_pools::meant;
use crate::direct::{self, Exporters};
use crate::judge::screen::{self, Screened, Screening};
use crate::judge::{affected_replicas, assemble, onset, rule};
use crate::observe::answer_cache::AnswerCache;
use crate::observe::error_budget::error_budget;
use crate::observe::log_sources::LogSources;
use crate::observe::observe_result::{ObserveResult, RESERVE};
use crate::observe::plan::{needs, pool_first};
use crate::scope::{Scope, data_span};
use crate::{Diagnosis, Judged, Outcome, Request, SymptomVerdict, detection, gateway_pools, judge, pools};
use knowledge::alert::Labels;
use knowledge::playbook::{Library, Playbook};
use sources::prom::Prometheus;

/// The time that an error budget is said to be spent in where the start of the incident is unknown.
const UNKNOWN_START: Duration = Duration::from_secs(3_600);

/// Maximum number of pools that are diagnosed for an alert that names none.
const MAX_POOLS: usize = 6;
/// Pools that are asked at the same time.
const POOLS_AT_ONCE: usize = 2;
/// The least time that a question about a pool is worth.
const LEAST_TIME: Duration = Duration::from_millis(300);

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

/// Compares two pools by their symptom's check: equal ones by its value, worse first.
fn worst_first(library: &Library, a: &Diagnosis, b: &Diagnosis) -> Ordering {
    let met = |d: &Diagnosis| d.symptom.evidence.iter().find(|e| e.outcome == Outcome::Met).cloned();
    match (met(a), met(b)) {
        (Some(a), Some(b)) if a.signal == b.signal => {
            let worse = library.signals.get(&a.signal).map(|signal| signal.bad);
            let values = a.value.zip(b.value).zip(worse);
            values.map_or(Ordering::Equal, |((a, b), worse)| worse.worst_first(a, b))
        }
        (a, b) => a.map(|e| e.signal).cmp(&b.map(|e| e.signal)),
    }
}

/// Diagnoses one of several pools by itself in the time that is left; `None` if there is none.
fn of_one_pool<'a>(
    library: &'a Library,
    prometheus: &'a Prometheus,
    request: &'a Request,
    beside: ExtraSources<'a>,
    end: Instant,
) -> BoxFuture<'a, Option<Diagnosis>> {
    Box::pin(async move {
        let deadline = end.saturating_duration_since(Instant::now());
        if deadline < LEAST_TIME {
            return None;
        }
        let request = Request { deadline, ..request.clone() };
        let pending = Box::pin(begin_with(library, prometheus, &request, beside, false)).await;
        Some(Box::pin(pending.finish()).await)
    })
}

/// Judges the symptoms of these playbooks for one of several pools in the time that is left; `None` if there is none.
fn screened_pool<'a>(
    library: &'a Library,
    prometheus: &'a Prometheus,
    request: &'a Request,
    entries: &'a [&'a Playbook],
    end: Instant,
) -> BoxFuture<'a, Option<(Screened, ObserveResult)>> {
    Box::pin(async move {
        let deadline = end.saturating_duration_since(Instant::now());
        if deadline < LEAST_TIME {
            return None;
        }
        let request = Request { deadline, ..request.clone() };
        Some(screen::screen(library, prometheus, &request, entries, None, AnswerCache::default()).await)
    })
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
        pending.pools = pending.several(&pending.observed.detection, splits);
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
    let mut pending = Box::pin(pending.screened()).instrument(debug_span!("screen")).await;
    pending.pools = pending.several(&pending.observed.detection, splits);
    pending
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
        let judged = self.judged.as_ref().filter(|_| self.pools.is_empty());
        let judged = judged.filter(|judged| !judged.chains.is_empty() && !judged.is_tied())?;
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
        let deadline = Instant::now() + self.requested.deadline / 4;
        let Ok(rows) = self.prometheus.query(&detection(self.library), self.requested.at, deadline).await else {
            return Vec::new();
        };
        let rows: Vec<Labels> = rows.iter().map(|row| row.labels.clone()).collect();
        let (_, pools_meant) = meant(self.library, &self.requested.scope, &rows);
        let serving = pools(self.library, &rows);
        let of_gateways = gateway_pools(self.library, &rows, &serving);
        let all = if pools_meant.is_empty() { serving.into_iter().chain(of_gateways).collect() } else { pools_meant };
        let cluster = self.requested.scope.dimensions.get("cluster");
        let is_in = |pool: &Labels| pool.get("cluster").is_none_or(|own| cluster.is_none_or(|cluster| own == cluster));
        let of_cluster = all.into_iter().filter(|pool| !pool.is_empty() && is_in(pool));
        of_cluster.map(|dimensions| Scope { dimensions, ..Scope::default() }).collect()
    }

    /// Returns the pools of a detection that found several and none that is meant.
    fn several(&self, detection: &DetectionResult, splits: bool) -> Vec<Scope> {
        let of_pool = |pool: &Labels| Scope { dimensions: pool.clone(), ..Scope::default() };
        detection.pools.iter().filter(|_| splits).map(of_pool).collect()
    }

    /// Diagnoses each pool by itself, where none is named: one verdict on all of them would be nobody's. All of it ends
    /// with the request's deadline; pools that it did not reach are counted.
    async fn of_each_pool(self) -> Diagnosis {
        let Self { library, prometheus, beside, started, .. } = self;
        let end = started + self.requested.deadline;
        let request = |scope: &Scope| Request { scope: scope.clone(), ..self.requested.clone() };
        let mut requests: Vec<Request> = self.pools.iter().map(request).collect();
        let entered = library.playbooks.get(&self.requested.playbook).map(|playbook| vec![playbook]);
        let entries = entered.unwrap_or_else(|| screen::entries(library));
        let (mut queries, mut unchecked, mut looked_at) = (self.observed.queries, 0, Vec::new());
        if requests.len() > MAX_POOLS {
            let half = started + self.requested.deadline / 2;
            let asked = requests.iter().map(|request| screened_pool(library, prometheus, request, &entries, half));
            let asked: Vec<BoxFuture<'_, _>> = asked.collect();
            let answers: Vec<_> = stream::iter(asked).buffered(POOLS_AT_ONCE).collect().await;
            let mut ranked = Vec::new();
            for (request, answer) in requests.into_iter().zip(answers) {
                let Some((screened, observed)) = answer else {
                    unchecked += 1;
                    continue;
                };
                queries += observed.queries;
                unchecked += usize::from(observed.degraded || observed.incomplete().is_some());
                looked_at.extend(screened.looked_at);
                match (screened.confirmed.is_empty(), screened.slight.is_empty()) {
                    (false, _) => ranked.push((0, request)),
                    (true, false) => ranked.push((1, request)),
                    (true, true) => {}
                }
            }
            ranked.sort_by_key(|(rank, _)| *rank);
            requests = ranked.into_iter().map(|(_, request)| request).collect();
        }
        let left_out = requests.len().saturating_sub(MAX_POOLS);
        let asked =
            requests.iter().take(MAX_POOLS).map(|request| of_one_pool(library, prometheus, request, beside, end));
        let asked: Vec<BoxFuture<'_, Option<Diagnosis>>> = asked.collect();
        let answers: Vec<Option<Diagnosis>> = stream::iter(asked).buffered(POOLS_AT_ONCE).collect().await;
        unchecked += answers.iter().filter(|answer| answer.as_ref().is_none_or(|found| found.degraded)).count();
        let mut found: Vec<Diagnosis> = answers.into_iter().flatten().collect();
        queries += found.iter().map(|diagnosis| diagnosis.queries).sum::<usize>();
        let mut titles: BTreeSet<String> = looked_at
            .iter()
            .filter_map(|id| library.playbooks.get(id))
            .map(|playbook| playbook.title.clone())
            .collect();
        let screenings = found.iter().filter_map(|diagnosis| diagnosis.screening.as_ref());
        titles.extend(screenings.flat_map(|screening| screening.looked_at.iter().cloned()));
        titles.extend(
            found.iter().filter(|d| d.symptom.verdict == SymptomVerdict::Absent).map(|d| d.symptom.title.clone()),
        );
        found.retain(|diagnosis| diagnosis.symptom.verdict == SymptomVerdict::Confirmed);
        // Worst first: the symptom that was asked for, where it is strongest.
        let own = |diagnosis: &Diagnosis| diagnosis.symptom.playbook == self.requested.playbook;
        found.sort_by(|a, b| own(b).cmp(&own(a)).then_with(|| worst_first(library, a, b)));
        let pools = found.iter().map(Diagnosis::in_short).collect();
        let mut worst = found.into_iter().next().unwrap_or_else(|| {
            let asked = Some(self.requested.playbook.clone()).filter(|id| !id.is_empty());
            let title = asked.as_ref().and_then(|id| library.playbooks.get(id)).map(|playbook| playbook.title.clone());
            let screening = Screening {
                asked_verdict: asked.as_ref().map(|_| SymptomVerdict::Absent),
                asked,
                asked_title: title,
                looked_at: titles.into_iter().collect(),
                ..Screening::default()
            };
            let nowhere = Request { playbook: String::new(), ..self.requested.clone() };
            let observed = ObserveResult { queries, degraded: unchecked > 0, ..self.observed };
            assemble::assemble(library, &nowhere, observed, None, Some(screening), started.elapsed())
        });
        let mut note = "no pool is named: each pool was checked by itself".to_owned();
        if left_out > 0 {
            note.push_str(&format!("; {left_out} more in trouble were not diagnosed"));
        }
        worst.scope.notes.insert(0, note);
        if unchecked > 0 {
            worst.degraded = true;
            worst.problems.push(format!("{unchecked} pools could not be checked: Prometheus did not answer in time"));
        }
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
