//! The names and labels of the series that the generated rules record: `llm:<signal>`, and `llm:<signal>:replica`.

/// The series with the rate window of the recorded series of each engine, in seconds.
pub const RECORDED_WINDOW: &str = "llm:rate_window_seconds";

/// The labels of a pool: the scope's dimension, and its label name in every recorded series.
pub const RECORDED_POOL: [(&str, &str); 3] =
    [("cluster", "cluster"), ("namespace", "namespace"), ("model", "model_name")];

/// Returns the name of a recorded signal of a pool, or of each of its replicas.
pub fn recorded_name(signal: &str, by_replica: bool) -> String {
    if by_replica { format!("llm:{signal}:replica") } else { format!("llm:{signal}") }
}

/// Series of error budgets, with the labels of a pool, [`SLI`] and [`SLO`].
pub mod budget {
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
}
