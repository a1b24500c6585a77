//! The expressions of an incident's alerts, and whether they hold.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use knowledge::alert::{Alert, Labels, active};
use knowledge::playbook::expression;

/// Maximum number of expressions, and of alerts of each, that are looked at for an incident.
const EXPRESSIONS: usize = 2;
const ALERTS: usize = 50;

/// The expression of a rule, with the labels of its active alerts.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertCondition {
    /// PromQL, as the alert's link has it: text from outside.
    pub expression: String,
    /// Labels of the alerts, the rule's own among them; at most fifty.
    pub alerts: BTreeSet<Labels>,
}

impl AlertCondition {
    /// Returns the conditions of the active alerts; none if a link contains no expression or there are more than two: a
    /// part of them says nothing about the incident.
    pub fn of_alerts(alerts: &[Alert]) -> Vec<Self> {
        let mut by_expression: BTreeMap<String, BTreeSet<Labels>> = BTreeMap::new();
        for alert in active(alerts) {
            let Some(expression) = expression(&alert.generator_url) else { return Vec::new() };
            let labels = by_expression.entry(expression).or_default();
            if labels.len() < ALERTS {
                labels.insert(alert.labels.clone());
            }
            if by_expression.len() > EXPRESSIONS {
                return Vec::new();
            }
        }
        by_expression.into_iter().map(|(expression, alerts)| Self { expression, alerts }).collect()
    }

    /// Returns true if a series may be that of one of the alerts: no label has another value.
    pub fn may_be_of(&self, series: &Labels) -> bool {
        let fits = |alert: &Labels| series.iter().all(|(label, value)| alert.get(label).is_none_or(|own| own == value));
        self.alerts.iter().any(fits)
    }
}

/// The answer of Prometheus to the alerts' own expressions at the time of the diagnosis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionFound {
    /// True if one of the expressions holds, false if none does.
    pub holds: bool,
    /// The value of the only series, if the expression compares it with a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Its usual value, the median of three moments in the hours before the incident.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<f64>,
    /// True if the expression would not hold with the usual value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_new: bool,
}
