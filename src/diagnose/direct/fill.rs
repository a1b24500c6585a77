//! fill: the values of pages that were read, where Prometheus has none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::observe::batch::QueryAnswer;
use crate::observe::gather::{gather, name};
use crate::observe::observe_result::ObserveResult;
use crate::observe::plan::{Needs, Plan, SignalNeed, engines_reporting, plan_for};
use crate::observe::read_pages::{PageRead, PageReads, ReadPages};
use detect::{DetectionResult, PlannedQuery, read_detection};
use findings::observation::Observation;
use findings::{Baseline, DirectRead, DirectReadReason, ExporterRemark, Request, ValueSource};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use knowledge::signal::{Engine, Matcher};
use prom::{Answer, PromError, Row};

/// A signal's own window over the least distance of the reads that tell it.
const CLOSE: u32 = 6;

/// The answers of the pages that were read, and what was asked of them.
pub(super) struct PageAnswers {
    pub(super) pages: Arc<ReadPages>,
    detection: DetectionResult,
    plan: Plan,
    answers: Vec<QueryAnswer>,
}

impl PageAnswers {
    /// Asks the pages what Prometheus would have been asked; what is not evaluated at the deadline is late.
    pub(super) async fn of(
        library: &Library,
        request: &Request,
        needs: &Needs<'_>,
        pages: Arc<ReadPages>,
        deadline: Instant,
    ) -> Self {
        let detection = read_detection(library, &request.scope, &pages.detected);
        let window = pages.window.unwrap_or(request.window);
        let request = Request { window, baseline: Baseline::Off, ..request.clone() };
        let all_replicas = |need: &SignalNeed| SignalNeed { replicas: true, pool_first: false, ..*need };
        let needs: Needs<'_> = needs.iter().map(|(signal, need)| (*signal, all_replicas(need))).collect();
        let mut plan = plan_for(library, &request, &detection, &needs);
        plan.queries.retain(|ask| !ask.signal.is_empty());
        let queries = plan.queries.iter().map(|ask| ask.query.clone()).collect();
        let mut answers = answered(Arc::clone(&pages), queries, deadline).await.into_iter();
        let answers = plan.queries.iter().map(|ask| {
            let answer = answers.next().unwrap_or_else(|| Err(PromError::Late.into()));
            answer.map(|rows| believed(library, ask, window, rows))
        });
        Self { answers: answers.collect(), pages, detection, plan }
    }
}

/// Answers queries where that does not hold up the runtime; it ends early if nobody waits for it any more.
async fn answered(pages: Arc<ReadPages>, queries: Vec<String>, deadline: Instant) -> Vec<QueryAnswer> {
    let (asked, _waiting) = oneshot::channel::<()>();
    let answers = move || {
        let open = queries.into_iter().take_while(|_| !asked.is_closed());
        open.map(|query| pages.answer(query, deadline)).collect()
    };
    // What has no answer counts as late.
    tokio::task::spawn_blocking(answers).await.unwrap_or_else(|error| {
        tracing::error!(%error, "cannot evaluate the queries on the pages");
        Vec::new()
    })
}

/// Adds the pages' values where Prometheus has none: the answers to the queries that it would have been asked. Returns true
/// if some of them are late.
pub(super) fn fill(
    library: &Library,
    needs: &Needs<'_>,
    (told, visits): (&PageAnswers, &[PageRead<'_>]),
    because: DirectReadReason,
    observed: &mut ObserveResult,
) -> bool {
    let PageAnswers { pages, detection, plan, answers } = told;
    // An engine that answered may turn out to serve another pool.
    let serves_other_pool = |v: &PageRead<'_>| {
        let engine_seen = detection.engines.iter().find(|engine_seen| engine_seen.engine == v.engine.engine);
        let detected = v.detected();
        let outside = |labels: &Labels| engine_seen.is_some_and(|seen| contradicts(&seen.matchers, labels));
        !detected.is_empty() && detected.iter().all(outside)
    };
    let serving: Vec<&PageRead<'_>> =
        visits.iter().filter(|v| v.engine.kind.is_pool() && !serves_other_pool(v)).collect();
    let pods: Vec<String> = observed.observations.pool.iter().filter(|name| !name.contains(':')).cloned().collect();
    let own = serving.iter().filter_map(|v| v.target.labels.get("pod").map(String::as_str));
    let members = observed.members.clone().with_pods(own.map(str::to_owned).chain(pods));
    let mut read = gather(library, &members, &plan.queries, answers);
    for signal in needs.keys().copied() {
        let o = observed.observations.signals.entry(signal.to_owned()).or_default();
        if because != DirectReadReason::Asked && (o.value.is_some() || !o.replicas.is_empty()) {
            continue;
        }
        let told = read.signals.remove(signal).unwrap_or_default();
        if told.value.is_some() || !told.replicas.is_empty() {
            (o.value, o.replicas, o.source) = (told.value, told.replicas, ValueSource::Exporter);
            (o.answered, o.why) = (true, None);
        } else if told.late {
            (o.late, o.why) = (true, told.why);
        } else if because == DirectReadReason::NoPrometheus {
            say_what_pages_lack(plan, detection, library, (signal, told), o);
        }
    }
    let mut remarks = BTreeSet::new();
    for visit in visits {
        let exporter = visit.target.name();
        let reads = visit.outcome.as_ref().ok();
        for metric in reads.into_iter().flat_map(PageReads::unusable) {
            if plan.queries.iter().any(|ask| ask.query.contains(metric.as_str())) {
                let what = format!("has no usable number in `{metric}`");
                remarks.insert(ExporterRemark { exporter: exporter.clone(), what });
            }
        }
        let remark = match visit.outcome {
            Err(error) => error.to_string(),
            Ok(_) if visit.anew => "started anew between the two reads, so its counters tell nothing".to_owned(),
            Ok(reads) if reads.span().is_zero() => "was read only once, so its counters tell nothing".to_owned(),
            Ok(_) => continue,
        };
        remarks.insert(ExporterRemark { exporter, what: remark });
    }
    if observed.observations.pool.is_empty() {
        let names: BTreeSet<String> = serving.iter().filter_map(|v| name(v.engine, &v.target.labels)).collect();
        observed.observations.pool = names.into_iter().collect();
    }
    for engine_seen in &detection.engines {
        if !observed.detection.engines.iter().any(|engine| engine.engine == engine_seen.engine) {
            observed.detection.engines.push(engine_seen.clone());
            observed.detection.notes.extend(detection.notes.iter().cloned());
        }
    }
    observed.detection.notes.sort();
    observed.detection.notes.dedup();
    let count = |serving: bool, answered: bool| {
        let of_kind = visits.iter().filter(|v| v.engine.kind.is_pool() == serving);
        of_kind.filter(|v| !answered || v.outcome.is_ok()).count()
    };
    observed.direct = Some(DirectRead {
        because,
        engines: count(true, true),
        engines_known: count(true, false),
        gpu_exporters: count(false, true),
        gpu_exporters_known: count(false, false),
        left_out: pages.left_out,
        remarks: remarks.into_iter().collect(),
    });
    if read.degraded {
        let timed_out = answers.iter().filter(|answer| answer.as_ref().is_err_and(|error| error.is_late())).count();
        observed.problems.push(format!("{timed_out} of {} queries of the pages timed out", answers.len()));
    }
    read.degraded
}

/// Returns the trusted values of an answer. An engine's signal with its own window detects a standstill:
/// reads that are closer than a sixth of it may both fall into one long prompt, and then only "0" is believed.
fn believed(library: &Library, ask: &PlannedQuery, window: Duration, rows: Arc<Answer<Row>>) -> Arc<Answer<Row>> {
    let engine = library.engines.get(&ask.engine).filter(|engine| engine.kind.is_pool());
    let wanted = engine.and_then(|engine| engine.signals.get(&ask.signal)?.window.as_deref());
    let wanted = wanted.and_then(|wanted| humantime::parse_duration(wanted).ok());
    match wanted.is_some_and(|wanted| window < wanted / CLOSE) {
        true => Arc::new(rows.iter().filter(|row| row.value == 0.0).cloned().collect()),
        false => rows,
    }
}

/// Says why the pages do not tell a signal.
fn say_what_pages_lack(
    plan: &Plan,
    detection: &DetectionResult,
    library: &Library,
    (signal, told): (&str, Observation),
    o: &mut Observation,
) {
    let is_seen = |engine: &&Engine| detection.engines.iter().any(|seen| seen.engine == engine.engine);
    if !engines_reporting(library, signal).iter().any(is_seen) {
        return;
    }
    let lacking = || (told.why.unwrap_or_else(|| "no series on these pages".to_owned()), told.enable);
    let (why, enable) = plan.unavailable.get(signal).cloned().unwrap_or_else(lacking);
    (o.why, o.enable, o.answered) = (Some(why), enable, true);
    o.unsupported = plan.unsupported.contains(signal);
}

/// Returns true if labels contradict a matcher; an absent label contradicts nothing.
fn contradicts(matchers: &[Matcher], labels: &Labels) -> bool {
    matchers.iter().any(|m| labels.get(&m.label).is_some_and(|value| !m.accepts(Some(value))))
}
