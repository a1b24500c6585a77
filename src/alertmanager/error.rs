//! Why an Alertmanager did not do it.

use crate::redact::unreached;

/// Why a call did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlertmanagerError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Configuration(String),
    /// No answer.
    #[error("Alertmanager cannot be reached: {0}")]
    Unreachable(String),
    /// The deadline passed.
    #[error("Alertmanager did not answer in time")]
    Late,
    /// It understood and refused, or failed.
    #[error("Alertmanager answered {status}: {said}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Its words.
        said: String,
    },
    /// Something else answers there.
    #[error("the answer is not Alertmanager's: {0}")]
    NotAlertmanager(String),
}

impl AlertmanagerError {
    /// Whether another Alertmanager of the same alerts may do it.
    pub fn is_down(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Late | Self::NotAlertmanager(_) => true,
            Self::Refused { status, .. } => *status >= 500 || *status == 429,
            Self::Configuration(_) => false,
        }
    }

    pub(super) fn of(error: reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::Late;
        }
        Self::Unreachable(unreached(&error))
    }
}
