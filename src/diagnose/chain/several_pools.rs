//! Several pools where none is named: each is judged by itself, worst first.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};

use super::{Sources, of_pool};
use crate::judge::assemble;
use crate::observe::answer_cache::AnswerCache;
use crate::observe::observe_result::ObserveResult;
use crate::refine::screen::{self, Screened};
use detect::{detection, gateway_pools, meant, pools};
use findings::scope::Scope;
use findings::{Diagnosis, Outcome, Request, Screening, SymptomVerdict};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use prom::Prometheus;

/// Maximum number of pools that are diagnosed for an alert that names none.
const MAX_POOLS: usize = 6;
/// Pools that are asked at the same time.
const POOLS_AT_ONCE: usize = 2;
/// The least time that a question about a pool is worth.
const LEAST_TIME: Duration = Duration::from_millis(300);

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
    sources: Sources<'a>,
    request: &'a Request,
    end: Instant,
) -> BoxFuture<'a, Option<Diagnosis>> {
    Box::pin(async move {
        let started = Instant::now();
        let deadline = end.saturating_duration_since(started);
        if deadline < LEAST_TIME {
            return None;
        }
        let request = Request { deadline, ..request.clone() };
        let library = library.for_pool(&request.scope.dimensions);
        Some(of_pool(library, Sources { started, ..sources }, request, 0, false, None).await)
    })
}

/// Judges the symptoms of these playbooks for one of several pools in the time that is left; `None` if there is none.
fn screened_pool<'a>(
    library: &'a Library,
    prometheus: &'a Prometheus,
    request: &'a Request,
    only: Option<&'a str>,
    end: Instant,
) -> BoxFuture<'a, Option<(Screened, ObserveResult)>> {
    Box::pin(async move {
        let deadline = end.saturating_duration_since(Instant::now());
        if deadline < LEAST_TIME {
            return None;
        }
        let request = Request { deadline, ..request.clone() };
        let (_, screened, observed) =
            screen::screen(library, prometheus, &request, only, None, AnswerCache::default()).await;
        Some((screened, observed))
    })
}

/// Returns the pools of the scope's cluster; none if they could not be asked for.
pub(super) async fn pools_of_cluster(library: &Library, prometheus: &Prometheus, requested: &Request) -> Vec<Scope> {
    let deadline = Instant::now() + requested.deadline / 4;
    let Ok(rows) = prometheus.query(&detection(library), requested.at, deadline).await else {
        return Vec::new();
    };
    let rows: Vec<Labels> = rows.iter().map(|row| row.labels.clone()).collect();
    let scopes = |pools: BTreeSet<Labels>| -> Vec<Scope> {
        pools.into_iter().map(|dimensions| Scope { dimensions, ..Scope::default() }).collect()
    };
    let (_, pools_meant) = meant(library, &requested.scope, &rows);
    let serving = pools(library, &rows);
    let of_gateways = gateway_pools(library, &rows, &serving);
    let all = if pools_meant.is_empty() { serving.into_iter().chain(of_gateways).collect() } else { pools_meant };
    let cluster = requested.scope.dimensions.get("cluster");
    let is_in = |pool: &Labels| pool.get("cluster").is_none_or(|own| cluster.is_none_or(|cluster| own == cluster));
    scopes(all.into_iter().filter(|pool| !pool.is_empty() && is_in(pool)).collect())
}

/// Diagnoses each pool by itself, where none is named: one verdict on all of them would be nobody's. All of it ends
/// with the request's deadline; pools that it did not reach are counted.
pub(super) async fn of_each_pool(
    library: &Library,
    sources: Sources<'_>,
    requested: &Request,
    observed: ObserveResult,
    pools: Vec<Scope>,
) -> Diagnosis {
    let Sources { prometheus, started, .. } = sources;
    let end = started + requested.deadline;
    let mut requests: Vec<Request> = pools.into_iter().map(|scope| Request { scope, ..requested.clone() }).collect();
    let only = Some(requested.playbook.as_str()).filter(|id| library.playbooks.contains_key(*id));
    let (mut queries, mut unchecked, mut looked_at) = (observed.queries, 0, Vec::new());
    if requests.len() > MAX_POOLS {
        let half = started + requested.deadline / 2;
        let asked = requests.iter().map(|request| screened_pool(library, prometheus, request, only, half));
        let asked: Vec<BoxFuture<'_, _>> = asked.collect();
        let answers: Vec<_> = stream::iter(asked).buffered(POOLS_AT_ONCE).collect().await;
        let mut ranked = Vec::new();
        for (request, answer) in requests.into_iter().zip(answers) {
            let Some((screened, observed)) = answer else {
                unchecked += 1;
                continue;
            };
            queries += observed.queries;
            looked_at.extend(screened.looked_at);
            match (screened.confirmed.is_empty(), screened.slight.is_empty()) {
                (false, _) => ranked.push((0, request)),
                (true, false) => ranked.push((1, request)),
                // A pool with a symptom is diagnosed, which tells what was not checked in it; this one is not.
                (true, true) => unchecked += usize::from(observed.degraded || observed.incomplete().is_some()),
            }
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        requests = ranked.into_iter().map(|(_, request)| request).collect();
    }
    let left_out = requests.len().saturating_sub(MAX_POOLS);
    let asked = requests.iter().take(MAX_POOLS).map(|request| of_one_pool(library, sources, request, end));
    let asked: Vec<BoxFuture<'_, Option<Diagnosis>>> = asked.collect();
    let answers: Vec<Option<Diagnosis>> = stream::iter(asked).buffered(POOLS_AT_ONCE).collect().await;
    unchecked += answers.iter().filter(|answer| answer.as_ref().is_none_or(|found| found.degraded)).count();
    let mut found: Vec<Diagnosis> = answers.into_iter().flatten().collect();
    queries += found.iter().map(|diagnosis| diagnosis.queries).sum::<usize>();
    let mut titles: BTreeSet<String> =
        looked_at.iter().filter_map(|id| library.playbooks.get(id)).map(|playbook| playbook.title.clone()).collect();
    let screenings = found.iter().filter_map(|diagnosis| diagnosis.screening.as_ref());
    titles.extend(screenings.flat_map(|screening| screening.looked_at.iter().cloned()));
    titles
        .extend(found.iter().filter(|d| d.symptom.verdict == SymptomVerdict::Absent).map(|d| d.symptom.title.clone()));
    found.retain(|diagnosis| diagnosis.symptom.verdict == SymptomVerdict::Confirmed);
    // Worst first: the symptom that was asked for, where it is strongest.
    let own = |diagnosis: &Diagnosis| diagnosis.symptom.playbook == requested.playbook;
    found.sort_by(|a, b| own(b).cmp(&own(a)).then_with(|| worst_first(library, a, b)));
    let pools = found.iter().map(Diagnosis::in_short).collect();
    let mut worst = found.into_iter().next().unwrap_or_else(|| {
        let asked = Some(requested.playbook.clone()).filter(|id| !id.is_empty());
        let title = asked.as_ref().and_then(|id| library.playbooks.get(id)).map(|playbook| playbook.title.clone());
        let screening = Screening {
            asked_verdict: asked.as_ref().map(|_| SymptomVerdict::Absent),
            asked,
            asked_title: title,
            looked_at: titles.into_iter().collect(),
            ..Screening::default()
        };
        let nowhere = Request { playbook: String::new(), ..requested.clone() };
        let observed = ObserveResult { queries, degraded: unchecked > 0, ..observed };
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
