//! Facts about a pool from Prometheus beyond a diagnosis: metrics before, during and after, configuration and
//! hardware, replicas with their nodes, and changes.

mod bounds;
mod changes;
mod collect;
mod context;
mod events;
mod info;
mod lengths;
mod measured;
mod rules;
mod targets;
mod tenants;

use std::time::Duration;

use jiff::Timestamp;

pub use collect::collect_facts;
use findings::facts::Window;
use knowledge::clock;

/// The shortest window for a rate: two scrapes of the slowest usual interval.
const MIN_RATE_WINDOW: Duration = Duration::from_secs(120);

/// Returns a window's query parameters: its end, and its length of at least [`MIN_RATE_WINDOW`].
fn end_and_length(window: Window) -> (Timestamp, Duration) {
    (window.to, clock::between(window.from, window.to).max(MIN_RATE_WINDOW))
}

/// The start of a reason if a query failed.
const FAILED: &str = "Prometheus did not tell: ";
