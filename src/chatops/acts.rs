//! Buttons, forms and menus.

use tokio::sync::OwnedSemaphorePermit;

use super::Desk;
use crate::slack::{Ack, Choice, Inbound};

/// A button was pressed.
pub(super) async fn press(_desk: &Desk, _inbound: &Inbound, _action: &str, _value: &str) {}

/// A modal was sent.
pub(super) async fn submit(_desk: &Desk, _inbound: Inbound, _slot: OwnedSemaphorePermit) -> Ack {
    Ack::Received
}

/// A menu asks for options.
pub(super) async fn suggest(_desk: &Desk, _inbound: &Inbound, _action: &str, _typed: &str) -> Vec<Choice> {
    Vec::new()
}
