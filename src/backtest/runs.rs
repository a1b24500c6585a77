//! Runs: moments that follow each other without a gap.

use std::time::Duration;

/// The first and the last moment of a run, in unix milliseconds.
pub(super) type Run = (i64, i64);

/// Maximum time between two firings of one alert that are one: it fires again within Alertmanager's usual
/// `group_interval`, so that nobody was told of its end.
pub(super) const SAME_FIRING: Duration = Duration::from_secs(300);

/// Adds a moment, not before the others; one that is more than a step after the last one begins a new run.
pub(super) fn add(runs: &mut Vec<Run>, at: i64, step: Duration) {
    match runs.last_mut() {
        Some((_, end)) if at - *end <= millis(step) => *end = at.max(*end),
        _ => runs.push((at, at)),
    }
}

/// Returns the runs of moments in order of time.
pub(super) fn runs(moments: impl IntoIterator<Item = i64>, step: Duration) -> Vec<Run> {
    moments.into_iter().fold(Vec::new(), |mut runs, at| {
        add(&mut runs, at, step);
        runs
    })
}

/// Returns the runs that last so long: each step between their first and last moments counts. A condition that is false
/// at one step begins anew, as a rule's `for` does.
pub(super) fn held(mut runs: Vec<Run>, hold: Duration) -> Vec<Run> {
    runs.retain(|(begin, end)| end - begin >= millis(hold));
    runs
}

/// Joins runs in order of time that are no further apart than `gap`.
pub(super) fn joined(runs: Vec<Run>, gap: Duration) -> Vec<Run> {
    let mut all: Vec<Run> = Vec::new();
    for (begin, end) in runs {
        match all.last_mut() {
            Some((_, last)) if begin - *last <= millis(gap) => *last = end.max(*last),
            _ => all.push((begin, end)),
        }
    }
    all
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
