//! plan: the queries of a diagnosis. Their number depends on the playbook, never on the replicas.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use detect::{DetectionResult, EngineSeen, Past, PlannedQuery, QueryPurpose, RecordedSeries};
use findings::request::USUAL_WINDOW;
use findings::{Observations, Request};
use knowledge::playbook::{Condition, Evidence, Library, Node, StepChange, Verify};
use knowledge::signal::{Engine, EngineKind, Fill, PoolAggregation, fill, histograms, matchers};

/// The time within which a replica that is gone belongs to the pool of a diagnosis.
const HOUR: &str = "1h";

/// The place that was searched, if the server could not read all of the data.
const ANSWERED: &str = "the part of the data that answered";

/// The signal for each replica's share of the traffic.
pub(crate) const TRAFFIC: &str = "request_rate";

/// All queries of a diagnosis.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The queries, each once.
    pub queries: Vec<PlannedQuery>,
    /// Signals that cannot be queried here: the reason, and the setting that changes it.
    pub unavailable: BTreeMap<String, (String, Option<String>)>,
    /// Signals that the engines here do not have: no setting of this pool brings them.
    pub unsupported: BTreeSet<String>,
}

/// The values of a signal that the evidence needs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SignalNeed {
    pub(crate) baseline: bool,
    pub(crate) replicas: bool,
    /// True if the pool's value is enough for now; replicas are queried later, for met evidence only
    /// ([`crate::refine::replica_values`]).
    pub(crate) pool_first: bool,
}

impl SignalNeed {
    /// Returns the needs of a condition.
    pub(crate) fn of(when: &Condition) -> Self {
        Self { baseline: when.needs_baseline(), replicas: when.needs_peers(), pool_first: false }
    }

    /// Adds the needs of another condition.
    pub(crate) fn add(&mut self, other: Self) {
        self.baseline |= other.baseline;
        self.replicas |= other.replicas;
    }
}

/// Signal name to its needs.
pub(crate) type Needs<'a> = BTreeMap<&'a str, SignalNeed>;

/// Limits the needs of replicas to comparisons with each other and to their share of the traffic.
pub(crate) fn pool_first(mut needs: Needs<'_>) -> Needs<'_> {
    needs.iter_mut().for_each(|(signal, need)| need.pool_first = *signal != TRAFFIC);
    needs
}

/// Plans the queries for everything that can be reached from the request's playbook.
pub fn plan(library: &Library, request: &Request, detection: &DetectionResult) -> Plan {
    plan_for(library, request, detection, &needs(library, &request.playbook))
}

/// Returns a signal's own window for a request: a short one is as much shorter as that of a young incident.
fn own_window(own: Duration, request: &Request) -> Duration {
    let shorter = own.as_secs() * request.window.as_secs() / USUAL_WINDOW.as_secs();
    if request.is_young && own < USUAL_WINDOW { own.min(Duration::from_secs(shorter)) } else { own }
}

/// Keeps the former values of signals whose own short window held too few scrapes when a young incident shortened it.
pub(crate) fn keep_where_too_short(library: &Library, former: &Observations, young: &mut Observations) {
    for (signal, value) in &mut young.signals {
        let mut windows = library.engines.values().filter_map(|engine| engine.signals.get(signal)?.own_window());
        let is_short = windows.any(|own| own < USUAL_WINDOW);
        if let Some(before) = former.signals.get(signal).filter(|_| is_short && value.value.is_none()) {
            value.clone_from(before);
        }
    }
}

/// Plans the queries for these needs; the request's playbook is ignored.
pub(crate) fn plan_for(library: &Library, request: &Request, detection: &DetectionResult, needs: &Needs<'_>) -> Plan {
    let mut plan = Plan { queries: member_queries(library, request, detection, HOUR), ..Plan::default() };
    // Values of several engines are combined by replica.
    let alone = detection.pool(library).count() == 1;
    for (&signal, &need) in needs {
        let Some(definition) = library.signals.get(signal).filter(|s| !s.is_extra()) else {
            continue;
        };
        let mut why: Vec<(String, Option<String>)> = Vec::new();
        let mut reported = false;
        let mut unsupported: BTreeSet<EngineKind> = BTreeSet::new();
        for engine in engines_reporting(library, signal) {
            let Some(entry) = engine.signals.get(signal) else { continue };
            let engine_seen = detection.engines.iter().find(|engine_seen| engine_seen.engine == engine.engine);
            match (&entry.query, engine_seen) {
                (None, Some(_)) => {
                    // What says "nothing" names only another place to look at.
                    if entry.enable.as_ref().is_none_or(|enable| enable.starts_with("nothing")) {
                        unsupported.insert(engine.kind);
                    }
                    let reason = entry.unsupported.clone().unwrap_or_default();
                    why.push((format!("{} cannot tell: {reason}", engine.engine), entry.enable.clone()));
                }
                (_, None) if engine.kind.is_pool() || engine.stand_in => {
                    why.extend(detection.apart.get(&engine.engine).map(|apart| (apart.clone(), None)));
                }
                (_, None) => why.push(match detection.incomplete {
                    Some(_) => (format!("no {} series in {ANSWERED}", engine.engine), None),
                    None => (
                        format!("no {} series in this Prometheus", engine.engine),
                        Some(format!("{}: its series `{}` is missing", scrape(engine), engine.detect)),
                    ),
                }),
                (Some(query), Some(engine_seen)) => {
                    reported = true;
                    let window = entry.own_window().map(|own| own_window(own, request));
                    let labels = !entry.from_labels.is_empty();
                    add(
                        &mut plan,
                        request,
                        Source {
                            engine,
                            engine_seen,
                            query,
                            window,
                            labels,
                            alone,
                            past: detection.past,
                            before: detection.past_before,
                            recorded: &detection.recorded,
                        },
                        signal,
                        definition.fleet,
                        need,
                    );
                }
            }
        }
        if !reported && !definition.of.is_empty() && definition.of.iter().all(|kind| unsupported.contains(kind)) {
            plan.unsupported.insert(signal.to_owned());
        }
        if !reported {
            let kind = definition.of.first().copied().unwrap_or(EngineKind::Serving);
            let no_engine = || no_engine_reason(library, kind, detection.incomplete.is_some());
            let (reason, enable) = why.into_iter().next().unwrap_or_else(no_engine);
            plan.unavailable.insert(signal.to_owned(), (reason, enable));
        }
    }
    add_native_query(library, request, detection, &mut plan);
    plan
}

/// The labels with which an orchestrator reports the node of a pod.
pub(crate) const POD_AND_NODE: [&str; 3] = ["pod", "node", "host_ip"];

/// Plans the queries for the pool's replicas and their nodes within the time before the request's: `1h`, `1d`.
pub(crate) fn member_queries(
    library: &Library,
    request: &Request,
    detection: &DetectionResult,
    within: &str,
) -> Vec<PlannedQuery> {
    let mut queries = Vec::new();
    add_pool_query(library, request, detection, within, &mut queries);
    add_node_query(library, request, detection, within, &mut queries);
    queries
}

/// Adds the query for the nodes of pods, for exporters that know nodes and no pods.
fn add_node_query(
    library: &Library,
    request: &Request,
    detection: &DetectionResult,
    within: &str,
    queries: &mut Vec<PlannedQuery>,
) {
    for engine_seen in &detection.engines {
        let Some(engine) = library.engines.get(&engine_seen.engine).filter(|e| e.kind == EngineKind::Platform) else {
            continue;
        };
        let query = format!(
            "count by ({}) (last_over_time({}{{$workload}}[{within}]))",
            POD_AND_NODE.join(", "),
            engine.detect
        );
        let query = filled(&query, engine, engine_seen, request.window, &[]);
        queries.push(PlannedQuery::about_pool(&engine.engine, QueryPurpose::Nodes, query, request.at));
    }
}

/// Returns the advice for an engine that is not there.
fn scrape(engine: &Engine) -> String {
    engine.enable.clone().unwrap_or_else(|| format!("scrape {}", engine.engine))
}

/// The label under which [`QueryPurpose::Native`] names a histogram.
pub(crate) const HISTOGRAM: &str = "histogram";

/// Adds the query for native histograms: a classic one has no series of its plain name, a native one has.
fn add_native_query(library: &Library, request: &Request, detection: &DetectionResult, plan: &mut Plan) {
    for (engine, engine_seen) in detection.pool(library) {
        let queries = plan.queries.iter().filter(|ask| ask.engine == engine.engine);
        let names: BTreeSet<&str> = queries.flat_map(|ask| histograms(&ask.query)).collect();
        if names.is_empty() {
            continue;
        }
        let names: Vec<&str> = names.into_iter().collect();
        let scope = matchers(&engine_seen.matchers);
        let rows = format!("{{__name__=~\"{}\", {scope}}}", names.join("|"));
        let query =
            format!("count by ({HISTOGRAM}) (label_replace({rows}, \"{HISTOGRAM}\", \"$1\", \"__name__\", \"(.+)\"))");
        plan.queries.push(PlannedQuery::about_pool(&engine.engine, QueryPurpose::Native, query, request.at));
    }
}

/// Returns the engines that may report a signal, those with precedence first.
pub(crate) fn engines_reporting<'a>(library: &'a Library, signal: &str) -> Vec<&'a Engine> {
    let mut engines: Vec<&Engine> = library.engines.values().filter(|e| e.signals.contains_key(signal)).collect();
    engines.sort_by_key(|engine| tier(library, signal, engine));
    engines
}

/// Returns the precedence of an engine for a signal, 0 first; only answers of the first tier with data count.
pub(crate) fn tier(library: &Library, signal: &str, engine: &Engine) -> (usize, bool) {
    let of = library.signals.get(signal).map(|s| s.of.as_slice()).unwrap_or_default();
    (of.iter().position(|kind| *kind == engine.kind).unwrap_or(of.len()), engine.stand_in)
}

/// Returns reason and advice for a signal that no detected engine reports; `in_part` if a part of the data is missing.
pub fn no_engine_reason(library: &Library, kind: EngineKind, in_part: bool) -> (String, Option<String>) {
    let what = match kind {
        EngineKind::Serving => "serving engine",
        EngineKind::Gateway => "gateway",
        EngineKind::Gpu => "GPU exporter",
        EngineKind::Platform => "orchestrator",
        EngineKind::Log => return ("only logs tell it".to_owned(), None),
    };
    if in_part {
        return (format!("no {what} in {ANSWERED}"), None);
    }
    let why = format!("no {what} was found in this Prometheus");
    let engines = || library.engines.values().filter(|e| e.kind == kind);
    let series: Vec<String> = engines().map(|e| format!("`{}`", e.detect)).collect();
    let mut enable = format!("scrape its `/metrics`; one of these series must be there: {}", series.join(", "));
    engines().filter_map(|e| e.enable.as_deref()).for_each(|more| enable.push_str(&format!(". {more}")));
    (why, Some(enable))
}

/// Adds the query for the pool's replicas of this time, including those that are gone.
fn add_pool_query(
    library: &Library,
    request: &Request,
    detection: &DetectionResult,
    within: &str,
    queries: &mut Vec<PlannedQuery>,
) {
    for (engine, engine_seen) in detection.pool(library) {
        let query = match engine.detect_also.as_slice() {
            [] => format!("count by ($by) (last_over_time({}{{$scope}}[{within}]))", engine.detect),
            _ => {
                let names: Vec<&str> = engine.detection_series().collect();
                format!("count by ($by) (last_over_time({{__name__=~\"{}\", $scope}}[{within}]))", names.join("|"))
            }
        };
        let query = filled(&query, engine, engine_seen, request.window, &engine.replica);
        queries.push(PlannedQuery::about_pool(&engine.engine, QueryPurpose::Replicas, query, request.at));
    }
}

struct Source<'a> {
    engine: &'a Engine,
    engine_seen: &'a EngineSeen,
    query: &'a str,
    window: Option<Duration>,
    labels: bool,
    /// True if no other engine serves the pool.
    alone: bool,
    past: Option<Past>,
    before: Option<Past>,
    recorded: &'a RecordedSeries,
}

fn add(plan: &mut Plan, request: &Request, from: Source<'_>, signal: &str, fleet: PoolAggregation, need: SignalNeed) {
    let Source { engine, engine_seen, query, window, labels, alone, past, before, recorded } = from;
    let reads_histogram = histograms(query).next().is_some();
    let derived = fleet != PoolAggregation::Query || labels;
    let mut ask = |purpose: QueryPurpose, at: Timestamp, window: Duration| {
        let pool = matches!(purpose, QueryPurpose::Pool | QueryPurpose::PastPool | QueryPurpose::BeforePool);
        let query = recorded.query(engine, signal, purpose, window).filter(|_| !labels).unwrap_or_else(|| {
            let by: &[String] = if pool && !derived { &[] } else { &engine.replica };
            let query = filled(query, engine, engine_seen, window, by);
            reduced(fleet, &query).filter(|_| pool && derived).unwrap_or(query)
        });
        let (signal, engine) = (signal.to_owned(), engine.engine.clone());
        plan.queries.push(PlannedQuery { signal, engine, purpose, query, at });
    };
    let now = window.unwrap_or(request.window);
    // Rows of shared exporters are assigned to a pool by their replicas.
    let summed = engine.kind.is_pool() && !labels && reduced(fleet, "").is_some();
    let by_pool = !derived || (summed && alone && need.pool_first && !need.replicas);
    if !by_pool || need.replicas {
        ask(QueryPurpose::Replicas, request.at, now);
    }
    if by_pool {
        ask(QueryPurpose::Pool, request.at, now);
    }
    if let Some(past) = past.filter(|_| need.baseline) {
        let purpose = if derived && !summed { QueryPurpose::PastReplicas } else { QueryPurpose::PastPool };
        ask(purpose, past.at, window.unwrap_or(past.window));
    }
    // Histograms are costly; their quantiles vary less than counts.
    let before = before.filter(|_| need.baseline && !reads_histogram);
    if let Some(before) = before {
        let purpose = if derived && !summed { QueryPurpose::BeforeReplicas } else { QueryPurpose::BeforePool };
        ask(purpose, before.at, window.unwrap_or(before.window));
    }
}

/// Removes metrics that do not exist from the queries; queries without an answer are left out.
pub(crate) fn pruned(detection: &DetectionResult, asks: Vec<PlannedQuery>) -> Vec<PlannedQuery> {
    asks.into_iter().filter_map(|ask| Some(PlannedQuery { query: detection.names.prune(&ask.query)?, ..ask })).collect()
}

/// Returns PromQL for the pool's value, from the query of its replicas' values: a past or an onset needs no single
/// replica. `None` if several rows of one replica would count as several replicas.
pub(crate) fn reduced(fleet: PoolAggregation, query: &str) -> Option<String> {
    match fleet {
        PoolAggregation::Max => Some(format!("max({query})")),
        PoolAggregation::Min => Some(format!("min({query})")),
        PoolAggregation::Sum => Some(format!("sum({query})")),
        PoolAggregation::Mean | PoolAggregation::Query => None,
    }
}

pub(crate) fn filled(
    query: &str,
    engine: &Engine,
    engine_seen: &EngineSeen,
    window: Duration,
    by: &[String],
) -> String {
    let scope = matchers(&engine_seen.matchers);
    let prefix = engine.prefixes.first().map(|written| (written.as_str(), engine_seen.prefixes.as_slice()));
    let target = engine_seen.target.as_str();
    fill(query, &Fill { scope: &scope, workload: &scope, window, by, target, prefix })
}

/// Returns the needs of the evidence and the fixes that can be reached from a playbook.
pub(crate) fn needs<'a>(library: &'a Library, playbook: &str) -> Needs<'a> {
    let mut needs = Needs::new();
    for latency in library.playbooks.get(playbook).into_iter().flat_map(|playbook| &playbook.latency) {
        let signals = latency.parts.iter().map(|part| &part.signal).chain([&latency.signal]);
        signals.for_each(|signal| _ = needs.entry(signal).or_default());
    }
    for (i, node) in library.reachable(playbook).into_iter().enumerate() {
        let Node { evidence, now, lasting, .. } = node;
        for (signal, when) in evidence.iter().flat_map(Evidence::checks) {
            let need = needs.entry(signal).or_default();
            need.baseline |= when.needs_baseline();
            // For the symptom, the affected replicas are queried as well.
            need.replicas |= when.needs_peers() || i == 0;
        }
        let steps = now.iter().chain(lasting);
        for signal in steps.clone().filter_map(|step| step.changes).flat_map(StepChange::signals) {
            needs.entry(signal).or_default();
        }
        for check in steps.flat_map(|step| step.verify.iter().chain(&step.only_if)).flat_map(Verify::checks) {
            needs.entry(&check.signal).or_default().baseline |= check.when.needs_baseline();
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::steps;
    use findings::Observation;

    #[test]
    fn a_short_window_of_a_signal_shrinks_with_that_of_a_young_incident_and_stays_else() {
        let of = |own, window, is_young| {
            let request = Request { is_young, window: Duration::from_secs(window), ..steps::tests::request(&[]) };
            own_window(Duration::from_secs(own), &request).as_secs()
        };
        assert_eq!([of(180, 120, true), of(180, 210, true), of(1_800, 120, true)], [72, 126, 1_800]);
        assert_eq!(of(180, 1_200, true), 180, "a window of an hour was configured");
        assert_eq!([of(180, 120, false), of(180, 180, false), of(180, 61, false)], [180; 3], "somebody chose it");
    }

    #[test]
    fn of_a_window_too_short_for_two_scrapes_the_former_value_stays() {
        let library = knowledge::playbook::load(None).unwrap();
        let of = |values: &[(&str, Option<f64>)]| Observations {
            signals: values
                .iter()
                .map(|(signal, value)| ((*signal).to_owned(), Observation { value: *value, ..Observation::default() }))
                .collect(),
            ..Observations::default()
        };
        let former = of(&[("stalled_requests", Some(9.0)), ("ttft_p99", Some(2.0))]);
        let mut young = of(&[("stalled_requests", None), ("ttft_p99", None)]);
        keep_where_too_short(&library, &former, &mut young);
        let values = |signal: &str| young.signals[signal].value;
        assert_eq!([values("stalled_requests"), values("ttft_p99")], [Some(9.0), None], "only of short windows");
        let mut told = of(&[("stalled_requests", Some(0.0))]);
        keep_where_too_short(&library, &former, &mut told);
        assert_eq!(told.signals["stalled_requests"].value, Some(0.0), "two scrapes tell");
    }
}
