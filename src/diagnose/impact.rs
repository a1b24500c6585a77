//! What an incident has cost: requests that arrived and failed from its first alert to its end.

use std::time::Duration;

use jiff::Timestamp;

use super::{Scope, observe_signals};
use crate::clock;
use crate::incident::Impact;
use crate::playbook::Library;
use crate::prom::Prometheus;

/// The shortest window that a rate is asked for: two scrapes of the slowest usual interval.
const SHORTEST: Duration = Duration::from_secs(120);
/// The longest: beyond it the question costs too much.
const LONGEST: Duration = Duration::from_secs(86_400);
/// The rate and the error share, of those who see what users see first.
const SEEN_BY: [[&str; 2]; 2] = [["gateway_request_rate", "gateway_error_ratio"], ["request_rate", "error_ratio"]];

/// Asks Prometheus once, until `deadline` has passed; none when it cannot tell, or the incident took above a day.
pub async fn impact(
    library: &Library,
    prometheus: &Prometheus,
    scope: &Scope,
    [from, to]: [Timestamp; 2],
    deadline: Duration,
) -> Option<Impact> {
    let took = clock::between(from, to);
    if took > LONGEST {
        return None;
    }
    let signals = SEEN_BY.as_flattened();
    let window = took.max(SHORTEST);
    let observed = observe_signals(library, prometheus, scope, signals, to, window, deadline).await;
    let value = |signal: &str| observed.seen.signals.get(signal)?.value;
    SEEN_BY.iter().find_map(|[rate, share]| {
        let requests = value(rate)? * took.as_secs_f64();
        let failed = value(share).map(|share| share * requests);
        Some(Impact { requests: Some(requests), failed, slow: None })
    })
}
