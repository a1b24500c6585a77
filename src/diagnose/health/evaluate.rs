//! Evaluation of all pools of the fleet: detects them, queries their signals, and evaluates the checks.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::{join, join_all};
use jiff::Timestamp;

use super::checks::{CheckRow, check, is_feature, is_gateways, is_idle, is_served, rows, signals};
use crate::kinds::observe_by_kind;
use crate::no_engine_reason;
use crate::observe::answer_cache::AnswerCache;
use detect::{detection, gateway_pools, last_day, orchestrated, pools};
use findings::health::{CheckCoverage, Health, HealthState, PoolHealth, SCHEMA};
use findings::{EngineFound, Request, Scope};
use knowledge::alert::Labels;
use knowledge::gap::missing_part;
use knowledge::playbook::Library;
use knowledge::signal::EngineKind;
use prom::Prometheus;

/// The dimensions that can filter the fleet.
pub const DIMENSIONS: [&str; 3] = ["cluster", "namespace", "model"];
/// Maximum pools of one Prometheus.
const MAX_POOLS: usize = 50;
/// Maximum values of a dimension that are listed if none matches.
const VALUES_LISTED: usize = 8;
/// Maximum former pools that are listed.
const FORMER_POOLS_LISTED: usize = 2;
/// The fraction of the deadline for listing the pools, as a divisor.
const LISTING_DIVISOR: u32 = 2;

/// The parameters of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthQuery {
    /// The filter, dimension to value; empty for the whole fleet.
    pub scope: BTreeMap<String, String>,
    /// The evaluation time.
    pub at: Timestamp,
    /// The rate window.
    pub window: Duration,
    /// The time after which answers are no longer awaited.
    pub deadline: Duration,
}

/// A Prometheus, and the labels common to all of its pools.
pub type HealthSource<'a> = (&'a Prometheus, &'a BTreeMap<String, String>);

/// Evaluates every pool of the sources; includes the answers that arrive before the deadline.
pub async fn evaluate_fleet(library: &Library, sources: &[HealthSource<'_>], query: &HealthQuery) -> Health {
    let started = Instant::now();
    let fitting = sources.iter().filter(|(_, labels)| {
        labels.iter().all(|(name, value)| query.scope.get(name).is_none_or(|wanted_value| wanted_value == value))
    });
    let fitting: Vec<&HealthSource<'_>> = fitting.collect();
    let parts = join_all(fitting.iter().map(|source| evaluate_source(library, **source, query, started))).await;
    let mut health = Health {
        schema: SCHEMA.to_owned(),
        at: query.at,
        window_seconds: query.window.as_secs(),
        scope: query.scope.clone(),
        state: HealthState::Unknown,
        pools: Vec::new(),
        incomplete: None,
        left_out: 0,
        notes: Vec::new(),
        problems: Vec::new(),
        queries: 0,
        took_seconds: 0.0,
    };
    if parts.is_empty() {
        health.notes.push(format!("no configured Prometheus has the labels {}", label_list(&query.scope)));
    }
    let mut states = Vec::new();
    // Servers without a name of their own are told apart by their addresses.
    let name_of = |prometheus: &Prometheus| match fitting.iter().filter(|(one, _)| one.name == prometheus.name).count()
    {
        0 | 1 => prometheus.name.clone(),
        _ => prometheus.url.to_string(),
    };
    for (mut part, (prometheus, _)) in parts.into_iter().zip(&fitting) {
        let name = name_of(prometheus);
        part.pools.iter_mut().for_each(|pool| pool.prometheus.clone_from(&name));
        states.extend(part.pools.iter().map(|pool| pool.state));
        if part.away || part.incomplete.is_some() {
            states.push(HealthState::Unknown);
        }
        health.incomplete = health.incomplete.or(part.incomplete);
        health.pools.extend(part.pools);
        health.left_out += part.left_out;
        health.notes.extend(part.notes.into_iter().map(|note| match fitting.len() {
            1 => note,
            _ => format!("{name}: {note}"),
        }));
        health.problems.extend(part.problems);
        health.queries += part.queries;
    }
    health.state = HealthState::worst(states.into_iter()).unwrap_or(HealthState::Unknown);
    health.took_seconds = started.elapsed().as_secs_f64();
    health
}

/// The result of one Prometheus.
#[derive(Default)]
struct Part {
    pools: Vec<PoolHealth>,
    left_out: usize,
    notes: Vec<String>,
    problems: Vec<String>,
    away: bool,
    /// The server's words about a part of the data in which more pools may be.
    incomplete: Option<String>,
    queries: usize,
}

async fn evaluate_source(library: &Library, source: HealthSource<'_>, query: &HealthQuery, started: Instant) -> Part {
    let (prometheus, fixed) = source;
    let mut part = Part { queries: 2, ..Part::default() };
    let until = started + query.deadline / LISTING_DIVISOR;
    let (hour, day) = (detection(library), last_day(library));
    let (hour, day) = join(prometheus.query(&hour, query.at, until), prometheus.query(&day, query.at, until)).await;
    let labels = |rows: &[prom::Row]| -> Vec<Labels> { rows.iter().map(|row| row.labels.clone()).collect() };
    let (hour, day) = match (hour, day) {
        (Ok(hour), Ok(day)) => {
            part.incomplete = hour.incomplete().or(day.incomplete()).map(str::to_owned);
            (labels(&hour), labels(&day))
        }
        (Err(error), _) | (_, Err(error)) => {
            part.away = true;
            part.problems.push(format!("{}: {error}", prometheus.url));
            return part;
        }
    };
    let orchestrated = orchestrated(library, &hour);
    let (rows_of_hour, hour, day) = (hour.as_slice(), pools(library, &hour), pools(library, &day));
    let mut current_pools: Vec<Labels> = hour.iter().cloned().collect();
    // A gateway of none of these pools is a pool of its own. Each pool needs a scan of all rows, so requested pools
    // come first.
    let is_requested =
        |pool: &&Labels| query.scope.iter().all(|(name, value)| pool.get(name).is_none_or(|label| label == value));
    let (requested, unrequested): (Vec<&Labels>, Vec<&Labels>) = hour.iter().partition(is_requested);
    let scanned_pools = requested.into_iter().chain(unrequested).take(MAX_POOLS).cloned().collect();
    current_pools
        .extend(gateway_pools(library, rows_of_hour, &scanned_pools).into_iter().filter(|pool| !hour.contains(pool)));
    let mut former_pools: Vec<Labels> = day.difference(&hour).cloned().collect();
    if current_pools.is_empty() && former_pools.is_empty() {
        let (why, enable) = no_engine_reason(library, EngineKind::Serving, part.incomplete.is_some());
        part.notes.extend([Some(why), enable].into_iter().flatten());
        return part.with_problem_of_missing_pools();
    }
    for (dimension, value) in query.scope.iter().filter(|(dimension, _)| !fixed.contains_key(*dimension)) {
        let carried: Vec<String> =
            current_pools.iter().chain(&former_pools).filter_map(|pool| pool.get(dimension).cloned()).collect();
        if carried.is_empty() {
            part.notes.push(format!(
                "the engines' series carry no label for {dimension} `{value}`: it was not used to narrow the fleet"
            ));
            continue;
        }
        for list in [&mut current_pools, &mut former_pools] {
            list.retain(|pool| pool.get(dimension) == Some(value));
        }
        if current_pools.is_empty() && former_pools.is_empty() {
            part.notes.push(format!(
                "no pool of the last day has {dimension} `{value}`; there is {}",
                few(carried, VALUES_LISTED)
            ));
            return part.with_problem_of_missing_pools();
        }
    }
    part.left_out = current_pools.len().saturating_sub(MAX_POOLS);
    current_pools.truncate(MAX_POOLS);
    // Only with an orchestrator can a pool without engine metrics still be evaluated.
    let (mut former_pools, unevaluable_pools): (Vec<Labels>, Vec<Labels>) =
        former_pools.into_iter().partition(|pool| pool.get("namespace").is_some_and(|n| orchestrated.contains(n)));
    former_pools.truncate(MAX_POOLS);
    let served = current_pools.len();
    let all = current_pools.into_iter().chain(former_pools);
    let evaluations = all.map(|labels| pool(library, prometheus, labels, query, started));
    let mut silent_pools: Vec<String> = unevaluable_pools.iter().map(named).collect();
    for (i, (pool, problems, queries)) in join_all(evaluations).await.into_iter().enumerate() {
        part.queries += queries;
        part.problems.extend(problems);
        // A pool may have been removed on purpose within the day; it is missing only if it is still wanted.
        match i < served || pool.state == HealthState::Critical {
            true => part.pools.push(pool),
            false => silent_pools.push(named(&pool.labels)),
        }
    }
    if !silent_pools.is_empty() {
        let what = match part.incomplete {
            Some(_) => "served within the last day, and not in the part of the data of the last hour that answered",
            None => "served within the last day but not within the last hour, and nobody is known to want it",
        };
        part.notes.push(format!("{what}: {}", few(silent_pools, FORMER_POOLS_LISTED)));
    }
    part.problems.sort();
    part.problems.dedup();
    part.with_problem_of_missing_pools()
}

impl Part {
    /// Says that pools may be missing, before all other problems.
    fn with_problem_of_missing_pools(mut self) -> Self {
        if let Some(said) = &self.incomplete {
            let missing = missing_part(said);
            self.problems.retain(|problem| *problem != missing);
            self.problems
                .insert(0, format!("{missing}. Pools and replicas may be missing here, and none is called healthy"));
        }
        self
    }
}

async fn pool(
    library: &Library,
    prometheus: &Prometheus,
    labels: Labels,
    query: &HealthQuery,
    started: Instant,
) -> (PoolHealth, Vec<String>, usize) {
    let library = library.for_pool(&labels);
    let scope = Scope { dimensions: labels.clone(), ..Scope::default() };
    let time_left = query.deadline.saturating_sub(started.elapsed());
    let request = Request::without_past(scope, query.at, query.window, time_left);
    let needs =
        |library| signals(library, &rows(library)).into_iter().map(|signal| (signal, Default::default())).collect();
    let (library, observed) = observe_by_kind(library, prometheus, &request, needs, None, AnswerCache::default()).await;
    let gateways = observed.detection.engines.iter().filter_map(|e| library.engines.get(&e.engine));
    let gateways = gateways.filter(|engine| engine.kind == EngineKind::Gateway).count();
    // Gateway checks need a gateway.
    let rows = rows(library);
    let rows = rows.iter().filter(|row| gateways > 0 || !is_gateways(library, row.signal));
    // Feature checks need the feature in use.
    let unused = |row: &&CheckRow| {
        let silent = observed.observations.signals.get(row.signal).is_some_and(|o| o.value.is_none() && o.answered);
        silent && observed.incomplete().is_none() && is_feature(library, row.signal)
    };
    let rows = rows.filter(|row| !unused(row));
    let checks: Vec<_> = rows.map(|row| check(library, row, &observed.observations)).collect();
    let worst = HealthState::worst(checks.iter().filter_map(|c| c.state.filter(|s| *s != HealthState::Unknown)));
    let engine_has_data =
        checks.iter().any(|c| c.state.is_some_and(|s| s != HealthState::Unknown) && is_served(library, &c.signal));
    let state = match worst {
        // Healthy exporters do not make a pool healthy if its engine has no data, or if Prometheus did not answer.
        Some(HealthState::Healthy) if !engine_has_data || observed.degraded || observed.incomplete().is_some() => {
            HealthState::Unknown
        }
        worst => worst.unwrap_or(HealthState::Unknown),
    };
    let incomplete = observed.incomplete().map(str::to_owned);
    let coverage = CheckCoverage { with_data: checks.iter().filter(|c| c.value.is_some()).count(), of: checks.len() };
    let engines = observed.detection.engines.into_iter();
    let pool = PoolHealth {
        labels,
        prometheus: prometheus.name.clone(),
        engines: engines
            .map(|e| EngineFound { engine: e.engine, at_least: e.version.map(|v| v.to_string()) })
            .collect(),
        kinds: observed.kinds,
        replicas: observed.observations.pool.len(),
        state,
        incomplete,
        idle: is_idle(library, &observed.observations),
        checks,
        coverage,
    };
    // Excludes the detection query, which was cached already.
    (pool, observed.problems, observed.queries.saturating_sub(1))
}

fn label_list(labels: &Labels) -> String {
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

/// Returns a pool's name: `llm/llama`.
fn named(labels: &Labels) -> String {
    DIMENSIONS.iter().filter_map(|d| labels.get(*d)).map(String::as_str).collect::<Vec<_>>().join("/")
}

fn few(mut values: Vec<String>, most: usize) -> String {
    values.sort();
    values.dedup();
    let more = values.len().saturating_sub(most);
    values.truncate(most);
    let listed = values.iter().map(|value| format!("`{}`", value.replace('`', ""))).collect::<Vec<_>>().join(", ");
    if more == 0 { listed } else { format!("{listed} +{more}") }
}
