//! observe: sends the plan's queries concurrently and waits no longer than the deadline.

pub(crate) mod against;
pub(crate) mod answer_cache;
pub(crate) mod batch;
pub(crate) mod gather;
pub(crate) mod incident_range;
pub(crate) mod log_cache;
pub(crate) mod log_findings;
pub(crate) mod log_sources;
pub(crate) mod observe_result;
pub(crate) mod plan;
pub(crate) mod pool;
pub(crate) mod read_pages;
pub(crate) mod recorded;
pub(crate) mod times;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{join, join3};
use jiff::Timestamp;

use crate::observe::answer_cache::AnswerCache;
use crate::observe::batch::{QueryAnswer, pack, query_all};
use crate::observe::gather::{Members, gather};
use crate::observe::observe_result::{ObserveResult, RESERVE};
use crate::observe::plan::{Needs, Plan, plan_for};
use detect::{
    DetectionResult, Past, PlannedQuery, QueryPurpose, detection, ladder, narrow, pools_of_namespace, presence,
    read_detection_of, was_present,
};
use findings::Request;
use findings::observation::Observation;
use knowledge::alert::Labels;
use knowledge::clock;
use knowledge::gap::missing_part;
use knowledge::playbook::Library;
use prom::{Answer, MetricNames, PromError, Prometheus, Row};

/// The names only save work: a diagnosis waits at most for this part of its time for them.
pub(crate) const NAMES_WAIT: u32 = 8;

/// The longest range that a signal's query reads.
pub(crate) const LONGEST_WINDOW: Duration = Duration::from_secs(86_400);

/// Queries these needs, without the cached answers; the request's playbook is ignored.
pub(crate) async fn observe_needs(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    needs: &Needs<'_>,
    mut cache: AnswerCache,
) -> ObserveResult {
    let deadline = Instant::now() + request.deadline.saturating_sub(RESERVE).max(RESERVE);
    let mut observed = ObserveResult::default();
    match cache.detection.clone() {
        Some(detection) => observed.detection = detection,
        None => detect(library, prometheus, request, deadline, &mut observed, &mut cache).await,
    }
    let with_driver = against::signals_with_driver(library, needs);
    let needs = &against::with_sources(needs, &with_driver);
    let plan = plan_for(library, request, &observed.detection, needs);
    let names: Vec<String> = with_driver.iter().map(|(name, _)| (*name).to_owned()).collect();
    let cached_hours = cache.hours.get(&names).cloned();
    let hours = async {
        match cached_hours {
            Some(hours) => (Some(hours), 0),
            None => against::hours(library, prometheus, request, &observed.detection, &with_driver, deadline).await,
        }
    };
    let (answers, (hours, query_count)) = join(cache.query(prometheus, &plan.queries, deadline), hours).await;
    cache.queries += query_count;
    observed.members = Members::of(library, &plan.queries, &answers);
    observed.observations.pool = observed.members.pool();
    observed.observations.places = observed.members.places();
    observed.observations.nodes = observed.members.nodes().clone();
    let gathered = gather(library, &observed.members, &plan.queries, &answers);
    observed.degraded |= gathered.degraded;
    observed.observations.signals = gathered.signals;
    for (replica, gpus) in gathered.gpus {
        observed.observations.places.entry(replica).or_default().extend(gpus);
    }
    mark_what_is_seen_in_part(&mut observed);
    against::add_ratios(&with_driver, hours.as_ref(), &mut observed.observations);
    // Unanswered queries are repeated next time.
    cache.hours.extend(hours.map(|hours| (names, hours)));
    say_what_is_missing(&plan, &answers, &mut observed);
    if let Some(part) = cache.missing.as_ref() {
        match part.counts {
            true => observed.problems.insert(0, missing_part(&part.said)),
            false => {
                observed.detection.notes.push(format!("{} (ignored: `partial: ignore`)", missing_part(&part.said)))
            }
        }
    }
    observed.queries = cache.queries;
    observed.cache = cache;
    observed
}

/// Marks all values if the engines or the replicas are known in part only, for more of them may belong to each; and if a
/// past may be in the part that is missing.
fn mark_what_is_seen_in_part(observed: &mut ObserveResult) {
    let DetectionResult { incomplete, past_incomplete, .. } = &observed.detection;
    let present = incomplete.as_deref().or(observed.members.incomplete());
    for o in observed.observations.signals.values_mut() {
        o.incomplete = o.incomplete.take().or(present.map(str::to_owned));
        o.past_incomplete = o.past_incomplete.take().or(past_incomplete.clone());
    }
}

/// Detects the engines of the scope, and the past that they have.
async fn detect(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    deadline: Instant,
    observed: &mut ObserveResult,
    cache: &mut AnswerCache,
) {
    let rungs: Vec<Past> = ladder(request);
    let before: Vec<Past> = rungs.iter().filter_map(Past::before).collect();
    let beginnings: Vec<PlannedQuery> =
        rungs.iter().chain(&before).map(|past| was_there(library, request, past)).collect();
    cache.queries += 1 + pack(&beginnings, 0).len();
    let detection_query = detection(library);
    let present = query_all(prometheus, &beginnings, 0, deadline);
    let earliest = rungs.iter().chain(&before).map(Past::begins).fold(request.at, Timestamp::min);
    let patience = Instant::now() + deadline.saturating_duration_since(Instant::now()) / NAMES_WAIT;
    let names = prometheus.metric_names(clock::before(earliest, LONGEST_WINDOW), request.at, patience);
    let (detected, present, names) =
        join3(prometheus.query(&detection_query, request.at, deadline), present, names).await;
    // A list that lacks a metric of the detection's rows is incomplete and is not used.
    let names = if detected.as_ref().is_ok_and(|rows| names.have_all(rows)) { names } else { MetricNames::default() };
    let detection = match detected {
        Ok(answer) => {
            cache.note_missing(&answer);
            let rows: Vec<Labels> = answer.iter().map(|row| row.labels.clone()).collect();
            let mut detection = read_detection_of(library, &request.scope, &rows, answer.incomplete());
            detection.pools = pools_of_namespace(library, request, &rows);
            let detection = if detection.no_label_fits {
                let narrow = narrow(library, prometheus, request, &rows, detection, deadline);
                let (narrowed, query_count) = Box::pin(narrow).await;
                cache.queries += query_count;
                narrowed
            } else {
                Ok(detection)
            };
            detection.map(|found| DetectionResult { replicas: found.replicas_in(library, &answer), ..found })
        }
        Err(error) => Err(error),
    };
    match detection {
        Ok(mut detection) => {
            let covered = |rows: &QueryAnswer| rows.as_ref().is_ok_and(|rows| was_present(library, &detection, rows));
            let covered: Vec<bool> = present.iter().map(covered).collect();
            let (of_rungs, of_before) = covered.split_at(rungs.len());
            let past = rungs.iter().zip(of_rungs).find(|(_, covered)| **covered).map(|(past, _)| *past);
            let earlier = before.into_iter().zip(of_before).filter(|(_, covered)| **covered).map(|(past, _)| past);
            detection.past_before =
                past.and_then(|past| earlier.into_iter().find(|before| Some(*before) == past.before()));
            detection.past = past;
            detection.names = names;
            // A past that no store reaches back to is none.
            let is_away = |rows: &&Arc<Answer<Row>>| rows.missing().is_some_and(|part| !part.is_beyond_all_stores());
            let away: Vec<_> = present.iter().flatten().filter(is_away).collect();
            away.iter().for_each(|rows| cache.note_missing(rows));
            let said = away.iter().find_map(|rows| rows.incomplete()).filter(|_| past.is_none());
            detection.past_incomplete = said.map(str::to_owned);
            if let Some(error) = present.iter().find_map(|rows| rows.as_ref().err()) {
                observed.degraded |= error.is_unavailable();
                observed.problems.push(format!("whether there is a past could not be asked: {error}"));
            }
            let (recorded, query_count) =
                recorded::find_recorded(library, prometheus, request, &detection, deadline).await;
            cache.queries += query_count;
            detection.recorded = recorded;
            cache.detection = Some(detection.clone());
            observed.detection = detection;
        }
        Err(error) => {
            observed.degraded = error.is_unavailable();
            // The note on direct reads says it.
            if !matches!(*error, PromError::NotAsked) {
                observed.problems.push(error.to_string());
            }
        }
    }
}

/// Builds the query for the pool at the start of a past; all of them have one time, so that they share a pack.
fn was_there(library: &Library, request: &Request, past: &Past) -> PlannedQuery {
    let query = presence(library, clock::between(past.begins(), request.at));
    PlannedQuery::about_pool("", QueryPurpose::Pool, query, request.at)
}

/// Writes the reasons for missing values, and the errors, in sentences.
fn say_what_is_missing(plan: &Plan, answers: &[QueryAnswer], observed: &mut ObserveResult) {
    for o in observed.observations.signals.values_mut() {
        if o.value.is_none() && o.replicas.is_empty() && o.why.is_none() {
            o.why = Some(o.incomplete.as_deref().map_or_else(|| "no series".to_owned(), missing_part));
        }
    }
    let away = observed.degraded && observed.detection.engines.is_empty();
    for (signal, (why, enable)) in &plan.unavailable {
        // If Prometheus was unavailable, that is the reason, not a missing exporter.
        let away_because = || observed.problems.first().cloned().unwrap_or_else(|| PromError::NotAsked.to_string());
        let why = if away { away_because() } else { why.clone() };
        let enable = if away { None } else { enable.clone() };
        let incomplete = observed.detection.incomplete.clone();
        let o = Observation { why: Some(why), enable, away, incomplete, ..Observation::default() };
        observed.observations.signals.insert(signal.clone(), o);
    }
    for signal in &plan.unsupported {
        let o = observed.observations.signals.entry(signal.clone()).or_default();
        o.unsupported = o.value.is_none() && o.replicas.is_empty() && o.incomplete.is_none();
    }
    let late = answers.iter().filter(|a| matches!(a, Err(e) if matches!(**e, PromError::Late))).count();
    if late > 0 {
        observed.problems.push(format!("{late} of {} queries timed out", answers.len()));
    }
    let failures: BTreeMap<String, usize> = answers
        .iter()
        .filter_map(|a| a.as_ref().err())
        .filter(|e| !matches!(***e, PromError::Late))
        .fold(BTreeMap::new(), |mut all, e| {
            *all.entry(e.to_string()).or_default() += 1;
            all
        });
    observed.problems.extend(failures.into_iter().map(|(error, n)| match n {
        1 => error,
        n => format!("{error} ({n} queries)"),
    }));
}
