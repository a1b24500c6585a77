//! The benchmark's contract with a tool, and its grades; `tests/captures/benchmark.rs` runs it.

mod adapter;
mod grade;

pub use adapter::{Answer, Question, Tool};
pub use grade::{Graded, Names, table};
