//! The service: loops over the store, messages, chat, bundles, the HTTP server, and their wiring.

pub mod app;
pub mod bundle;
pub mod chatops;
pub mod config;
pub mod doctor;
pub mod loops;
pub mod notify;
pub mod readiness;
pub mod selftest;
pub mod server;
mod service;
pub mod watchdog;

pub use service::Service;
