//! Which times a diagnosis reads, for whoever keeps what it needs to be made again.

use std::time::Duration;

use jiff::Timestamp;

use super::past::{Past, PastKind, ladder};
use super::{Request, onset};
use crate::clock;

/// How long Prometheus takes a sample for the present: `--query.lookback-delta`, five minutes unless changed.
const LOOK_BACK: Duration = Duration::from_secs(300);

/// From when to when a diagnosis of this request reads series whose queries look back so far: around its moment, and
/// around each moment that may serve as the past. They may overlap.
pub fn times(request: &Request, reach: Duration) -> Vec<(Timestamp, Timestamp)> {
    let reach = reach.max(request.window) + LOOK_BACK;
    let past = |past: Past| {
        let first = past.before().unwrap_or(past);
        (clock::before(first.at, reach.max(first.window + LOOK_BACK)), past.at)
    };
    let now = (clock::before(onset::range(request).from, reach), request.at);
    // Last week and the hours before would make it several times as large; without them the next past counts.
    let ladder = ladder(request).into_iter().enumerate();
    let kept = ladder.filter(|(i, past)| *i == 0 || past.kind == PastKind::SinceStart).map(|(_, past)| past);
    std::iter::once(now).chain(kept.map(past)).collect()
}
