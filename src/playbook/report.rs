//! `report.yaml`: which signals a report tells before, during and after an incident.

use schemars::JsonSchema;
use serde::Deserialize;

/// The shape of `report.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportSignals {
    /// The format's version: 1.
    pub schema: u32,
    /// How well it serves, in the order in which it is shown.
    pub metrics: Vec<String>,
    /// What is asked of it, in the order in which it is shown.
    pub load: Vec<String>,
}

impl ReportSignals {
    /// All names, each once.
    pub fn all(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.metrics.iter().chain(&self.load) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }
}
