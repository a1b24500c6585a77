//! Errors of calls to Alertmanager.

use crate::redact::unreachable_reason;

/// The reason why a call to Alertmanager failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlertmanagerError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Configuration(String),
    /// No answer was received.
    #[error("Alertmanager cannot be reached: {0}")]
    Unreachable(String),
    /// The call took longer than its deadline.
    #[error("Alertmanager did not answer in time")]
    Late,
    /// Alertmanager refused the call or failed.
    #[error("Alertmanager answered {status}: {said}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Alertmanager's error text.
        said: String,
    },
    /// The answer does not come from an Alertmanager.
    #[error("the answer is not Alertmanager's: {0}")]
    NotAlertmanager(String),
}

impl AlertmanagerError {
    /// Returns true if another Alertmanager for the same alerts may succeed.
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
        Self::Unreachable(unreachable_reason(&error))
    }
}
