//! llm-diagnose: receives an alert of an LLM serving fleet and returns a causal chain with evidence.
//!
//! ```text
//! receive ─▶ admit ─▶ select ─▶ plan ─▶ observe ─▶ judge ─▶ render ─▶ deliver
//! ```
//!
//! ARCHITECTURE.md has the data flow, the layers and the invariants.

pub mod cli;

pub use ::message;
pub use ::slack;
pub use ::store;
pub use authoring::{check, explain, generate};
pub use diagnose::{self, capacity, health};
pub use knowledge::{alert, clip, clock, gap, incident, playbook, signal};
pub use render::{self, chart};
pub use report::{self, facts};
pub use service::{
    Service, bundle, chatops, config, doctor, loops, mcp, notify, questions, readiness, reload, selftest, server,
    stop_signals, watchdog, weekly,
};
pub use sources::{alertmanager, endpoint, exporter, kubernetes, logs, loki, prom, redact};
pub use telemetry::{self, supervise};
