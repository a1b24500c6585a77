//! The alerting rules that Prometheus evaluates.
//!
//! Source of the shape: Prometheus HTTP API, "Rules". Mimir has it below its Prometheus prefix, Thanos with its rule
//! API. VictoriaMetrics has it only with `-vmalert.proxyURL`, and returns an empty list without.

use std::fmt;
use std::time::Instant;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

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
    #[serde(default, deserialize_with = "alerting")]
    rules: Vec<AlertingRule>,
}

/// Reads rules one by one, without recording rules, which servers that ignore `type=alert` send too, and without rules
/// of an unknown shape.
fn alerting<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<AlertingRule>, D::Error> {
    struct Rules;
    impl<'de> Visitor<'de> for Rules {
        type Value = Vec<AlertingRule>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of rules")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut rules = Vec::new();
            while let Some(rule) = list.next_element::<Value>()? {
                let is_recording = rule["type"] == "recording";
                rules.extend(serde_json::from_value(rule).ok().filter(|_| !is_recording));
            }
            Ok(rules)
        }
    }
    deserializer.deserialize_seq(Rules)
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
    pub async fn rules_named(&self, names: &[String], deadline: Instant) -> Result<Vec<AlertingRule>, PromError> {
        let pairs = names.iter().map(|name| ("rule_name[]", name));
        let named = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let mut rules = self.rules(&format!("rules?type=alert&exclude_alerts=true&{named}"), deadline).await?;
        rules.retain(|rule| names.contains(&rule.name));
        Ok(rules)
    }

    async fn rules(&self, path: &str, deadline: Instant) -> Result<Vec<AlertingRule>, PromError> {
        let data: Data = self.api(path, "its alerting rules", deadline).await?;
        Ok(data.groups.into_iter().flat_map(|group| group.rules).collect())
    }
}
