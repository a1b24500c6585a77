//! Errors of a query, distinguished as callers need it.

use std::time::Duration;

use reqwest::StatusCode;

use super::CONNECT;
use http_client::unreachable_reason;

/// The reason why a query has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PromError {
    /// The address, a header or a token file is wrong.
    #[error("{0}")]
    Configuration(String),
    /// There is no Prometheus, by choice.
    #[error("Prometheus was not asked: engines are read without it")]
    NotAsked,
    /// No configured Prometheus is for these alerts.
    #[error("{0}")]
    Unassigned(String),
    /// No connection: refused, no such host, TLS.
    #[error("Prometheus cannot be reached: {0}")]
    Unreachable(String),
    /// The server has not answered several times in a row, and is not asked for a while. The text is that of its last
    /// error: a message says the same whether a query was sent in vain or not at all.
    #[error("{why}")]
    Shut {
        /// The error of the last query that was sent.
        why: String,
        /// The number of queries in a row that failed.
        times: u32,
        /// The time until it is asked again.
        again_in: Duration,
    },
    /// The deadline passed before the answer.
    #[error("timed out")]
    Late,
    /// Prometheus answered with an error.
    #[error("Prometheus refused the query ({kind}): {message}")]
    Refused {
        /// `bad_data`, `execution`, `too_many_requests`, …
        kind: String,
        /// The error message of the server.
        message: String,
    },
    /// The query was sent to pages that are held here, and is not evaluated on them.
    #[error("this query is not evaluated on pages: {0}")]
    NotEvaluated(String),
    /// The server lacks an endpoint that Prometheus has: Mimir has no targets, Thanos no status.
    #[error("this server does not tell {0}")]
    Lacking(&'static str),
    /// Something else answered: a proxy, a login page, another program.
    #[error("the answer is not Prometheus': {why}")]
    NotPrometheus {
        /// A description of the answer.
        why: String,
        /// True if the server as such does not work; false if it is about one query, path or tenant.
        silent: bool,
    },
    /// One answer has too many series for the memory that it may take.
    #[error("the answer has more than {series} series, or too many samples, for {} MiB: raise `prometheus.answer_bytes` or the memory limit of this process, or narrow the pool", bytes >> 20)]
    TooLarge {
        /// The number of series that were read.
        series: usize,
        /// The size that one answer may have, in bytes.
        bytes: usize,
    },
    /// One answer is longer than what is read of it.
    #[error("the answer is longer than {} MiB, which is the most that is read here: narrow the pool, or raise `prometheus.answer_bytes` and the memory limit of this process", bytes >> 20)]
    TooLong {
        /// The length that is read, in bytes.
        bytes: usize,
    },
    /// All answers together need more memory than they may take.
    #[error("other answers use the {} MiB that answers may take: raise `prometheus.answer_bytes` or the memory limit of this process", bytes >> 20)]
    NoMemory {
        /// The memory that all answers may take, in bytes.
        bytes: usize,
    },
    /// The server could not read a part of the data, without which the answer says nothing.
    #[error("a part of the data is missing: {0}")]
    Partial(String),
    /// The connection was there, and broke off before the end of the answer.
    #[error("the answer was cut off: {0}")]
    Cut(String),
}

/// Returns true for the kinds of refusals that are the server's and not the query's: Mimir and Cortex answer so while a
/// part of them is away. A body without a kind has the status instead, as `503 Service Unavailable`.
fn is_of_server(kind: &str) -> bool {
    matches!(kind, "unavailable" | "too_many_requests" | "timeout" | "internal")
        || kind.starts_with('5')
        || kind.starts_with("429")
}

impl PromError {
    /// Returns true if Prometheus is unavailable, so that a later retry makes sense.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::NotAsked
            | Self::Unassigned(_)
            | Self::Unreachable(_)
            | Self::Shut { .. }
            | Self::NotPrometheus { .. }
            | Self::Late
            | Self::Cut(_)
            | Self::Partial(_)
            | Self::NoMemory { .. } => true,
            Self::Refused { kind, .. } => is_of_server(kind),
            Self::Configuration(_)
            | Self::NotEvaluated(_)
            | Self::Lacking(_)
            | Self::TooLarge { .. }
            | Self::TooLong { .. } => false,
        }
    }

    /// Returns true if the query is the reason, so that a part of it may have an answer.
    pub fn is_about_query(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::TooLarge { .. } | Self::TooLong { .. }) && !self.is_unavailable()
    }

    /// Returns true if the query timed out: our deadline, or Prometheus' own query timeout.
    pub fn is_late(&self) -> bool {
        matches!(self, Self::Late) || matches!(self, Self::Refused { kind, .. } if kind == "timeout")
    }

    /// Returns true if the query was too large, so that a smaller query makes sense.
    ///
    /// Prometheus answers 422 `execution` for too many samples; compatible servers (Mimir, Thanos, VictoriaMetrics) use
    /// it for limits of their own; 413 comes from a proxy. Source: Prometheus HTTP API, "Format overview".
    pub fn is_too_much(&self) -> bool {
        matches!(self, Self::Refused { kind, .. } if kind == "execution" || kind.starts_with("422") || kind.starts_with("413"))
    }

    /// Returns true if the server as such does not work. Any answer of Prometheus is none, and neither is a refusal of a
    /// proxy (3xx, 4xx), which is about one path or one tenant.
    pub fn is_silence(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Late | Self::Cut(_) => true,
            Self::NotPrometheus { silent, .. } => *silent,
            Self::Configuration(_)
            | Self::Unassigned(_)
            | Self::Partial(_)
            | Self::NotAsked
            | Self::Shut { .. }
            | Self::Refused { .. }
            | Self::NotEvaluated(_)
            | Self::Lacking(_)
            | Self::TooLarge { .. }
            | Self::TooLong { .. }
            | Self::NoMemory { .. } => false,
        }
    }

    /// Builds the error of an answer with this status that is not Prometheus'; JSON of another shape may be the dialect of
    /// a server that works.
    pub(super) fn foreign(status: StatusCode, is_json: bool, why: String) -> Self {
        Self::NotPrometheus { why, silent: status.is_server_error() || status.is_success() && !is_json }
    }

    /// Builds the error of an answer that is Prometheus' and lacks what was asked for, or that was not read because of us.
    pub(super) fn unexpected(why: impl Into<String>) -> Self {
        Self::NotPrometheus { why: why.into(), silent: false }
    }

    pub(super) fn from_http(error: impl std::borrow::Borrow<reqwest::Error>) -> Self {
        let error = error.borrow();
        match (error.is_timeout(), error.is_connect()) {
            (false, true) => Self::Unreachable(unreachable_reason(error)),
            (true, true) => {
                let place = error.url().map(|url| format!(" ({})", url.origin().ascii_serialization()));
                let seconds = CONNECT.as_secs();
                Self::Unreachable(format!("no connection within {seconds} s{}", place.unwrap_or_default()))
            }
            (true, false) => Self::Late,
            (false, false) => Self::Cut(unreachable_reason(error)),
        }
    }

    pub(super) fn from_client(error: prometheus_http_query::Error) -> Self {
        match error {
            prometheus_http_query::Error::Client(client) => match client.inner() {
                Some(inner) => Self::from_http(inner),
                None => Self::unexpected("no Prometheus API answer"),
            },
            other => Self::unexpected(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_server_is_not_about_the_query() {
        let refused = |kind: &str| PromError::Refused { kind: kind.to_owned(), message: String::new() };
        for kind in
            ["internal", "unavailable", "too_many_requests", "timeout", "500 Internal Server Error", "502 Bad Gateway"]
        {
            assert!(!refused(kind).is_about_query() && refused(kind).is_unavailable(), "{kind}");
        }
        for kind in ["bad_data", "execution", "422 Unprocessable Entity", "413 Payload Too Large"] {
            assert!(refused(kind).is_about_query() && !refused(kind).is_unavailable(), "{kind}");
        }
    }
}
