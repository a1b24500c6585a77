//! llm-diagnose: receives an alert of an LLM serving fleet and returns a causal chain with evidence.
//!
//! ```text
//! receive ─▶ admit ─▶ select ─▶ plan ─▶ observe ─▶ judge ─▶ render ─▶ deliver
//! ```
//!
//! ARCHITECTURE.md has the data flow, the layers and the invariants.

pub mod cli;
