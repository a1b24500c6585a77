//! The targets that Prometheus scrapes: addresses, attached labels, and the result of the last scrape.
//!
//! Source of the shape: Prometheus HTTP API, "Targets". Thanos has it too; Mimir does not.

use std::time::Instant;

use serde::Deserialize;

use super::{PromError, Prometheus};
use knowledge::alert::Labels;

/// One active target.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ActiveTarget {
    /// Its labels after relabelling: `job`, `instance`, and what service discovery attaches.
    #[serde(default)]
    pub labels: Labels,
    /// The URL of its metrics page.
    #[serde(rename = "scrapeUrl", default)]
    pub url: String,
    /// `up`, `down`, `unknown`.
    #[serde(default)]
    pub health: String,
    /// The error of the last scrape; empty if it succeeded.
    #[serde(rename = "lastError", default)]
    pub error: String,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "activeTargets", default)]
    active: Vec<ActiveTarget>,
}

impl Prometheus {
    /// Returns the active targets.
    ///
    /// # Errors
    /// If Prometheus cannot be reached before the deadline, or does not have the endpoint.
    pub async fn targets(&self, deadline: Instant) -> Result<Vec<ActiveTarget>, PromError> {
        let data: Data = self.api("targets?state=active", "its scrape targets", deadline).await?;
        Ok(data.active)
    }
}
