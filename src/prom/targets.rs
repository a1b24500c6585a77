//! What Prometheus scrapes: addresses and the labels it attaches.
//!
//! Source of the shape: Prometheus HTTP API, "Targets". Thanos has it too; Mimir does not.

use std::time::{Duration, Instant};

use serde::Deserialize;

use super::{ANSWER_BYTES, PromError, Prometheus, answer};
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
}

#[derive(Deserialize)]
struct Envelope {
    data: Option<Data>,
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
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let ask = async {
            let url = format!("{}/api/v1/targets?state=active", self.base);
            let response = self.http.get(url).send().await.map_err(PromError::from_http)?;
            let status = response.status();
            let body = answer::body(response, ANSWER_BYTES).await?;
            match serde_json::from_slice::<Envelope>(&body) {
                Ok(Envelope { data: Some(data) }) if status.is_success() => Ok(data.active),
                _ => Err(PromError::NotPrometheus(format!("HTTP {status} instead of a list of targets"))),
            }
        };
        tokio::time::timeout(left, ask).await.unwrap_or(Err(PromError::Late))
    }
}
