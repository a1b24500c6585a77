//! The history of the pools: thresholds that would have fired, and symptoms without a firing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use jiff::Timestamp;

use super::state::FinishedPool;
use super::{Setting, Stopped};
use crate::clock;
use crate::diagnose::{
    FleetPool, PoolHistory, PoolHistoryRequest, PoolsOfDay, Request, Scope, SymptomVerdict, diagnose, pool_history,
    pools_of_day, symptom_order,
};
use crate::prom::Range;
use crate::render::diagnosis_message;
use crate::report::backtest::{
    AbnormalTime, Firing, UnalertedEpisode, UnalertedSymptom, count_firings, merged, named_cause, shipped_thresholds,
    unalerted,
};

const DAY: Duration = Duration::from_secs(86_400);
/// Maximum number of steps over the whole range; a step has at least a minute, so that it sees most alerts' `for`.
const STEPS: u64 = 9_000;
/// Maximum number of confirmed times of one symptom of a pool, and of those that are diagnosed to find them.
const EPISODES: (usize, usize) = (3, 6);
/// Time from the start of a symptom to its diagnosis.
const SETTLED: Duration = Duration::from_secs(600);
/// Days whose answers are in memory at the same time: one is judged while the next one is asked for.
const DAYS: usize = 2;

/// A day of the range, with its pools.
#[derive(Debug)]
pub(super) struct Day {
    range: (Timestamp, Timestamp),
    seen: PoolsOfDay,
}

impl Day {
    /// Returns true if no pool has data.
    pub(super) fn is_empty(&self) -> bool {
        self.seen.pools.is_empty()
    }

    /// Returns its start.
    pub(super) fn from(&self) -> Timestamp {
        self.range.0
    }
}

/// Returns the time between two steps of a range.
pub(super) fn step(range: (Timestamp, Timestamp)) -> Duration {
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
        let deadline = Instant::now() + setting.long_deadline();
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
    FleetPool { dimensions: pool.clone(), ..FleetPool::default() }.name()
}

/// Reads the history of a pool and judges it; `alerts` are the firings that tell of its symptoms.
pub(super) async fn judged(
    setting: &Setting<'_>,
    id: &str,
    pool: &BTreeMap<String, String>,
    days: &[Day],
    alerts: &[Firing],
) -> Result<FinishedPool, Stopped> {
    let library = setting.library.for_pool(pool);
    let step = step(setting.range);
    let shipped = shipped_thresholds(library);
    let signals: BTreeSet<&str> = shipped.iter().map(|base| base.signal.as_str()).collect();
    let days = days.iter().filter(|day| day.seen.pools.contains(pool));
    let histories = days.map(|day| day_of(setting, pool, day, &signals, step));
    let mut histories = stream::iter(histories).buffered(DAYS);
    let mut history = PoolHistory::default();
    while let Some(day) = histories.next().await {
        let day = day?;
        if day.is_lost() {
            return Err(Stopped::Prometheus(format!("Prometheus did not answer about the history of {}", name(pool))));
        }
        history.unanswered += day.unanswered;
        history.asked += day.asked;
        for (signal, values) in day.values {
            history.values.entry(signal).or_default().extend(values);
        }
        for (playbook, times) in day.abnormal {
            history.abnormal.entry(playbook).or_default().extend(times);
        }
    }
    drop(histories);
    let length = clock::between(setting.range.0, setting.range.1);
    let mut finished = FinishedPool {
        id: id.to_owned(),
        ladders: count_firings(library, &shipped, &history.values, step, length),
        ..FinishedPool::default()
    };
    if history.unanswered > 0 {
        let (missed, asked) = (history.unanswered, history.asked);
        let what = "some of its symptoms and thresholds were not seen";
        finished.limits.push(format!("{}: {missed} of {asked} range queries had no answer: {what}", name(pool)));
    }
    let times = merged(&history.abnormal, &symptom_order(library), step);
    let (times, alerted) = unalerted(times, alerts, pool, setting.range.1);
    finished.alerted_times = alerted;
    symptoms(setting, pool, times, &mut finished).await?;
    setting.cleaned(&finished).map_err(Stopped::Failed)
}

/// Reads the history of a day.
async fn day_of(
    setting: &Setting<'_>,
    pool: &BTreeMap<String, String>,
    day: &Day,
    signals: &BTreeSet<&str>,
    step: Duration,
) -> Result<PoolHistory, Stopped> {
    setting.has_queries_left()?;
    // The first step of a day follows the last one of the day before.
    let from = clock::after(clock::floor(day.range.0, step), step);
    let request = PoolHistoryRequest {
        pool,
        rows: &day.seen.rows,
        signals,
        range: Range { from, to: day.range.1, step_seconds: i64::try_from(step.as_secs()).unwrap_or(60) },
        window: setting.config.window,
        deadline: setting.long_deadline(),
    };
    let history = pool_history(setting.library, setting.prometheus, &request).await;
    tokio::time::sleep(setting.pause).await;
    Ok(history)
}

/// Diagnoses the longest times of each symptom. Times that a diagnosis does not confirm are left out; a symptom of which
/// none is confirmed too.
async fn symptoms(
    setting: &Setting<'_>,
    pool: &BTreeMap<String, String>,
    times: Vec<AbnormalTime>,
    finished: &mut FinishedPool,
) -> Result<(), Stopped> {
    let mut by_symptom: BTreeMap<String, Vec<AbnormalTime>> = BTreeMap::new();
    for time in times {
        let first = time.playbooks.first().cloned().unwrap_or_default();
        by_symptom.entry(first).or_default().push(time);
    }
    let lasted = |time: &AbnormalTime| clock::between(time.from, time.to).as_secs();
    for (id, times) in by_symptom {
        let Some(playbook) = setting.library.playbooks.get(&id) else { continue };
        let (mut episodes, mut refuted, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        let mut looked_at = 0;
        for time in times.iter().take(EPISODES.1) {
            setting.has_queries_left()?;
            looked_at += 1;
            match episode(setting, pool, &id, time).await.map_err(Stopped::Failed)? {
                EpisodeVerdict::Confirmed(episode) => episodes.push(episode),
                EpisodeVerdict::Refuted => refuted.push(lasted(time)),
                EpisodeVerdict::Unanswered(why) => unknown.push((time.from, why)),
            }
            tokio::time::sleep(setting.pause).await;
            if episodes.len() == EPISODES.0 {
                break;
            }
        }
        if let [.., (_, why)] = unknown.as_slice()
            && unknown.len() == looked_at
            && looked_at >= EPISODES.0
        {
            return Err(Stopped::Prometheus(why.clone()));
        }
        for (from, why) in &unknown {
            let (pool, title) = (name(pool), &playbook.title);
            finished.limits.push(format!("{pool}: `{title}` at {from:.0} could not be diagnosed: {why}"));
        }
        if episodes.is_empty() && unknown.is_empty() {
            if times.len() > looked_at {
                let (pool, title, open) = (name(pool), &playbook.title, times.len() - looked_at);
                let what = format!("the longest {looked_at} times were not confirmed, {open} more were not looked at");
                finished.limits.push(format!("{pool}: `{title}`: {what}"));
            }
            continue;
        }
        let mut alerts: Vec<String> = playbook.alerts.iter().map(|alert| alert.alert.clone()).collect();
        alerts.dedup();
        finished.unalerted.push(UnalertedSymptom {
            pool: name(pool),
            playbook: id,
            title: playbook.title.clone(),
            alerts,
            times: times.len() - refuted.len(),
            seconds: times.iter().map(lasted).sum::<u64>().saturating_sub(refuted.iter().sum()),
            looked_at,
            episodes,
        });
    }
    Ok(())
}

/// The result of the diagnosis of a symptom that held in the history.
enum EpisodeVerdict {
    Confirmed(UnalertedEpisode),
    Refuted,
    /// Prometheus did not answer, with the reason.
    Unanswered(String),
}

async fn episode(
    setting: &Setting<'_>,
    pool: &BTreeMap<String, String>,
    playbook: &str,
    time: &AbnormalTime,
) -> anyhow::Result<EpisodeVerdict> {
    let request = Request {
        playbook: playbook.to_owned(),
        // Another symptom would be another episode.
        screen: false,
        rules: Vec::new(),
        scope: Scope { dimensions: pool.clone(), ..Scope::default() },
        at: clock::after(time.from, SETTLED).min(time.to),
        since: Some(time.from),
        window: setting.config.window,
        baseline: setting.config.baseline,
        deadline: setting.config.deadline,
    };
    let diagnosis = diagnose(setting.library, setting.prometheus, &request).await;
    if diagnosis.symptom.verdict != SymptomVerdict::Confirmed {
        let why = || diagnosis.problems.first().cloned().unwrap_or_else(|| "Prometheus did not answer".to_owned());
        return Ok(if diagnosis.degraded { EpisodeVerdict::Unanswered(why()) } else { EpisodeVerdict::Refuted });
    }
    let redactor = setting.redactor.with_same_numbers();
    redactor.learn_from(pool);
    redactor.learn_from(&diagnosis);
    let diagnosis = redactor.cleaned("output", &diagnosis)?;
    Ok(EpisodeVerdict::Confirmed(UnalertedEpisode {
        from: time.from,
        to: time.to,
        headline: diagnosis_message(&diagnosis, None, setting.words).headline,
        chain: named_cause(&diagnosis).map(|named| named.chain.to_vec()).unwrap_or_default(),
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
