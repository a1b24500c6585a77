//! `/llm-diagnose` and mentions.

use super::Desk;
use crate::slack::Inbound;

/// Carries out a command or a mention.
pub(super) async fn run(_desk: &Desk, _inbound: &Inbound, _text: &str) {}
