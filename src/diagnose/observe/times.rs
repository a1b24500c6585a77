//! The time ranges that a diagnosis reads, for callers that store the data to repeat it.

use std::time::Duration;

use jiff::Timestamp;

use crate::observe::incident_range::incident_range;
use detect::{Past, ladder};
use findings::{PastKind, Request};
use knowledge::clock;

/// Prometheus' lookback for instant queries: `--query.lookback-delta`, five minutes by default.
const LOOK_BACK: Duration = Duration::from_secs(300);

/// Returns the time ranges in which a diagnosis of this request reads series, if its queries look back by `reach`:
/// around its time, and around each possible past. They may overlap.
pub fn times(request: &Request, reach: Duration) -> Vec<(Timestamp, Timestamp)> {
    let reach = reach.max(request.window) + LOOK_BACK;
    let past = |past: Past| {
        let first = past.before().unwrap_or(past);
        (clock::before(first.at, reach.max(first.window + LOOK_BACK)), past.at)
    };
    let now = (clock::before(incident_range(request).from, reach), request.at);
    // Last week and the hours before would multiply the size; without them the next past counts.
    let ladder = ladder(request).into_iter().enumerate();
    let baselines = ladder.filter(|(i, past)| *i == 0 || past.kind == PastKind::SinceStart).map(|(_, past)| past);
    std::iter::once(now).chain(baselines.map(past)).collect()
}
