//! The history of the pools: thresholds that would have fired, and symptoms without a firing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::state::FinishedPool;
use super::{Setting, Stopped};
use crate::clip::format_count;
use crate::clock;
use crate::diagnose::{
    FleetPool, PoolHistory, PoolHistoryRequest, PoolsOfDay, Request, Scope, diagnose, pool_history, pools_of_day,
    symptom_order,
};
use crate::prom::Range;
use crate::render::diagnosis_message;
use crate::report::backtest::{
    AbnormalTime, Firing, FiringOutcome, UnalertedEpisode, UnalertedSymptom, bases, count, merged, outcome, unalerted,
};

const DAY: Duration = Duration::from_secs(86_400);
/// Maximum number of steps over the whole range; a step has at least a minute, so that it sees most alerts' `for`.
const STEPS: u64 = 9_000;
/// Maximum number of diagnosed times of one symptom of a pool.
const EPISODES: usize = 3;
/// Time from the start of a symptom to its diagnosis.
const SETTLED: Duration = Duration::from_secs(600);
/// A day's range queries take longer than a diagnosis' own.
const PATIENCE: u32 = 6;

/// A day of the range, with its pools.
#[derive(Debug)]
pub(super) struct Day {
    range: (Timestamp, Timestamp),
    seen: PoolsOfDay,
}

/// Returns the time between two steps of a range.
fn step(range: (Timestamp, Timestamp)) -> Duration {
    let minutes = clock::between(range.0, range.1).as_secs().div_ceil(STEPS).div_ceil(60);
    Duration::from_secs(60 * minutes.max(1))
}

/// Finds the pools of each day, oldest first; `done` is called after each.
pub(super) async fn days(setting: &Setting<'_>, mut done: impl FnMut()) -> Result<Vec<Day>, Stopped> {
    let mut days = Vec::new();
    let (from, mut end) = setting.range;
    while end > from {
        setting.has_queries_left()?;
        let begin = clock::before(end, DAY).max(from);
        let deadline = Instant::now() + setting.config.deadline * PATIENCE;
        let seen = pools_of_day(setting.library, setting.prometheus, end, deadline).await;
        let seen = seen.map_err(|error| Stopped::Prometheus(error.to_string()))?;
        days.push(Day { range: (begin, end), seen });
        done();
        end = begin;
    }
    days.reverse();
    Ok(days)
}

/// Returns all pools of these days.
pub(super) fn pools(days: &[Day]) -> BTreeSet<BTreeMap<String, String>> {
    days.iter().flat_map(|day| day.seen.pools.iter().cloned()).collect()
}

/// Returns the name of a pool.
pub(super) fn name(pool: &BTreeMap<String, String>) -> String {
    FleetPool { dimensions: pool.clone(), pods: BTreeSet::new() }.name()
}

/// Reads the history of a pool and judges it.
pub(super) async fn judged(
    setting: &Setting<'_>,
    id: &str,
    pool: &BTreeMap<String, String>,
    days: &[Day],
    firings: &[Firing],
) -> Result<FinishedPool, Stopped> {
    let library = setting.library.for_pool(pool);
    let step = step(setting.range);
    let bases = bases(library);
    let signals: BTreeSet<&str> = bases.iter().map(|base| base.signal.as_str()).collect();
    let mut history = PoolHistory::default();
    for day in days.iter().filter(|day| day.seen.pools.contains(pool)) {
        setting.has_queries_left()?;
        // The first step of a day follows the last one of the day before.
        let from = clock::after(clock::floor(day.range.0, step), step);
        let range = Range { from, to: day.range.1, step_seconds: i64::try_from(step.as_secs()).unwrap_or(60) };
        let request = PoolHistoryRequest {
            pool,
            rows: &day.seen.rows,
            signals: &signals,
            range,
            window: setting.config.window,
            deadline: setting.config.deadline * PATIENCE,
        };
        let of_day = pool_history(setting.library, setting.prometheus, &request).await;
        history.unanswered += of_day.unanswered;
        for (signal, values) in of_day.values {
            history.values.entry(signal).or_default().extend(values);
        }
        for (playbook, times) in of_day.abnormal {
            history.abnormal.entry(playbook).or_default().extend(times);
        }
        tokio::time::sleep(setting.pause).await;
    }
    let mut finished = FinishedPool {
        id: id.to_owned(),
        ladders: count(library, &bases, &history.values, step, clock::between(setting.range.0, setting.range.1)),
        ..FinishedPool::default()
    };
    if history.unanswered > 0 {
        let missed = format_count(history.unanswered, "range query");
        finished.problems.push(format!("{}: {missed} had no answer: its thresholds are counted in part", name(pool)));
    }
    let times = merged(&history.abnormal, &symptom_order(library), step);
    let times = unalerted(times, firings, pool, setting.range.1);
    finished.unalerted = symptoms(setting, pool, times).await?;
    setting.cleaned(&finished).map_err(Stopped::Failed)
}

/// Diagnoses the longest times of each symptom; symptoms that no diagnosis confirms are left out.
async fn symptoms(
    setting: &Setting<'_>,
    pool: &BTreeMap<String, String>,
    times: Vec<AbnormalTime>,
) -> Result<Vec<UnalertedSymptom>, Stopped> {
    let mut by_symptom: BTreeMap<String, Vec<AbnormalTime>> = BTreeMap::new();
    for time in times {
        let first = time.playbooks.first().cloned().unwrap_or_default();
        by_symptom.entry(first).or_default().push(time);
    }
    let mut all = Vec::new();
    for (id, times) in by_symptom {
        let Some(playbook) = setting.library.playbooks.get(&id) else { continue };
        let mut episodes = Vec::new();
        for time in times.iter().take(EPISODES) {
            setting.has_queries_left()?;
            episodes.extend(episode(setting, pool, time).await?);
        }
        if episodes.is_empty() {
            continue;
        }
        let mut alerts: Vec<String> = playbook.alerts.iter().map(|alert| alert.alert.clone()).collect();
        alerts.dedup();
        all.push(UnalertedSymptom {
            pool: name(pool),
            playbook: id,
            title: playbook.title.clone(),
            alerts,
            times: times.len(),
            seconds: times.iter().map(|time| clock::between(time.from, time.to).as_secs()).sum(),
            episodes,
        });
    }
    Ok(all)
}

async fn episode(
    setting: &Setting<'_>,
    pool: &BTreeMap<String, String>,
    time: &AbnormalTime,
) -> Result<Option<UnalertedEpisode>, Stopped> {
    let request = Request {
        playbook: String::new(),
        screen: true,
        rules: Vec::new(),
        scope: Scope { dimensions: pool.clone(), ..Scope::default() },
        at: clock::after(time.from, SETTLED).min(time.to),
        since: Some(time.from),
        window: setting.config.window,
        baseline: setting.config.baseline,
        deadline: setting.config.deadline,
    };
    let diagnosis = diagnose(setting.library, setting.prometheus, &request).await;
    if !matches!(outcome(&diagnosis), FiringOutcome::Confirmed | FiringOutcome::NoCause) {
        return Ok(None);
    }
    let redactor = setting.redactor.with_same_numbers();
    redactor.learn_from(pool);
    redactor.learn_from(&diagnosis);
    let cleaned = redactor.cleaned("output", &diagnosis);
    let diagnosis = cleaned.map_err(|error| Stopped::Failed(error.into()))?;
    Ok(Some(UnalertedEpisode {
        from: time.from,
        to: time.to,
        headline: diagnosis_message(&diagnosis, None, setting.words).headline,
        chain: diagnosis.root().map(|root| root.chain.clone()).unwrap_or_default(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_minute_or_as_long_as_the_range_needs() {
        let step = |days: i64| {
            let [from, to] = [0, days * 86_400].map(|at| Timestamp::from_second(at).unwrap());
            super::step((from, to)).as_secs()
        };
        assert_eq!([1, 6, 7, 30, 31].map(step), [60, 60, 120, 300, 300]);
    }
}
