//! The history of the pools: thresholds that would have fired, and symptoms without a firing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use jiff::Timestamp;

use super::state::FinishedPool;
use super::{Setting, Stopped};
use ::backtest::{
    AbnormalTime, Firing, SymptomTime, UnalertedEpisode, UnalertedSymptom, count_firings, merged, shipped_thresholds,
    unalerted, without_data,
};
use diagnose::{PoolHistory, PoolHistoryRequest, PoolsOfDay, diagnose, pool_history, pools_of_day, symptom_order};
use findings::scope::pool_name;
use findings::{Request, Scope, SymptomVerdict};
use knowledge::clock;
use knowledge::clock::Range;
use knowledge::gap::missing_part;
use render::diagnosis_message;
use report::named_cause;

const DAY: Duration = Duration::from_secs(86_400);
/// Maximum number of steps over the whole range; a step has at least a minute, so that it sees most alerts' `for`.
const STEPS: u64 = 9_000;
/// Maximum number of confirmed times of one symptom of a pool, and of those that are diagnosed to find them.
const EPISODES: (usize, usize) = (3, 6);
/// Time from the start of a symptom to its diagnosis.
const SETTLED: Duration = Duration::from_secs(600);
/// Days without an answer after which the further ones are not read.
const LOST_DAYS: usize = 3;
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

/// Finds the pools of each day, oldest first; `done` is called after each. Returns the days with an answer, and sentences
/// about the others; true if another try may find them.
pub(super) async fn days(
    setting: &Setting<'_>,
    mut done: impl FnMut(),
) -> Result<(Vec<Day>, Vec<String>, bool), Stopped> {
    let (mut days, mut limits, mut is_open) = (Vec::new(), Vec::new(), false);
    let (from, mut end) = setting.range;
    while end > from {
        setting.has_queries_left()?;
        let begin = clock::before(end, DAY).max(from);
        let deadline = Instant::now() + setting.long_deadline();
        let seen = pools_of_day(setting.library, setting.prometheus, end, deadline).await;
        match seen {
            Ok(seen) => {
                let of_day = |said| format!("pools of the day from {begin:.0} may be missing: {}", missing_part(said));
                limits.extend(seen.incomplete.as_deref().map(of_day));
                days.push(Day { range: (begin, end), seen });
            }
            Err(error) => {
                setting.still_answers(error.to_string()).await?;
                is_open |= error.is_unavailable();
                limits.push(format!("the pools of the day from {begin:.0} could not be found: {error}"));
                if days.is_empty() && limits.len() >= LOST_DAYS {
                    return Err(Stopped::Prometheus(error.to_string()));
                }
            }
        }
        done();
        end = begin;
    }
    days.reverse();
    Ok((days, limits, is_open))
}

/// Returns all pools of these days.
pub(super) fn pools(days: &[Day]) -> BTreeSet<BTreeMap<String, String>> {
    days.iter().flat_map(|day| day.seen.pools.iter().cloned()).collect()
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
    let mut finished = FinishedPool { id: id.to_owned(), ..FinishedPool::default() };
    let mut lost = 0;
    while let Some(day) = histories.next().await {
        let (from, day) = day?;
        if day.is_lost() {
            let why = day.error.as_ref().map_or_else(|| "no answer came in time".to_owned(), ToString::to_string);
            setting
                .still_answers(format!("Prometheus did not answer about the history of {}: {why}", pool_name(pool)))
                .await?;
            finished.limits.push(format!("{}: the day from {from:.0} was not seen: {why}", pool_name(pool)));
            // What was refused is refused again.
            finished.is_open |= day.error.is_none_or(|error| error.is_unavailable());
            lost += 1;
            if lost == LOST_DAYS {
                finished.limits.push(format!("{}: the days after it were not read", pool_name(pool)));
                break;
            }
            continue;
        }
        history.unanswered += day.unanswered;
        history.asked += day.asked;
        history.steps.extend(day.steps);
        for (signal, values) in day.values {
            history.values.entry(signal).or_default().extend(values);
        }
        for (playbook, times) in day.abnormal {
            history.abnormal.entry(playbook).or_default().extend(times);
        }
    }
    drop(histories);
    let length = clock::between(setting.range.0, setting.range.1);
    finished.ladders = count_firings(library, &pool_name(pool), &shipped, &history.values, step, length);
    if history.unanswered > 0 {
        let (missed, asked) = (history.unanswered, history.asked);
        let what = "some of its symptoms and thresholds were not seen";
        finished.limits.push(format!("{}: {missed} of {asked} range queries had no answer: {what}", pool_name(pool)));
    }
    let without = without_data(&history.steps, step);
    if !without.is_zero() {
        let lasted = clock::human_duration(without);
        finished.limits.push(format!("{}: {lasted} without data, in which no symptom could be seen", pool_name(pool)));
    } else if lost == 0 && history.steps.iter().all(|(_, is_told)| !is_told) {
        finished.limits.push(format!("{}: there are series of it, but no value that a symptom needs", pool_name(pool)));
    }
    let times = merged(&history.abnormal, &symptom_order(library), step);
    let (times, alerted) = unalerted(times, alerts, pool, setting.range.1);
    finished.alerted_times = alerted;
    symptoms(setting, pool, times, &mut finished).await?;
    let cleaned = setting.cleaned(&finished).map_err(Stopped::Failed)?;
    Ok(FinishedPool { is_open: finished.is_open, ..cleaned })
}

/// Reads the history of a day; returns the day's start as well.
async fn day_of(
    setting: &Setting<'_>,
    pool: &BTreeMap<String, String>,
    day: &Day,
    signals: &BTreeSet<&str>,
    step: Duration,
) -> Result<(Timestamp, PoolHistory), Stopped> {
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
    Ok((day.from(), history))
}

/// Abnormal times by their first symptom; each is a list of symptoms.
type BySymptom = BTreeMap<String, Vec<Vec<SymptomTime>>>;

fn line_up(times: &mut BySymptom, symptoms: &[SymptomTime]) {
    if let Some(first) = symptoms.first() {
        times.entry(first.playbook.clone()).or_default().push(symptoms.to_vec());
    }
}

/// Diagnoses the longest times of each symptom. A time with several symptoms is the most important one's; where a diagnosis
/// does not confirm that one, the next one's. Times of which none is confirmed are left out.
async fn symptoms(
    setting: &Setting<'_>,
    pool: &BTreeMap<String, String>,
    times: Vec<AbnormalTime>,
    finished: &mut FinishedPool,
) -> Result<(), Stopped> {
    let mut by_symptom = BySymptom::new();
    times.iter().for_each(|time| line_up(&mut by_symptom, &time.symptoms));
    // In order of importance, so that what is not confirmed goes to a symptom whose turn is still to come.
    for id in symptom_order(setting.library) {
        let Some(playbook) = setting.library.playbooks.get(&id) else { continue };
        let Some(mut times) = by_symptom.remove(&id) else { continue };
        times.sort_by_key(|symptoms| Reverse(symptoms[0].length()));
        let (mut episodes, mut refuted, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        let mut looked_at = 0;
        for symptoms in times.iter().take(EPISODES.1) {
            let time = &symptoms[0];
            setting.has_queries_left()?;
            looked_at += 1;
            match episode(setting, pool, &id, time).await.map_err(Stopped::Failed)? {
                EpisodeVerdict::Confirmed(episode) => episodes.push(episode),
                EpisodeVerdict::Refuted => {
                    refuted.push(time.length().as_secs());
                    line_up(&mut by_symptom, &symptoms[1..]);
                }
                EpisodeVerdict::Unanswered(why) => {
                    setting.still_answers(why.clone()).await?;
                    unknown.push((time.from, why));
                }
            }
            tokio::time::sleep(setting.pause).await;
            if episodes.len() == EPISODES.0 {
                break;
            }
        }
        finished.is_open |= !unknown.is_empty();
        for (from, why) in &unknown {
            let (pool, title) = (pool_name(pool), &playbook.title);
            finished.limits.push(format!("{pool}: `{title}` at {from:.0} could not be diagnosed: {why}"));
        }
        if episodes.is_empty() && unknown.is_empty() {
            if times.len() > looked_at {
                let (pool, title, open) = (pool_name(pool), &playbook.title, times.len() - looked_at);
                let what = format!("the longest {looked_at} times were not confirmed, {open} more were not looked at");
                finished.limits.push(format!("{pool}: `{title}`: {what}"));
            }
            continue;
        }
        let mut alerts: Vec<String> = playbook.alerts.iter().map(|alert| alert.alert.clone()).collect();
        alerts.dedup();
        let seconds = times.iter().map(|symptoms| symptoms[0].length().as_secs()).sum::<u64>();
        finished.unalerted.push(UnalertedSymptom {
            pool: pool_name(pool),
            playbook: id,
            title: playbook.title.clone(),
            alerts,
            times: times.len() - refuted.len(),
            seconds: seconds.saturating_sub(refuted.iter().sum()),
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
    time: &SymptomTime,
) -> anyhow::Result<EpisodeVerdict> {
    let scope = Scope { dimensions: pool.clone(), ..Scope::default() };
    let at = clock::after(time.from, SETTLED).min(time.to);
    // Not screened: another symptom would be another episode.
    let request = Request {
        playbook: playbook.to_owned(),
        since: Some(time.from),
        baseline: setting.config.baseline,
        ..Request::without_past(scope, at, setting.config.window, setting.config.deadline)
    };
    let diagnosis = diagnose(setting.library, setting.prometheus, &request).await;
    if diagnosis.symptom.verdict != SymptomVerdict::Confirmed {
        let why = || diagnosis.problems.first().cloned().unwrap_or_else(|| "Prometheus did not answer".to_owned());
        let is_open = diagnosis.degraded || diagnosis.incomplete.is_some();
        return Ok(if is_open { EpisodeVerdict::Unanswered(why()) } else { EpisodeVerdict::Refuted });
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
