//! The chart of a diagnosis: the history of the checks that decided it.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::Phrases;
use chart::{Band, Chart, ChartMark, ChartSeries, ChartThreshold, MOST_MARKS, Panel, Role, ThresholdSide};
use findings::facts::{HappenedKind, TimelineEvent};
use findings::{
    DecidingCheck, Diagnosis, EvidenceHistory, EvidenceResult, Moments, OUTLIERS, Observation, Observations,
};
use knowledge::clip::clip;
use knowledge::clock;
use knowledge::clock::Range;
use knowledge::playbook::{Condition, Library, Op, Reference};
use knowledge::signal::{PoolAggregation, format_threshold, format_value};

/// Half width of the window that gives the past's range at a point: in a shorter one a single scrape would count as
/// normal.
const AROUND: Duration = Duration::from_secs(600);
/// Marks with the same label within this time are one.
const SAME_MARK: Duration = Duration::from_secs(60);
/// Maximum characters of an event's label.
const MARK_CHARS: usize = 90;
const DAY: Duration = Duration::from_secs(86_400);

/// Draws the history of the checks that decided a diagnosis; `None` if it has no data (any more). `since` is the
/// start of the incident.
pub fn diagnosis_chart(
    library: &Library,
    diagnosis: &Diagnosis,
    history: &EvidenceHistory<'_>,
    since: Timestamp,
    words: &Phrases,
) -> Option<Chart> {
    let panels = history.checks.iter().filter_map(|check| panel(library, diagnosis, check, history, words));
    let panels: Vec<Panel> = panels.collect();
    if panels.is_empty() {
        return None;
    }
    Some(Chart {
        title: title(diagnosis),
        subtitle: subtitle(diagnosis, &history.range),
        panels,
        from: history.range.from,
        to: history.range.to,
        marks: marks(diagnosis, since, words).into_iter().filter(|mark| mark.at >= history.range.from).collect(),
    })
}

fn panel(
    library: &Library,
    diagnosis: &Diagnosis,
    check: &DecidingCheck<'_>,
    history: &EvidenceHistory<'_>,
    words: &Phrases,
) -> Option<Panel> {
    let e = check.evidence;
    let fleet = library.signals.get(&e.signal)?.fleet;
    let series = series(diagnosis, check, fleet, &history.now, words);
    if series.iter().all(|series| series.points.is_empty()) {
        return None;
    }
    let text = |value: f64| format_value(value, e.unit);
    let threshold = check.when.as_ref().and_then(|when| Some((when, limit(when, e)?)));
    let threshold = threshold.map(|(when, (value, bad))| {
        let fixed = when.comparisons().iter().any(|c| c.to == Reference::Number(value));
        let shown = if fixed { format_threshold(value, e.unit) } else { text(value) };
        ChartThreshold { value, bad, label: words.text("chart-limit", &[("value", shown.into())]) }
    });
    let before = e.baseline.filter(|_| check.past);
    let band = before.map(|before| {
        history.past.as_ref().and_then(|(by, moments)| band(&e.signal, *by, moments, words)).unwrap_or_else(|| Band {
            label: words.text("chart-before", &[("value", text(before).into())]),
            points: history.range.steps().map(|at| (at, before, before)).collect(),
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
    check: &DecidingCheck<'_>,
    fleet: PoolAggregation,
    now: &Moments,
    words: &Phrases,
) -> Vec<ChartSeries> {
    let of = |seen: &Observations| seen.signals.get(&check.evidence.signal).cloned();
    let seen: Vec<_> = now.iter().filter_map(|(at, seen)| Some((*at, of(seen)?))).collect();
    let blamed = diagnosis.outliers();
    let own: Vec<&str> = check.evidence.replicas.iter().map(|r| r.name.as_str()).take(OUTLIERS).collect();
    let names: BTreeSet<&str> = seen.iter().flat_map(|(_, o)| o.replicas.iter().map(|r| r.name.as_str())).collect();
    let odd: Vec<&str> = if check.peers { own } else { blamed };
    // A sum has another scale than its parts.
    let apart = check.peers || fleet != PoolAggregation::Sum;
    let odd: Vec<&str> = odd.into_iter().filter(|name| apart && names.contains(name)).collect();
    let mut all = Vec::new();
    if !odd.is_empty() {
        for name in &names {
            let value = |o: &Observation| o.replicas.iter().find(|r| r.name == *name).map(|r| r.value);
            let points = seen.iter().filter_map(|(at, o)| Some((*at, value(o)?))).collect();
            let role = if odd.contains(name) { Role::Outlier } else { Role::Replica };
            all.push(ChartSeries { name: (*name).to_owned(), points, role });
        }
    }
    // The largest or smallest replica already is the pool's value.
    let is_replica = check.peers || matches!(fleet, PoolAggregation::Max | PoolAggregation::Min);
    if odd.is_empty() || !is_replica {
        let points = seen.iter().filter_map(|(at, o)| Some((*at, o.value?))).collect();
        all.push(ChartSeries { name: words.text("chart-pool", &[]), points, role: Role::Pool });
    }
    all
}

/// Returns the strictest of a condition's thresholds, in the signal's unit.
fn limit(when: &Condition, e: &EvidenceResult) -> Option<(f64, ThresholdSide)> {
    let comparisons = when.comparisons();
    let above = |op: Op| matches!(op, Op::Above | Op::AtLeast);
    let bad = if above(comparisons.first()?.op) { ThresholdSide::Above } else { ThresholdSide::Below };
    let same = comparisons.iter().filter(|c| above(c.op) == (bad == ThresholdSide::Above));
    let values = same.filter_map(|c| match c.to {
        Reference::Number(n) => Some(n),
        Reference::Baseline(times) | Reference::Peers(times) => Some(times * e.baseline?),
    });
    let strictest = match bad {
        ThresholdSide::Above => values.reduce(f64::max),
        ThresholdSide::Below => values.reduce(f64::min),
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
    let mut titles: Vec<&str> = Vec::new();
    links.for_each(|link| {
        if !titles.contains(&link) {
            titles.push(link)
        }
    });
    let chain = titles.join(" ← ");
    let mut chars = chain.chars();
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

fn subtitle(diagnosis: &Diagnosis, range: &Range) -> String {
    let pool =
        ["model", "namespace", "cluster"].into_iter().filter_map(|name| diagnosis.scope.labels.get(name)).cloned();
    let time = format!("{}–{} UTC", range.from.strftime("%Y-%m-%d %H:%M"), range.to.strftime("%H:%M"));
    pool.chain([time]).collect::<Vec<_>>().join(" · ")
}

/// Adds the rollouts, the starts of alerts and their ends to the onsets that a chart marks, as many as are drawn besides
/// these: changes first, because they may be the cause.
pub fn mark_events(chart: &mut Chart, events: &[TimelineEvent]) {
    let kinds = [HappenedKind::Rollout, HappenedKind::Alert];
    for kind in kinds {
        for event in events.iter().filter(|event| event.kind == kind) {
            // That Alertmanager reported an alert says the same as the alert itself, some seconds later.
            let is_new = kind != HappenedKind::Alert || event.what.starts_with("the alert ");
            let is_shown = is_new && (chart.from..=chart.to).contains(&event.at);
            let label = clip(&event.what, MARK_CHARS);
            let is_same =
                |mark: &ChartMark| mark.label == label && mark.at.duration_since(event.at).unsigned_abs() <= SAME_MARK;
            if is_shown && chart.marks.len() < MOST_MARKS && !chart.marks.iter().any(is_same) {
                chart.marks.push(ChartMark { at: event.at, label });
            }
        }
    }
    chart.marks.sort_by_key(|mark| mark.at);
}

/// Returns the onsets of the cause and the symptom; the start of the alert if the symptom's onset is unknown.
fn marks(diagnosis: &Diagnosis, since: Timestamp, words: &Phrases) -> Vec<ChartMark> {
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
        None => ChartMark { at: since, label: words.text("chart-alert", &[]) },
    });
    // Sorted by time: onsets within a scrape or two of each other may come in either order.
    marks.sort_by_key(|mark| mark.at);
    marks
}
