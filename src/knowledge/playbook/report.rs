//! `report.yaml`: the signals that a report shows before, during and after an incident.

use schemars::JsonSchema;
use serde::Deserialize;

/// The shape of `report.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportSignals {
    /// The format's version: 1.
    pub schema: u32,
    /// Signals of the pool's service quality, in the order in which they are shown.
    pub metrics: Vec<String>,
    /// Signals of the pool's load, in the order in which they are shown.
    pub load: Vec<String>,
}

impl ReportSignals {
    /// Returns all names, without duplicates.
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
