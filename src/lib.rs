//! llm-diagnose: receives an alert of an LLM serving fleet and returns a causal chain with evidence.
//!
//! ```text
//! receive ─▶ admit ─▶ select ─▶ plan ─▶ observe ─▶ judge ─▶ render ─▶ deliver
//! ```
//!
//! ARCHITECTURE.md has the data flow, the layers and the invariants.

pub mod alert;
pub mod alertmanager;
pub mod app;
pub mod bundle;
pub mod capacity;
pub mod chart;
pub mod chatops;
pub mod check;
pub mod cli;
pub mod clip;
pub mod clock;
pub mod config;
pub mod diagnose;
mod doctor;
pub mod endpoint;
pub mod explain;
pub mod exporter;
pub mod facts;
pub mod gap;
pub mod generate;
pub mod health;
pub mod incident;
pub mod kubernetes;
pub mod logs;
pub mod loki;
pub mod loops;
pub mod notify;
pub mod playbook;
pub mod prom;
pub mod readiness;
pub mod redact;
pub mod render;
pub mod report;
pub mod server;
mod service;
pub mod signal;
pub mod slack;
pub mod store;
pub mod supervise;
pub mod telemetry;

pub use service::Service;
