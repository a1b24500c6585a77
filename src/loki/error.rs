//! Why Loki gave no logs, and what to do about it.

use crate::logs::Log;
use crate::redact::{innermost, unreached};

/// Of an error's text, what is repeated.
const SAID_CHARS: usize = 300;

/// Why Loki gave no logs.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LokiError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Configuration(String),
    /// No answer.
    #[error("Loki cannot be reached: {0}")]
    Unreachable(String),
    /// The deadline passed.
    #[error("Loki did not answer in time")]
    Late,
    /// It wants to know which tenant.
    #[error("Loki wants a tenant: set `X-Scope-OrgID` in `headers` of `loki:`")]
    NoTenant,
    /// It does not know us.
    #[error("Loki refuses us (HTTP {0}): set `bearer_token_file` or `headers` of `loki:`, or check what they hold")]
    NotAllowed(u16),
    /// One of its limits stands in the way.
    #[error("Loki's limits do not allow it: {0}; ask for a shorter time, or raise the limit there")]
    Limit(String),
    /// It has too much to do.
    #[error("Loki has too much to do (HTTP {status}): {said}")]
    Busy {
        /// The HTTP status.
        status: u16,
        /// Its words.
        said: String,
    },
    /// It understood and refused, or failed.
    #[error("Loki answered HTTP {status}: {said}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Its words.
        said: String,
    },
    /// Something else answers there.
    #[error("the answer is not Loki's: {0}; `url` of `loki:` is the address without /loki/api/v1")]
    NotLoki(String),
    /// Even a few lines are more than may be read at once.
    #[error("Loki sent more than {} MiB for {lines} lines", .bytes >> 20)]
    TooLarge {
        /// The bound.
        bytes: usize,
        /// The lines that were asked for.
        lines: u64,
    },
    /// Its streams are labelled otherwise.
    #[error("Loki has no streams with the label `{label}`: set `{key}` of `loki:` to one of {known}")]
    NoSuchLabel {
        /// The label that was asked by.
        label: String,
        /// The key of the configuration.
        key: &'static str,
        /// The labels there are.
        known: String,
    },
    /// Some logs came, others did not.
    #[error("some logs are missing ({missing}): {why}", missing = .missing.join(", "))]
    Partly {
        /// What came.
        logs: Vec<Log>,
        /// The pods whose logs are missing.
        missing: Vec<String>,
        /// Why.
        why: Box<LokiError>,
    },
}

impl LokiError {
    /// The logs that came nevertheless.
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
            false => Self::Unreachable(unreached(&error)),
        }
    }

    /// What a status that is no success means; errors of Loki are plain text.
    pub(super) fn refused(status: u16, media: &str, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let words: Vec<&str> = text.split_whitespace().collect();
        let said: String = words.join(" ").chars().filter(|c| !c.is_control()).take(SAID_CHARS).collect();
        let lower = said.to_ascii_lowercase();
        let limits = ["max entries limit", "exceeds the limit", "max_query", "max query", "limit exceeded"];
        match status {
            _ if lower.contains("no org id") => Self::NoTenant,
            401 | 403 => Self::NotAllowed(status),
            429 => Self::Busy { status, said },
            300..=399 => Self::NotLoki(format!("it is a redirect (HTTP {status}), which is not followed")),
            404 | 405 => Self::NotLoki(format!("HTTP {status} for /loki/api/v1/query_range")),
            _ if limits.iter().any(|limit| lower.contains(limit)) => Self::Limit(said),
            _ if lower.contains("too many outstanding requests") => Self::Busy { status, said },
            _ if media == "text/html" || said.is_empty() => {
                Self::Refused { status, said: "it does not say why".to_owned() }
            }
            _ => Self::Refused { status, said },
        }
    }
}
