//! Alertmanager's v2 API: silences, which people ask for; nothing else is ever written there.

mod config;

pub use config::Config;
