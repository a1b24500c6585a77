//! Firings: samples of `ALERTS`, or notifications ─▶ one firing for each uninterrupted time of a label set, and which of
//! them are diagnosed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::runs::{self, Run, SAME_FIRING, joined, millis};
use knowledge::alert::{Alert, AlertStatus, Labels};
use knowledge::clock;

/// Labels of `ALERTS` that are not the alert's own.
const STATE: &str = "alertstate";
const NAME: &str = "__name__";

/// The time for which a firing without a known end may have lasted: Alertmanager's default `repeat_interval`, within
/// which it is notified again while it fires.
const REPEATED: Duration = Duration::from_secs(4 * 3_600);

/// One past firing of an alert.
#[derive(Debug, Clone, PartialEq)]
pub struct Firing {
    /// The alert's labels.
    pub labels: Labels,
    /// The start of the condition, as far as known; never after [`Self::starts_at`].
    pub condition_since: Timestamp,
    /// The start of the firing.
    pub starts_at: Timestamp,
    /// The end; `None` if it is unknown, or after the end of the range.
    pub ends_at: Option<Timestamp>,
    /// The latest time at which it is known to have fired.
    pub fired_until: Timestamp,
    /// The link to the rule's graph; empty if unknown.
    pub generator_url: String,
}

impl Firing {
    /// Returns the alert as Alertmanager sent it while it fired.
    pub fn alert(&self) -> Alert {
        Alert {
            status: AlertStatus::Firing,
            labels: self.labels.clone(),
            annotations: Labels::new(),
            starts_at: self.starts_at,
            ends_at: self.ends_at.unwrap_or(Timestamp::MIN),
            generator_url: self.generator_url.clone(),
            fingerprint: String::new(),
        }
    }

    /// Returns the name of the rule.
    pub fn rule(&self) -> &str {
        self.labels.get("alertname").map_or("unnamed alert", String::as_str)
    }

    /// Returns the latest time at which it may have fired, at latest `to`. One whose end is unknown may have fired for as
    /// long as Alertmanager waits with a repetition.
    pub fn over_at(&self, to: Timestamp) -> Timestamp {
        self.ends_at.unwrap_or_else(|| clock::after(self.fired_until, REPEATED)).min(to)
    }
}

/// Collects the samples of `ALERTS` with the states `firing` and `pending`, by label set.
#[derive(Debug)]
pub struct AlertSamples {
    step: Duration,
    /// The runs of the firing state, and of the pending one.
    runs: BTreeMap<Labels, [Vec<Run>; 2]>,
}

impl AlertSamples {
    /// Creates an empty collection of samples that are so far apart.
    pub fn new(step: Duration) -> Self {
        Self { step, runs: BTreeMap::new() }
    }

    /// Adds samples of one series, in order of time, not before those that it has; `at` is in unix milliseconds.
    pub fn add(&mut self, labels: &Labels, at: impl Iterator<Item = i64>) {
        let mut labels = labels.clone();
        labels.remove(NAME);
        let place = match labels.remove(STATE).as_deref() {
            Some("firing") => 0,
            Some("pending") => 1,
            _ => return,
        };
        let runs = &mut self.runs.entry(labels).or_default()[place];
        at.for_each(|at| runs::add(runs, at, self.step));
    }

    /// Returns the firings, by start. One that reaches the last step before `to` has no end.
    pub fn firings(self, to: Timestamp) -> Vec<Firing> {
        let step = self.step;
        let mut all = Vec::new();
        for (labels, [firing, pending]) in self.runs {
            for (from, until) in joined(firing, step.max(SAME_FIRING)) {
                // A condition is pending until the evaluation before the first firing one.
                let before = pending.iter().filter(|(begin, end)| *begin <= from && from - end <= millis(step));
                let since = before.map(|(begin, _)| *begin).min().unwrap_or(from);
                let still = to.as_millisecond() - until <= millis(step);
                all.push(Firing {
                    labels: labels.clone(),
                    condition_since: clock::from_unix_ms(since),
                    starts_at: clock::from_unix_ms(from),
                    ends_at: (!still).then(|| clock::from_unix_ms(until + millis(step))),
                    fired_until: clock::from_unix_ms(until),
                    generator_url: String::new(),
                });
            }
        }
        sort(&mut all);
        all
    }
}

fn sort(firings: &mut [Firing]) {
    firings.sort_by(|a, b| (a.starts_at, &a.labels).cmp(&(b.starts_at, &b.labels)));
}

/// Joins firings of the same labels that begin within minutes of the end of the one before; by start.
pub fn same_firings(firings: Vec<Firing>) -> Vec<Firing> {
    let mut by_labels: BTreeMap<Labels, Vec<Firing>> = BTreeMap::new();
    let mut firings = firings;
    sort(&mut firings);
    for firing in firings {
        let own = by_labels.entry(firing.labels.clone()).or_default();
        match own.last_mut() {
            Some(last) if last.ends_at.is_some_and(|end| clock::between(end, firing.starts_at) <= SAME_FIRING) => {
                last.ends_at = firing.ends_at.map(|end| last.ends_at.map_or(end, |own| own.max(end)));
                last.fired_until = last.fired_until.max(firing.fired_until);
            }
            _ => own.push(firing),
        }
    }
    let mut all: Vec<Firing> = by_labels.into_values().flatten().collect();
    sort(&mut all);
    all
}

/// Chooses at most `most` firings, by start: the newest of each rule in turn, so that a noisy rule leaves room for the
/// others. Returns the number of the others by rule as well.
pub fn chosen(all: Vec<Firing>, most: usize) -> (Vec<Firing>, Vec<RuleCount>) {
    let mut by_rule: BTreeMap<String, Vec<Firing>> = BTreeMap::new();
    for firing in all {
        by_rule.entry(firing.rule().to_owned()).or_default().push(firing);
    }
    by_rule.values_mut().for_each(|firings| firings.sort_by_key(|firing| firing.starts_at));
    let mut chosen = Vec::new();
    while chosen.len() < most && by_rule.values().any(|firings| !firings.is_empty()) {
        let turn = by_rule.values_mut().filter_map(Vec::pop).take(most - chosen.len());
        chosen.extend(turn.collect::<Vec<_>>());
    }
    chosen.sort_by(|a, b| (a.starts_at, &a.labels).cmp(&(b.starts_at, &b.labels)));
    (chosen, rule_counts(by_rule.values().flatten()))
}

/// The number of firings of a rule. Names of rules and causes are no keys: redaction reads a key as the name of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleCount {
    /// The name of the alert.
    pub rule: String,
    /// The number of firings.
    pub firings: usize,
}

/// Counts firings by rule, the most frequent one first.
pub fn rule_counts<'a>(firings: impl IntoIterator<Item = &'a Firing>) -> Vec<RuleCount> {
    let counted = counted(firings.into_iter().map(Firing::rule)).into_iter();
    counted.map(|(rule, firings)| RuleCount { rule: rule.to_owned(), firings }).collect()
}

/// Counts equal names, the most frequent one first.
pub(super) fn counted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(&'a str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, n)| Reverse(*n));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_secs(60);

    fn firings(series: &[(&str, &str, &[i64])], to: i64) -> Vec<Firing> {
        let mut samples = AlertSamples::new(STEP);
        for (name, state, minutes) in series {
            let labels = [("__name__", "ALERTS"), ("alertname", *name), ("alertstate", *state)];
            let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            samples.add(&labels, minutes.iter().map(|minute| minute * 60_000));
        }
        samples.firings(Timestamp::from_second(to * 60).unwrap())
    }

    fn minute(at: Timestamp) -> i64 {
        at.as_second() / 60
    }

    #[test]
    fn samples_become_firings_with_the_start_of_their_condition() {
        let all = firings(
            &[
                ("A", "pending", &[8, 9, 30]),
                ("A", "firing", &[10, 11, 12, 14, 40, 41]),
                ("A", "firing", &[99, 100]),
                ("B", "pending", &[1, 2, 3]),
            ],
            100,
        );
        let times: Vec<_> =
            all.iter().map(|f| (minute(f.condition_since), minute(f.starts_at), f.ends_at.map(minute))).collect();
        assert_eq!(times, [(8, 10, Some(15)), (40, 40, Some(42)), (99, 99, None)]);
        assert!(all.iter().all(|firing| firing.rule() == "A" && firing.labels.len() == 1));
    }

    #[test]
    fn notifications_that_follow_each_other_are_one_firing() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let firing = |from: i64, to: Option<i64>| Firing {
            labels: Labels::new(),
            condition_since: at(from),
            starts_at: at(from),
            ends_at: to.map(at),
            fired_until: at(from),
            generator_url: String::new(),
        };
        let all = vec![firing(30, None), firing(0, Some(10)), firing(14, Some(20)), firing(26, Some(27))];
        let times: Vec<_> = same_firings(all).iter().map(|f| (minute(f.starts_at), f.ends_at.map(minute))).collect();
        assert_eq!(times, [(0, Some(20)), (26, None)]);
        assert_eq!(minute(firing(30, None).over_at(at(1_000))), 30 + 240, "an unknown end is not the end of the range");
    }

    #[test]
    fn a_noisy_rule_leaves_room_for_the_others() {
        let noisy: Vec<i64> = (0..20).map(|n| n * 30).collect();
        let all = firings(&[("Noisy", "firing", &noisy), ("Rare", "firing", &[5])], 10_000);
        let (few, left) = chosen(all, 4);
        let starts: Vec<_> = few.iter().map(|firing| (firing.rule(), minute(firing.starts_at))).collect();
        assert_eq!(starts, [("Rare", 5), ("Noisy", 510), ("Noisy", 540), ("Noisy", 570)]);
        assert_eq!(left, [RuleCount { rule: "Noisy".to_owned(), firings: 17 }]);
    }
}
