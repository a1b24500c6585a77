//! The symptoms of a pool over a day: the same queries as a diagnosis, as range queries.
//!
//! Comparisons with the past have none here, so only what the present alone tells is judged. A day is the unit: the
//! engines and the pool's kinds are detected once for it, and its answers fit into memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join;
use jiff::Timestamp;

use crate::kinds::observe_by_kind;
use crate::observe::answer_cache::AnswerCache;
use crate::observe::batch::QueryAnswer;
use crate::observe::gather::Members;
use crate::observe::plan::{Needs, member_queries, plan_for, pool_first, pruned};
use crate::observe::recorded::find_recorded;
use crate::observe::{LONGEST_WINDOW, NAMES_WAIT, batch};
use crate::refine::ranges::{observations_at, query_ranges};
use crate::refine::screen::{self, Screened};
use detect::{DetectionResult, PlannedQuery, data, detection_within, pools, read_detection};
use findings::{Observation, Request, Scope};
use knowledge::alert::Labels;
use knowledge::clock;
use knowledge::clock::Range;
use knowledge::playbook::Library;
use knowledge::signal::EngineKind;
use prom::{PromError, Prometheus};

/// The time before the evaluation in which a day's engines are detected.
const DAY: &str = "1d";

/// The pools of a day, and the detected series that they are known by.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PoolsOfDay {
    /// The pools, dimension to value.
    pub pools: BTreeSet<BTreeMap<String, String>>,
    /// The labels of the detected series.
    pub rows: Vec<Labels>,
    /// The server's words about a part of the data in which more pools may be.
    pub incomplete: Option<String>,
}

/// Returns the pools that had data in the day before `at`, with one query.
///
/// # Errors
/// As [`Prometheus::query`].
pub async fn pools_of_day(
    library: &Library,
    prometheus: &Prometheus,
    at: Timestamp,
    deadline: Instant,
) -> Result<PoolsOfDay, Arc<PromError>> {
    let answer = prometheus.query(&detection_within(library, DAY), at, deadline).await?;
    let rows: Vec<Labels> = answer.iter().map(|row| row.labels.clone()).collect();
    Ok(PoolsOfDay { pools: pools(library, &rows), rows, incomplete: answer.incomplete().map(str::to_owned) })
}

/// Returns the ids of the playbooks that alerts enter, the most important one first.
pub fn symptom_order(library: &Library) -> Vec<String> {
    screen::entries(library).into_iter().map(|playbook| playbook.playbook.clone()).collect()
}

/// A request for the history of a pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolHistoryRequest<'a> {
    /// The pool, dimension to value.
    pub pool: &'a BTreeMap<String, String>,
    /// The labels of the detected series of this time.
    pub rows: &'a [Labels],
    /// The signals whose values are returned.
    pub signals: &'a BTreeSet<&'a str>,
    /// The time range, at most a day or so.
    pub range: Range,
    /// The rate window.
    pub window: Duration,
    /// The time limit for Prometheus' answers.
    pub deadline: Duration,
}

/// The history of a pool.
#[derive(Debug, Clone, Default)]
pub struct PoolHistory {
    /// The pool's values of the requested signals, in order of time.
    pub values: BTreeMap<String, Vec<(Timestamp, f64)>>,
    /// The times at which symptoms clearly held, by playbook.
    pub abnormal: BTreeMap<String, Vec<Timestamp>>,
    /// All steps, in order of time, with true where the serving engine, or its gateway, told something about a symptom.
    pub steps: Vec<(Timestamp, bool)>,
    /// The number of queries.
    pub asked: usize,
    /// The number of queries without an answer.
    pub unanswered: usize,
    /// The reason why the pool's replicas or its kind are not known, so that nothing else was asked.
    pub error: Option<Arc<PromError>>,
}

impl PoolHistory {
    /// Returns true if no query was answered: nothing is known about this time.
    pub fn is_lost(&self) -> bool {
        self.error.is_some() || self.asked > 0 && self.asked == self.unanswered
    }
}

/// Queries the history of a pool. If its replicas or its kind are not known, the whole history is without an answer: rows of shared
/// exporters could be any pool's.
pub async fn pool_history(library: &Library, prometheus: &Prometheus, of: &PoolHistoryRequest<'_>) -> PoolHistory {
    let library = library.for_pool(of.pool);
    let deadline = Instant::now() + of.deadline;
    let scope = Scope { dimensions: of.pool.clone(), ..Scope::default() };
    let request = Request::without_past(scope, of.range.to, of.window, of.deadline);
    // A pool that ended in the day is of the kind that it was.
    let (span, _) = data(library, prometheus, &request.scope, request.at, deadline).await;
    let last = span.map(|span| span.to).filter(|last| (of.range.from..=of.range.to).contains(last));
    let then = Request { at: last.unwrap_or(request.at), ..request.clone() };
    let learnt = observe_by_kind(library, prometheus, &then, |_| Needs::new(), None, AnswerCache::default());
    let (library, learnt) = Box::pin(learnt).await;
    let detection = read_detection(library, &request.scope, of.rows);
    // A rollout or a smaller pool at noon does not take the morning away from the replicas of then.
    let own = member_queries(library, &request, &detection, DAY);
    let all: Vec<usize> = (0..own.len()).collect();
    let members = batch::query_pack(prometheus, &own, &all, deadline);
    let (detection, members) = join(detect(library, prometheus, &request, of, detection, deadline), members).await;
    let entries = screen::entries(library);
    let mut needs: Needs<'_> = pool_first(screen::symptom_needs(&entries));
    for &signal in of.signals {
        needs.entry(signal).or_default().pool_first = true;
    }
    let plan = plan_for(library, &request, &detection, &needs);
    let list: Vec<PlannedQuery> = plan.queries.into_iter().filter(|ask| !ask.signal.is_empty()).collect();
    let list = pruned(&detection, list);
    let asked = list.len();
    let in_part =
        |answer: &QueryAnswer| Some(Arc::new(PromError::Partial(answer.as_ref().ok()?.incomplete()?.to_owned())));
    let error = members.iter().find_map(|answer| answer.as_ref().err().cloned().or_else(|| in_part(answer)));
    // Of an unknown kind its limits are unknown.
    let error = error.or_else(|| learnt.degraded.then(|| Arc::new(PromError::Late)));
    if error.is_some() {
        return PoolHistory { asked, unanswered: asked, error, ..PoolHistory::default() };
    }
    let members = Members::of(library, &own, &members);
    let answered = query_ranges(prometheus, &list, of.range, deadline).await;
    let mut history = PoolHistory { asked, unanswered: asked - answered.0.len(), ..PoolHistory::default() };
    for at in of.range.steps() {
        let observations = observations_at(library, &members, &answered, at);
        for playbook in Screened::of(library, &entries, &observations).confirmed {
            history.abnormal.entry(playbook).or_default().push(at);
        }
        let tells = |(signal, observation): (&String, &Observation)| {
            observation.value.is_some() && is_of_users(library, signal)
        };
        history.steps.push((at, observations.signals.iter().any(tells)));
        for (signal, observation) in observations.signals {
            if let Some(value) = observation.value.filter(|_| of.signals.contains(signal.as_str())) {
                history.values.entry(signal).or_default().push((at, value));
            }
        }
        tokio::task::yield_now().await;
    }
    history
}

/// Returns true if an engine tells of a signal what its users meet; GPUs and Kubernetes go on without the engine.
fn is_of_users(library: &Library, signal: &str) -> bool {
    library.signals.get(signal).is_some_and(|signal| signal.of.first() == Some(&EngineKind::Serving))
}

/// Completes a detection with the metrics that exist and the recorded series that are there all the time.
async fn detect(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    of: &PoolHistoryRequest<'_>,
    mut detection: DetectionResult,
    deadline: Instant,
) -> DetectionResult {
    let from = clock::before(of.range.from, LONGEST_WINDOW);
    // Only a help: a list that comes late is done without.
    let names = prometheus.metric_names(from, of.range.to, Instant::now() + of.deadline / NAMES_WAIT).await;
    let is_complete = of.rows.iter().all(|row| row.get("__name__").is_none_or(|name| names.has(name)));
    if is_complete {
        detection.names = names;
    }
    let (mut recorded, _) = find_recorded(library, prometheus, request, &detection, deadline).await;
    if !recorded.series.is_empty() {
        let begin = Request { at: of.range.from, ..request.clone() };
        let (earlier, _) = find_recorded(library, prometheus, &begin, &detection, deadline).await;
        recorded.series.retain(|name, series| earlier.series.get(name) == Some(series));
    }
    detection.recorded = recorded;
    detection
}
