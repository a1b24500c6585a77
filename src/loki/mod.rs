//! Logs from Loki over its HTTP API.

mod config;

pub use config::Config;

/// One Loki; cheap to clone.
#[derive(Debug, Clone)]
pub struct Loki {}
