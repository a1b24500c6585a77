//! The whole chain of a request: entry ─▶ observe ─▶ judge ─▶ screen ─▶ logs ─▶ onsets ─▶ assemble.

mod error_budget;
mod rollout;
mod seen;
mod several_pools;

use std::time::{Duration, Instant};

use futures::future::join;
use tokio::sync::oneshot;
use tracing::{Instrument, debug_span};

use self::error_budget::add_error_budget;
use self::rollout::last_rollout;
use self::seen::Seen;
use self::several_pools::{of_each_pool, pools_of_cluster};
use crate::direct::Exporters;
use crate::judge::assemble::assemble;
use crate::observe::log_sources::LogSources;
use crate::observe::observe_result::{ObserveResult, RESERVE};
use crate::refine::rule;
use crate::refine::screen::{Screened, glance, screen};
use detect::{condition, data, with_pool_of_workload, with_selected_pool};
use findings::{Diagnosis, Request, SymptomVerdict};
use knowledge::playbook::Library;
use prom::Prometheus;

/// Maximum wait for what an alert says of itself: its rule, its workload's pool, its expression. The rest does without.
const PATIENCE: Duration = Duration::from_secs(2);

/// The sources beside Prometheus.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExtraSources<'a> {
    /// Direct reads of exporters, where Prometheus has no data.
    pub exporters: Option<&'a Exporters>,
    /// The replicas' logs.
    pub logs: Option<&'a LogSources>,
}

/// The sources of a diagnosis, and its start.
#[derive(Clone, Copy)]
struct Sources<'a> {
    prometheus: &'a Prometheus,
    beside: ExtraSources<'a>,
    started: Instant,
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
    diagnose_early(library, prometheus, request, beside, None).await
}

/// Runs [`diagnose_with`], and sends the diagnosis without onsets to `early` as soon as it has a cause, unless data is
/// missing or onsets may select another cause.
///
/// If the request names no playbook, the rules of its alerts are looked up. If it may be screened and its playbook
/// explains nothing, not even with the logs, the clearest symptom of the pool is entered instead.
pub async fn diagnose_early(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    beside: ExtraSources<'_>,
    early: Option<oneshot::Sender<Diagnosis>>,
) -> Diagnosis {
    let sources = Sources { prometheus, beside, started: Instant::now() };
    let soon = sources.started + PATIENCE.min(request.deadline / 4);
    let (requested, queries) = rule::with_playbook(library, prometheus, request, soon).await;
    let requested = with_selected_pool(library, &requested);
    let (requested, asked) = with_pool_of_workload(library, prometheus, requested, soon).await;
    let library = library.for_pool(&requested.scope.dimensions);
    let of_alerts = condition(prometheus, &requested, soon);
    let of_pool = Box::pin(of_pool(library, sources, requested.clone(), queries + asked, true, early));
    let (diagnosis, (condition, evaluated)) = join(of_pool, of_alerts).await;
    let took_seconds = sources.started.elapsed().as_secs_f64();
    let mut symptom = diagnosis.symptom;
    if condition.is_some_and(|found| found.is_new)
        && symptom.playbook.is_empty()
        && symptom.verdict == SymptomVerdict::Absent
    {
        "no known symptom is abnormal".clone_into(&mut symptom.title);
    }
    Diagnosis { symptom, condition, queries: diagnosis.queries + evaluated, took_seconds, ..diagnosis }
}

/// Diagnoses a request with its playbook; `queries` were sent before, and one that `splits` may be about several pools.
async fn of_pool(
    library: &Library,
    sources: Sources<'_>,
    mut requested: Request,
    mut queries: usize,
    splits: bool,
    early: Option<oneshot::Sender<Diagnosis>>,
) -> Diagnosis {
    let Sources { prometheus, started, .. } = sources;
    if splits && requested.scope.is_of_a_cluster() {
        let pools = pools_of_cluster(library, prometheus, &requested).await;
        queries += 1;
        if pools.len() > 1 {
            let nothing = Seen::nothing(library, &requested, queries).observed;
            return Box::pin(of_each_pool(library, sources, &requested, nothing, pools)).await;
        }
    }
    let mut seen = match library.playbooks.contains_key(&requested.playbook) {
        true => Box::pin(Seen::of_playbook(library, sources, &requested, queries)).await,
        false => Seen::nothing(library, &requested, queries),
    };
    let own = seen.verdict();
    let mut pools = seen.pools(splits);
    let mut screened: Option<Screened> = None;
    if pools.is_empty() && requested.screen && !seen.observed.degraded && !seen.explains() {
        if own == Some(SymptomVerdict::Confirmed) {
            // Half of the time is left for the screening.
            seen = seen.with_logs(sources, started + requested.deadline / 2).await;
        }
        if !seen.explains() {
            let screening = Box::pin(seen.screened(sources, &requested)).instrument(debug_span!("screen"));
            (seen, screened) = screening.await;
            // An alert about another program: other symptoms here are not related to it.
            requested.screen = screened.is_some();
            pools = seen.pools(splits);
        }
    }
    if !pools.is_empty() {
        return Box::pin(of_each_pool(library, sources, &requested, seen.observed, pools)).await;
    }
    let screening = |screened: Option<&Screened>, seen: &Seen<'_>| {
        Some(screened?.screening(seen.library, &requested, own, &seen.request.playbook, seen.judged.as_ref()))
    };
    if let Some(early) = early
        && let Some(diagnosis) = seen.so_far(screening(screened.as_ref(), &seen), started)
    {
        // Whoever waited for it may have gone.
        early.send(diagnosis).ok();
    }
    let deadline = started + requested.deadline.saturating_sub(RESERVE).max(RESERVE);
    seen = seen.with_logs(sources, deadline).await;
    let away = seen.observed.direct.as_ref().is_some_and(|direct| direct.because.is_without_prometheus());
    let is_unscreened = requested.screen && screened.is_none() && !seen.observed.degraded;
    let (pool, cache) = (seen.library, is_unscreened.then(|| seen.observed.cache.clone()));
    let glance = async {
        let request = glance(&requested, started);
        Some(Box::pin(screen(pool, prometheus, &request, None, None, cache?)).instrument(debug_span!("screen")).await)
    };
    let (traced, glanced) = join(seen.traced(prometheus, deadline, away), glance).await;
    seen = traced;
    if let Some(window) = seen.young_window().filter(|_| !seen.request.is_young) {
        seen = seen.young(sources, window).await;
        if seen.request.is_young {
            seen = seen.with_logs(sources, deadline).await;
        }
    }
    // Of a symptom that does not hold it would only take time.
    if !away && seen.verdict() == Some(SymptomVerdict::Confirmed) {
        add_error_budget(&mut seen, pool, prometheus, deadline).await;
    }
    if let Some((_, glanced, observed)) = glanced {
        seen.observed.queries += observed.cache.queries.saturating_sub(seen.observed.cache.queries);
        seen.observed.cache.missing = seen.observed.cache.missing.take().or(observed.cache.missing);
        screened = Some(glanced);
    }
    if is_blind(own, screened.as_ref(), &seen.observed) {
        let (elsewhere, queries) = data(pool, prometheus, &seen.request.scope, seen.request.at, deadline).await;
        seen.observed.queries += queries;
        seen.observed.elsewhere = elsewhere;
    }
    let screening = screening(screened.as_ref(), &seen);
    let members: Vec<String> =
        seen.observed.observations.pool.iter().filter(|name| !name.contains(':')).cloned().collect();
    let mut diagnosis = assemble(pool, &seen.request, seen.observed, seen.judged, screening, started.elapsed());
    diagnosis.rollout = last_rollout(pool, &seen.request, &diagnosis, sources.beside.logs, &members, deadline).await;
    diagnosis
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
