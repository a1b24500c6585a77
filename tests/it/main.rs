//! The integration tests: data ─▶ verdicts, and the product as a process between real neighbours.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod delivery;
mod running;
mod webhook;
mod whole_way;
