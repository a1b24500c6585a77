//! The options of the generated rules, and what all of them share.

use std::time::Duration;

use knowledge::playbook::PoolObjectives;
use knowledge::signal::Matcher;

/// `keep_firing_for` of alerts on a burn rate: a few slow requests an hour are one alert, not one each.
pub(super) const KEEP_FIRING_FOR: &str = "10m";

/// Options of the generated rules.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleOptions {
    /// The rate window.
    pub window: Duration,
    /// The `for` of all alerts, instead of each alert's own.
    pub hold: Option<Duration>,
    /// The base URL of the runbook pages; `/<playbook>.md` follows.
    pub runbook_base: String,
}

/// The error for what cannot become a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot become a rule: {why}")]
pub struct RuleError {
    /// The alert with its playbook, or the kind of pools.
    pub what: String,
    /// The reason.
    pub why: RuleProblem,
}

/// The reason why Prometheus alone cannot evaluate a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum RuleProblem {
    #[error("`when` is empty")]
    Empty,
    #[error("each entry of `when` needs either `signal` with `when`, or `any`")]
    NoSignal,
    #[error("no engine tells `{0}` in PromQL alone")]
    NoEngine(String),
    #[error("`{0}` {1}")]
    Condition(String, &'static str),
    #[error("each of its conditions holds for pools without data too")]
    HoldsWithoutData,
    #[error("`for: {0}` is no duration")]
    Hold(String),
}

/// Formats a duration for Prometheus, in the largest unit that divides it: `5m`, `90s`.
pub(super) fn held(duration: Duration) -> String {
    match duration.as_secs() {
        s if s > 0 && s % 3_600 == 0 => format!("{}h", s / 3_600),
        s if s > 0 && s % 60 == 0 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

/// Returns the pools of a promise as matchers on recorded series.
pub(super) fn pool_matchers(promised: &PoolObjectives) -> Vec<Matcher> {
    let label = |dimension: &str| if dimension == "model" { "model_name" } else { dimension }.to_owned();
    promised.slo.pools.iter().map(|(name, value)| Matcher::one(&label(name), value)).collect()
}
