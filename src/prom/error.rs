//! What can go wrong with a query, as the caller needs to tell it apart.

use crate::redact::unreached;

/// Why a query has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PromError {
    /// The address, a header or a token file is wrong.
    #[error("{0}")]
    Configuration(String),
    /// No connection: refused, no such host, TLS.
    #[error("Prometheus cannot be reached: {0}")]
    Unreachable(String),
    /// The deadline passed first.
    #[error("timed out")]
    Late,
    /// Prometheus answered with an error of its own.
    #[error("Prometheus refused the query ({kind}): {message}")]
    Refused {
        /// `bad_data`, `execution`, `too_many_requests`, …
        kind: String,
        /// Its sentence.
        message: String,
    },
    /// Prometheus would know it, but this server does not: Mimir has no targets, Thanos no status.
    #[error("this server does not tell {0}")]
    Lacking(&'static str),
    /// Something else answered: a proxy, a login page, another program.
    #[error("the answer is not Prometheus': {0}")]
    NotPrometheus(String),
    /// The answer ended in the middle.
    #[error("the answer was cut off: {0}")]
    Cut(String),
}

impl PromError {
    /// Whether it is Prometheus that is away, so that asking again later makes sense.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::NotPrometheus(_) | Self::Late | Self::Cut(_) => true,
            Self::Refused { kind, .. } => kind == "unavailable" || kind == "too_many_requests" || kind == "timeout",
            Self::Configuration(_) | Self::Lacking(_) => false,
        }
    }

    /// Whether the time ran out, ours or that which Prometheus gives a query.
    pub fn is_late(&self) -> bool {
        matches!(self, Self::Late) || matches!(self, Self::Refused { kind, .. } if kind == "timeout")
    }

    /// Whether the question was too large, so that asking for less makes sense.
    ///
    /// Prometheus says 422 `execution` for too many samples, its relatives (Mimir, Thanos, VictoriaMetrics) for limits
    /// of their own; 413 is a proxy's. Source: Prometheus HTTP API, "Format overview".
    pub fn is_too_much(&self) -> bool {
        matches!(self, Self::Refused { kind, .. } if kind == "execution" || kind.starts_with("422") || kind.starts_with("413"))
    }

    pub(super) fn from_http(error: impl std::borrow::Borrow<reqwest::Error>) -> Self {
        let error = error.borrow();
        if error.is_timeout() {
            return Self::Late;
        }
        Self::Unreachable(unreached(error))
    }

    pub(super) fn from_client(error: prometheus_http_query::Error) -> Self {
        match error {
            prometheus_http_query::Error::Client(client) => match client.inner() {
                Some(inner) => Self::from_http(inner),
                None => Self::NotPrometheus("no Prometheus API answer".to_owned()),
            },
            other => Self::NotPrometheus(other.to_string()),
        }
    }
}
