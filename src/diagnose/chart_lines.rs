//! The lines of the picture: the signals that decided, over the time around the onset.
//!
//! The queries are the diagnosis' own, sent as range queries with the same window and read the same way, so that the
//! last point of a line is the number in the message.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{join, join_all};
use jiff::Timestamp;

use super::batch::{self, QueryAnswer};
use super::detection::detection;
use super::gather::{Members, gather};
use super::onset::{moments, rows_at, tells_of_change};
use super::plan::{Needs, PlannedQuery, QueryPurpose, plan_for};
use super::scope::read_detection;
use super::{Baseline, Diagnosis, EvidenceResult, Observations, Outcome, Request, Scope, ValueSource};
use crate::alert::Labels;
use crate::chart::{self, Band, Chart, ChartMark, ChartSeries, ChartThreshold, Panel, Role};
use crate::clock;
use crate::playbook::{Comparison, Condition, Library, Op, Reference};
use crate::prom::{Prometheus, Range};
use crate::render::Phrases;
use crate::signal::{PoolAggregation, format_value};

/// Maximum number of panels: fits on a phone, with few queries.
const PANELS: usize = 6;
/// Number of checks of one link that are shown before those of other links.
const OF_LINK: usize = 2;
/// Minimum and maximum length of the time before the onset.
const LEAD: [Duration; 2] = [Duration::from_secs(20 * 60), Duration::from_secs(45 * 60)];
/// Length of the time before the onset as a multiple of the incident's, so that the incident is not squeezed.
const LEAD_SHARE: u32 = 4;
/// Maximum length of the picture.
const LONGEST: Duration = Duration::from_secs(6 * 3_600);
/// Maximum number of points in a line.
const POINTS: u64 = 180;
/// Steps between points, seconds; scrapes are rarely closer than the first.
const STEPS: [u64; 5] = [15, 30, 60, 120, 300];
/// Maximum number of replicas that are highlighted.
const OUTLIERS: usize = 3;
/// Half width of the window that gives the past's range at a point: in a shorter one a single scrape would count as
/// normal.
const AROUND: Duration = Duration::from_secs(600);
const DAY: Duration = Duration::from_secs(86_400);

/// The time range, and the limits of its queries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    /// The start of the incident.
    pub since: Timestamp,
    /// The past to compare with, as in the diagnosis.
    pub baseline: Baseline,
    /// The time limit for Prometheus' answers.
    pub deadline: Duration,
}

/// Draws the checks that decided a diagnosis; `None` if there are none, or Prometheus has no data for them (any
/// more).
pub async fn picture(
    library: &Library,
    prometheus: &Prometheus,
    diagnosis: &Diagnosis,
    frame: &Frame,
    words: &Phrases,
) -> Option<Chart> {
    let deadline = Instant::now() + frame.deadline;
    let shown = deciding(library, diagnosis);
    let asks = asks(library, prometheus, diagnosis, &shown, deadline).await?;
    let range = range(diagnosis, frame);
    let earlier = match frame.baseline {
        Baseline::Earlier(by) => Some((by, shifted(range, by))),
        Baseline::Off => None,
    };
    let compared: Vec<PlannedQuery> =
        asks.list.iter().filter(|ask| shown.iter().any(|e| e.signal == ask.signal && e.past)).cloned().collect();
    let now = query_observations(library, prometheus, &asks.members, &asks.list, range, deadline);
    let past = async {
        let (_, range) = earlier?;
        Some(query_observations(library, prometheus, &asks.members, &compared, range, deadline).await)
    };
    let (now, past) = join(now, past).await;
    let past = earlier.map(|(by, _)| by).zip(past);
    let panels: Vec<Panel> =
        shown.iter().filter_map(|e| panel(library, diagnosis, e, &now, past.as_ref(), range, words)).collect();
    if panels.is_empty() {
        return None;
    }
    Some(Chart {
        title: title(diagnosis),
        subtitle: subtitle(diagnosis, &range),
        panels,
        from: range.from,
        to: range.to,
        marks: marks(diagnosis, frame, words),
    })
}

/// A check that is shown.
#[derive(Debug)]
struct Shown<'a> {
    evidence: &'a EvidenceResult,
    signal: &'a str,
    when: Option<Condition>,
    /// True if it compares with the past.
    past: bool,
    /// True if it compares replicas.
    peers: bool,
}

/// Returns the checks that decided: the symptom's, then those of the best chain from its root upward; each signal
/// once.
fn deciding<'a>(library: &Library, diagnosis: &'a Diagnosis) -> Vec<Shown<'a>> {
    let tells = |e: &&EvidenceResult| {
        let there = e.when.parse::<Condition>().is_ok_and(|when| when == Condition::Present);
        let usable = e.outcome == Outcome::Met && e.value.is_some() && e.source == ValueSource::Prometheus;
        usable && (there || (tells_of_change(library, e) && !is_guard(e)))
    };
    let mut links: Vec<&[EvidenceResult]> = vec![&diagnosis.symptom.evidence];
    if let Some(root) = diagnosis.root() {
        links.push(&root.evidence);
        links.extend(root.via.iter().rev().map(|link| link.evidence.as_slice()));
    }
    let told = |link: &&'a [EvidenceResult]| link.iter().filter(tells).collect::<Vec<_>>();
    let first = links.iter().flat_map(|link| told(link).into_iter().take(OF_LINK));
    let rest = links.iter().flat_map(|link| told(link).into_iter().skip(OF_LINK));
    let mut known = BTreeSet::new();
    let once = first.chain(rest).filter(|e| known.insert(e.signal.as_str())).take(PANELS);
    let shown = once.map(|evidence| {
        let when = evidence.when.parse::<Condition>().ok();
        let past = when.as_ref().is_some_and(Condition::needs_baseline);
        let peers = when.as_ref().is_some_and(Condition::needs_peers);
        Shown { evidence, signal: &evidence.signal, when, past, peers }
    });
    shown.collect()
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
async fn asks(
    library: &Library,
    prometheus: &Prometheus,
    diagnosis: &Diagnosis,
    shown: &[Shown<'_>],
    deadline: Instant,
) -> Option<Asks> {
    if shown.is_empty() {
        return None;
    }
    let request = Request {
        playbook: diagnosis.symptom.playbook.clone(),
        screen: false,
        rules: Vec::new(),
        scope: Scope {
            dimensions: diagnosis.scope.labels.clone(),
            replicas: diagnosis.scope.named.iter().cloned().collect(),
        },
        at: diagnosis.at,
        since: None,
        window: Duration::from_secs(diagnosis.window_seconds),
        baseline: Baseline::Off,
        deadline: Duration::ZERO,
    };
    let rows = prometheus.query(&detection(library), request.at, deadline).await.ok()?;
    let rows: Vec<Labels> = rows.iter().map(|row| row.labels.clone()).collect();
    let found = read_detection(library, &request.scope, &rows);
    let outliers = !outliers(diagnosis).is_empty();
    let mut needs = Needs::new();
    for e in shown {
        needs.entry(e.signal).or_default().replicas = e.peers || outliers || !e.evidence.replicas.is_empty();
    }
    let plan = plan_for(library, &request, &found, &needs);
    let (list, pool): (Vec<PlannedQuery>, Vec<PlannedQuery>) =
        plan.asks.into_iter().partition(|ask| !ask.signal.is_empty());
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
) -> Vec<(Timestamp, Observations)> {
    let packs = batch::pack(asks);
    let answered = packs.iter().map(|pack| batch::ask_range(prometheus, asks, pack, range, deadline));
    let answered = join_all(answered).await;
    let mut answered: Vec<(usize, Arc<Vec<_>>)> =
        packs.into_iter().flatten().zip(answered.into_iter().flatten()).filter_map(|(i, s)| Some((i, s?))).collect();
    answered.sort_by_key(|(i, _)| *i);
    let asked: Vec<PlannedQuery> = answered.iter().map(|(i, _)| asks[*i].clone()).collect();
    let mut all = Vec::new();
    for at in moments(&range) {
        let rows = |series: &Arc<Vec<_>>| -> QueryAnswer { Ok(Arc::new(rows_at(series, at.as_millisecond()))) };
        let answers: Vec<QueryAnswer> = answered.iter().map(|(_, series)| rows(series)).collect();
        let mut seen = Observations::default();
        gather(library, members, &asked, &answers, &mut seen);
        all.push((at, seen));
        // Steps of a large fleet take a while; other tasks run in between.
        tokio::task::yield_now().await;
    }
    all
}

/// Returns the time range: from well before the first onset to the time of the evaluation.
fn range(diagnosis: &Diagnosis, frame: &Frame) -> Range {
    let onsets = diagnosis.timeline.iter().map(|onset| onset.at);
    let begun = onsets.chain([frame.since]).min().unwrap_or(frame.since).min(diagnosis.at);
    let lasts = clock::between(begun, diagnosis.at).min(LONGEST);
    let length = (lasts + (lasts * LEAD_SHARE).clamp(LEAD[0], LEAD[1])).min(LONGEST);
    let finest = length.as_secs().div_ceil(POINTS);
    let step = STEPS.into_iter().find(|step| *step >= finest).unwrap_or(finest);
    let steps = length.as_secs() / step;
    Range {
        from: clock::before(diagnosis.at, Duration::from_secs(step * steps)),
        to: diagnosis.at,
        step_seconds: i64::try_from(step).unwrap_or(i64::MAX),
    }
}

fn shifted(range: Range, by: Duration) -> Range {
    Range { from: clock::before(range.from, by), to: clock::before(range.to, by), ..range }
}

/// Returns the replicas that the best chain blames, if they are few among others.
fn outliers(diagnosis: &Diagnosis) -> Vec<&str> {
    let radius = diagnosis.root().map(|root| &root.replicas).unwrap_or(&diagnosis.replicas);
    let n = radius.affected.len();
    let few = n <= OUTLIERS && n < radius.total && (n == 1 || n * 3 <= radius.total);
    if few { radius.affected.iter().map(String::as_str).collect() } else { Vec::new() }
}

type Moments = Vec<(Timestamp, Observations)>;

fn panel(
    library: &Library,
    diagnosis: &Diagnosis,
    shown: &Shown<'_>,
    now: &Moments,
    past: Option<&(Duration, Moments)>,
    range: Range,
    words: &Phrases,
) -> Option<Panel> {
    let e = shown.evidence;
    let fleet = library.signals.get(shown.signal)?.fleet;
    let series = series(diagnosis, shown, fleet, now, words);
    if series.iter().all(|series| series.points.is_empty()) {
        return None;
    }
    let text = |value: f64| format_value(value, e.unit);
    let threshold = shown.when.as_ref().and_then(|when| limit(when, e)).map(|(value, bad)| ChartThreshold {
        value,
        bad,
        label: words.text("chart-limit", &[("value", text(value).into())]),
    });
    let before = e.baseline.filter(|_| shown.past);
    let band = before.map(|before| {
        past.and_then(|(by, moments)| band(shown.signal, *by, moments, words)).unwrap_or_else(|| Band {
            label: words.text("chart-before", &[("value", text(before).into())]),
            points: moments(&range).map(|at| (at, before, before)).collect(),
        })
    });
    let mut says: Vec<String> = threshold.iter().map(|threshold| threshold.label.clone()).collect();
    says.extend(before.map(|before| words.text("chart-before", &[("value", text(before).into())])));
    let odd = series.iter().filter(|series| series.role == Role::Outlier);
    says.extend(odd.map(|series| words.text("chart-stands-out", &[("who", series.name.as_str().into())])));
    let value = e.value.map(text).unwrap_or_default();
    let says = if says.is_empty() {
        format!("{}: {value}.", e.title)
    } else {
        format!("{}: {value} ({}).", e.title, says.join(", "))
    };
    Some(Panel {
        title: e.title.clone(),
        unit: e.unit,
        series,
        threshold,
        band,
        others: words.text("chart-others", &[]),
        says,
    })
}

/// Returns the pool's line, and those of the replicas if some of them stand out.
fn series(
    diagnosis: &Diagnosis,
    shown: &Shown<'_>,
    fleet: PoolAggregation,
    now: &Moments,
    words: &Phrases,
) -> Vec<ChartSeries> {
    let of = |seen: &Observations| seen.signals.get(shown.signal).cloned();
    let seen: Vec<_> = now.iter().filter_map(|(at, seen)| Some((*at, of(seen)?))).collect();
    let blamed = outliers(diagnosis);
    let own: Vec<&str> = shown.evidence.replicas.iter().map(|r| r.name.as_str()).take(OUTLIERS).collect();
    let names: BTreeSet<&str> = seen.iter().flat_map(|(_, o)| o.replicas.iter().map(|r| r.name.as_str())).collect();
    let odd: Vec<&str> = if shown.peers { own } else { blamed };
    // A sum has another scale than its parts.
    let apart = shown.peers || fleet != PoolAggregation::Sum;
    let odd: Vec<&str> = odd.into_iter().filter(|name| apart && names.contains(name)).collect();
    let mut all = Vec::new();
    if !odd.is_empty() {
        for name in &names {
            let value = |o: &super::Observation| o.replicas.iter().find(|r| r.name == *name).map(|r| r.value);
            let points = seen.iter().filter_map(|(at, o)| Some((*at, value(o)?))).collect();
            let role = if odd.contains(name) { Role::Outlier } else { Role::Replica };
            all.push(ChartSeries { name: (*name).to_owned(), points, role });
        }
    }
    // The largest or smallest replica already is the pool's value.
    let is_replica = shown.peers || matches!(fleet, PoolAggregation::Max | PoolAggregation::Min);
    if odd.is_empty() || !is_replica {
        let points = seen.iter().filter_map(|(at, o)| Some((*at, o.value?))).collect();
        all.push(ChartSeries { name: words.text("chart-pool", &[]), points, role: Role::Pool });
    }
    all
}

/// Returns the strictest of a condition's thresholds, in the signal's unit.
fn limit(when: &Condition, e: &EvidenceResult) -> Option<(f64, chart::ThresholdSide)> {
    let comparisons = when.comparisons();
    let above = |op: Op| matches!(op, Op::Above | Op::AtLeast);
    let bad = if above(comparisons.first()?.op) { chart::ThresholdSide::Above } else { chart::ThresholdSide::Below };
    let same = comparisons.iter().filter(|c| above(c.op) == (bad == chart::ThresholdSide::Above));
    let values = same.filter_map(|c| match c.to {
        Reference::Number(n) => Some(n),
        Reference::Baseline(times) | Reference::Peers(times) => Some(times * e.baseline?),
    });
    let strictest = match bad {
        chart::ThresholdSide::Above => values.reduce(f64::max),
        chart::ThresholdSide::Below => values.reduce(f64::min),
    };
    strictest.map(|value| (value, bad))
}

/// Returns the past at the same time of day, if it has data for most of the picture.
fn band(signal: &str, by: Duration, past: &Moments, words: &Phrases) -> Option<Band> {
    let values: Vec<(Timestamp, f64)> =
        past.iter().filter_map(|(at, seen)| Some((*at, seen.signals.get(signal)?.value?))).collect();
    if values.len() * 2 < past.len() {
        return None;
    }
    let around = |at: Timestamp| {
        let (from, to) = (clock::before(at, AROUND), clock::after(at, AROUND));
        let near = values.iter().filter(|(when, _)| (from..=to).contains(when)).map(|(_, value)| *value);
        near.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
    };
    let points = values.iter().map(|(at, _)| {
        let (low, high) = around(*at);
        (clock::after(*at, by), low, high)
    });
    let label = match by {
        DAY => words.text("chart-yesterday", &[]),
        by => words.text("chart-earlier", &[("ago", clock::human_duration(by).into())]),
    };
    Some(Band { label, points: points.collect() })
}

/// Returns the chain as one clause, the symptom first.
fn title(diagnosis: &Diagnosis) -> String {
    let root = diagnosis.root();
    let via = root.into_iter().flat_map(|root| &root.via).map(|link| link.title.as_str());
    let links = [diagnosis.symptom.title.as_str()].into_iter().chain(via).chain(root.map(|root| root.title.as_str()));
    let mut told: Vec<&str> = Vec::new();
    links.for_each(|link| {
        if !told.contains(&link) {
            told.push(link)
        }
    });
    let chain = told.join(" ← ");
    let mut chars = chain.chars();
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

fn subtitle(diagnosis: &Diagnosis, range: &Range) -> String {
    let pool =
        ["model", "namespace", "cluster"].into_iter().filter_map(|name| diagnosis.scope.labels.get(name)).cloned();
    let time = format!("{}–{} UTC", range.from.strftime("%Y-%m-%d %H:%M"), range.to.strftime("%H:%M"));
    pool.chain([time]).collect::<Vec<_>>().join(" · ")
}

/// Returns the onsets of the cause and the symptom; the start of the alert if the symptom's onset is unknown.
fn marks(diagnosis: &Diagnosis, frame: &Frame, words: &Phrases) -> Vec<ChartMark> {
    let root = diagnosis.root();
    let links = || {
        root.into_iter()
            .flat_map(|root| root.via.iter().map(|link| (&link.id, &link.title)).chain([(&root.id, &root.title)]))
    };
    let name = |id: &str| links().find(|(own, _)| *own == id).map_or_else(|| id.to_owned(), |(_, title)| title.clone());
    let symptom = diagnosis.symptom.playbook.as_str();
    let cause = diagnosis.timeline.iter().find(|onset| onset.id != symptom);
    let felt = diagnosis.timeline.iter().find(|onset| onset.id == symptom);
    let mut marks: Vec<ChartMark> =
        cause.map(|onset| ChartMark { at: onset.at, label: name(&onset.id) }).into_iter().collect();
    marks.push(match felt {
        Some(onset) => ChartMark { at: onset.at, label: diagnosis.symptom.title.clone() },
        None => ChartMark { at: frame.since, label: words.text("chart-alert", &[]) },
    });
    // Sorted by time: onsets within a scrape or two of each other may come in either order.
    marks.sort_by_key(|mark| mark.at);
    marks
}
