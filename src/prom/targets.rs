//! What Prometheus scrapes: addresses, the labels it attaches, and how the last scrape went.
//!
//! Source of the shape: Prometheus HTTP API, "Targets". Thanos has it too; Mimir does not.

use std::time::Instant;

use serde::Deserialize;

use super::{PromError, Prometheus};
use crate::alert::Labels;

/// One active target.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ActiveTarget {
    /// Its labels after relabelling: `job`, `instance`, and what service discovery attaches.
    #[serde(default)]
    pub labels: Labels,
    /// The address of its page.
    #[serde(rename = "scrapeUrl", default)]
    pub url: String,
    /// `up`, `down`, `unknown`.
    #[serde(default)]
    pub health: String,
    /// The last scrape's error; empty for none.
    #[serde(rename = "lastError", default)]
    pub error: String,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "activeTargets", default)]
    active: Vec<ActiveTarget>,
}

impl Prometheus {
    /// The targets that it scrapes now.
    ///
    /// # Errors
    /// When Prometheus cannot be reached in time, or does not know its targets.
    pub async fn targets(&self, deadline: Instant) -> Result<Vec<ActiveTarget>, PromError> {
        let data: Data = self.api("targets?state=active", "its scrape targets", deadline).await?;
        Ok(data.active)
    }
}
