//! The service: loops over the store, messages, chat, bundles, the HTTP server, and their wiring.

// A chat command's future holds those of every source: whether all of it is `Send` is asked nearly 128 types deep.
#![recursion_limit = "256"]

mod acts;
mod admission;
mod app;
pub mod bundle;
pub mod chatops;
pub mod config;
pub mod doctor;
mod exporters;
mod limits;
pub mod loops;
pub mod mcp;
pub mod notify;
mod prepare;
pub mod questions;
pub mod readiness;
pub mod reload;
mod reloads;
pub mod selftest;
pub mod server;
mod service;
pub mod stop_signals;
pub mod watchdog;
pub mod weekly;

pub use service::Service;
