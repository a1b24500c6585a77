//! Which server answers.
//!
//! Source of the shape: Prometheus HTTP API, "Build Information". Mimir names itself in `application`; VictoriaMetrics
//! answers with the version of Prometheus whose API it has.

use std::time::Instant;

use serde::Deserialize;

use super::{PromError, Prometheus};

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BuildInfo {
    /// `3.5.0`.
    pub version: String,
    /// Its name, where it is not Prometheus itself.
    pub application: Option<String>,
}

impl Prometheus {
    /// The version of the server.
    ///
    /// # Errors
    /// When it cannot be reached in time, or does not tell.
    pub async fn build_info(&self, deadline: Instant) -> Result<BuildInfo, PromError> {
        self.api("status/buildinfo", "its version", deadline).await
    }
}
