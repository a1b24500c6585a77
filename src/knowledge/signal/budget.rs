//! The names of the recorded series of error budgets, with the labels of a pool, [`SLI`] and [`SLO`].

use std::time::Duration;

/// The number of requests in [`STEP`].
pub const REQUESTS: &str = "llm:slo_requests:increase5m";
/// The number of requests that missed the objective in [`STEP`].
pub const VIOLATIONS: &str = "llm:slo_violations:increase5m";
/// The share of requests that may miss the objective, 0..1.
pub const ALLOWED: &str = "llm:slo_allowed:ratio";
/// The label with the indicator: the signal's name without `_burn`.
pub const SLI: &str = "sli";
/// The label with the objective, as a text.
pub const SLO: &str = "slo";
/// The time that one sample counts.
pub const STEP: Duration = Duration::from_secs(300);
/// The time that an error budget is for.
pub const WINDOW: Duration = Duration::from_secs(30 * 86_400);

/// Returns the name of the series with the burn rate over a window, such as `1h`: 1 spends the budget in its time.
pub fn burn_rate(window: &str) -> String {
    format!("llm:slo_burn_rate:{window}")
}

/// Returns the value of [`SLI`] for a signal.
pub fn sli(signal: &str) -> &str {
    signal.strip_suffix("_burn").unwrap_or(signal)
}
