//! The history of the checks that decided a diagnosis: their signals over the time around the onset.
//!
//! The queries are the diagnosis' own, sent as range queries with the same window and read the same way, so that the
//! last point of a line is the number in the message.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::future::join;
use jiff::Timestamp;

use crate::judge::evidence::tells_of_change;
use crate::observe::batch;
use crate::observe::gather::Members;
use crate::observe::plan::{Needs, plan_for};
use crate::refine::ranges::{observations_at, query_ranges};
use detect::{PlannedQuery, QueryPurpose, detection, read_detection};
use findings::{
    Baseline, DecidingCheck, Diagnosis, EvidenceHistory, EvidenceResult, Moments, Outcome, Request, ValueSource,
};
use knowledge::alert::Labels;
use knowledge::clock;
use knowledge::clock::Range;
use knowledge::playbook::{Comparison, Condition, Library, Op, Reference};
use prom::Prometheus;

/// Maximum number of panels: fits on a phone, with few queries.
const PANELS: usize = 6;
/// Number of checks of one link that are shown before those of other links.
const CHECKS_PER_LINK: usize = 2;
/// Minimum and maximum length of the time before the onset.
const LEAD: [Duration; 2] = [Duration::from_secs(20 * 60), Duration::from_secs(45 * 60)];
/// Length of the time before the onset as a multiple of the incident's, so that the incident is not squeezed.
const LEAD_SHARE: u32 = 4;
/// Maximum length of the picture.
const MAX_LENGTH: Duration = Duration::from_secs(6 * 3_600);
/// Maximum length of a picture that goes on after the diagnosis.
const MAX_LENGTH_TO_NOW: Duration = Duration::from_secs(24 * 3_600);
/// Maximum number of points in a line.
const POINTS: u64 = 180;
/// Steps between points, seconds; scrapes are rarely closer than the first.
const STEPS: [u64; 5] = [15, 30, 60, 120, 300];

/// The incident's start, the past, and the limit of the queries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistoryRequest {
    /// The start of the incident.
    pub since: Timestamp,
    /// The end of the picture, if it goes on after the diagnosis.
    pub until: Option<Timestamp>,
    /// The past to compare with, as in the diagnosis.
    pub baseline: Baseline,
    /// The time limit for Prometheus' answers.
    pub deadline: Duration,
}

/// Queries the history of the checks that decided a diagnosis; `None` if there are none, or Prometheus does not say
/// which engines there were.
pub async fn evidence_history<'a>(
    library: &Library,
    prometheus: &Prometheus,
    diagnosis: &'a Diagnosis,
    history: &HistoryRequest,
) -> Option<EvidenceHistory<'a>> {
    let deadline = Instant::now() + history.deadline;
    let checks = deciding(library, diagnosis);
    let asks = plan_queries(library, prometheus, diagnosis, &checks, deadline).await?;
    let range = range(diagnosis, history);
    let earlier = match history.baseline {
        Baseline::Earlier(by) => Some((by, shifted(range, by))),
        Baseline::Off => None,
    };
    let compared: Vec<PlannedQuery> = asks
        .list
        .iter()
        .filter(|ask| checks.iter().any(|e| e.evidence.signal == ask.signal && e.past))
        .cloned()
        .collect();
    let now = query_observations(library, prometheus, &asks.members, &asks.list, range, deadline);
    let past = async {
        let (_, range) = earlier?;
        Some(query_observations(library, prometheus, &asks.members, &compared, range, deadline).await)
    };
    let (now, past) = join(now, past).await;
    let past = earlier.map(|(by, _)| by).zip(past);
    Some(EvidenceHistory { checks, range, now, past })
}

/// Returns the checks that decided: the symptom's, then those of the best chain from its root upward; each signal
/// once.
fn deciding<'a>(library: &Library, diagnosis: &'a Diagnosis) -> Vec<DecidingCheck<'a>> {
    let is_informative = |e: &&EvidenceResult| {
        let must_be_present = e.when.parse::<Condition>().is_ok_and(|when| when == Condition::Present);
        let usable = e.outcome == Outcome::Met && e.value.is_some() && e.source == ValueSource::Prometheus;
        usable && (must_be_present || (tells_of_change(library, e) && !is_guard(e)))
    };
    let mut links: Vec<&[EvidenceResult]> = vec![&diagnosis.symptom.evidence];
    if let Some(root) = diagnosis.root() {
        links.push(&root.evidence);
        links.extend(root.via.iter().rev().map(|link| link.evidence.as_slice()));
    }
    let informative = |link: &&'a [EvidenceResult]| link.iter().filter(is_informative).collect::<Vec<_>>();
    let first = links.iter().flat_map(|link| informative(link).into_iter().take(CHECKS_PER_LINK));
    let remaining = links.iter().flat_map(|link| informative(link).into_iter().skip(CHECKS_PER_LINK));
    let mut signals = BTreeSet::new();
    let distinct = first.chain(remaining).filter(|e| signals.insert(e.signal.as_str())).take(PANELS);
    let checks = distinct.map(|evidence| {
        let when = evidence.when.parse::<Condition>().ok();
        let past = when.as_ref().is_some_and(Condition::needs_baseline);
        let peers = when.as_ref().is_some_and(Condition::needs_peers);
        DecidingCheck { evidence, when, past, peers }
    });
    checks.collect()
}

/// Returns true if a check only says that nothing has changed: `> 0.6x baseline` of the demand.
fn is_guard(e: &EvidenceResult) -> bool {
    let guards = |c: &Comparison| match (c.op, c.to) {
        (_, Reference::Number(_)) => false,
        (Op::Above | Op::AtLeast, Reference::Baseline(times) | Reference::Peers(times)) => times < 1.0,
        (Op::Below | Op::AtMost, Reference::Baseline(times) | Reference::Peers(times)) => times > 1.0,
    };
    e.when.parse::<Condition>().is_ok_and(|when| when.comparisons().iter().any(guards))
}

/// The queries, and the replicas whose rows count.
struct Asks {
    list: Vec<PlannedQuery>,
    members: Members,
}

/// Plans the queries, with two queries of its own: for the engines and for the replicas.
async fn plan_queries(
    library: &Library,
    prometheus: &Prometheus,
    diagnosis: &Diagnosis,
    checks: &[DecidingCheck<'_>],
    deadline: Instant,
) -> Option<Asks> {
    if checks.is_empty() {
        return None;
    }
    let window = Duration::from_secs(diagnosis.window_seconds);
    let request = Request {
        playbook: diagnosis.symptom.playbook.clone(),
        ..Request::without_past(diagnosis.scope.again(), diagnosis.at, window, Duration::ZERO)
    };
    let rows = prometheus.query(&detection(library), request.at, deadline).await.ok()?;
    let rows: Vec<Labels> = rows.iter().map(|row| row.labels.clone()).collect();
    let detection = read_detection(library, &request.scope, &rows);
    let outliers = !diagnosis.outliers().is_empty();
    let mut needs = Needs::new();
    for e in checks {
        needs.entry(&e.evidence.signal).or_default().replicas = e.peers || outliers || !e.evidence.replicas.is_empty();
    }
    let plan = plan_for(library, &request, &detection, &needs);
    let (list, pool): (Vec<PlannedQuery>, Vec<PlannedQuery>) =
        plan.queries.into_iter().partition(|ask| !ask.signal.is_empty());
    let pool: Vec<PlannedQuery> =
        pool.into_iter().filter(|ask| matches!(ask.purpose, QueryPurpose::Replicas | QueryPurpose::Nodes)).collect();
    let all: Vec<usize> = (0..pool.len()).collect();
    let answers = batch::query_pack(prometheus, &pool, &all, deadline).await;
    Some(Asks { list, members: Members::of(library, &pool, &answers) })
}

/// Queries the observations at each step of a range; steps without an answer are empty.
async fn query_observations(
    library: &Library,
    prometheus: &Prometheus,
    members: &Members,
    asks: &[PlannedQuery],
    range: Range,
    deadline: Instant,
) -> Moments {
    let answered = query_ranges(prometheus, asks, range, deadline).await;
    let mut all = Vec::new();
    for at in range.steps() {
        all.push((at, observations_at(library, members, &answered, at)));
        // Steps of a large fleet take a while; other tasks run in between.
        tokio::task::yield_now().await;
    }
    all
}

/// Returns the time range: from well before the first onset to the time of the evaluation, or to the end that is asked
/// for.
fn range(diagnosis: &Diagnosis, history: &HistoryRequest) -> Range {
    let onsets = diagnosis.timeline.iter().map(|onset| onset.at);
    let started = onsets.chain([history.since]).min().unwrap_or(history.since).min(diagnosis.at);
    let (to, most) = match history.until.filter(|until| *until > diagnosis.at) {
        Some(until) => (until, MAX_LENGTH_TO_NOW),
        None => (diagnosis.at, MAX_LENGTH),
    };
    let lasts = clock::between(started, to).min(most);
    let length = (lasts + (lasts * LEAD_SHARE).clamp(LEAD[0], LEAD[1])).min(most);
    let finest = length.as_secs().div_ceil(POINTS);
    let step = STEPS.into_iter().find(|step| *step >= finest).unwrap_or(finest);
    let steps = length.as_secs() / step;
    Range {
        from: clock::before(to, Duration::from_secs(step * steps)),
        to,
        step_seconds: i64::try_from(step).unwrap_or(i64::MAX),
    }
}

fn shifted(range: Range, by: Duration) -> Range {
    Range { from: clock::before(range.from, by), to: clock::before(range.to, by), ..range }
}
