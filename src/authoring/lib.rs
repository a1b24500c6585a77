//! Tools for authors of playbooks: lint and verdict tests, explanations, generated files, skeletons.

pub mod check;
pub mod explain;
pub mod generate;
