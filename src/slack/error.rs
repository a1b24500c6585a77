//! What Slack can answer, as delivery needs to tell it apart.

use std::time::Duration;

use slack_morphism::errors::SlackClientError;

use crate::redact::{innermost, unreached};

/// The longest wait that is believed: Slack's are up to a minute, and a proxy's may be any number.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// Why a call did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlackError {
    /// Too many calls; Slack says when to come back.
    #[error("Slack asks to wait {} s", .0.as_secs())]
    RateLimited(Duration),
    /// Slack understood and refused.
    #[error("Slack refused: {code}{detail}")]
    Refused {
        /// `channel_not_found`, `invalid_blocks`, …
        code: String,
        /// Which block, when it tells.
        detail: String,
    },
    /// No answer of Slack's.
    #[error("Slack cannot be reached: {0}")]
    Unreachable(String),
    /// No connection: it was not sent at all.
    #[error("Slack cannot be reached: {0}")]
    Unsent(String),
    /// The deadline passed.
    #[error("Slack did not answer in time")]
    Late,
}

impl SlackError {
    /// Whether the message that was to be edited is gone or can no longer be edited: post it anew.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if
            ["message_not_found", "cant_update_message", "edit_window_closed", "block_mismatch"].contains(&code.as_str()))
    }

    /// The error's code when Slack refused.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Whether the channel is the problem, so that another one may take the message.
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

    /// Whether the app or its token is the problem: nothing goes out anywhere until a person mends it.
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

    /// Whether the call may have had its effect all the same: the answer was lost, or says that something went wrong
    /// half-way.
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Late => true,
            Self::RateLimited(_) | Self::Unsent(_) => false,
            Self::Refused { code, .. } => {
                ["internal_error", "fatal_error", "service_unavailable", "request_timeout"].contains(&code.as_str())
            }
        }
    }

    /// Whether the message itself is the problem, so that a shorter and simpler one may be taken.
    pub fn is_about_content(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if
            ["msg_too_long", "msg_blocks_too_long", "invalid_blocks", "invalid_blocks_format", "invalid_attachments",
             "too_many_attachments"].contains(&code.as_str()))
    }

    /// Whether the message whose thread was meant is gone.
    pub fn is_about_thread(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "thread_not_found")
    }

    /// Whether sending the same again can help, without anybody doing anything. A message that is malformed stays
    /// malformed.
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
                    Some(error) if error.is_connect() => Self::Unsent(unreached(error)),
                    Some(error) => Self::Unreachable(unreached(error)),
                    None => Self::Unreachable(innermost(cause.as_ref())),
                },
                None => Self::Unreachable("no connection".to_owned()),
            },
            SlackClientError::ProtocolError(_) => Self::Unreachable("the answer is not Slack's".to_owned()),
            other => Self::Unreachable(other.to_string()),
        }
    }
}

/// Slack tells in `response_metadata.messages` which block is wrong.
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
