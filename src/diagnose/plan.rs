//! plan: which questions a diagnosis asks. Their number depends on the playbook, never on the replicas.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::scope::{EngineSeen, Found};
use super::{Baseline, Request};
use crate::clock;
use crate::playbook::{Evidence, Library, Node};
use crate::signal::{Engine, EngineKind, Fill, Fleet, fill, matchers};

/// How long before the first alert its incident may have begun: an alert fires after its `for` (up to 10 minutes)
/// and its window, and the past must not be the incident's own beginning.
const MARGIN: Duration = Duration::from_secs(1_200);
/// The past is asked over at least this window: one value for a past that is not the luck of a minute.
const PAST_WINDOW: Duration = Duration::from_secs(600);

/// What an answer is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The replicas' values now.
    Replicas,
    /// The pool's value now.
    Pool,
    /// The replicas' values in the past, to be reduced to the pool's.
    PastReplicas,
    /// The pool's value in the past.
    PastPool,
}

/// One question.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The signal, or `""` for the list of the pool's replicas.
    pub signal: String,
    /// The engine that answers.
    pub engine: String,
    /// What the answer is used for.
    pub side: Side,
    /// The PromQL.
    pub query: String,
    /// The evaluation time.
    pub at: Timestamp,
}

/// All questions of a diagnosis.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Each once.
    pub asks: Vec<Ask>,
    /// Signals that cannot be asked here: why, and what would change that.
    pub unavailable: BTreeMap<String, (String, Option<String>)>,
}

/// What the evidence needs of a signal.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Need {
    baseline: bool,
    replicas: bool,
}

/// The moments that may serve as the past, best first: the same time of another day, because the day has a rhythm;
/// else what lies before the incident.
pub(super) fn pasts(request: &Request) -> Vec<Timestamp> {
    let Baseline::Earlier(by) = request.baseline else { return Vec::new() };
    let start = request.since.unwrap_or(request.at).min(request.at);
    vec![clock::before(request.at, by), clock::before(start, request.window.max(MARGIN))]
}

/// The window over which the past is asked. A past counts only when the pool was there at its beginning: `rate` over a
/// window that is filled in part says too little.
pub(super) fn past_window(request: &Request) -> Duration {
    request.window.max(PAST_WINDOW)
}

/// Plans the questions for everything that can be reached from the request's playbook.
pub fn plan(library: &Library, request: &Request, found: &Found) -> Plan {
    let mut plan = Plan::default();
    pool_question(library, request, found, &mut plan);
    for (signal, need) in needs(library, &request.playbook) {
        let Some(definition) = library.signals.get(signal) else { continue };
        let mut why: Vec<(String, Option<String>)> = Vec::new();
        let mut asked = false;
        for engine in library.engines.values() {
            let Some(entry) = engine.signals.get(signal) else { continue };
            let seen = found.engines.iter().find(|seen| seen.engine == engine.engine);
            match (&entry.query, seen) {
                (None, seen) => {
                    if seen.is_some() || engine.kind != EngineKind::Serving {
                        let reason = entry.unsupported.clone().unwrap_or_default();
                        why.push((format!("{} cannot tell: {reason}", engine.engine), entry.enable.clone()));
                    }
                }
                (Some(_), None) if engine.kind == EngineKind::Serving => {}
                (Some(_), None) => why.push((
                    format!("no {} series in this Prometheus", engine.engine),
                    Some(format!("scrape {}: its series `{}` is missing", engine.engine, engine.detect)),
                )),
                (Some(query), Some(seen)) => {
                    asked = true;
                    let window = entry.window.as_deref().and_then(|w| humantime::parse_duration(w).ok());
                    let labels = !entry.from_labels.is_empty();
                    add(
                        &mut plan,
                        request,
                        Source { engine, seen, query, window, labels, past: found.past },
                        signal,
                        definition.fleet,
                        need,
                    );
                }
            }
        }
        if !asked {
            let (reason, enable) = why.into_iter().next().unwrap_or_else(|| no_engine(library));
            plan.unavailable.insert(signal.to_owned(), (reason, enable));
        }
    }
    plan
}

/// What to say of a serving signal when no serving engine was found.
fn no_engine(library: &Library) -> (String, Option<String>) {
    let serving = library.engines.values().filter(|e| e.kind == EngineKind::Serving);
    let series: Vec<String> = serving.map(|e| format!("`{}`", e.detect)).collect();
    (
        "no serving engine was found in this Prometheus".to_owned(),
        Some(format!("scrape the engines' `/metrics`; one of these series must be there: {}", series.join(", "))),
    )
}

/// The replicas that the pool had within the last hour, the gone ones included.
fn pool_question(library: &Library, request: &Request, found: &Found, plan: &mut Plan) {
    for seen in &found.engines {
        let Some(engine) = library.engines.get(&seen.engine).filter(|e| e.kind == EngineKind::Serving) else {
            continue;
        };
        let query = format!("count by ($by) (last_over_time({}{{$scope}}[1h]))", engine.detect);
        plan.asks.push(Ask {
            signal: String::new(),
            engine: engine.engine.clone(),
            side: Side::Replicas,
            query: filled(&query, engine, seen, request.window, &engine.replica),
            at: request.at,
        });
    }
}

struct Source<'a> {
    engine: &'a Engine,
    seen: &'a EngineSeen,
    query: &'a str,
    window: Option<Duration>,
    labels: bool,
    past: Option<Timestamp>,
}

fn add(plan: &mut Plan, request: &Request, from: Source<'_>, signal: &str, fleet: Fleet, need: Need) {
    let Source { engine, seen, query, window, labels, past } = from;
    let mut ask = |side: Side, at: Timestamp, window: Duration| {
        let pool = matches!(side, Side::Pool | Side::PastPool);
        let by: &[String] = if pool { &[] } else { &engine.replica };
        plan.asks.push(Ask {
            signal: signal.to_owned(),
            engine: engine.engine.clone(),
            side,
            query: filled(query, engine, seen, window, by),
            at,
        });
    };
    let derived = fleet != Fleet::Query || labels;
    let now = window.unwrap_or(request.window);
    if derived || need.replicas {
        ask(Side::Replicas, request.at, now);
    }
    if !derived {
        ask(Side::Pool, request.at, now);
    }
    if let Some(at) = past.filter(|_| need.baseline) {
        let side = if derived { Side::PastReplicas } else { Side::PastPool };
        ask(side, at, window.unwrap_or(past_window(request)));
    }
}

fn filled(query: &str, engine: &Engine, seen: &EngineSeen, window: Duration, by: &[String]) -> String {
    let scope = matchers(&seen.matchers);
    let prefix = engine.prefixes.first().map(|written| (written.as_str(), seen.prefixes.as_slice()));
    fill(query, &Fill { scope: &scope, workload: &scope, window, by, prefix })
}

pub(super) fn needs<'a>(library: &'a Library, playbook: &str) -> BTreeMap<&'a str, Need> {
    let mut needs: BTreeMap<&str, Need> = BTreeMap::new();
    for (i, node) in library.reachable(playbook).into_iter().enumerate() {
        let Node { evidence, now, lasting, .. } = node;
        for (signal, when) in evidence.iter().flat_map(Evidence::checks) {
            let need = needs.entry(signal).or_default();
            need.baseline |= when.needs_baseline();
            // Of the symptom, who suffers is asked as well.
            need.replicas |= when.needs_peers() || i == 0;
        }
        for verify in now.iter().chain(lasting).filter_map(|step| step.verify.as_ref()) {
            needs.entry(&verify.signal).or_default();
        }
    }
    needs
}
