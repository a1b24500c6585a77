//! Errors of calls to Alertmanager.

use http_client::unreachable_reason;

/// The reason why a call to Alertmanager failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlertmanagerError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Configuration(String),
    /// No answer was received.
    #[error("Alertmanager cannot be reached: {0}")]
    Unreachable(String),
    /// The connection broke before the answer was read.
    #[error("the connection to Alertmanager broke: {0}")]
    Broken(String),
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
            Self::Unreachable(_) | Self::Broken(_) | Self::Late | Self::NotAlertmanager(_) => true,
            Self::Refused { status, .. } => *status >= 500 || *status == 429,
            Self::Configuration(_) => false,
        }
    }

    /// Returns true if Alertmanager may have carried out what it was asked for.
    pub fn is_unsure(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::Late)
    }

    pub(super) fn of(error: reqwest::Error) -> Self {
        if error.is_connect() || error.is_builder() {
            return Self::Unreachable(unreachable_reason(&error));
        }
        if error.is_timeout() { Self::Late } else { Self::Broken(unreachable_reason(&error)) }
    }
}
