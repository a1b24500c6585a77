//! Checks of the data: `check` lints playbooks, signals and phrases, `test` runs the verdict tests beside them.
//!
//! Every finding is a [`Problem`](knowledge::playbook::Problem): lint, file, line, the line's text, and a hint.

mod acts;
mod endpoints;
mod facts;
mod file_lint;
mod lint;
mod logs;
mod phrases;
mod promql;
mod redaction;
mod scenario;
mod signals;
mod steps;
mod tables;
mod tickets;
mod unread;
mod used;
mod verdicts;

pub use lint::lint;
pub use phrases::{phrases, replaced_phrases};
pub use scenario::verdict_test;
pub use steps::verifies;
pub(crate) use steps::{OwnedStep, steps};
pub use unread::unread;
pub use used::{all, unused};
pub(crate) use verdicts::TestFile;
pub use verdicts::{CaseResult, run};
