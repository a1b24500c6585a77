//! The time range of an incident and of some time before it, in steps.

use std::time::Duration;

use findings::Request;
use knowledge::clock;
use knowledge::clock::Range;

/// Length of the range before the first alert.
const LOOK_BACK: Duration = Duration::from_secs(1_800);
/// Maximum length of the range of a long incident.
const MAX_RANGE: Duration = Duration::from_secs(3 * 3_600);
/// Steps in a range: fine enough for minutes, few enough for Prometheus.
pub(crate) const STEPS: u64 = 60;
/// The finest step, in seconds; scrapes are rarely closer.
pub(crate) const FINEST: u64 = 30;

/// Returns the range in which the onsets of an incident lie.
pub(crate) fn incident_range(request: &Request) -> Range {
    let start = request.since.unwrap_or(request.at).min(request.at);
    let length = (clock::between(start, request.at) + LOOK_BACK).min(MAX_RANGE);
    let step = Duration::from_secs(length.as_secs().div_ceil(STEPS).max(FINEST));
    let steps = length.as_secs() / step.as_secs();
    Range {
        from: clock::before(request.at, step * u32::try_from(steps).unwrap_or(u32::MAX)),
        to: request.at,
        step_seconds: i64::try_from(step.as_secs()).unwrap_or(i64::MAX),
    }
}
