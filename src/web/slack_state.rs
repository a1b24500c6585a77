//! The signing secret and the desk, which the Slack routes share.

use std::sync::Arc;

use chat::Desk;
use slack::Signing;

/// The state of the Slack routes.
#[derive(Debug, Clone)]
pub struct SlackState {
    /// The app's signing secret.
    pub signing: Arc<Signing>,
    /// The handler of requests.
    pub desk: Arc<Desk>,
}
