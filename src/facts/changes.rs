//! Appearance, loss, restarts and rollouts of replicas, and their current state, from a few range queries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use jiff::Timestamp;

use super::context::{FactQueryContext, why};
use super::events::{ReplicaEvent, ReplicaEventKind, sentences};
use super::info::InfoResults;
use diagnose::{Pool, RowOwnership};
use findings::facts::{PrometheusFacts, ReplicaInfo};
use knowledge::alert::Labels;
use knowledge::clock;
use knowledge::clock::Range;
use knowledge::gap::{Gap, missing_part};
use knowledge::signal::{Change, Engine, EngineKind};
use prom::{Answer, PromError, Series};

/// Maximum points of a series.
const POINTS: u64 = 180;
/// Query steps in seconds; scrapes are rarely more frequent than the first.
const STEPS: [u64; 6] = [15, 30, 60, 120, 300, 600];
/// Seconds without a sample that count as an absence: two scrapes of the slowest usual interval.
const ABSENCE_SECONDS: f64 = 120.0;
/// Seconds for which Prometheus still returns the last sample of a series that ended without a stale marker.
const LOOK_BACK: f64 = 300.0;
/// Maximum seconds between a container's restart and its process' start that count as one event.
const SAME_RESTART_SECONDS: i64 = 600;

/// The results of the range queries.
pub(super) struct Followed<'a> {
    range: Range,
    /// The timestamp of each replica's newest sample.
    presence: Vec<(&'a Engine, Arc<Answer<Series>>)>,
    changes: Vec<(&'a Engine, Change, Arc<Answer<Series>>)>,
    missing: Vec<Gap>,
}

impl Followed<'_> {
    /// Returns the pods of the replicas.
    pub(super) fn pods(&self) -> impl Iterator<Item = String> {
        let rows = self.presence.iter().flat_map(|(_, series)| series.iter());
        rows.filter_map(|series| ["exported_pod", "pod"].iter().find_map(|label| series.labels.get(*label))).cloned()
    }
}

/// Queries the replicas' presence and all `changes` of the engines and exporters, one query each.
pub(super) async fn follow<'a>(context: FactQueryContext<'_>, pool: &Pool<'a>) -> Followed<'a> {
    let range = range(context);
    let newest = |engine: &Engine| {
        let each: Vec<String> =
            engine.detection_series().map(|metric| format!("timestamp({metric}{{$scope}})")).collect();
        format!("max by ($by) ({})", each.join(" or "))
    };
    let served = pool.engines().filter(|(engine, _)| engine.kind.is_pool());
    let presence: Vec<(&Engine, String)> =
        served.map(|(engine, engine_seen)| (engine, pool.bound(engine, engine_seen, &newest(engine)))).collect();
    let changes: Vec<(&Engine, Change, String)> = pool
        .engines()
        .flat_map(|(engine, engine_seen)| {
            engine.changes.iter().map(move |(change, query)| (engine, engine_seen, *change, query))
        })
        .map(|(engine, engine_seen, change, query)| (engine, change, pool.bound(engine, engine_seen, query)))
        .collect();
    let query = |query| context.prometheus.query_range(query, range, context.deadline);
    let (present, changed) = tokio::join!(
        join_all(presence.iter().map(|(_, text)| query(text))),
        join_all(changes.iter().map(|(.., text)| query(text))),
    );
    let mut missing = Vec::new();
    let mut read = |what: String, answer: Result<Arc<Answer<Series>>, Arc<PromError>>| match answer {
        Ok(series) => match series.incomplete() {
            None => Some(series),
            // A part that is missing for a while looks like replicas that went.
            Some(said) => {
                missing.push(Gap::failed(what, missing_part(said)));
                None
            }
        },
        Err(error) => {
            missing.push(Gap::new(what, why(&error)));
            None
        }
    };
    let presence = presence.into_iter().zip(present);
    let presence = presence
        .filter_map(|((engine, _), answer)| Some((engine, read(format!("the replicas of {}", engine.engine), answer)?)))
        .collect();
    let changes = changes.into_iter().zip(changed);
    let changes = changes
        .filter_map(|((engine, change, _), answer)| Some((engine, change, read(named(change).to_owned(), answer)?)))
        .collect();
    Followed { range, presence, changes, missing }
}

fn named(change: Change) -> &'static str {
    match change {
        Change::Started | Change::Restarts => "restarts",
        Change::Wanted => "changes of the number of replicas",
        Change::Autoscaled => "what the autoscaler wanted",
        Change::Images | Change::Specification => "rollouts",
    }
}

fn range(context: FactQueryContext<'_>) -> Range {
    let window = context.windows.whole();
    let length = clock::between(window.from, window.to).as_secs();
    let finest = length.div_ceil(POINTS);
    let step = STEPS.into_iter().find(|step| *step >= finest).unwrap_or(finest);
    Range { from: window.from, to: window.to, step_seconds: i64::try_from(step).unwrap_or(i64::MAX) }
}

/// The presence of a replica: the times of its first and last sample and of the gaps, in unix seconds.
struct Life {
    labels: Labels,
    gateway: bool,
    first: f64,
    last: f64,
    gaps: Vec<(f64, f64)>,
    gone: bool,
}

/// Adds the events and the replicas' states to the result.
pub(super) fn read(
    context: FactQueryContext<'_>,
    pool: &Pool<'_>,
    followed: Followed<'_>,
    info: &InfoResults<'_>,
    facts: &mut PrometheusFacts,
) {
    let lives = lives(pool, &followed);
    let mut events = Vec::new();
    let begin = followed.range.from.as_second() as f64;
    for (name, life) in &lives {
        let mut add = |at: f64, what| events.extend(moment(at).map(|at| ReplicaEvent { at, what, who: name.clone() }));
        if life.first > begin + ABSENCE_SECONDS + followed.range.step_seconds as f64 {
            add(life.first, ReplicaEventKind::Came);
        }
        life.gaps.iter().for_each(|(from, to)| add(*from, ReplicaEventKind::Silent { seconds: to - from }));
        if life.gone {
            add(life.last, ReplicaEventKind::Went);
        }
    }
    let restarts = restarts(pool, &followed);
    events.extend(restarts.iter().map(|(at, who)| ReplicaEvent {
        at: *at,
        what: ReplicaEventKind::Restarted,
        who: who.clone(),
    }));
    events.extend(rollouts(pool, &followed));
    let window = context.windows.whole();
    events.retain(|event| event.at >= window.from && event.at <= window.to);
    let (happened, left_out) = sentences(events);
    if left_out > 0 {
        facts.missing.push(Gap::absent("everything that changed", format!("{left_out} more changes are left out")));
    }
    facts.happened = happened;
    facts.missing.extend(followed.missing);
    facts.replicas = replicas(pool, &lives, &restarts, info);
    if followed.presence.is_empty() {
        facts.missing.push(Gap::absent("the replicas", "no engine's series tell them"));
    }
    if !facts.replicas.is_empty() && info.nodes().is_empty() && pool.nodes().is_empty() {
        let why = "no orchestrator's series tell where pods run; to have it: run kube-state-metrics and scrape it";
        facts.missing.push(Gap::absent("the replicas' nodes", why));
    }
}

fn moment(seconds: f64) -> Option<Timestamp> {
    Timestamp::from_millisecond((seconds * 1e3) as i64).ok()
}

/// A replica's labels, true for a gateway's replica, and the samples.
type Sampled = (Labels, bool, Vec<(i64, f64)>);

fn lives(pool: &Pool<'_>, followed: &Followed<'_>) -> BTreeMap<String, Life> {
    let serving: BTreeSet<&str> = pool.serving().map(|(engine, _)| engine.engine.as_str()).collect();
    let end = followed.range.to.as_second() as f64;
    let mut samples_by_replica: BTreeMap<String, Sampled> = BTreeMap::new();
    for (engine, series) in &followed.presence {
        let gateway = engine.kind == EngineKind::Gateway;
        // A stand-in for an engine with metrics of its own would list the same replicas under other names.
        if !gateway && !serving.contains(engine.engine.as_str()) {
            continue;
        }
        for one_series in series.iter().filter(|one_series| !one_series.samples.is_empty()) {
            let Some(name) = pool.replica(engine, &one_series.labels) else { continue };
            let entry =
                samples_by_replica.entry(name).or_insert_with(|| (one_series.labels.clone(), gateway, Vec::new()));
            entry.2.extend(&one_series.samples);
        }
    }
    let newest =
        samples_by_replica.values().flat_map(|(.., samples)| samples).map(|(_, at)| *at).fold(f64::MIN, f64::max);
    let now = if end - newest > LOOK_BACK { end } else { newest };
    let last_point = followed.range.to.as_millisecond() - followed.range.step_seconds.saturating_mul(1_000);
    let life = |(name, (labels, gateway, mut samples)): (String, Sampled)| {
        samples.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let (first, last) = (samples.first()?.1, samples.iter().map(|(_, at)| *at).fold(f64::MIN, f64::max));
        let pairs = samples.windows(2).filter_map(|pair| match pair {
            [(_, a), (_, b)] if b - a > ABSENCE_SECONDS + followed.range.step_seconds as f64 => Some((*a, *b)),
            _ => None,
        });
        let ended = samples.last()?.0 <= last_point && now - last > ABSENCE_SECONDS / 2.0;
        let life =
            Life { labels, gateway, first, last, gaps: pairs.collect(), gone: ended || now - last > ABSENCE_SECONDS };
        Some((name, life))
    };
    samples_by_replica.into_iter().filter_map(life).collect()
}

/// Returns the restarts of each replica: from the orchestrator's counts, else from process start times.
fn restarts(pool: &Pool<'_>, followed: &Followed<'_>) -> Vec<(Timestamp, String)> {
    let begin = followed.range.from;
    let mut counted: Vec<(Timestamp, String)> = Vec::new();
    for (pod, at, before, after) in changes_of(pool, followed, Change::Restarts, |labels| labels.get("pod").cloned()) {
        // A crash loop may restart several times between two samples.
        let times = (after - before).clamp(0.0, 20.0).round() as usize;
        counted.extend(std::iter::repeat_n((at, pod), times));
    }
    let mut began: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
    for (engine, series) in of(followed, Change::Started) {
        for one_series in series {
            let Some(name) = pool.replica(engine, &one_series.labels) else { continue };
            began.entry(name).or_default().extend(one_series.samples.iter().map(|(_, at)| *at as i64));
        }
    }
    let near = |at: Timestamp, who: &str| {
        let close = |other: &Timestamp| (other.as_second() - at.as_second()).abs() <= SAME_RESTART_SECONDS;
        counted.iter().any(|(other, name)| name == who && close(other))
    };
    let mut from_start_times: Vec<(Timestamp, String)> = Vec::new();
    for (name, starts) in began {
        let again = starts.into_iter().skip(1).filter_map(|at| Timestamp::from_second(at).ok());
        from_start_times.extend(again.filter(|at| *at >= begin && !near(*at, &name)).map(|at| (at, name.clone())));
    }
    counted.extend(from_start_times);
    counted.sort();
    counted
}

fn of<'f>(followed: &'f Followed<'_>, kind: Change) -> impl Iterator<Item = (&'f Engine, &'f [Series])> {
    let matching = followed.changes.iter().filter(move |(_, change, _)| *change == kind);
    matching.map(|(engine, _, series)| (*engine, &series[..]))
}

/// Returns the series whose labels name the pool.
fn pool_series<'s>(pool: &Pool<'_>, engine: &Engine, series: &'s [Series]) -> Vec<&'s Series> {
    match pool.own(engine, series, |one_series| &one_series.labels) {
        (RowOwnership::Known, own) => own,
        (RowOwnership::Open, _) => Vec::new(),
    }
}

/// Returns the changes of a series: time, old and new value.
fn steps(series: &Series) -> impl Iterator<Item = (Timestamp, f64, f64)> {
    series.samples.windows(2).filter_map(|pair| match pair {
        [(_, before), (at, after)] if before != after => {
            Some((Timestamp::from_millisecond(*at).ok()?, *before, *after))
        }
        _ => None,
    })
}

/// Returns the changes of the pool's series of a kind that `name` knows: its name, time, old and new value.
fn changes_of(
    pool: &Pool<'_>,
    followed: &Followed<'_>,
    kind: Change,
    name: impl Fn(&Labels) -> Option<String>,
) -> impl Iterator<Item = (String, Timestamp, f64, f64)> {
    let all = of(followed, kind).flat_map(|(engine, series)| pool_series(pool, engine, series));
    all.filter_map(move |one| Some((name(&one.labels)?, one)))
        .flat_map(|(name, one)| steps(one).map(move |(at, before, after)| (name.clone(), at, before, after)))
}

/// Returns kind and name: `deployment llama`.
fn workload(labels: &Labels) -> Option<String> {
    let kinds = ["deployment", "statefulset", "daemonset", "horizontalpodautoscaler"];
    kinds.iter().find_map(|kind| Some(format!("{kind} {}", labels.get(*kind).filter(|name| !name.is_empty())?)))
}

fn rollouts(pool: &Pool<'_>, followed: &Followed<'_>) -> Vec<ReplicaEvent> {
    let mut events = images(pool, followed);
    let has_event_near = |at: Timestamp, events: &[ReplicaEvent]| {
        let near = |event: &ReplicaEvent| (event.at.as_second() - at.as_second()).abs() <= ABSENCE_SECONDS as i64;
        events.iter().any(near)
    };
    let told = |at, who, text| ReplicaEvent { at, what: ReplicaEventKind::Told(text), who };
    let scaled: Vec<ReplicaEvent> = changes_of(pool, followed, Change::Wanted, workload)
        .map(|(who, at, before, after)| {
            let text = format!("{who}: replicas wanted {before} ─▶ {after}");
            told(at, who, text)
        })
        .collect();
    let autoscaler = |labels: &Labels| labels.get("horizontalpodautoscaler").cloned();
    for (name, at, before, after) in changes_of(pool, followed, Change::Autoscaled, autoscaler) {
        if !has_event_near(at, &scaled) {
            let text = format!("autoscaler {name}: replicas wanted {before} ─▶ {after}");
            events.push(told(at, name, text));
        }
    }
    // Scaling and a new image change the specification too.
    let known_events: Vec<ReplicaEvent> = scaled.iter().chain(&events).cloned().collect();
    for (who, at, before, after) in changes_of(pool, followed, Change::Specification, workload) {
        if !has_event_near(at, &known_events) {
            let text = format!("{who}: its specification changed (generation {before} ─▶ {after})");
            events.push(told(at, who, text));
        }
    }
    events.extend(scaled);
    events
}

/// Returns new images of containers that had another image before.
fn images(pool: &Pool<'_>, followed: &Followed<'_>) -> Vec<ReplicaEvent> {
    let mut first_seen_at: BTreeMap<(String, String), Timestamp> = BTreeMap::new();
    for (engine, series) in of(followed, Change::Images) {
        for one_series in pool_series(pool, engine, series) {
            let label = |name: &str| one_series.labels.get(name).cloned().unwrap_or_default();
            let at = one_series.samples.first().and_then(|(at, _)| Timestamp::from_millisecond(*at).ok());
            let Some(at) = at else { continue };
            let first = first_seen_at.entry((label("container"), label("image"))).or_insert(at);
            *first = at.min(*first);
        }
    }
    let mut events = Vec::new();
    for ((container, image), at) in &first_seen_at {
        let earlier_images = first_seen_at.iter().filter(|((other, _), before)| other == container && *before < at);
        if let Some(((_, old), _)) = earlier_images.max_by_key(|(_, before)| **before) {
            let what = ReplicaEventKind::Told(format!("container {container}: image {old} ─▶ {image}"));
            events.push(ReplicaEvent { at: *at, what, who: container.clone() });
        }
    }
    events
}

fn replicas(
    pool: &Pool<'_>,
    lives: &BTreeMap<String, Life>,
    restarts: &[(Timestamp, String)],
    info: &InfoResults<'_>,
) -> Vec<ReplicaInfo> {
    let (nodes, placed, roles, gpus) = (info.nodes(), pool.nodes(), info.roles(), info.gpus());
    let replica = |name: &String, labels: Labels, role: &str, state: String| ReplicaInfo {
        name: name.clone(),
        node: nodes.get(name.as_str()).map(|node| (*node).to_owned()).or_else(|| placed.get(name).cloned()),
        gpus: gpus.get(name.as_str()).into_iter().flatten().cloned().collect(),
        role: roles.get(name.as_str()).copied().unwrap_or(role).to_owned(),
        state,
        labels,
    };
    let state = |name: &String, life: &Life| {
        let times = restarts.iter().filter(|(_, who)| who == name).count();
        match (life.gone, times) {
            (true, _) => "gone".to_owned(),
            (false, 0) => "up".to_owned(),
            (false, 1) => "restarted once".to_owned(),
            (false, n) => format!("restarted {n} times"),
        }
    };
    let mut all: Vec<ReplicaInfo> = lives
        .iter()
        .map(|(name, life)| {
            let role = if life.gateway { "gateway" } else { "" };
            let labels = life.labels.iter().filter(|(_, value)| !value.is_empty());
            replica(name, labels.map(|(n, v)| (n.clone(), v.clone())).collect(), role, state(name, life))
        })
        .collect();
    // Pods of the same workload whose engine never exposed metrics.
    let mute = nodes.keys().filter(|pod| !lives.contains_key(**pod));
    all.extend(mute.map(|pod| replica(&(*pod).to_owned(), Labels::new(), "", "no engine metrics".to_owned())));
    all
}
