//! The errors of Slack's API, by the reactions that delivery needs.

use std::time::Duration;

use slack_morphism::errors::SlackClientError;

use http_client::{innermost, unreachable_reason};

/// The longest accepted wait: Slack asks for up to a minute, a proxy may ask for any time.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// The error of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlackError {
    /// Too many calls; try again after this time.
    #[error("Slack asks to wait {} s", .0.as_secs())]
    RateLimited(Duration),
    /// Slack rejected the call.
    #[error("Slack refused: {code}{detail}")]
    Refused {
        /// `channel_not_found`, `invalid_blocks`, …
        code: String,
        /// The invalid block, if Slack names it.
        detail: String,
    },
    /// No valid answer arrived; the call may have been executed.
    #[error("Slack cannot be reached: {0}")]
    Unreachable(String),
    /// No connection was made; the call was not sent.
    #[error("Slack cannot be reached: {0}")]
    Unsent(String),
    /// The deadline passed without an answer.
    #[error("Slack did not answer in time")]
    Late,
}

impl SlackError {
    /// Returns true if the message to edit was deleted or is no longer editable, so it must be posted again.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if
            ["message_not_found", "cant_update_message", "edit_window_closed", "block_mismatch"].contains(&code.as_str()))
    }

    /// Returns the error code if Slack rejected the call.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Returns true if the channel is the problem, so that another channel may accept the message.
    ///
    /// Source: <https://docs.slack.dev/reference/methods/chat.postMessage#errors>.
    pub fn is_about_channel(&self) -> bool {
        const CODES: [&str; 8] = [
            "access_denied",
            "channel_not_found",
            "channel_type_not_supported",
            "is_archived",
            "method_not_supported_for_channel_type",
            "no_permission",
            "not_in_channel",
            "team_access_not_granted",
        ];
        self.code().is_some_and(|code| CODES.contains(&code) || code.starts_with("restricted_action"))
    }

    /// Returns true if the app or its token is the problem: all calls fail until a person fixes it.
    pub fn is_about_token(&self) -> bool {
        const CODES: [&str; 10] = [
            "account_inactive",
            "ekm_access_denied",
            "invalid_auth",
            "missing_scope",
            "not_allowed_token_type",
            "not_authed",
            "org_login_required",
            "team_added_to_org",
            "token_expired",
            "token_revoked",
        ];
        self.code().is_some_and(|code| CODES.contains(&code))
    }

    /// Returns true if the call may have been executed: its answer was lost, or reports an internal error.
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Late => true,
            Self::RateLimited(_) | Self::Unsent(_) => false,
            Self::Refused { code, .. } => {
                ["internal_error", "fatal_error", "service_unavailable", "request_timeout"].contains(&code.as_str())
            }
        }
    }

    /// Returns true if the content is the problem, so that a shorter and simpler message may be accepted.
    pub fn is_about_content(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if
            ["msg_too_long", "msg_blocks_too_long", "invalid_blocks", "invalid_blocks_format", "invalid_attachments",
             "too_many_attachments"].contains(&code.as_str()))
    }

    /// Returns true if the thread's first message was deleted.
    pub fn is_about_thread(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "thread_not_found")
    }

    /// Returns true if a retry without any change can succeed; a malformed message stays malformed.
    pub fn is_retryable(&self) -> bool {
        self.is_unknown() || matches!(self, Self::RateLimited(_) | Self::Unsent(_))
    }

    pub(super) fn limited(wait: Option<Duration>) -> Self {
        Self::RateLimited(wait.unwrap_or(Duration::from_secs(1)).min(LONGEST_WAIT))
    }

    pub(super) fn from_client(error: SlackClientError) -> Self {
        match error {
            SlackClientError::RateLimitError(e) => Self::limited(e.retry_after),
            SlackClientError::ApiError(e) if e.code == "ratelimited" || e.code == "rate_limited" => {
                Self::RateLimited(Duration::from_secs(1))
            }
            SlackClientError::ApiError(e) => {
                Self::Refused { detail: details(e.http_response_body.as_deref()), code: e.code }
            }
            SlackClientError::HttpError(e) => Self::Unreachable(format!("HTTP {}", e.status_code)),
            SlackClientError::HttpProtocolError(e) => match e.cause {
                Some(cause) => match cause.downcast_ref::<reqwest::Error>() {
                    Some(error) if error.is_connect() => Self::Unsent(unreachable_reason(error)),
                    Some(error) => Self::Unreachable(unreachable_reason(error)),
                    None => Self::Unreachable(innermost(cause.as_ref())),
                },
                None => Self::Unreachable("no connection".to_owned()),
            },
            SlackClientError::ProtocolError(_) => Self::Unreachable("the answer is not Slack's".to_owned()),
            other => Self::Unreachable(other.to_string()),
        }
    }
}

/// Returns the errors by block, which Slack lists in `response_metadata.messages`.
fn details(body: Option<&str>) -> String {
    let messages = body
        .and_then(|body| serde_json::from_str::<serde_json::Value>(body).ok())
        .and_then(|body| body.pointer("/response_metadata/messages").cloned())
        .and_then(|messages| serde_json::from_value::<Vec<String>>(messages).ok())
        .unwrap_or_default();
    match messages.is_empty() {
        true => String::new(),
        false => format!(" ({})", messages.join("; ")),
    }
}
