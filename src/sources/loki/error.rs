//! Errors of queries to Loki, with advice.

use http_client::{innermost, unreachable_reason};
use logs::Log;

/// Maximum number of characters of an error text that are kept.
const ERROR_CHARS: usize = 300;

/// The reason why Loki returned no logs.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LokiError {
    /// The query took longer than its deadline.
    #[error("Loki did not answer in time")]
    Late,
    /// Loki requires a tenant.
    #[error("Loki wants a tenant: set `X-Scope-OrgID` in `headers` of `loki:`")]
    NoTenant,
    /// One of Loki's limits was exceeded.
    #[error("Loki's limits do not allow it: {0}; ask for a shorter time, or raise the limit there")]
    Limit(String),
    /// The answer does not come from Loki.
    #[error("the answer is not Loki's: {0}; `url` of `loki:` is the address without /loki/api/v1")]
    NotLoki(String),
    /// Even the smallest page is larger than the limit.
    #[error("Loki sent more than {} MiB for {lines} lines", .bytes >> 20)]
    TooLarge {
        /// The limit in bytes.
        bytes: usize,
        /// The number of lines in the query.
        lines: u64,
    },
    /// The configuration cannot be used, or Loki cannot be reached, refuses or fails.
    #[error("{0}")]
    Other(String),
    /// Some logs were received, others were not.
    #[error("some logs are missing ({missing}): {why}", missing = .missing.join(", "))]
    Partly {
        /// The received logs.
        logs: Vec<Log>,
        /// The pods whose logs are missing.
        missing: Vec<String>,
        /// The error of the missing logs.
        why: Box<LokiError>,
    },
}

impl LokiError {
    /// Returns the logs that were received in spite of the error.
    pub fn into_logs(self) -> Vec<Log> {
        match self {
            Self::Partly { logs, .. } => logs,
            _ => Vec::new(),
        }
    }

    pub(super) fn of(error: reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::Late;
        }
        match error.is_body() || error.is_decode() {
            true => Self::NotLoki(format!("it breaks off: {}", innermost(&error.without_url()))),
            false => Self::Other(format!("Loki cannot be reached: {}", unreachable_reason(&error))),
        }
    }

    /// Classifies a status that is not a success; Loki's errors are plain text.
    pub(super) fn refused(status: u16, media: &str, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let words: Vec<&str> = text.split_whitespace().collect();
        let text: String = words.join(" ").chars().filter(|c| !c.is_control()).take(ERROR_CHARS).collect();
        let lower = text.to_ascii_lowercase();
        let limits = ["max entries limit", "exceeds the limit", "max_query", "max query", "limit exceeded"];
        let busy = || Self::Other(format!("Loki has too much to do (HTTP {status}): {text}"));
        let refused = |said: &str| Self::Other(format!("Loki answered HTTP {status}: {said}"));
        match status {
            _ if lower.contains("no org id") => Self::NoTenant,
            401 | 403 => Self::Other(format!(
                "Loki refuses us (HTTP {status}): set `bearer_token_file` or `headers` of `loki:`, or check their values"
            )),
            429 => busy(),
            300..=399 => Self::NotLoki(format!("it is a redirect (HTTP {status}), which is not followed")),
            404 | 405 => Self::NotLoki(format!("HTTP {status} for /loki/api/v1/query_range")),
            _ if limits.iter().any(|limit| lower.contains(limit)) => Self::Limit(text),
            _ if lower.contains("too many outstanding requests") => busy(),
            _ if media == "text/html" || text.is_empty() => refused("it does not say why"),
            _ => refused(&text),
        }
    }
}
