//! observe: asks the plan's questions at once and waits no longer than the deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::{join, join_all};
use jiff::Timestamp;
use tracing::{Instrument, debug_span};

use super::batch::Answer;
use super::direct::{self, DirectRead, Exporters};
use super::observation::{Observation, Observations, Replica, reduce};
use super::plan::{Ask, Plan, Side, past_window, pasts, plan};
use super::scope::{Found, Pods, detection, presence, read_detection, was_present};
use super::{Diagnosis, Request, batch, blame, judge};
use crate::alert::Labels;
use crate::clock;
use crate::playbook::Library;
use crate::prom::{PromError, Prometheus, Row};
use crate::signal::{Engine, EngineKind};

/// Of the deadline, what is left for judging and rendering.
pub(super) const RESERVE: Duration = Duration::from_millis(200);

/// What was seen, and what went wrong while looking.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The engines that are there.
    pub found: Found,
    /// The signals' values.
    pub seen: Observations,
    /// In sentences.
    pub problems: Vec<String>,
    /// Prometheus was away or late: worth making again.
    pub degraded: bool,
    /// Questions asked.
    pub queries: usize,
    /// What was read from exporters themselves.
    pub direct: Option<DirectRead>,
}

/// The whole chain for one request: detect, plan, observe, judge.
pub async fn diagnose(library: &Library, prometheus: &Prometheus, request: &Request) -> Diagnosis {
    diagnose_with(library, prometheus, request, None).await
}

/// [`diagnose`], with exporters read where Prometheus cannot tell.
pub async fn diagnose_with(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    exporters: Option<&Exporters>,
) -> Diagnosis {
    let started = Instant::now();
    let look = direct::look(library, prometheus, request, exporters);
    let observed = look.instrument(debug_span!("observe")).await;
    let judged = judge(library, &request.playbook, &observed.seen);
    blame::assemble(library, request, observed, judged, started.elapsed())
}

/// Asks everything that the playbook may need; what has answered by the deadline counts.
pub async fn observe(library: &Library, prometheus: &Prometheus, request: &Request) -> Observed {
    let deadline = Instant::now() + request.deadline.saturating_sub(RESERVE).max(RESERVE);
    let pasts = pasts(request);
    let mut observed = Observed { queries: 1 + pasts.len(), ..Observed::default() };
    let (presence, detection) = (presence(library), detection(library));
    let beginning = |past: &Timestamp| clock::before(*past, past_window(request));
    let beginnings = pasts.iter().map(|past| prometheus.query(&presence, beginning(past), deadline));
    let (detected, beginnings) = join(prometheus.query(&detection, request.at, deadline), join_all(beginnings)).await;
    match detected {
        Ok(rows) => {
            let rows: Vec<Labels> = rows.iter().map(|row| row.labels.clone()).collect();
            observed.found = read_detection(library, &request.scope, &rows);
        }
        Err(error) => {
            observed.degraded = error.is_unavailable();
            observed.problems.push(error.to_string());
        }
    }
    let found = &observed.found;
    let covered = |rows: &Answer| rows.as_ref().is_ok_and(|rows| was_present(library, found, rows));
    observed.found.past = pasts.iter().zip(&beginnings).find(|(_, rows)| covered(rows)).map(|(past, _)| *past);
    let plan = plan(library, request, &observed.found);
    let packs = batch::pack(&plan.asks);
    observed.queries += packs.len();
    let answered = join_all(packs.iter().map(|pack| batch::ask(prometheus, &plan.asks, pack, deadline))).await;
    let mut answers: Vec<(usize, Answer)> = packs.into_iter().flatten().zip(answered.into_iter().flatten()).collect();
    answers.sort_by_key(|(i, _)| *i);
    let answers: Vec<Answer> = answers.into_iter().map(|(_, answer)| answer).collect();
    gather(library, &plan, &answers, &mut observed);
    observed
}

fn gather(library: &Library, plan: &Plan, answers: &[Answer], observed: &mut Observed) {
    let asked: Vec<(&Ask, &Answer)> = plan.asks.iter().zip(answers).collect();
    let pool: BTreeSet<String> = asked
        .iter()
        .filter(|(ask, _)| ask.signal.is_empty())
        .filter_map(|(ask, answer)| Some((library.engines.get(&ask.engine)?, answer.as_ref().ok()?)))
        .flat_map(|(engine, rows)| rows.iter().filter_map(|row| name(engine, &row.labels)))
        .collect();
    let pods = Pods::new(
        asked
            .iter()
            .filter(|(ask, _)| ask.signal.is_empty())
            .filter_map(|(_, answer)| answer.as_ref().ok())
            .flat_map(|rows| rows.iter().filter_map(|row| row.labels.get("pod").map(String::as_str))),
    );
    for (ask, answer) in asked.iter().filter(|(ask, _)| !ask.signal.is_empty()) {
        let (Some(engine), Some(signal)) = (library.engines.get(&ask.engine), library.signals.get(&ask.signal)) else {
            continue;
        };
        let entry = engine.signals.get(&ask.signal);
        let o = observed.seen.signals.entry(ask.signal.clone()).or_default();
        let rows = match answer {
            Ok(rows) => rows,
            Err(error) => {
                observed.degraded |= error.is_unavailable();
                if matches!(ask.side, Side::Replicas | Side::Pool) {
                    o.why.get_or_insert_with(|| error.to_string());
                    o.query.get_or_insert_with(|| ask.query.clone());
                }
                continue;
            }
        };
        let from_labels = entry.map_or(&[][..], |e| &e.from_labels);
        let values = rows
            .iter()
            .filter(|row| engine.kind == EngineKind::Serving || pods.own(&row.labels))
            .filter_map(|row| Some((name(engine, &row.labels).unwrap_or_default(), read_value(row, from_labels)?)));
        match ask.side {
            Side::Replicas => {
                merge(&mut o.replicas, values, signal.fleet);
                o.answered = true;
                if let Some(value) = reduce(signal.fleet, o.replicas.iter().map(|r| r.value)) {
                    o.value = Some(value);
                }
                o.query = Some(ask.query.clone());
                o.enable = o.enable.take().or_else(|| entry.and_then(|e| e.enable.clone()));
            }
            Side::Pool => {
                o.value = o.value.or_else(|| values.map(|(_, v)| v).next());
                o.answered = true;
                o.query = Some(ask.query.clone());
                o.enable = o.enable.take().or_else(|| entry.and_then(|e| e.enable.clone()));
            }
            Side::PastReplicas => {
                let mut replicas = Vec::new();
                merge(&mut replicas, values, signal.fleet);
                o.baseline = reduce(signal.fleet, replicas.iter().map(|r| r.value)).or(o.baseline);
            }
            Side::PastPool => o.baseline = values.map(|(_, v)| v).next().or(o.baseline),
        }
    }
    for o in observed.seen.signals.values_mut() {
        if o.value.is_none() && o.replicas.is_empty() && o.why.is_none() {
            o.why = Some("no series".to_owned());
        }
    }
    let away = observed.degraded && observed.found.engines.is_empty();
    for (signal, (why, enable)) in &plan.unavailable {
        // When Prometheus could not be asked, that is the reason, not a missing exporter.
        let why = if away { observed.problems.first().cloned().unwrap_or_default() } else { why.clone() };
        let enable = if away { None } else { enable.clone() };
        observed.seen.signals.insert(signal.clone(), Observation { why: Some(why), enable, ..Observation::default() });
    }
    let late = asked.iter().filter(|(_, a)| matches!(a, Err(e) if matches!(**e, PromError::Late))).count();
    if late > 0 {
        observed.problems.push(format!("{late} of {} queries timed out", asked.len()));
    }
    let failures: BTreeMap<String, usize> = asked
        .iter()
        .filter_map(|(_, a)| a.as_ref().err())
        .filter(|e| !matches!(***e, PromError::Late))
        .fold(BTreeMap::new(), |mut all, e| {
            *all.entry(e.to_string()).or_default() += 1;
            all
        });
    observed.problems.extend(failures.into_iter().map(|(error, n)| match n {
        1 => error,
        n => format!("{error} ({n} queries)"),
    }));
    observed.seen.pool = pool.into_iter().collect();
}

/// The row's replica: the first of the engine's replica labels that is not empty.
pub(super) fn name(engine: &Engine, labels: &Labels) -> Option<String> {
    engine.replica.iter().find_map(|label| labels.get(label).filter(|v| !v.is_empty())).cloned()
}

/// Adds rows to the replicas; several rows of one replica (engine ranks, GPUs) are reduced like the fleet.
pub(super) fn merge(into: &mut Vec<Replica>, values: impl Iterator<Item = (String, f64)>, fleet: crate::signal::Fleet) {
    let mut by_name: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for replica in into.drain(..) {
        by_name.entry(replica.name).or_default().push(replica.value);
    }
    for (name, value) in values {
        by_name.entry(name).or_default().push(value);
    }
    let combine = |values: &[f64]| match reduce(fleet, values.iter().copied()) {
        Some(value) => value,
        None => values.iter().copied().fold(f64::MIN, f64::max),
    };
    into.extend(by_name.into_iter().map(|(name, values)| Replica { value: combine(&values), name }));
}

/// The sample's value, or the product of the named labels where the number stands in labels.
fn read_value(row: &Row, from_labels: &[String]) -> Option<f64> {
    if from_labels.is_empty() {
        return Some(row.value);
    }
    from_labels.iter().find_map(|product| {
        product
            .split_whitespace()
            .map(|label| row.labels.get(label)?.parse::<f64>().ok().filter(|v| v.is_finite()))
            .product::<Option<f64>>()
    })
}
