//! The version of the server.
//!
//! Source of the shape: Prometheus HTTP API, "Build Information". Mimir states its name in `application`;
//! VictoriaMetrics answers with the version of Prometheus whose API it implements.

use std::time::Instant;

use serde::Deserialize;

use super::{PromError, Prometheus};

/// The build information of a server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BuildInfo {
    /// The version: `3.5.0`.
    pub version: String,
    /// The name of the server; `None` for Prometheus.
    pub application: Option<String>,
}

impl Prometheus {
    /// Returns the version of the server.
    ///
    /// # Errors
    /// If it cannot be reached before the deadline, or does not return its version.
    pub async fn build_info(&self, deadline: Instant) -> Result<BuildInfo, PromError> {
        self.api("status/buildinfo", "its version", deadline).await
    }
}
