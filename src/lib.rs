//! llm-diagnose: an alert of an LLM serving fleet goes in, a chain of causes with evidence comes out.
//!
//! ```text
//! receive ─▶ admit ─▶ select ─▶ plan ─▶ observe ─▶ judge ─▶ render ─▶ deliver
//! ```
//!
//! ARCHITECTURE.md has the data flow, the layers and the invariants.

pub mod alert;
pub mod clock;
pub mod playbook;
pub mod signal;
