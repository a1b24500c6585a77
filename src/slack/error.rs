//! What Slack can answer, as delivery needs to tell it apart.

use std::time::Duration;

use slack_morphism::errors::SlackClientError;

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

    /// Whether the channel is the problem, so that another one may take the message.
    pub fn is_about_channel(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if
            ["channel_not_found", "is_archived", "not_in_channel", "restricted_action", "no_permission"].contains(&code.as_str()))
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

    /// Whether sending the same again can help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::RateLimited(_) | Self::Unreachable(_) | Self::Late => true,
            // Tokens are rotated and Slack has bad minutes; a message that is malformed stays malformed.
            Self::Refused { code, .. } => [
                "internal_error",
                "fatal_error",
                "service_unavailable",
                "team_added_to_org",
                "request_timeout",
                "invalid_auth",
                "token_expired",
                "token_revoked",
                "account_inactive",
                "not_authed",
            ]
            .contains(&code.as_str()),
        }
    }

    pub(super) fn from_client(error: SlackClientError) -> Self {
        match error {
            SlackClientError::RateLimitError(e) => {
                Self::RateLimited(e.retry_after.unwrap_or(Duration::from_secs(1)).min(LONGEST_WAIT))
            }
            SlackClientError::ApiError(e) if e.code == "ratelimited" || e.code == "rate_limited" => {
                Self::RateLimited(Duration::from_secs(1))
            }
            SlackClientError::ApiError(e) => {
                Self::Refused { detail: details(e.http_response_body.as_deref()), code: e.code }
            }
            SlackClientError::HttpError(e) => Self::Unreachable(format!("HTTP {}", e.status_code)),
            SlackClientError::HttpProtocolError(e) => match e.cause {
                Some(cause) => Self::Unreachable(innermost(cause.as_ref())),
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

fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
