//! The options of the generated rules, and what all of them share.

use std::time::Duration;

use super::yaml::{block, text};
use knowledge::playbook::{PoolObjectives, Severity};
use knowledge::signal::Matcher;

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

/// A rule that alerts, of a playbook.
pub(super) struct RuleText<'a> {
    pub(super) alert: &'a str,
    pub(super) expr: String,
    pub(super) hold: Option<Duration>,
    /// True on a burn rate: a few slow requests an hour are one alert, not one each.
    pub(super) keeps_firing: bool,
    pub(super) severity: Severity,
    pub(super) long_window: Option<&'a str>,
    /// The summary after the pool's name.
    pub(super) summary: String,
    pub(super) description: String,
}

impl RuleText<'_> {
    /// Writes the rule of a playbook.
    pub(super) fn write(&self, out: &mut String, playbook: &str, runbook_base: &str) {
        out.push_str(&format!("      - alert: {}\n", self.alert));
        block(out, 8, "expr", &self.expr);
        if let Some(hold) = self.hold {
            out.push_str(&format!("        for: {}\n", held(hold)));
        }
        if self.keeps_firing {
            out.push_str("        keep_firing_for: 10m\n");
        }
        out.push_str("        labels:\n");
        text(out, 10, "severity", &self.severity.to_string());
        text(out, 10, "playbook", playbook);
        if let Some(window) = self.long_window {
            text(out, 10, "long_window", window);
        }
        out.push_str("        annotations:\n");
        let whom = "{{ with $labels.namespace }}{{ . }}{{ end }}{{ with $labels.model_name }}/{{ . }}{{ end }}";
        text(out, 10, "summary", &format!("{whom}{}", self.summary));
        let description = format!("{} Causes and steps: `llm-diagnose explain {playbook}`.", self.description);
        text(out, 10, "description", &description);
        text(out, 10, "runbook_url", &format!("{}/{playbook}.md", runbook_base.trim_end_matches('/')));
    }
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
