//! The impact of an incident: requests that arrived and failed from its first alert to its end.

use std::time::Duration;

use jiff::Timestamp;

use crate::observe_signals;
use findings::Scope;
use knowledge::clock;
use knowledge::incident::Impact;
use knowledge::playbook::Library;
use prom::Prometheus;

/// Minimum rate window: two scrapes of the slowest usual interval.
const MIN_WINDOW: Duration = Duration::from_secs(120);
/// Maximum rate window: a longer one costs too much.
const MAX_WINDOW: Duration = Duration::from_secs(86_400);
/// The signals of request rate and error share, those nearest to the users first.
const RATE_AND_ERROR_SIGNALS: [[&str; 2]; 2] =
    [["gateway_request_rate", "gateway_error_ratio"], ["request_rate", "error_ratio"]];

/// Queries the impact with a time limit; `None` if Prometheus has no data or not all of it, or the incident took more than
/// a day.
pub async fn impact(
    library: &Library,
    prometheus: &Prometheus,
    scope: &Scope,
    [from, to]: [Timestamp; 2],
    deadline: Duration,
) -> Option<Impact> {
    let took = clock::between(from, to);
    if took > MAX_WINDOW {
        return None;
    }
    let signals = RATE_AND_ERROR_SIGNALS.as_flattened();
    let window = took.max(MIN_WINDOW);
    let observed = observe_signals(library, prometheus, scope, signals, to, window, deadline).await;
    if observed.incomplete().is_some() {
        return None;
    }
    let value = |signal: &str| observed.observations.signals.get(signal)?.value;
    RATE_AND_ERROR_SIGNALS.iter().find_map(|[rate, share]| {
        let requests = value(rate)? * took.as_secs_f64();
        let failed = value(share).map(|share| share * requests);
        Some(Impact { requests: Some(requests), failed, slow: None })
    })
}
