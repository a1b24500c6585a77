//! Firings: samples of `ALERTS` ─▶ one firing for each uninterrupted time of a label set, and which of them are diagnosed.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use knowledge::alert::{Alert, AlertStatus, Labels};
use knowledge::clock;

/// Labels of `ALERTS` that are not the alert's own.
const STATE: &str = "alertstate";
const NAME: &str = "__name__";

/// Maximum gap within a firing: an alert that fires again within Alertmanager's usual `group_interval` is the same
/// message.
const MAX_GAP: Duration = Duration::from_secs(300);

/// One past firing of an alert.
#[derive(Debug, Clone, PartialEq)]
pub struct Firing {
    /// The alert's labels.
    pub labels: Labels,
    /// The start of the condition, as far as known; never after [`Self::starts_at`].
    pub condition_since: Timestamp,
    /// The start of the firing.
    pub starts_at: Timestamp,
    /// The end; `None` if it fired at the end of the range.
    pub ends_at: Option<Timestamp>,
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

    /// Returns the time at which it no longer fired, at latest `to`.
    pub fn over_at(&self, to: Timestamp) -> Timestamp {
        self.ends_at.unwrap_or(to).min(to)
    }
}

/// The samples of one series of `ALERTS`, in any number of pieces.
#[derive(Debug, Clone, PartialEq)]
pub struct FiringSamples {
    /// The labels, with `alertstate`.
    pub labels: Labels,
    /// The times of the samples, unix milliseconds.
    pub at: Vec<i64>,
}

/// Cuts samples of `ALERTS` with the states `firing` and `pending` into firings, by start. A firing that reaches the
/// last step before `to` has no end.
pub fn firings(series: Vec<FiringSamples>, step: Duration, to: Timestamp) -> Vec<Firing> {
    let mut times: BTreeMap<Labels, [Vec<i64>; 2]> = BTreeMap::new();
    for mut piece in series {
        piece.labels.remove(NAME);
        let state = piece.labels.remove(STATE);
        let place = match state.as_deref() {
            Some("firing") => 0,
            Some("pending") => 1,
            _ => continue,
        };
        times.entry(piece.labels).or_default()[place].extend(piece.at);
    }
    let mut all = Vec::new();
    for (labels, [firing, pending]) in times {
        let pending = runs(pending, step);
        for (from, until) in runs(firing, step.max(MAX_GAP)) {
            // A condition is pending until the evaluation before the first firing one.
            let before =
                pending.iter().filter(|(begin, end)| *begin <= from && from - end <= millis(step.max(MAX_GAP)));
            let since = before.map(|(begin, _)| *begin).min().unwrap_or(from);
            let still = to.as_millisecond() - until <= millis(step);
            all.push(Firing {
                labels: labels.clone(),
                condition_since: clock::from_unix_ms(since),
                starts_at: clock::from_unix_ms(from),
                ends_at: (!still).then(|| clock::from_unix_ms(until + millis(step))),
                generator_url: String::new(),
            });
        }
    }
    all.sort_by(|a, b| (a.starts_at, &a.labels).cmp(&(b.starts_at, &b.labels)));
    all
}

/// Returns the first and last times of each run of times, none of which are further apart than `gap`.
fn runs(mut at: Vec<i64>, gap: Duration) -> Vec<(i64, i64)> {
    at.sort_unstable();
    at.dedup();
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for time in at {
        match runs.last_mut() {
            Some((_, end)) if time - *end <= millis(gap) => *end = time,
            _ => runs.push((time, time)),
        }
    }
    runs
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Chooses at most `most` firings, by start: the newest of each rule in turn, so that a noisy rule leaves room for the
/// others. Returns the number of the others by rule as well.
pub fn chosen(all: Vec<Firing>, most: usize) -> (Vec<Firing>, BTreeMap<String, usize>) {
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
    let left = by_rule.into_iter().map(|(rule, firings)| (rule, firings.len())).filter(|(_, n)| *n > 0);
    (chosen, left.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_secs(60);

    fn samples(name: &str, state: &str, minutes: &[i64]) -> FiringSamples {
        let labels = [("__name__", "ALERTS"), ("alertname", name), ("alertstate", state)];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        FiringSamples { labels, at: minutes.iter().map(|minute| minute * 60_000).collect() }
    }

    fn minute(at: Timestamp) -> i64 {
        at.as_second() / 60
    }

    #[test]
    fn samples_become_firings_with_the_start_of_their_condition() {
        let series = vec![
            samples("A", "pending", &[8, 9, 30]),
            samples("A", "firing", &[10, 11, 12, 14, 40, 41]),
            samples("A", "firing", &[99, 100]),
            samples("B", "pending", &[1, 2, 3]),
        ];
        let all = firings(series, STEP, Timestamp::from_second(100 * 60).unwrap());
        let times: Vec<_> =
            all.iter().map(|f| (minute(f.condition_since), minute(f.starts_at), f.ends_at.map(minute))).collect();
        assert_eq!(times, [(8, 10, Some(15)), (40, 40, Some(42)), (99, 99, None)]);
        assert!(all.iter().all(|firing| firing.rule() == "A" && firing.labels.len() == 1));
    }

    #[test]
    fn a_noisy_rule_leaves_room_for_the_others() {
        let noisy: Vec<i64> = (0..20).map(|n| n * 30).collect();
        let series = vec![samples("Noisy", "firing", &noisy), samples("Rare", "firing", &[5])];
        let all = firings(series, STEP, Timestamp::from_second(1_000_000).unwrap());
        let (few, left) = chosen(all, 4);
        let starts: Vec<_> = few.iter().map(|firing| (firing.rule(), minute(firing.starts_at))).collect();
        assert_eq!(starts, [("Rare", 5), ("Noisy", 510), ("Noisy", 540), ("Noisy", 570)]);
        assert_eq!(left, [("Noisy".to_owned(), 17)].into());
    }
}
