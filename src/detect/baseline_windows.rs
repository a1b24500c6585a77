//! The past that current values are compared with: a ladder of time windows; the first that covers the pool counts.
//!
//! The same time of another day comes first, because load follows the day; then the hours before the incident, which
//! a slowly growing fault has not reached; then the time since the pool started.

use std::time::Duration;

use jiff::Timestamp;

use findings::{Baseline, ComparedWith, PastKind, Request};
use knowledge::clock;

/// Time before the first alert in which its incident may have begun: an alert fires after its `for` (up to 10
/// minutes) and its window, and the past must not contain the start of the incident.
pub const MARGIN: Duration = Duration::from_secs(1_200);
/// Minimum window of a past, so that its value does not depend on a single minute.
const WINDOW: Duration = Duration::from_secs(600);
/// Distance between the end of the hours before and the incident.
const HOURS_END: Duration = Duration::from_secs(3_600);
/// Length of the hours before. A longer range would be steadier, but every sample of every replica in it is read.
const HOURS: Duration = Duration::from_secs(7_200);
const WEEK: Duration = Duration::from_secs(7 * 86_400);
/// Minimum number of replicas for a comparison with peers.
const PEERS: usize = 2;

/// A time window of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Past {
    /// Its kind.
    pub kind: PastKind,
    /// The end of the window.
    pub at: Timestamp,
    /// The length of the window.
    pub window: Duration,
}

impl Past {
    /// Returns the start of the window. A past counts only if the pool existed then: `rate` over a partly filled
    /// window is too low.
    pub fn begins(&self) -> Timestamp {
        clock::before(self.at, self.window)
    }

    /// Returns the window before it; the difference of the two is the pool's own variation. `None` for hours, which
    /// are a mean already, and for a pool that has just started.
    pub fn before(&self) -> Option<Self> {
        (self.kind == PastKind::SameTime).then(|| Self { at: self.begins(), ..*self })
    }
}

/// Describes a past, or the lack of one, for a pool of so many replicas.
pub fn compared_with(past: Option<Past>, replicas: usize) -> ComparedWith {
    match past {
        Some(Past { kind, at, window }) => ComparedWith { kind, at: Some(at), window_seconds: Some(window.as_secs()) },
        None => {
            let kind = if replicas >= PEERS { PastKind::Peers } else { PastKind::Nothing };
            ComparedWith { kind, at: None, window_seconds: None }
        }
    }
}

/// Returns the windows that may serve as the past, best first.
pub fn ladder(request: &Request) -> Vec<Past> {
    let Baseline::Earlier(by) = request.baseline else { return Vec::new() };
    let start = request.since.unwrap_or(request.at).min(request.at);
    let window = request.window.max(WINDOW);
    let short = clock::before(start, request.window.max(MARGIN));
    let rung = |kind, at, window| Past { kind, at, window };
    let mut ladder = vec![
        rung(PastKind::SameTime, clock::before(request.at, by), window),
        rung(PastKind::SameTime, clock::before(request.at, WEEK), window),
        rung(PastKind::HoursBefore, clock::before(start, HOURS_END), window.max(HOURS)),
        rung(PastKind::SinceStart, short, window),
        rung(PastKind::SinceStart, short, request.window),
    ];
    ladder.dedup();
    ladder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_goes_from_another_day_to_what_the_pool_has_since_it_started() {
        let at = Timestamp::from_second(1_790_000_000).unwrap();
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let request = |window| Request {
            since: Some(clock::before(at, minutes(10))),
            baseline: Baseline::Earlier(minutes(1_440)),
            ..Request::without_past(findings::Scope::default(), at, window, minutes(1))
        };
        let pasts_of = |request: &Request| -> Vec<(PastKind, u64, u64)> {
            let ago = |moment| clock::between(moment, at).as_secs() / 60;
            ladder(request).iter().map(|past| (past.kind, ago(past.begins()), ago(past.at))).collect()
        };
        assert_eq!(
            pasts_of(&request(minutes(5))),
            [
                (PastKind::SameTime, 1_450, 1_440),
                (PastKind::SameTime, 7 * 1_440 + 10, 7 * 1_440),
                (PastKind::HoursBefore, 190, 70),
                (PastKind::SinceStart, 40, 30),
                (PastKind::SinceStart, 35, 30),
            ]
        );
        assert_eq!(pasts_of(&request(minutes(20))).len(), 4, "a long window is its own past's");
        let off = Request { baseline: Baseline::Off, ..request(minutes(5)) };
        assert_eq!(ladder(&off), []);
        assert_eq!(compared_with(None, 2).kind, PastKind::Peers);
        assert_eq!(compared_with(None, 1).kind, PastKind::Nothing);
    }
}
