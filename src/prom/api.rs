//! Requests to the HTTP API beside queries, whose answers are plain JSON: rules, targets, build information.
//!
//! Mimir states its name in `application`; VictoriaMetrics answers with the version of Prometheus whose API it implements.

use std::io::{BufReader, Read};
use std::time::Instant;

use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::chunks::{Limits, ReceivedBody, receive};
use super::{PromError, Prometheus};

/// Maximum bytes of a list of targets or rules, which is parsed as a whole.
const LIST_BYTES: usize = 32 << 20;

#[derive(Deserialize)]
struct Envelope<T> {
    /// `success`, `error`.
    #[serde(default)]
    status: String,
    data: Option<T>,
    /// Parts that Prometheus or Thanos could not read.
    warnings: Option<Vec<String>>,
    /// True if a cluster of VictoriaMetrics could not read all parts.
    #[serde(default, rename = "isPartial")]
    is_partial: bool,
}

impl Prometheus {
    /// Returns the `data` of a GET below `/api/v1/`; `what` is its name in errors.
    pub(super) async fn api<T: DeserializeOwned + Send + 'static>(
        &self,
        path: &str,
        what: &'static str,
        deadline: Instant,
    ) -> Result<T, PromError> {
        self.api_with_completeness(path, what, deadline).await.map(|(data, _)| data)
    }

    /// As [`Self::api`]; also returns true if the server could read all parts of the data.
    pub(super) async fn api_with_completeness<T: DeserializeOwned + Send + 'static>(
        &self,
        path: &str,
        what: &'static str,
        deadline: Instant,
    ) -> Result<(T, bool), PromError> {
        if let Some(error) = &self.unasked {
            return Err(error.clone());
        }
        let ask = async {
            let url = format!("{}/api/v1/{path}", self.base);
            let response = self.http.get(url).send().await.map_err(PromError::from_http)?;
            let status = response.status();
            let parse = |body: &mut dyn Read| serde_json::from_reader::<_, Envelope<T>>(BufReader::new(body));
            // It is parsed as a whole, and takes some of its size in memory.
            let limits = Limits { deadline, bytes: self.memory.most_of_one().min(LIST_BYTES) };
            let ReceivedBody { parsed, transfer } = receive(response, limits, parse).await;
            transfer?;
            match parsed.map_err(|error| PromError::unexpected(format!("{what} could not be read: {error}")))? {
                Ok(Envelope { data: Some(data), warnings, is_partial, .. }) if status.is_success() => {
                    Ok((data, warnings.is_none_or(|warnings| warnings.is_empty()) && !is_partial))
                }
                _ if is_lacking(status) => Err(PromError::Lacking(what)),
                Ok(Envelope { status: said, .. }) if ["success", "error"].contains(&said.as_str()) => {
                    Err(PromError::unexpected(format!("HTTP {status} instead of {what}")))
                }
                other => {
                    let is_json = other.map_or_else(|error| error.is_data(), |_| true);
                    Err(PromError::foreign(status, is_json, format!("HTTP {status} instead of {what}")))
                }
            }
        };
        let passed = async {
            self.gate.pass()?;
            let sent = self.gate.sent(deadline, None);
            let answer = ask.await;
            sent.ended(&answer);
            answer
        };
        self.waited(deadline, passed).await
    }
}

/// Returns true for the statuses with which servers answer that they lack an endpoint.
fn is_lacking(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
    )
}

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
