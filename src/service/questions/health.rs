//! The fleet's health.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::{Fleet, QuestionError, ShortText};
use diagnose::health::{HealthQuery, evaluate_fleet};
use findings::health::Health;

/// The detail of a health.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HealthDetail {
    /// The checks at warning or critical.
    #[default]
    Summary,
    /// All checks, with their queries and every replica.
    Full,
}

/// The part of the fleet whose health is asked for; all of it without labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HealthQuestion {
    /// Only pools of this cluster.
    #[serde(deserialize_with = "value")]
    #[schemars(with = "ShortText")]
    pub cluster: Option<ShortText>,
    /// Only pools of this namespace.
    #[serde(deserialize_with = "value")]
    #[schemars(with = "ShortText")]
    pub namespace: Option<ShortText>,
    /// Only pools of this model.
    #[serde(deserialize_with = "value")]
    #[schemars(with = "ShortText")]
    pub model: Option<ShortText>,
    /// `summary`: of the checks only those at warning or critical; `full`: all of them, some hundred kilobytes.
    #[schemars(extend("default" = "summary"))]
    pub detail: HealthDetail,
}

impl HealthQuestion {
    /// Returns the part of the fleet, dimension to value.
    pub fn scope(&self) -> BTreeMap<String, String> {
        let Self { cluster, namespace, model, detail: _ } = self;
        let scope = [("cluster", cluster), ("namespace", namespace), ("model", model)];
        scope.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.as_ref()?.to_string()))).collect()
    }
}

/// Reads a value of a pool's label. An empty one selects nothing.
fn value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ShortText>, D::Error> {
    match Option::<ShortText>::deserialize(deserializer)? {
        Some(empty) if empty.is_empty() => {
            Err(serde::de::Error::custom("expected a value: an empty one selects no pool"))
        }
        value => Ok(value),
    }
}

impl Fleet<'_> {
    /// Returns the health of the fleet, or of the part with these labels: `cluster`, `namespace`, `model`.
    ///
    /// # Errors
    /// When it cannot be cleaned of secrets, or too many questions are asked at once.
    pub async fn health(&self, scope: BTreeMap<String, String>, at: Timestamp) -> Result<Health, QuestionError> {
        let (window, deadline) = (self.diagnosing.window, self.diagnosing.deadline);
        let query = HealthQuery { scope, at, window, deadline };
        self.answered(async { Ok(evaluate_fleet(self.library, &self.sources(), &query).await) }).await
    }
}
