//! The alerting rules that Prometheus evaluates.
//!
//! Source of the shape: Prometheus HTTP API, "Rules". Mimir has it below its Prometheus prefix, Thanos with its rule
//! API. VictoriaMetrics has it only with `-vmalert.proxyURL`, and returns an empty list without.

use std::time::Instant;

use serde::Deserialize;

use super::{PromError, Prometheus};
use knowledge::alert::Labels;

/// One alerting rule; fields that a server leaves out are empty.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct AlertingRule {
    /// The alert's name.
    pub name: String,
    /// Its PromQL.
    #[serde(default)]
    pub query: String,
    /// The rule's `for`, in seconds.
    #[serde(default)]
    pub duration: f64,
    /// Labels that the rule sets.
    #[serde(default)]
    pub labels: Labels,
    /// Its firing and pending alerts.
    #[serde(default)]
    pub alerts: Vec<FiringAlert>,
    /// `firing`, `pending`, `inactive`.
    #[serde(default)]
    pub state: String,
    /// The error of the last evaluation.
    #[serde(default, rename = "lastError")]
    pub error: Option<String>,
}

/// One alert of a rule.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FiringAlert {
    /// The labels of the alert.
    #[serde(default)]
    pub labels: Labels,
}

#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    rules: Vec<serde_json::Value>,
}

impl Prometheus {
    /// Returns the alerting rules of all groups, without recording rules and rules of an unknown shape.
    ///
    /// # Errors
    /// If Prometheus cannot be reached before the deadline, or does not return its rules.
    pub async fn alerting_rules(&self, deadline: Instant) -> Result<Vec<AlertingRule>, PromError> {
        self.rules("rules?type=alert", deadline).await
    }

    /// Returns the alerting rules with one of these names; filtered here too, as some servers ignore the parameter.
    ///
    /// # Errors
    /// As [`Prometheus::alerting_rules`].
    pub async fn rules_named(&self, names: &[String], deadline: Instant) -> Result<Vec<AlertingRule>, PromError> {
        let pairs = names.iter().map(|name| ("rule_name[]", name));
        let named = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let mut rules = self.rules(&format!("rules?type=alert&exclude_alerts=true&{named}"), deadline).await?;
        rules.retain(|rule| names.contains(&rule.name));
        Ok(rules)
    }

    async fn rules(&self, path: &str, deadline: Instant) -> Result<Vec<AlertingRule>, PromError> {
        let data: Data = self.api(path, "its alerting rules", deadline).await?;
        let rules = data.groups.into_iter().flat_map(|group| group.rules);
        // Servers that ignore `type=alert` send recording rules too.
        let alerting = rules.filter(|rule| rule["type"] != "recording");
        Ok(alerting.filter_map(|rule| serde_json::from_value(rule).ok()).collect())
    }
}
