//! Coverage: times at which a pool was abnormal and none of its alerts fired.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Firing;
use super::runs::{held, joined, runs};
use findings::Scope;
use knowledge::clock;

/// The least time for which a symptom must hold at each step: an alert's usual `for`, twice.
const LEAST: Duration = Duration::from_secs(600);
/// Maximum gap between two such times that are one.
const MAX_GAP: Duration = Duration::from_secs(600);
/// The least time without data that counts: restarts and rollouts are shorter.
const LEAST_GAP: Duration = Duration::from_secs(1_800);
/// Time around a firing that counts as covered: a symptom may begin before its alert, and values fall slowly.
const AROUND: Duration = Duration::from_secs(900);

/// A time at which symptoms of a pool held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbnormalTime {
    /// The symptoms, each with the longest time at which it held; the most important one first.
    pub symptoms: Vec<SymptomTime>,
    /// The start.
    pub from: Timestamp,
    /// The end.
    pub to: Timestamp,
}

/// A time at which one symptom held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymptomTime {
    /// The playbook.
    pub playbook: String,
    /// The start.
    pub from: Timestamp,
    /// The end.
    pub to: Timestamp,
}

impl SymptomTime {
    /// Returns its length.
    pub fn length(&self) -> Duration {
        clock::between(self.from, self.to)
    }
}

/// A symptom that held for a while without any firing of its pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnalertedSymptom {
    /// The name of the pool.
    pub pool: String,
    /// The playbook.
    pub playbook: String,
    /// The title of the symptom.
    pub title: String,
    /// The shipped alerts of this playbook, which would tell of it.
    pub alerts: Vec<String>,
    /// The number of times, without those that a diagnosis did not confirm.
    pub times: usize,
    /// The seconds of these times together.
    pub seconds: u64,
    /// The number of times of which a diagnosis was tried, the longest first.
    pub looked_at: usize,
    /// The times that a diagnosis confirmed, the longest first.
    pub episodes: Vec<UnalertedEpisode>,
}

/// A time at which a symptom held without any firing of its pool, and a diagnosis confirmed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnalertedEpisode {
    /// The start.
    pub from: Timestamp,
    /// The end.
    pub to: Timestamp,
    /// The headline of the message that would have been posted.
    pub headline: String,
    /// The ids from the symptom to the root cause; empty if none is at least possible.
    pub chain: Vec<String>,
}

/// Merges the moments at which symptoms held, by playbook, into times; `order` lists the playbooks by importance.
/// Symptoms that overlap are one time.
pub fn merged(moments: &BTreeMap<String, Vec<Timestamp>>, order: &[String], step: Duration) -> Vec<AbnormalTime> {
    let mut all: Vec<SymptomTime> = Vec::new();
    for (playbook, moments) in moments {
        let long = held(runs(moments.iter().map(|at| at.as_millisecond()), step), LEAST);
        let at = clock::from_unix_ms;
        let time = |(from, to)| SymptomTime { playbook: playbook.clone(), from: at(from), to: at(to) };
        all.extend(joined(long, MAX_GAP).into_iter().map(time));
    }
    all.sort_by_key(|symptom| symptom.from);
    let mut times: Vec<AbnormalTime> = Vec::new();
    for symptom in all {
        match times.last_mut().filter(|time| symptom.from <= time.to) {
            Some(time) => {
                time.to = time.to.max(symptom.to);
                match time.symptoms.iter_mut().find(|own| own.playbook == symptom.playbook) {
                    Some(own) if own.length() >= symptom.length() => {}
                    Some(own) => *own = symptom,
                    None => time.symptoms.push(symptom),
                }
            }
            None => times.push(AbnormalTime { from: symptom.from, to: symptom.to, symptoms: vec![symptom] }),
        }
    }
    let place = |symptom: &SymptomTime| order.iter().position(|id| *id == symptom.playbook).unwrap_or(order.len());
    times.iter_mut().for_each(|time| time.symptoms.sort_by_key(place));
    times
}

/// Returns true if an alert may be about a pool: none of its labels names another one.
pub fn covers(scope: &Scope, pool: &BTreeMap<String, String>) -> bool {
    scope.dimensions.iter().all(|(dimension, value)| pool.get(dimension).is_none_or(|own| own == value))
}

/// Returns the time without data between the first and the last judged step: gaps of half an hour and more together.
/// `steps` are in order of time, with true for a judged one.
pub fn without_data(steps: &[(Timestamp, bool)], step: Duration) -> Duration {
    let judged = |(_, is_judged): &(Timestamp, bool)| *is_judged;
    let (Some(first), Some(last)) = (steps.iter().position(judged), steps.iter().rposition(judged)) else {
        return Duration::ZERO;
    };
    let missing = steps[first..=last].iter().filter(|step| !judged(step)).map(|(at, _)| at.as_millisecond());
    let gaps = held(runs(missing, step), LEAST_GAP.saturating_sub(step));
    gaps.into_iter().map(|(begin, end)| Duration::from_millis(end.abs_diff(begin)) + step).sum()
}

/// The dimensions by which an alert names a pool of a fleet.
const POOL: [&str; 2] = ["namespace", "model"];

/// Returns true if an alert names a pool: one of its labels is the pool's own, and none names another one.
pub fn names_pool(scope: &Scope, pool: &BTreeMap<String, String>) -> bool {
    let is_own = |dimension: &&str| scope.dimensions.get(*dimension).is_some_and(|v| pool.get(*dimension) == Some(v));
    POOL.iter().any(is_own) && covers(scope, pool)
}

/// Removes the times that overlap with a firing of the pool; `to` is the end of the range. Returns the others, the
/// longest first, and the number of removed ones.
pub fn unalerted(
    times: Vec<AbnormalTime>,
    firings: &[Firing],
    pool: &BTreeMap<String, String>,
    to: Timestamp,
) -> (Vec<AbnormalTime>, usize) {
    let own = firings.iter().filter(|firing| covers(&Scope::of_labels(&firing.labels), pool));
    let told: Vec<(Timestamp, Timestamp)> = own
        .map(|firing| (clock::before(firing.condition_since, AROUND), clock::after(firing.over_at(to), AROUND)))
        .collect();
    let is_told = |time: &AbnormalTime| told.iter().any(|(from, to)| time.from <= *to && *from <= time.to);
    let (told, mut times): (Vec<_>, Vec<_>) = times.into_iter().partition(is_told);
    times.sort_by_key(|time| Reverse(clock::between(time.from, time.to)));
    (times, told.len())
}

#[cfg(test)]
mod tests {
    use knowledge::alert::Labels;

    use super::*;

    fn minute(n: i64) -> Timestamp {
        Timestamp::from_second(n * 60).unwrap()
    }

    fn firing(labels: &[(&str, &str)], from: i64, to: i64) -> Firing {
        let labels: Labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Firing {
            labels,
            condition_since: minute(from),
            starts_at: minute(from),
            ends_at: Some(minute(to)),
            fired_until: minute(to),
            generator_url: String::new(),
        }
    }

    #[test]
    fn a_symptom_that_lasts_without_a_firing_of_its_pool_is_unalerted() {
        let every = |from: i64, to: i64| (from..=to).step_by(5).map(minute).collect::<Vec<_>>();
        let moments = BTreeMap::from([
            ("high-ttft".to_owned(), [every(100, 130), every(300, 305), every(500, 560)].concat()),
            ("queue-buildup".to_owned(), every(90, 120)),
        ]);
        let order = ["high-ttft".to_owned(), "queue-buildup".to_owned()];
        let times = merged(&moments, &order, Duration::from_secs(300));
        let spans: Vec<_> = times.iter().map(|t| (t.from, t.to, t.symptoms.len())).collect();
        assert_eq!(spans, [(minute(90), minute(130), 2), (minute(500), minute(560), 1)]);
        let of = |playbook: &str, from, to| SymptomTime {
            playbook: playbook.to_owned(),
            from: minute(from),
            to: minute(to),
        };
        assert_eq!(times[0].symptoms, [of("high-ttft", 100, 130), of("queue-buildup", 90, 120)], "each its own time");
        let tens = BTreeMap::from([("high-ttft".to_owned(), (0..60).step_by(10).map(minute).collect())]);
        assert_eq!(merged(&tens, &order, Duration::from_secs(300)), [], "it did not hold at each step");

        let pool = Labels::from([("namespace".to_owned(), "llm".to_owned()), ("model".to_owned(), "m".to_owned())]);
        let left = |firings: &[Firing]| -> Vec<Timestamp> {
            let (times, told) = unalerted(times.clone(), firings, &pool, minute(1_000));
            assert_eq!(times.len() + told, 2);
            times.iter().map(|time| time.from).collect()
        };
        assert_eq!(left(&[]), [minute(500), minute(90)], "the longest first");
        assert_eq!(left(&[firing(&[("namespace", "llm")], 140, 150)]), [minute(500)], "it told of it a bit late");
        assert_eq!(left(&[firing(&[("namespace", "other")], 90, 600)]).len(), 2, "another pool's");
        assert_eq!(left(&[firing(&[("alertname", "A")], 505, 506)]), [minute(90)], "it may be about any pool");

        let names =
            |labels: &[(&str, &str)], pool: &Labels| names_pool(&Scope::of_labels(&firing(labels, 0, 1).labels), pool);
        let model = Labels::from([("model".to_owned(), "m".to_owned())]);
        assert!(names(&[("namespace", "llm")], &pool) && names(&[("namespace", "x"), ("model_name", "m")], &model));
        assert!(!names(&[("namespace", "monitoring")], &model), "a pool without this label is not named by it");
        assert!(
            !names(&[("namespace", "llm"), ("model_name", "other")], &pool) && !names(&[("alertname", "A")], &pool)
        );
    }

    #[test]
    fn a_gap_of_hours_has_no_data_and_one_of_minutes_is_a_restart() {
        let steps = |missing: &[std::ops::Range<i64>]| -> Vec<_> {
            (0..600).map(|n| (minute(n), !missing.iter().any(|gap| gap.contains(&n)))).collect()
        };
        let minutes = |missing: &[_]| without_data(&steps(missing), Duration::from_secs(60)).as_secs() / 60;
        assert_eq!(minutes(&[100..220, 300..330, 400..410]), 120 + 30);
        assert_eq!(minutes(&[0..200, 500..600]), 0, "before the pool was there, and after it");
        assert_eq!(minutes(&[0..300, 300..600]), 0);
    }
}
