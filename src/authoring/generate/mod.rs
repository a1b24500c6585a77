//! Files generated from the same data as the diagnosis: Prometheus rules, a Grafana dashboard, runbook and table
//! pages, and the schema for editors; skeletons of new data.

mod budget;
mod budget_panels;
mod dashboard;
mod recording;
mod rules;
mod runbook;
pub mod skeleton;
mod table;
mod yaml;

pub use dashboard::dashboard;
pub use rules::{RuleError, RuleOptions, prometheus_rule, rules};
pub use runbook::{moved_runbooks, runbook};
pub use table::tables;

use knowledge::playbook::{
    Cause, CodeRow, EngineFlag, FlagRow, HealthyFleet, Playbook, QuickLook, Redaction, ReportSignals, Table, Ticket,
    XidRow,
};
use knowledge::signal::{Catalog, Engine, EngineSignals};

/// Returns the JSON schemas of the data files, for editors: one document with a definition for each kind of file.
pub fn schema() -> serde_json::Value {
    serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "llm-diagnose data files",
        "anyOf": [
            schemars::schema_for!(Playbook),
            schemars::schema_for!(Cause),
            schemars::schema_for!(Engine),
            schemars::schema_for!(EngineSignals),
            schemars::schema_for!(Catalog),
            schemars::schema_for!(QuickLook),
            schemars::schema_for!(HealthyFleet),
            schemars::schema_for!(Ticket),
            schemars::schema_for!(ReportSignals),
            schemars::schema_for!(Redaction),
            schemars::schema_for!(Table<CodeRow>),
            schemars::schema_for!(Table<XidRow>),
            schemars::schema_for!(Table<FlagRow>),
            schemars::schema_for!(Table<EngineFlag>),
        ],
    })
}
