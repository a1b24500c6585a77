//! Files generated from the same data as the diagnosis: Prometheus rules, a Grafana dashboard, runbook and table
//! pages; from the types that read the data: the schemas for editors and the reference of the format; skeletons.

mod budget;
mod budget_panels;
mod comparison;
mod dashboard;
mod engines;
mod format;
mod panel;
mod pool_kinds;
mod recording;
mod rule_options;
mod rules;
mod runbook;
mod schema;
pub mod skeleton;
pub mod skeleton_change;
mod table;
mod yaml;

pub use dashboard::dashboard;
pub use engines::{keep_engines, keep_labels};
pub use format::format_reference;
pub(crate) use pool_kinds::told;
pub use rule_options::RuleOptions;
pub use rules::{prometheus_rule, rules};
pub use runbook::runbook;
pub use schema::{FileKind, KINDS, schema};
pub use table::tables;
