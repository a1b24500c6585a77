//! The values of a list of signals for a scope, without a playbook.

use std::time::Duration;

use jiff::Timestamp;

use super::observe::observe_needs;
use super::plan::Needs;
use super::{Baseline, Observed, Request, Scope};
use crate::playbook::Library;
use crate::prom::Prometheus;

/// Asks for the signals' values at one moment, without a past; names that the catalog lacks are left out of the answer.
///
/// What has answered by the deadline counts, as in a diagnosis.
pub async fn observe_signals(
    library: &Library,
    prometheus: &Prometheus,
    scope: &Scope,
    signals: &[&str],
    at: Timestamp,
    window: Duration,
    deadline: Duration,
) -> Observed {
    let (scope, baseline) = (scope.clone(), Baseline::Off);
    let request = Request { playbook: String::new(), scope, at, since: None, window, baseline, deadline };
    let needs: Needs<'_> = signals.iter().map(|&signal| (signal, Default::default())).collect();
    observe_needs(library, prometheus, &request, &needs).await
}
