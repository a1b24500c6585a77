//! The expressions of an incident's alerts, and whether they hold.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use knowledge::alert::{Alert, Labels, active};
use knowledge::playbook::expression;

/// Maximum number of expressions that are evaluated for an incident.
const MOST: usize = 4;

/// The expression of a rule, with the labels of its active alerts.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertCondition {
    /// PromQL, as the alert's link has it.
    pub expression: String,
    /// Labels of the alerts, the rule's own among them.
    pub alerts: Vec<Labels>,
}

impl AlertCondition {
    /// Returns the conditions of the active alerts whose links contain an expression; at most four.
    pub fn of_alerts(alerts: &[Alert]) -> Vec<Self> {
        let mut by_expression: BTreeMap<String, Vec<Labels>> = BTreeMap::new();
        for alert in active(alerts) {
            let Some(expression) = expression(&alert.generator_url) else { continue };
            by_expression.entry(expression).or_default().push(alert.labels.clone());
        }
        let conditions = by_expression.into_iter().map(|(expression, alerts)| Self { expression, alerts });
        conditions.take(MOST).collect()
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
    /// The number of series for which an expression holds; 0 if none holds any more.
    pub series: usize,
    /// The value of the only one; `None` if there are others, or the expression compares no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
}
